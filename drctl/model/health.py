"""Whether a cluster can take over: its controller, brokers and partitions; open transactions."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from drctl.model.errors import ConfigError, ExitCode, Unreachable
from drctl.model.topology import TopicPartition, Unavailable


class AuthenticationFailed(Unreachable):
    """Somebody is there, and does not let drctl in: a wrong password, a certificate.

    It is no answer, and yet no sign that the cluster is lost: how drctl logs in is to be corrected.
    """

    exit_code = ExitCode.USAGE

    @property
    def kind(self) -> str:
        """For scripts it is an error of the configuration like any other."""
        return ConfigError.__name__


@dataclass(frozen=True, slots=True)
class Silent(Unavailable):
    """Nothing came back: nobody may be there."""


@dataclass(frozen=True, slots=True)
class Locked(Unavailable):
    """Somebody is there, and does not let drctl in."""


ALTER = "ALTER"
"""On the cluster: adding and removing ACLs."""


class RightsReader(Protocol):
    """Looks at what this user may do; changes nothing."""

    def operations(self) -> frozenset[str] | Unavailable:
        """With the cluster itself, in Kafka's words; or why that is not known.

        Raises:
            Unreachable: no broker answered within the deadline.
        """


class Controller(NamedTuple):
    """The active controller, as the metadata quorum names it."""

    node: int
    epoch: int


class Shortage(NamedTuple):
    """A partition with too few replicas in sync.

    Attributes:
        wanted: by `min.insync.replicas`, or all replicas, whichever was asked.
    """

    partition: TopicPartition
    in_sync: int
    wanted: int


@dataclass(frozen=True, slots=True)
class ClusterHealth:
    """A cluster and some of its topics, in one look.

    Attributes:
        controller: or why none is known to be there.
        brokers: that are there.
        absent: that hold replicas of the topics and are not there.
        partitions: how many were looked at.
        missing: topics that do not exist, or that this user may not see.
        offline: partitions without a leader.
        under_min_isr: partitions that take no record with acks=all.
        under_replicated: partitions of which a replica is behind.
        unknown: topics whose `min.insync.replicas` could not be read.
    """

    cluster_id: str
    controller: Controller | Unavailable
    brokers: tuple[int, ...]
    absent: tuple[int, ...] = ()
    partitions: int = 0
    missing: tuple[str, ...] = ()
    offline: tuple[TopicPartition, ...] = ()
    under_min_isr: tuple[Shortage, ...] = ()
    under_replicated: tuple[Shortage, ...] = ()
    unknown: Mapping[str, Unavailable] = field(default_factory=dict)

    @property
    def writable(self) -> bool:
        """Whether every partition is known to take records with acks=all."""
        return not (self.missing or self.offline or self.under_min_isr or self.unknown)


class OpenTransaction(NamedTuple):
    """A transaction that keeps a partition's last stable offset back.

    Attributes:
        since: offset of its first record there.
        timestamp_ms: of its last record there, UTC; -1 where that is not known.
        transactional_id: empty where no coordinator has one for this producer.
        state: the coordinator's word for it; empty where none knows it.
        hanging: no coordinator will ever end it; None where not every broker could be asked.
    """

    producer_id: int
    epoch: int
    since: int
    timestamp_ms: int
    transactional_id: str = ""
    state: str = ""
    hanging: bool | None = None


OpenTransactions = Mapping[TopicPartition, tuple[OpenTransaction, ...] | Unavailable]
"""By partition; those without an open transaction are left out."""


class HealthReader(Protocol):
    """Looks at how a cluster stands."""

    def health(
        self, topics: Collection[str], known: Mapping[str, Mapping[str, str]] | None = None
    ) -> ClusterHealth:
        """The cluster and these topics.

        Args:
            known: configurations of topics that were read a moment ago; those of the others are
                asked for.

        Raises:
            Unreachable: no broker answered within the deadline.
        """

    def open_transactions(self, partitions: Collection[TopicPartition]) -> OpenTransactions:
        """Which transactions are open in these partitions, and which of them hang.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: the properties cannot be used for this.
        """
