"""Producer ids: two clusters count theirs alike, and a producer that moves takes its own along.

An idempotent producer is known to a partition by its id and epoch. Where the other cluster gave
the same id to somebody else, the moved producer's records look like duplicates of that one's:
they are acknowledged and not stored (KIP-98, KIP-360).
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from drctl.model.topology import TopicPartition, Unavailable


class Producer(NamedTuple):
    """What a partition remembers of a producer.

    Attributes:
        sequence: of its last record there; -1 where it wrote none.
        timestamp_ms: of its last record there; -1 where it wrote none.
        open_since: offset at which its open transaction began; -1 where it has none.
    """

    producer_id: int
    epoch: int
    sequence: int = -1
    timestamp_ms: int = -1
    open_since: int = -1


Producers = Mapping[TopicPartition, tuple[Producer, ...] | Unavailable]
"""By partition those that it remembers: for a day after their last record, unless configured."""


class Collision(NamedTuple):
    """An id that stands for different producers in a partition and in its copy."""

    source: TopicPartition
    target: TopicPartition
    ours: Producer
    theirs: Producer

    @property
    def silent(self) -> bool:
        """Whether records may be acknowledged that are not stored; else they are refused."""
        return self.ours.epoch == self.theirs.epoch

    @property
    def reason(self) -> str:
        """What would happen, in words for a person."""
        who = f"producer id {self.ours.producer_id} writes to {self.source}"
        there = f"and belongs to another producer in {self.target}"
        if self.silent:
            return f"{who} {there}, with the same epoch: records may be acknowledged and not stored"
        return f"{who} {there}, with epoch {self.theirs.epoch}: its records would be refused"


def collisions(
    source: Producers, target: Producers, rename: Callable[[str], str]
) -> tuple[Collision, ...]:
    """Producers of the source that would meet another one of the same id on the target.

    Args:
        rename: what a topic is called on the target.
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
    """The highest id in use; -1 where none is."""
    return max(
        (each.producer_id for side in sides for ids in _read(side).values() for each in ids),
        default=-1,
    )


def _read(side: Producers) -> dict[TopicPartition, tuple[Producer, ...]]:
    return {p: ids for p, ids in side.items() if not isinstance(ids, Unavailable)}


@dataclass(frozen=True, slots=True)
class Advanced:
    """How far a broker's ids are.

    Attributes:
        first: the id that it gave first.
        last: the id that it gave last; those that follow are higher.
        beyond: what was wanted: only higher ids are given from now on.
    """

    first: int
    last: int
    beyond: int

    @property
    def done(self) -> bool:
        """Whether it is as wanted."""
        return self.last > self.beyond

    @property
    def spent(self) -> int:
        """How many ids at least were given away for it."""
        return self.last - self.first + 1


class ProducerIdReader(Protocol):
    """Looks at producer ids."""

    def in_use(self, partitions: Collection[TopicPartition]) -> Producers:
        """The producers that each partition remembers.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: the properties cannot be used for this.
        """

    def next_ids(self) -> Mapping[int, int | Unavailable]:
        """By broker an id that it has just given; those that follow are higher.

        It costs each broker that one id, and changes nothing else.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: the properties cannot be used for this.
        """


class ProducerIdWriter(Protocol):
    """Has brokers skip producer ids."""

    def advance(self, beyond: int) -> Mapping[int, Advanced | Unavailable]:
        """Use up ids until every broker only gives higher ones; called again, it goes on.

        Args:
            beyond: the highest id that is in use elsewhere.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: the properties cannot be used for this.
        """
