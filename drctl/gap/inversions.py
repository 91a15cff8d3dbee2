"""Replicated records in another order on the target, found among what a direct comparison holds.

The semantics are those of `reference.inversions`, over digests instead of records.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge

from drctl.gap.comparison import INVERSION_EXAMPLES, Disorder, Place, TopicPlan
from drctl.gap.held import NO_KEY, Entry, Partition
from drctl.model.gap_order import Inversion, OrderScope

Held = Mapping[int, Partition]
Spot = tuple[int, int]
"""Offset and partition: so equal records of one side are told apart, the first one first."""


class Tally:
    """Counts inversions by source partition as they go by; they may be more than memory holds."""

    def __init__(self) -> None:
        self._counts: Counter[Place] = Counter()
        self._examples: list[Inversion] = []

    def counting(self, found: Iterable[Inversion]) -> Iterator[Inversion]:
        """The same ones, each counted."""
        for each in found:
            self._counts[each.topic, each.partition] += 1
            if len(self._examples) < INVERSION_EXAMPLES:
                self._examples.append(each)
            yield each

    def disorder(self) -> Disorder:
        """What went by."""
        return Disorder(dict(self._counts), tuple(self._examples))


def inversions(
    topics: Iterable[tuple[TopicPlan, Held, Held]], within: OrderScope
) -> Iterator[Inversion]:
    """All of them, one topic after the other.

    Args:
        topics: each with what is held of its source and of its target, all that was planned.
    """
    for plan, source, target in topics:
        yield from _of_topic(plan, source, target, within)


def _of_topic(
    plan: TopicPlan, source: Held, target: Held, within: OrderScope
) -> Iterator[Inversion]:
    for unit in dict.fromkeys(map(plan.unit, source)):
        copies = _copies(plan, target, unit)
        taken: Counter[bytes] = Counter()
        last: dict[object, tuple[Spot, int]] = {}
        for offset, partition, entry in _in_order(plan, source, unit, plan.source):
            digest = entry[6]
            spots, number = copies.get(digest, ()), taken[digest]
            if number >= len(spots):
                continue
            taken[digest] += 1
            if within is OrderScope.KEY and entry[3] == NO_KEY:
                continue
            spot = spots[number]
            lane = (partition, spot[1], entry[3] if within is OrderScope.KEY else None)
            before = last.get(lane)
            if before is None or spot[0] > before[0][0]:
                last[lane] = spot, offset
            else:
                yield Inversion(
                    plan.topic, partition, offset, spot[1], spot[0], before[1], before[0][0]
                )


def _copies(plan: TopicPlan, target: Held, unit: int | None) -> Mapping[bytes, Sequence[Spot]]:
    """Where each record of the target stands."""
    found: dict[bytes, list[Spot]] = defaultdict(list)
    for offset, partition, entry in _in_order(plan, target, unit, plan.target):
        found[entry[6]].append((offset, partition))
    return found


def _in_order(
    plan: TopicPlan, held: Held, unit: int | None, ranges: Mapping[int, object]
) -> Iterator[tuple[int, int, Entry]]:
    """The records of a unit by offset, then partition."""
    partitions = sorted(p for p in held if p in ranges and plan.unit(p) == unit)
    return merge(*(_entries(held[p], p) for p in partitions))


def _entries(held: Partition, partition: int) -> Iterator[tuple[int, int, Entry]]:
    for stretch in held.stretches:
        for entry in stretch.within(stretch.range):
            yield entry[0], partition, entry
