"""What only `doctor` looks at: in peace, and not in the hurry of a failover."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from drctl.config.schema import LedgerConfig
from drctl.model.groups import Group
from drctl.model.survey import ByBroker, Layout, Quotas, Settings
from drctl.model.topology import TopicPartition, Unavailable

NOT_SURVEYED = Unavailable("nobody looked")


@dataclass(frozen=True, slots=True)
class ClusterSurvey:
    """One cluster as a whole.

    Attributes:
        features: by broker, asked alone.
        settings: of each broker.
        scram_users: names of users with a SCRAM credential.
    """

    layout: Layout | Unavailable = NOT_SURVEYED
    features: ByBroker | Unavailable = NOT_SURVEYED
    settings: Settings | Unavailable = NOT_SURVEYED
    scram_users: frozenset[str] | Unavailable = NOT_SURVEYED
    quotas: Quotas | Unavailable = NOT_SURVEYED


class Ages(NamedTuple):
    """When replication last gave a sign, milliseconds UTC; None where it never did.

    Attributes:
        heartbeat_ms: of the newest copied heartbeat.
        checkpoint_ms: of the newest checkpoint.
    """

    heartbeat_ms: int | None
    checkpoint_ms: int | None


class AnchorsSeen(NamedTuple):
    """What `drctl offsets track` has noted of the source.

    Attributes:
        anchors: how many positions.
        looked_ms: when it looked last at all of them, milliseconds UTC; None where it never did.
    """

    anchors: int
    looked_ms: int | None


class RunSeen(NamedTuple):
    """A run of the link, as its journal tells it.

    Attributes:
        status: what it ended with; empty where it has not.
    """

    run: str
    plan: str
    status: str
    owed: tuple[str, ...] = ()


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
    """Everything beyond what guards look at.

    Attributes:
        readers: the link's groups on the source.
        transactional_ids: that the source's coordinators know.
        anchors: None where there is no topic of anchors.
        runs: the newest ones of the link, the newest first.
        sampled: where the link keeps offsets; else nobody looks.
        clients: whose settings were given; what is said of these has checks of its own.
        principals: drctl's own, by cluster; where it does not log in with a user name none is
            known.
        ledger: where a ledger is kept, if it is kept in a topic.
    """

    source: ClusterSurvey = field(default_factory=ClusterSurvey)
    target: ClusterSurvey = field(default_factory=ClusterSurvey)
    readers: Mapping[str, Group | Unavailable] | Unavailable = NOT_SURVEYED
    transactional_ids: tuple[str, ...] | Unavailable = NOT_SURVEYED
    ages: Ages | Unavailable = NOT_SURVEYED
    anchors: AnchorsSeen | Unavailable | None = NOT_SURVEYED
    runs: tuple[RunSeen, ...] | Unavailable = NOT_SURVEYED
    files: tuple[SecretFile, ...] | Unavailable = NOT_SURVEYED
    sampled: Sampled | Unavailable = NOT_SURVEYED
    clients: tuple[ClientSeen, ...] = ()
    principals: Mapping[str, str] = field(default_factory=dict)
    ledger: LedgerConfig | None = None
