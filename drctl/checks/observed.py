"""The observed state of a link, as frozen values: the input of all checks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from drctl.checks.replication_flow import ReplicationFlow
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
from drctl.model.replication import Connector, Lag, LeftOut, Position, Tail
from drctl.model.survey import ByBroker, Layout, LogDirs, Quotas, Settings
from drctl.model.topology import TopicPartition, TopicState, Unavailable

NOT_QUERIED = Unavailable("not queried")

Connectors = Mapping[str, Connector]
Topics = Mapping[str, TopicState | Unavailable | None]
"""By name; None if the topic does not exist."""


@dataclass(frozen=True, slots=True)
class ClusterSurvey:
    """One cluster as a whole.

    Attributes:
        features: by broker, each queried directly.
        settings: of each broker.
        scram_users: names of users with a SCRAM credential.
        log_dirs: the disks of each broker.
    """

    layout: Layout | Unavailable = NOT_QUERIED
    features: ByBroker | Unavailable = NOT_QUERIED
    settings: Settings | Unavailable = NOT_QUERIED
    scram_users: frozenset[str] | Unavailable = NOT_QUERIED
    quotas: Quotas | Unavailable = NOT_QUERIED
    log_dirs: LogDirs | Unavailable = NOT_QUERIED


class Ages(NamedTuple):
    """When replication last showed activity, in milliseconds since 1970 UTC; None if never.

    Attributes:
        heartbeat_ms: of the newest copied heartbeat.
        checkpoint_ms: of the newest checkpoint.
    """

    heartbeat_ms: int | None
    checkpoint_ms: int | None


class ObservedTracking(NamedTuple):
    """What `drctl offsets track` has recorded of the source.

    Attributes:
        offsets: number of tracked offsets.
        passed_ms: start of the last complete pass, in milliseconds since 1970 UTC; None if none.
    """

    offsets: int
    passed_ms: int | None


class ObservedRun(NamedTuple):
    """A run of the link, from its journal.

    Attributes:
        status: final status; empty if the run has not ended.
    """

    run: str
    plan: str
    status: str
    outstanding: tuple[str, ...] = ()


class SecretFile(NamedTuple):
    """A file that holds a secret.

    Attributes:
        what: description of its content.
        mode: its permissions; None if it does not exist or they cannot be read.
    """

    path: str
    what: str
    mode: int | None


class EpochPair(NamedTuple):
    """The leader epochs of a record and its copy.

    Attributes:
        place: the partition on the source.
        offset: the same on both clusters.
        copied: on the target.
    """

    place: TopicPartition
    offset: int
    original: int
    copied: int


class Sampled(NamedTuple):
    """A comparison of sampled records at equal offsets of both clusters.

    Attributes:
        same: number of identical records.
        different: partition and offset of records that differ.
        unread: partitions and offsets that could not be read on both clusters.
        longer: copies with a higher end offset than their original.
        epochs: of identical records, unless a broker does not report them.
    """

    same: int
    different: tuple[tuple[TopicPartition, int], ...] = ()
    unread: tuple[str, ...] = ()
    longer: tuple[TopicPartition, ...] = ()
    epochs: tuple[EpochPair, ...] = ()


class OriginSample(NamedTuple):
    """A record whose headers were read.

    Attributes:
        at: its partition.
        origins: values of Replicator's provenance headers, in their order.
    """

    at: TopicPartition
    offset: int
    origins: tuple[bytes | None, ...]


class OriginSamples(NamedTuple):
    """The newest records of some partitions of the link, on each cluster.

    Attributes:
        unread: partitions that could not be read, with the reason.
    """

    source: tuple[OriginSample, ...]
    target: tuple[OriginSample, ...]
    unread: tuple[str, ...] = ()


class ObservedClient(NamedTuple):
    """A client whose settings were given with `--client`.

    Attributes:
        subject: the client, for messages.
        library: java or librdkafka.
        release: of the library; empty if not given.
    """

    subject: str
    library: str
    release: str = ""


class ObservedSourceConnector(NamedTuple):
    """A source connector that imports data, such as Debezium.

    Attributes:
        positions: the source positions that the workers store for it.
    """

    connector: Connector
    positions: tuple[Position, ...] | Unavailable


@dataclass(frozen=True, slots=True)
class Surveyed:
    """What only `doctor` reads, and no precheck.

    Attributes:
        readers: the link's groups on the source.
        transactional_ids: known to the source's coordinators.
        tracked_offsets: None if the topic does not exist.
        runs: the newest runs of the link, newest first.
        sampled: only for links that preserve offsets.
        clients: whose settings were given; separate checks evaluate the settings.
        principals: drctl's own, by cluster, if it logs in with a user name.
        ledger: settings of the ledger, if it is kept in a topic.
        source_connectors: on the workers of the link and on those that write to its source.
        origin_samples: only for Confluent Replicator.
    """

    source: ClusterSurvey = field(default_factory=ClusterSurvey)
    target: ClusterSurvey = field(default_factory=ClusterSurvey)
    readers: Mapping[str, Group | Unavailable] | Unavailable = NOT_QUERIED
    transactional_ids: tuple[str, ...] | Unavailable = NOT_QUERIED
    ages: Ages | Unavailable = NOT_QUERIED
    tracked_offsets: ObservedTracking | Unavailable | None = NOT_QUERIED
    runs: tuple[ObservedRun, ...] | Unavailable = NOT_QUERIED
    files: tuple[SecretFile, ...] | Unavailable = NOT_QUERIED
    sampled: Sampled | Unavailable = NOT_QUERIED
    clients: tuple[ObservedClient, ...] = ()
    principals: Mapping[str, str] = field(default_factory=dict)
    ledger: LedgerConfig | None = None
    source_connectors: Mapping[str, ObservedSourceConnector] | Unavailable = NOT_QUERIED
    origin_samples: OriginSamples | Unavailable = NOT_QUERIED


@dataclass(frozen=True, slots=True)
class Observed:
    """The observed state of a link and its surroundings.

    Attributes:
        connectors: on the workers that replicate the link.
        reverse: connectors on the workers that would replicate the link back.
        worker: configuration of the workers in `connectors`; Connect does not report it.
        source_topics: topics of the link, and topics that drctl.yaml names but that do not exist.
        target_topics: the copies.
        source_groups: names of all groups.
        source_acls: of the source's topics.
        mode: the mode of failover to check for.
        policy: limits set in drctl.yaml.
        neighbours: the other links of drctl.yaml.
        now_ms: time of the observation, in milliseconds since 1970 UTC.
        source: cluster id of the source, if it answers.
        replication_flow: whether copies still grow although the source does not answer; only
            observed before an unplanned failover.
        target: cluster id of the target, if it answers.
        target_health: of the target and the copies.
        target_groups: groups of the link.
        target_acls: of the target's topics.
        source_coordinators: health of the topic whose leaders coordinate groups.
        source_rights: operations that drctl's user is allowed on the source, in Kafka's names.
        lag: by partition of the source.
        newest_copy_ms: timestamp of the newest copy, in milliseconds since 1970 UTC.
        tails: of partitions of the source that lag.
        transactions: open transactions, by partition of the source.
        source_producers: producer state, by partition of the source.
        target_producers: producer state, by partition of the copies.
        left_out: committed offsets that cannot be translated.
        endpoints: of the link, in their order.
        journal: by location; None if a run can write there, else why not.
        active_cluster: of the link's clients, from the journal.
        survey: what only `doctor` reads.
    """

    link: Link
    connectors: Connectors | Unavailable = NOT_QUERIED
    reverse: Connectors | Unavailable = NOT_QUERIED
    worker: Mapping[str, str] | Unavailable = NOT_QUERIED
    source_topics: Topics | Unavailable = NOT_QUERIED
    target_topics: Topics | Unavailable = NOT_QUERIED
    source_groups: tuple[str, ...] | Unavailable = NOT_QUERIED
    source_acls: Acls | Unavailable = NOT_QUERIED
    mode: Mode = Mode.PLANNED
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    neighbours: tuple[Link, ...] | Unavailable = NOT_QUERIED
    now_ms: int = 0
    source: str | Unavailable = NOT_QUERIED
    replication_flow: ReplicationFlow | Unavailable = NOT_QUERIED
    target: str | Unavailable = NOT_QUERIED
    target_health: ClusterHealth | Unavailable = NOT_QUERIED
    target_groups: Mapping[str, Group | Unavailable] | Unavailable = NOT_QUERIED
    target_acls: Acls | Unavailable = NOT_QUERIED
    source_coordinators: ClusterHealth | Unavailable = NOT_QUERIED
    source_rights: frozenset[str] | Unavailable = NOT_QUERIED
    lag: Mapping[TopicPartition, Lag | Unavailable] | Unavailable = NOT_QUERIED
    newest_copy_ms: int | Unavailable = NOT_QUERIED
    tails: Mapping[TopicPartition, Tail | Unavailable] | Unavailable = NOT_QUERIED
    transactions: OpenTransactions | Unavailable = NOT_QUERIED
    source_producers: Producers | Unavailable = NOT_QUERIED
    target_producers: Producers | Unavailable = NOT_QUERIED
    left_out: tuple[LeftOut, ...] | Unavailable = NOT_QUERIED
    endpoints: tuple[EndpointState | Unavailable, ...] | Unavailable = NOT_QUERIED
    journal: Mapping[str, Unavailable | None] | Unavailable = NOT_QUERIED
    active_cluster: ActiveCluster | Unavailable = NOT_QUERIED
    survey: Surveyed = field(default_factory=Surveyed)


def silences(observed: Observed) -> Sequence[SharedCause]:
    """Return the causes of missing values, each once; those of whole clusters first."""
    link = observed.link
    found: dict[str, SharedCause] = {}
    for name, answer in ((link.source, observed.source), (link.target, observed.target)):
        if isinstance(answer, Unavailable) and answer != NOT_QUERIED:
            locked = isinstance(answer, Locked)
            what = "rejects drctl's credentials" if locked else "does not answer"
            found.setdefault(answer.reason, SharedCause(f"cluster {name} {what}", answer.reason))
    if isinstance(observed.connectors, Unavailable) and observed.connectors != NOT_QUERIED:
        why = observed.connectors.reason
        found.setdefault(why, SharedCause("Connect cannot be queried", why))
    for each in (*_unavailable(observed), *_unavailable(observed.survey)):
        found.setdefault(each.reason, SharedCause(each.reason, each.reason))
    return [each for why, each in found.items() if why]


def _unavailable(seen: Any) -> Iterator[Unavailable]:
    for each in fields(seen):
        value = getattr(seen, each.name)
        if isinstance(value, Unavailable) and value != NOT_QUERIED:
            yield value
