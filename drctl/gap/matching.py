"""Matches the records of differing buckets as multisets, and classifies missing ones.

The semantics are those of `reference`, but with digests instead of records, in linear time.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from math import inf
from struct import Struct

from drctl.gap.comparison import (
    INVERSION_EXAMPLES,
    ComparePlan,
    Comparison,
    Extra,
    OrderCheck,
    Place,
    Side,
    TopicPlan,
    TopicSuspects,
)
from drctl.gap.held import NO_KEY, Entry, Partition
from drctl.gap.summing import Classified, summed_up
from drctl.model.gap import Inversion, OrderScope, OrderVerdict, RecordClass

Held = Mapping[int, Partition]
Spot = tuple[int, int]
"""Offset and partition."""


class Tally:
    """Counts inversions by source partition while streaming: they may not all fit into memory."""

    def __init__(self) -> None:
        self._counts: Counter[Place] = Counter()
        self._examples: list[Inversion] = []

    def counting(self, found: Iterable[Inversion]) -> Iterator[Inversion]:
        """Yield the same inversions and count them."""
        for each in found:
            self._counts[each.topic, each.partition] += 1
            if len(self._examples) < INVERSION_EXAMPLES:
                self._examples.append(each)
            yield each

    def check_order(self) -> OrderCheck:
        """Return the counts."""
        return OrderCheck(dict(self._counts), tuple(self._examples))


def inversions(plan: ComparePlan, held: Mapping[tuple[Side, str], Held]) -> Iterator[Inversion]:
    """Yield all inversions, topic by topic.

    Args:
        held: all records of the plan, by cluster and topic.
    """
    for topic in plan.topics:
        source, target = (held.get((side, topic.topic), {}) for side in Side)
        yield from _of_topic(topic, source, target, plan.within)


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
            stream = (partition, spot[1], entry[3] if within is OrderScope.KEY else None)
            before = last.get(stream)
            if before is None or spot[0] > before[0][0]:
                last[stream] = spot, offset
            else:
                yield Inversion(
                    plan.topic, partition, offset, spot[1], spot[0], before[1], before[0][0]
                )


def _copies(plan: TopicPlan, target: Held, unit: int | None) -> Mapping[bytes, Sequence[Spot]]:
    """Return the offsets of each target record, by digest."""
    found: dict[bytes, list[Spot]] = defaultdict(list)
    for offset, partition, entry in _in_order(plan, target, unit, plan.target):
        found[entry[6]].append((offset, partition))
    return found


def _in_order(
    plan: TopicPlan, held: Held, unit: int | None, ranges: Mapping[int, object]
) -> Iterator[tuple[int, int, Entry]]:
    """Yield the records of a unit by offset, then partition."""
    partitions = sorted(p for p in held if p in ranges and plan.unit(p) == unit)
    return merge(*(_entries(held[p], p) for p in partitions))


def _entries(held: Partition, partition: int) -> Iterator[tuple[int, int, Entry]]:
    for held_range in held.ranges_held:
        for entry in held_range.within(held_range.range):
            yield entry[0], partition, entry


Located = tuple[int, Entry]
"""A partition and a record in it."""

BucketOf = Callable[[int, bytes], int]
"""Returns the bucket of a timestamp and a digest."""

_FIRST_HALF = Struct("<q")


@dataclass(frozen=True, slots=True)
class Match:
    """The differences of a topic.

    Attributes:
        missing: by partition and offset.
        extra: by target partition (the lowest one with an equal record, if not by partition).
    """

    missing: tuple[Classified, ...]
    extra: Mapping[int, Extra]


@dataclass(slots=True)
class _Unit:
    """A unit of comparison: a partition or the whole topic.

    Attributes:
        lowest_partitions: lowest target partition that holds a record, by digest.
        missing: missing records; of equal records the last ones.
        first_replicated: smallest replicated offset of each source partition.
    """

    unit: int | None
    on_source: dict[bytes, int] = field(default_factory=dict)
    on_target: dict[bytes, int] = field(default_factory=dict)
    lowest_partitions: dict[bytes, int] = field(default_factory=dict)
    missing: list[Located] = field(default_factory=list)
    first_replicated: dict[int, int] = field(default_factory=dict)

    def surplus(self) -> Iterator[tuple[bytes, int, int]]:
        """Yield digests that the target holds more often, with the counts on both clusters."""
        for digest, there in self.on_target.items():
            here = self.on_source.get(digest, 0)
            if there > here:
                yield digest, here, there


@dataclass(slots=True)
class LaterRecords:
    """Source records after the first missing record of a partition.

    Attributes:
        gone: offsets of the missing records.
        keys: hashes of their keys.
        last: last replicated offset of each such key.
        newest: last replicated offset of any key.
        previous: committed offset before each missing record.
    """

    gone: set[int] = field(default_factory=set)
    keys: set[int] = field(default_factory=set)
    last: dict[int, int] = field(default_factory=dict)
    newest: int = -1
    previous: dict[int, int] = field(default_factory=dict)
    _before: int = -1

    def look(self, committed: Iterable[tuple[int, int]]) -> None:
        """Process the next records: offset and key hash of each."""
        before, newest = self._before, self.newest
        for offset, key in committed:
            if offset in self.gone:
                self.previous[offset] = before
            else:
                newest = offset
                if key in self.keys:
                    self.last[key] = offset
            before = offset
        self._before, self.newest = before, newest

    def runs(self, unreplicated: Sequence[int]) -> list[tuple[int, int]]:
        """Merge offsets into inclusive ranges; a replicated record in between ends a range."""
        runs: list[tuple[int, int]] = []
        for offset in unreplicated:
            if runs and self.previous[offset] == runs[-1][1]:
                runs[-1] = (runs[-1][0], offset)
            else:
                runs.append((offset, offset))
        return runs


def bucket_of(topic: TopicPlan, buckets: int) -> BucketOf:
    """Return the bucket function: by timestamp, or by digest if timestamps are not compared."""
    width, first_half = topic.bucket_ms, _FIRST_HALF.unpack_from
    if width:
        return lambda time, digest: time // width % buckets
    return lambda time, digest: int(first_half(digest)[0] % buckets)


class TopicMatcher:
    """Compares differing buckets of a topic: `count`, process `later` records, then `classify`.

    Args:
        source: records of at least the differing ranges; `target` likewise.
        within: the scope in which copies must keep their order (policy.order).
    """

    def __init__(
        self, suspects: TopicSuspects, buckets: int, source: Held, target: Held, within: OrderScope
    ) -> None:
        self._suspects = suspects
        self._within = within
        self._topic = suspects.plan
        self._bucket = bucket_of(self._topic, buckets)
        self._held = {Side.SOURCE: source, Side.TARGET: target}
        self._units: list[_Unit] = []
        self.later: dict[int, LaterRecords] = {}

    def count(self) -> None:
        """Find what is missing."""
        names = {unit for unit, _ in self._suspects.buckets}
        self._units = [self._counted(unit) for unit in sorted(names, key=repr)]
        later: dict[int, LaterRecords] = defaultdict(LaterRecords)
        for partition, entry in (place for unit in self._units for place in unit.missing):
            later[partition].gone.add(entry[0])
            if entry[3] != NO_KEY:
                later[partition].keys.add(entry[3])
        self.later = dict(later)

    def classify(self) -> Match:
        """Classify the missing records."""
        elsewhere = {digest for unit in self._units for digest, _, _ in unit.surplus()}
        classified = (found for unit in self._units for found in self._classified(unit, elsewhere))
        missing = sorted(classified, key=lambda found: (found.partition, found.entry[0]))
        return Match(tuple(missing), self._extra())

    def _places(self, side: Side, unit: int | None) -> Iterator[Located]:
        """Yield the records of the unit's differing buckets, partition by partition."""
        wanted = {bucket for name, bucket in self._suspects.buckets if name == unit}
        bucket, held = self._bucket, self._held[side]
        for partition, ranges in sorted(self._suspects.ranges(side).items()):
            if self._topic.unit(partition) == unit:
                for entry in held[partition].within(ranges):
                    if bucket(entry[1], entry[6]) in wanted:
                        yield partition, entry

    def _counted(self, name: int | None) -> _Unit:
        """Match records: of n equal source and m equal target ones, the last n - m are missing."""
        unit = _Unit(name)
        for partition, entry in self._places(Side.TARGET, name):
            unit.on_target[entry[6]] = unit.on_target.get(entry[6], 0) + 1
            unit.lowest_partitions.setdefault(entry[6], partition)
        left = dict(unit.on_target)
        places = self._places(Side.SOURCE, name)
        if name is None:
            places = iter(sorted(places, key=lambda place: (place[1][0], place[0])))
        for partition, entry in places:
            digest = entry[6]
            unit.on_source[digest] = unit.on_source.get(digest, 0) + 1
            if equal := left.get(digest, 0):
                left[digest] = equal - 1
                unit.first_replicated.setdefault(partition, entry[0])
            else:
                unit.missing.append((partition, entry))
        return unit

    def _extra(self) -> dict[int, Extra]:
        extra: dict[int, Extra] = {}
        for unit in self._units:
            for digest, here, there in unit.surplus():
                lowest = unit.lowest_partitions[digest]
                known = extra.get(lowest, Extra())
                own, again = (0, there - here) if here else (there, 0)
                extra[lowest] = Extra(
                    known.only_on_target + own, known.duplicated_on_target + again
                )
        return extra

    def _classified(self, unit: _Unit, elsewhere: set[bytes]) -> Iterator[Classified]:
        own, expired = self._own_times(unit), self._expired(unit)
        youngest = self._youngest(unit) if self._within is OrderScope.PARTITION else None
        any_time = not self._topic.timestamps
        for partition, entry in unit.missing:
            offset, time, key = entry[0], entry[1], entry[3]
            later = self.later[partition]
            copied_later = key != NO_KEY and later.last.get(key, -1) > offset
            own_time = inf if any_time and key in own else own.get(key, -inf)
            newer, replaced = copied_later or own_time >= time, copied_later or own_time > time
            order = OrderVerdict.CONFLICTING if newer else OrderVerdict.SAFE
            if self._within is OrderScope.PARTITION:
                any_newer = later.newest > offset or (
                    youngest is not None and (any_time or youngest >= time)
                )
                order = OrderVerdict.CONFLICTING if any_newer else OrderVerdict.SAFE
            elif key == NO_KEY:
                order = OrderVerdict.UNKEYED
            if self._topic.compacted and replaced:
                record_class = RecordClass.SUPERSEDED
            elif (partition, offset) in expired:
                record_class = RecordClass.EXPIRED
            else:
                record_class = RecordClass.UNREPLICATED
            misplaced, repeated = entry[6] in elsewhere, entry[6] in unit.on_target
            yield Classified(partition, entry, record_class, order, misplaced, repeated)

    def _own_times(self, unit: _Unit) -> dict[int, int]:
        """Return the newest timestamp of records only on the target, by key of a missing record."""
        keys = {entry[3] for _, entry in unit.missing} - {NO_KEY}
        youngest: dict[int, int] = {}
        if keys:
            for _, entry in self._places(Side.TARGET, unit.unit):
                if entry[3] in keys and entry[6] not in unit.on_source:
                    youngest[entry[3]] = max(entry[1], youngest.get(entry[3], entry[1]))
        return youngest

    def _youngest(self, unit: _Unit) -> int | None:
        """Return the newest timestamp of all records only on the target."""
        places = self._places(Side.TARGET, unit.unit) if unit.missing else ()
        times = (entry[1] for _, entry in places if entry[6] not in unit.on_source)
        return max(times, default=None)

    def _expired(self, unit: _Unit) -> set[tuple[int, int]]:
        """Return missing records that the target may have held and deleted (see `reference`)."""
        deleted = self._topic.target_deleted
        room = sum(deleted.values()) if unit.unit is None else deleted.get(unit.unit, 0)
        if not room:
            return set()
        waiting = []
        for partition, entry in unit.missing:
            first = self._first_replicated(unit, partition)
            if first is None or entry[0] < first:
                time = entry[1] if unit.unit is None else 0
                waiting.append((time, entry[0], partition))
        return {(partition, offset) for _, offset, partition in sorted(waiting)[:room]}

    def _first_replicated(self, unit: _Unit, partition: int) -> int | None:
        if unit.unit is None:
            return None  # across partitions, records are ordered by timestamp
        known = (self._suspects.replicated_from, unit.first_replicated)
        return min((of[partition] for of in known if partition in of), default=None)


def sum_up(matches: Mapping[str, Match], matchers: Mapping[str, TopicMatcher]) -> Comparison:
    """Sum up the matches of all topics.

    Args:
        matchers: matchers of the same topics, with `later` records processed.
    """
    records: dict[Place, list[Classified]] = defaultdict(list)
    for topic, match in matches.items():
        for classified in match.missing:
            records[topic, classified.partition].append(classified)
    extra = {
        (topic, partition): more
        for topic, match in matches.items()
        for partition, more in match.extra.items()
    }
    return summed_up(records, lambda topic, partition: matchers[topic].later[partition].runs, extra)
