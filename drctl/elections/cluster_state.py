"""The state of a cluster for elections: partitions, replicas and their log end offsets."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from drctl.model.health import Controller
from drctl.model.topology import TopicPartition, Unavailable


class Replica(NamedTuple):
    """A partition on one broker."""

    place: TopicPartition
    node: int


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition, as the controller reports it.

    Attributes:
        leader: None without a leader.
        epoch: leader epoch; -1 if the brokers do not report it.
        replicas: the first one is the preferred leader.
        in_sync: the last known in-sync replicas.
        eligible: replicas out of sync that hold all committed records; None if the brokers do not
            report them, because they are older than Kafka 3.8.
        last_known: the last eligible replicas; None if the brokers do not report them.
    """

    place: TopicPartition
    leader: int | None
    epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    eligible: tuple[int, ...] | None = None
    last_known: tuple[int, ...] | None = None

    @property
    def preferred(self) -> int:
        """The preferred leader: the first replica."""
        return self.replicas[0]

    def holds_everything(self, node: int) -> bool:
        """Whether it can be elected without losing committed records."""
        return node in self.in_sync or node in (self.eligible or ())


@dataclass(frozen=True, slots=True)
class PartitionStates:
    """The state of a cluster at one time.

    Attributes:
        controller: the active controller, or why it is unknown; elections need one.
        alive: brokers that answered a direct request.
        silent: brokers that the cluster lists but that did not answer, with the reason.
        partitions: sorted.
        log_ends: log end offsets of live replicas, for the requested partitions.
        absent: requested topics that do not exist, with the reason.
    """

    cluster_id: str
    controller: Controller | Unavailable
    alive: frozenset[int]
    silent: Mapping[int, Unavailable]
    partitions: tuple[Partition, ...]
    log_ends: Mapping[Replica, int | Unavailable]
    absent: Mapping[str, Unavailable]

    def find(self, place: TopicPartition) -> Partition | None:
        """The partition; None if it does not exist."""
        return next((each for each in self.partitions if each.place == place), None)

    def led(self, partition: Partition) -> bool:
        """Whether it has a leader that answers."""
        return partition.leader is not None and partition.leader in self.alive

    @property
    def leaderless(self) -> tuple[Partition, ...]:
        """Partitions without a leader that answers."""
        return tuple(each for each in self.partitions if not self.led(each))


class Kind(StrEnum):
    """The type of an election, as in Kafka."""

    PREFERRED = "preferred"
    """Elects the first replica if it is in sync: nothing is lost."""
    UNCLEAN = "unclean"
    """Elects any live replica, even if its log is incomplete."""


@dataclass(frozen=True, slots=True)
class Declined(Unavailable):
    """The controller refused the election."""


class ElectionReader(Protocol):
    """Reads partitions and replicas."""

    def look(
        self, topics: Collection[str] | None, ends_of: Collection[TopicPartition] | None = None
    ) -> PartitionStates:
        """Read these topics, or all.

        Args:
            ends_of: partitions for which each replica is asked for its log end offset; None for
                those without a leader.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: the properties cannot be used for connections that drctl opens itself.
        """

    def ends_before(
        self, epochs: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int | Unavailable]:
        """The end offset of an epoch in the log of each partition's leader.

        Raises:
            Unreachable: no broker answered within the deadline.
        """


class ElectionWriter(Protocol):
    """Requests leader elections."""

    def elect(
        self, kind: Kind, places: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, Unavailable | None]:
        """Request elections; for each partition, return None or why it failed.

        Raises:
            Unknown: no answer; some leaders may have been elected.
        """


class Clock(Protocol):
    """The time, and whether the engineer wants to stop."""

    def monotonic(self) -> float:
        """Seconds of a monotonic clock."""

    def wait(self, seconds: float) -> None:
        """Sleep; return early if the engineer wants to stop."""

    @property
    def stopping(self) -> bool:
        """Whether the engineer wants to stop."""
