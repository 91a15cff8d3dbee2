"""Producer ids: each cluster assigns its own, and a producer that moves keeps its id.

A partition identifies an idempotent producer by id and epoch. If the other cluster assigned the
same id to another producer, records of the moved producer look like duplicates: they are
acknowledged and not stored (KIP-98, KIP-360).
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from drctl.model.topology import TopicPartition, Unavailable


class Producer(NamedTuple):
    """The state of a producer in a partition.

    Attributes:
        sequence: sequence number of its last record; -1 without a record.
        timestamp_ms: timestamp of its last record; -1 without a record.
        coordinator_epoch: epoch of the coordinator that last ended one of its transactions in the
            partition; -1 if none.
        open_since: first offset of its open transaction; -1 if it has none.
    """

    producer_id: int
    epoch: int
    sequence: int = -1
    timestamp_ms: int = -1
    coordinator_epoch: int = -1
    open_since: int = -1


Producers = Mapping[TopicPartition, tuple[Producer, ...] | Unavailable]
"""Producers by partition; brokers forget them a day after their last record by default."""


class Collision(NamedTuple):
    """An id that belongs to different producers in a partition and in its copy."""

    source: TopicPartition
    target: TopicPartition
    ours: Producer
    theirs: Producer

    @property
    def silent(self) -> bool:
        """Whether records may be acknowledged but not stored; otherwise they are rejected."""
        return self.ours.epoch == self.theirs.epoch

    @property
    def reason(self) -> str:
        """The consequence, as text."""
        who = f"producer id {self.ours.producer_id} writes to {self.source}"
        there = f"and belongs to another producer in {self.target}"
        if self.silent:
            return f"{who} {there}, with the same epoch: records may be acknowledged and not stored"
        return f"{who} {there}, with epoch {self.theirs.epoch}: its records would be refused"


def collisions(
    source: Producers, target: Producers, rename: Callable[[str], str]
) -> tuple[Collision, ...]:
    """Producers of the source whose id belongs to another producer on the target.

    Args:
        rename: returns the name of a topic on the target.
    """
    found: list[Collision] = []
    for place, ours in sorted(_read(source).items()):
        copy = TopicPartition(rename(place.topic), place.partition)
        theirs = target.get(copy, ())
        if not isinstance(theirs, Unavailable):
            by_id = {each.producer_id: each for each in theirs}
            met = [each for each in ours if each.producer_id in by_id]
            found += [Collision(place, copy, each, by_id[each.producer_id]) for each in met]
    return tuple(found)


def highest(*sides: Producers) -> int:
    """The highest id in use; -1 if there is none."""
    return max(
        (each.producer_id for side in sides for ids in _read(side).values() for each in ids),
        default=-1,
    )


def _read(side: Producers) -> dict[TopicPartition, tuple[Producer, ...]]:
    return {p: ids for p, ids in side.items() if not isinstance(ids, Unavailable)}


@dataclass(frozen=True, slots=True)
class Advanced:
    """The producer ids that a broker assigned.

    Attributes:
        first: first id that it assigned.
        last: last id that it assigned; later ids are higher.
        beyond: the goal: all ids that it assigns later must be higher than this one.
    """

    first: int
    last: int
    beyond: int

    @property
    def done(self) -> bool:
        """Whether the goal is reached."""
        return self.last > self.beyond

    @property
    def spent(self) -> int:
        """Lower bound of the ids that were used up."""
        return self.last - self.first + 1


class ProducerIdReader(Protocol):
    """Reads producer ids."""

    def in_use(self, partitions: Collection[TopicPartition]) -> Producers:
        """The producers that each partition knows.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: the properties cannot be used for this.
        """

    def next_ids(self) -> Mapping[int, int | Unavailable]:
        """A newly assigned id of each broker; later ids are higher.

        Each broker uses up one id; nothing else changes.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: the properties cannot be used for this.
        """


class ProducerIdWriter(Protocol):
    """Advances the producer ids of brokers."""

    def advance(self, beyond: int) -> Mapping[int, Advanced | Unavailable]:
        """Use up ids until every broker assigns only higher ones; a repeated call continues.

        Args:
            beyond: the highest id in use on the other cluster.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: the properties cannot be used for this.
        """
