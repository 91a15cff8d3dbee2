"""What the checks look at, as frozen values; whoever observes it fills in what it could see."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from drctl.checks.replication_flow import Arriving
from drctl.config.link import Link
from drctl.config.schema import LedgerConfig, PolicyConfig
from drctl.model.active_cluster import ActiveCluster
from drctl.model.endpoints import EndpointState
from drctl.model.finding import SharedCause
from drctl.model.groups import Group
from drctl.model.health import ClusterHealth, Locked, OpenTransactions
from drctl.model.loss import Mode
from drctl.model.producer_ids import Producers
from drctl.model.repairs import Acls
from drctl.model.replication import Connector, Lag, LeftOut, Tail
from drctl.model.survey import ByBroker, Layout, Quotas, Settings
from drctl.model.topology import TopicPartition, TopicState, Unavailable

NOT_LOOKED_AT = Unavailable("nobody looked")

Connectors = Mapping[str, Connector]
Topics = Mapping[str, TopicState | Unavailable | None]
"""By name; None where the cluster says that there is none."""


@dataclass(frozen=True, slots=True)
class ClusterSurvey:
    """One cluster as a whole.

    Attributes:
        features: by broker, asked alone.
        settings: of each broker.
        scram_users: names of users with a SCRAM credential.
    """

    layout: Layout | Unavailable = NOT_LOOKED_AT
    features: ByBroker | Unavailable = NOT_LOOKED_AT
    settings: Settings | Unavailable = NOT_LOOKED_AT
    scram_users: frozenset[str] | Unavailable = NOT_LOOKED_AT
    quotas: Quotas | Unavailable = NOT_LOOKED_AT


class Ages(NamedTuple):
    """When replication last gave a sign, milliseconds UTC; None where it never did.

    Attributes:
        heartbeat_ms: of the newest copied heartbeat.
        checkpoint_ms: of the newest checkpoint.
    """

    heartbeat_ms: int | None
    checkpoint_ms: int | None


class TrackedOffsetsSeen(NamedTuple):
    """What `drctl offsets track` has noted of the source.

    Attributes:
        offsets: number of tracked offsets.
        looked_ms: when it looked last at all of them, milliseconds UTC; None where it never did.
    """

    offsets: int
    looked_ms: int | None


class RunSeen(NamedTuple):
    """A run of the link, as its journal tells it.

    Attributes:
        status: what it ended with; empty where it has not.
    """

    run: str
    plan: str
    status: str
    outstanding: tuple[str, ...] = ()


class SecretFile(NamedTuple):
    """A file that holds a secret.

    Attributes:
        what: it holds, in words for a person.
        mode: its permissions; None where it is not there, or may not be looked at.
    """

    path: str
    what: str
    mode: int | None


class Sampled(NamedTuple):
    """Records that were looked at at the same offsets of both clusters.

    Attributes:
        same: how many are the same.
        different: where they are not.
        unread: where one of them could not be read.
    """

    same: int
    different: tuple[tuple[TopicPartition, int], ...] = ()
    unread: tuple[str, ...] = ()


class ClientSeen(NamedTuple):
    """A client whose settings somebody gave.

    Attributes:
        subject: whose they are, in words for a person.
        library: java or librdkafka.
        release: of the library, as given; empty where it was not.
    """

    subject: str
    library: str
    release: str = ""


@dataclass(frozen=True, slots=True)
class Surveyed:
    """Everything beyond what prechecks look at.

    Attributes:
        readers: the link's groups on the source.
        transactional_ids: that the source's coordinators know.
        tracked_offsets: None if the topic does not exist.
        runs: the newest ones of the link, the newest first.
        sampled: where the link keeps offsets; else nobody looks.
        clients: whose settings were given; what is said of these has checks of its own.
        principals: drctl's own, by cluster; where it does not log in with a user name none is
            known.
        ledger: where a ledger is kept, if it is kept in a topic.
    """

    source: ClusterSurvey = field(default_factory=ClusterSurvey)
    target: ClusterSurvey = field(default_factory=ClusterSurvey)
    readers: Mapping[str, Group | Unavailable] | Unavailable = NOT_LOOKED_AT
    transactional_ids: tuple[str, ...] | Unavailable = NOT_LOOKED_AT
    ages: Ages | Unavailable = NOT_LOOKED_AT
    tracked_offsets: TrackedOffsetsSeen | Unavailable | None = NOT_LOOKED_AT
    runs: tuple[RunSeen, ...] | Unavailable = NOT_LOOKED_AT
    files: tuple[SecretFile, ...] | Unavailable = NOT_LOOKED_AT
    sampled: Sampled | Unavailable = NOT_LOOKED_AT
    clients: tuple[ClientSeen, ...] = ()
    principals: Mapping[str, str] = field(default_factory=dict)
    ledger: LedgerConfig | None = None


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything that was seen of a link and of what is around it.

    Attributes:
        connectors: on the workers that replicate it.
        reverse: on the workers that would replicate it back.
        worker: the configuration of the workers in `connectors`; Connect does not tell it.
        source_topics: those that the source has and the link carries, and those that were asked
            for in vain.
        target_topics: the copies.
        source_groups: names of all groups.
        source_acls: of the source's topics.
        mode: what it is judged for.
        policy: what the applications can bear.
        neighbours: the other links of drctl.yaml.
        now_ms: when it was looked at, milliseconds UTC.
        source: the source's cluster id; the source answers where there is one.
        arriving: whether copies grow, though the source does not answer here; looked at before an
            unplanned failover.
        target: the same of the target.
        target_health: with the copies.
        target_groups: those that the link carries.
        target_acls: of the target's topics.
        source_coordinators: the topic whose leaders are the coordinators of groups.
        source_rights: what drctl's user may do with the source, in Kafka's words.
        lag: by partition of the source.
        newest_copy_ms: the time of the newest record on the target, milliseconds UTC.
        tails: of those partitions of the source that lag.
        transactions: that are open in partitions of the source.
        source_producers: that the source's partitions remember.
        target_producers: that the copies' partitions remember.
        left_out: positions of groups that have no place on the target.
        endpoints: the link's, in their order.
        journal: by place that a run writes its journal to None where it can, or why not.
        active_cluster: of the link's clients, as the journal of its runs tells.
        survey: what only `doctor` looks at.
    """

    link: Link
    connectors: Connectors | Unavailable = NOT_LOOKED_AT
    reverse: Connectors | Unavailable = NOT_LOOKED_AT
    worker: Mapping[str, str] | Unavailable = NOT_LOOKED_AT
    source_topics: Topics | Unavailable = NOT_LOOKED_AT
    target_topics: Topics | Unavailable = NOT_LOOKED_AT
    source_groups: tuple[str, ...] | Unavailable = NOT_LOOKED_AT
    source_acls: Acls | Unavailable = NOT_LOOKED_AT
    mode: Mode = Mode.PLANNED
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    neighbours: tuple[Link, ...] | Unavailable = NOT_LOOKED_AT
    now_ms: int = 0
    source: str | Unavailable = NOT_LOOKED_AT
    arriving: Arriving | Unavailable = NOT_LOOKED_AT
    target: str | Unavailable = NOT_LOOKED_AT
    target_health: ClusterHealth | Unavailable = NOT_LOOKED_AT
    target_groups: Mapping[str, Group | Unavailable] | Unavailable = NOT_LOOKED_AT
    target_acls: Acls | Unavailable = NOT_LOOKED_AT
    source_coordinators: ClusterHealth | Unavailable = NOT_LOOKED_AT
    source_rights: frozenset[str] | Unavailable = NOT_LOOKED_AT
    lag: Mapping[TopicPartition, Lag | Unavailable] | Unavailable = NOT_LOOKED_AT
    newest_copy_ms: int | Unavailable = NOT_LOOKED_AT
    tails: Mapping[TopicPartition, Tail | Unavailable] | Unavailable = NOT_LOOKED_AT
    transactions: OpenTransactions | Unavailable = NOT_LOOKED_AT
    source_producers: Producers | Unavailable = NOT_LOOKED_AT
    target_producers: Producers | Unavailable = NOT_LOOKED_AT
    left_out: tuple[LeftOut, ...] | Unavailable = NOT_LOOKED_AT
    endpoints: tuple[EndpointState | Unavailable, ...] | Unavailable = NOT_LOOKED_AT
    journal: Mapping[str, Unavailable | None] | Unavailable = NOT_LOOKED_AT
    active_cluster: ActiveCluster | Unavailable = NOT_LOOKED_AT
    survey: Surveyed = field(default_factory=Surveyed)


def silences(observed: Observed) -> Sequence[SharedCause]:
    """What could not be looked at, each cause once; first those about a whole cluster."""
    link = observed.link
    found: dict[str, SharedCause] = {}
    for name, answer in ((link.source, observed.source), (link.target, observed.target)):
        if isinstance(answer, Unavailable) and answer != NOT_LOOKED_AT:
            locked = isinstance(answer, Locked)
            what = "does not let drctl in" if locked else "does not answer"
            found.setdefault(answer.reason, SharedCause(f"cluster {name} {what}", answer.reason))
    if isinstance(observed.connectors, Unavailable) and observed.connectors != NOT_LOOKED_AT:
        why = observed.connectors.reason
        found.setdefault(why, SharedCause("Connect cannot be looked at", why))
    for each in (*_unavailable(observed), *_unavailable(observed.survey)):
        found.setdefault(each.reason, SharedCause(each.reason, each.reason))
    return [each for why, each in found.items() if why]


def _unavailable(seen: Any) -> Iterator[Unavailable]:
    for each in fields(seen):
        value = getattr(seen, each.name)
        if isinstance(value, Unavailable) and value != NOT_LOOKED_AT:
            yield value
