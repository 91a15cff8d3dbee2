"""Partitions, their replicas and how far each one's own log goes, in one look at a cluster."""

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
    """A partition as the controller has it.

    Attributes:
        leader: None where there is none.
        epoch: of the leader, grows with every election; -1 where the brokers do not tell.
        replicas: the first one is the preferred leader.
        in_sync: who held everything when a leader last said so.
        eligible: out of sync, and yet they hold all that was committed; None where the brokers
            are too old to tell (before Kafka 3.8).
        last_known: who was eligible last; None where the brokers do not tell.
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
        """Who leads where nothing ever failed."""
        return self.replicas[0]

    def holds_everything(self, node: int) -> bool:
        """Whether the controller may elect it without a loss of what was committed."""
        return node in self.in_sync or node in (self.eligible or ())


@dataclass(frozen=True, slots=True)
class PartitionStates:
    """One look.

    Attributes:
        controller: or why none is known to be there; without one nobody is elected.
        alive: brokers that answered for themselves.
        silent: those that the cluster lists and that did not answer, with the reason.
        partitions: sorted.
        log_ends: where the logs of living replicas end, for the partitions that were asked about.
        absent: topics that were asked about and are not there, with the reason.
    """

    cluster_id: str
    controller: Controller | Unavailable
    alive: frozenset[int]
    silent: Mapping[int, Unavailable]
    partitions: tuple[Partition, ...]
    log_ends: Mapping[Replica, int | Unavailable]
    absent: Mapping[str, Unavailable]

    def find(self, place: TopicPartition) -> Partition | None:
        """The partition; None where there is none."""
        return next((each for each in self.partitions if each.place == place), None)

    def led(self, partition: Partition) -> bool:
        """Whether it has a leader that answers."""
        return partition.leader is not None and partition.leader in self.alive

    @property
    def dark(self) -> tuple[Partition, ...]:
        """Partitions without a leader that answers."""
        return tuple(each for each in self.partitions if not self.led(each))


class Kind(StrEnum):
    """What may be elected."""

    PREFERRED = "preferred"
    """The first replica, where it is in sync: nothing is lost."""
    UNCLEAN = "unclean"
    """Any living replica, whatever it lacks."""


@dataclass(frozen=True, slots=True)
class Declined(Unavailable):
    """The controller said no, and why."""


class ElectionReader(Protocol):
    """Looks at partitions and replicas; changes nothing."""

    def look(
        self, topics: Collection[str] | None, ends_of: Collection[TopicPartition] | None = None
    ) -> PartitionStates:
        """These topics, or all of them.

        Args:
            ends_of: partitions whose replicas are asked where their own logs end; None asks those
                without a leader.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: the properties cannot be used for connections of our own.
        """

    def ends_before(
        self, epochs: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int | Unavailable]:
        """Where, in the log of each partition's leader, the records up to an epoch end.

        Raises:
            Unreachable: no broker answered within the deadline.
        """


class ElectionWriter(Protocol):
    """Has leaders elected."""

    def elect(
        self, kind: Kind, places: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, Unavailable | None]:
        """Ask the controller; by partition None where it did, or why it did not.

        Raises:
            Unknown: no answer came; some may have been elected.
        """


class Clock(Protocol):
    """Time, and the wish to stop."""

    def monotonic(self) -> float:
        """Seconds that never go back."""

    def wait(self, seconds: float) -> None:
        """Return after this time, or as soon as somebody wants to stop."""

    @property
    def stopping(self) -> bool:
        """Whether somebody wants to stop."""
