"""Partitions, their replicas and how far each one's own log goes, in one look at a cluster."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

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
class Sight:
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
