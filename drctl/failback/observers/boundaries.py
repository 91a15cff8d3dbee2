"""Finds where new records begin on the target, and what was copied across that boundary.

The boundary is after the last record that came from the source. A result of `drctl gap` has the
number of new records. Offsets alone do not give the boundary: transaction markers and compacted
records have offsets, too. So new records are counted back from the end of the log, without copies
that drctl made, and without records that the source has deleted and the target still has. If
compaction may have removed any of them, what is left is compared again (`compaction.py`).

A few records of each partition then show where reverse replication started, whether old records
follow new ones, and whether the clusters have diverged.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import NamedTuple

from drctl.failback.facts import Cluster, ReverseStart
from drctl.failback.gap_results import GapEvidence, PartitionResult
from drctl.failback.observers.compaction import compared_again
from drctl.failback.observers.copies import (
    AT_ONCE,
    MOST,
    QUICK_LIMIT,
    content,
    in_chunks,
    original,
    same_content,
    span,
)
from drctl.failback.observers.records import RecordIdentity
from drctl.model.errors import Unreachable
from drctl.model.ports import ClusterReader
from drctl.model.text import plural
from drctl.model.topology import OffsetRange, Record, TopicPartition, Unavailable
from drctl.steps.first_records import follows, is_copy, surviving

_ALIKE = RecordIdentity()


def observe_boundaries(
    result: GapEvidence,
    on_source: Cluster,
    source: ClusterReader,
    target: ClusterReader,
    most: int = QUICK_LIMIT,
    compacted: Set[str] = frozenset(),
    record_identity: RecordIdentity = _ALIKE,
) -> Mapping[TopicPartition, int] | Unavailable:
    """The boundary of each target partition, or why it is unknown.

    Args:
        most: maximum number of new records to count, and of offsets of compacted topics to compare
            again.
        compacted: topics of the target that may have fewer records than the comparison found.
        record_identity: how copies are identified.

    Raises:
        Unreachable: a partition could not be read, or holds fewer records than were counted.
    """
    total = sum(each.only_on_target for each in result.partitions)
    if total > most:
        return Unavailable(
            f"{plural(total, 'new record')} on {target.name} are too many to locate the"
            " boundary here: drctl failback locates it (step find-missing)"
        )
    origin = on_source.identity
    new = {each.copy: each.only_on_target for each in result.partitions}
    shrinking = {
        each.copy
        for each in result.partitions
        if each.copy.topic in compacted and record_identity.sure(each.copy.topic)
    }
    lasting = tuple(each for each in result.partitions if each.copy not in shrinking)
    old = left_over(replace(result, partitions=lasting), on_source, source, target, most)
    less = {copy: new[copy] - number for copy, number in old.items()}
    sure = _counted_back(result, less, target, origin)
    # If too few were counted, the boundary would be after the first new record. So a reduced number
    # counts only where the boundary directly follows the last copied record.
    seen = follow_last_copied(result, sure, origin, source, target)
    sure = {copy: at for copy, at in sure.items() if copy in seen}
    rest = {copy: number for copy, number in new.items() if copy not in sure}
    at = _counted_back(result, rest, target, origin, shrinking)
    recounted = _uncertain(
        result, {c: n for c, n in at.items() if c in shrinking}, origin, source, target
    )
    offsets = sum(each.source.span + each.target.span for each in recounted if each.target)
    if offsets > most:
        return Unavailable(
            f"{plural(offsets, 'offset')} of compacted topics are too many to compare again here:"
            " drctl failback compares them (step find-missing)"
        )
    return {**at, **compared_again(recounted, origin, source, target, record_identity), **sure}


def _counted_back(
    result: GapEvidence,
    new: Mapping[TopicPartition, int],
    reader: ClusterReader,
    origin: str,
    shrinking: Set[TopicPartition] = frozenset(),
) -> dict[TopicPartition, int]:
    """The offset from which each partition has this many records, without drctl's copies.

    Partitions that are shrinking may have fewer; then it is the log start.
    """
    counts = {
        each.copy: _Count(each.copy, each.place, each.target.end, each.target.start, number, number)
        for each in result.partitions
        if each.target is not None and (number := new.get(each.copy)) is not None
    }
    for each in result.partitions:
        # Fewer may be left to count: the target compacts them meanwhile.
        if each.none_copied and (count := counts.get(each.copy)):
            count.at, count.left = count.start, 0
    while waiting := {place: each for place, each in counts.items() if each.left}:
        for place in waiting.keys() & shrinking:
            if not waiting[place].wanted:
                waiting.pop(place).left = 0
        _count(waiting, reader, origin)
    return {place: each.at for place, each in counts.items()}


def _uncertain(
    result: GapEvidence,
    at: Mapping[TopicPartition, int],
    origin: str,
    source: ClusterReader,
    target: ClusterReader,
) -> Sequence[PartitionResult]:
    """The partitions of which compaction may have removed records.

    In the others, the boundary directly follows the last copied record, or the source was empty.

    Args:
        at: where new records were counted to begin, in partitions of compacted topics.
    """
    counted = {
        each.copy: at[each.copy]
        for each in result.partitions
        if each.copy in at and each.only_on_target and (each.source.span or not each.none_copied)
    }
    right = follow_last_copied(result, counted, origin, source, target, exact=True)
    return [each for each in result.partitions if each.copy in counted.keys() - right]


@dataclass(slots=True)
class _Count:
    """How far back the new records of a partition are counted.

    Attributes:
        source_partition: the source partition.
        at: offset of the last counted record; all later ones are counted.
        start: log start offset when the comparison ran.
        left: how many are not counted yet.
        step: how many offsets are read next.
    """

    copy: TopicPartition
    source_partition: TopicPartition
    at: int
    start: int
    left: int
    step: int

    @property
    def wanted(self) -> range:
        """The offsets to be read next."""
        return range(max(self.start, self.at - self.step), self.at)

    def go_back(self, found: int, last: Sequence[int]) -> None:
        """Continue with the offsets before those that were read.

        Args:
            found: number of new records in the offsets that were read.
            last: offsets of the newest `left` of these records; needed if more than `left` offsets
                were read.
        """
        if found >= self.left:
            self.at, self.left = last[0] if last else self.wanted.start, 0
            return
        self.at, self.left = self.wanted.start, self.left - found
        # Many offsets without a record: continue in larger steps.
        self.step = max(self.left, min(2 * self.step, AT_ONCE))


def _count(waiting: Mapping[TopicPartition, _Count], reader: ClusterReader, origin: str) -> None:
    """Read and count the next lower offsets of all partitions at once."""
    spent = [str(place) for place, each in waiting.items() if not each.wanted]
    if spent:
        raise Unreachable(
            f"{spent[0]} of {reader.name} now has fewer records than the comparison found to be new"
            " there: the boundary is unknown",
            "run drctl gap again",
        )
    found: Counter[TopicPartition] = Counter()
    last = {p: deque[int](maxlen=e.left) for p, e in waiting.items() if e.step > e.left}
    for place, records in in_chunks(reader, {p: each.wanted for p, each in waiting.items()}):
        source_partition = waiting[place].source_partition
        new = [
            record.offset
            for record in records
            if original(record, origin, source_partition) is None
        ]
        found[place] += len(new)
        if place in last:
            last[place].extend(new)
    for place, each in waiting.items():
        each.go_back(found[place], last.get(place, ()))


def left_over(
    result: GapEvidence, on_source: Cluster, source: ClusterReader, target: ClusterReader, most: int
) -> Mapping[TopicPartition, int]:
    """By target partition, the number of records before the first one that the source still has.

    Partitions without any, or with an unknown number, are omitted.

    Args:
        most: maximum number of offsets to scan per partition.

    Raises:
        Unreachable: a partition could not be read.
    """
    asked = {each.copy: each for each in result.partitions if _has_deleted(each, on_source)}
    if not asked:
        return {}
    begins = source.following({each.place: each.source.start for each in asked.values()}, 1)
    first = {
        copy: content(records[0])
        for copy, each in asked.items()
        if isinstance(records := begins.get(each.place), tuple) and records
    }
    found: dict[TopicPartition, int] = {}
    before: Counter[TopicPartition] = Counter()
    wanted = {copy: _oldest(asked[copy], most) for copy in first}
    for copy, records in in_chunks(target, wanted):
        for record in records if copy not in found else ():
            if content(record) == first[copy]:
                found[copy] = before[copy]
                break
            before[copy] += original(record, on_source.identity, asked[copy].place) is None
        if found.keys() == first.keys():
            break
    return {
        copy: number for copy, number in found.items() if 0 < number <= asked[copy].only_on_target
    }


def _has_deleted(each: PartitionResult, on_source: Cluster) -> bool:
    """Whether the source had deleted records before the comparison, and none since."""
    log = on_source.logs.get(each.place)
    known = each.target is not None and isinstance(log, OffsetRange)
    return bool(
        known
        and each.only_on_target
        and each.source.start > 0
        and isinstance(log, OffsetRange)
        and log.start <= each.source.start
    )


def _oldest(each: PartitionResult, most: int) -> range:
    assert each.target is not None
    many = min(2 * each.only_on_target + AT_ONCE, most)
    return range(each.target.start, min(each.target.end, each.target.start + many))


_BEFORE = 100
"""How many offsets before the first new record are searched for the previous record."""

_CONTROL = 4
"""The largest offset gap between two records of a transactional log."""


def follow_last_copied(
    result: GapEvidence,
    at: Mapping[TopicPartition, int],
    origin: str,
    source: ClusterReader,
    target: ClusterReader,
    *,
    exact: bool = False,
) -> frozenset[TopicPartition]:
    """Those of the given target offsets that directly follow the last copied record.

    Args:
        at: an offset of each partition of the target.
        origin: id of the source.
        exact: whether the source may have compacted the last copied record, so that an earlier one
            does not show it.

    Raises:
        Unreachable: a partition could not be read.
    """
    asked = {each.copy: each for each in result.partitions if each.copy in at}
    if not asked:
        return frozenset()
    tried = [
        (each.place, last_copied(each) - back)
        for each in asked.values()
        for back in range(min(1 if exact else _CONTROL, last_copied(each) + 1))
    ]
    read = source.records(tried)
    last: dict[TopicPartition, Record] = {}
    for copy, each in asked.items():
        offsets = (offset for place, offset in tried if place == each.place)
        known = (read.get((each.place, offset)) for offset in offsets)
        newest = next((one for one in known if isinstance(one, Record)), None)
        if newest is not None:
            last[copy] = newest
    at_boundary: dict[TopicPartition, Record] = {}
    for copy, records in in_chunks(
        target, {c: range(max(0, at[c] - _BEFORE), at[c]) for c in last}
    ):
        own = [record for record in records if original(record, origin, asked[copy].place) is None]
        if own:
            at_boundary[copy] = own[-1]
    return frozenset(c for c, one in at_boundary.items() if content(one) == content(last[c]))


def last_copied(each: PartitionResult) -> int:
    """The source offset of the last record on both clusters, or of a control record after it."""
    end = each.source.end
    tail = each.ranges[-1] if each.ranges and each.ranges_total == len(each.ranges) else None
    return (tail[0] if tail and tail[1] >= end - 1 else end) - 1


Firsts = Mapping[TopicPartition, tuple[Record, ...] | Unavailable]
Arrivals = Mapping[TopicPartition, ReverseStart | Unavailable]


def observe_reverse_start(
    result: GapEvidence,
    boundaries: Mapping[TopicPartition, int] | Unavailable,
    on_source: Cluster,
    source: ClusterReader,
    target: ClusterReader,
    compacted: Set[str] = frozenset(),
    *,
    ours: bool = False,
) -> Arrivals:
    """How reverse replication started, by source partition, judged by the first record of each.

    Args:
        result: has the source's end offsets.
        boundaries: first new offset of each target partition; without it, copies cannot be
            identified.
        compacted: topics of the target whose first records compaction may have removed.
        ours: whether drctl set its start offsets while the source was fenced, which it still is.

    Raises:
        Unreachable: a cluster did not answer.
    """
    grown = [each for each in result.partitions if _grown(each, on_source)]
    found: dict[TopicPartition, ReverseStart | Unavailable] = {
        each.place: ReverseStart.NOTHING for each in result.partitions
    }
    if not grown:
        return found
    if isinstance(boundaries, Unavailable):
        return {**found, **{each.place: boundaries for each in grown}}
    came = source.following({each.place: each.source.end for each in grown}, 1)
    new = target.following(
        {each.copy: boundaries[each.copy] for each in grown if each.copy in boundaries}, 1
    )
    oldest = target.following({each.copy: 0 for each in grown}, 1)
    for each in grown:
        found[each.place] = _judged(
            _first(came, each.place), _first(new, each.copy), _first(oldest, each.copy)
        )
    unclear = [
        each
        for each in grown
        if found[each.place] is ReverseStart.ELSEWHERE
        and each.copy.topic in compacted
        and each.copy in boundaries
    ]
    here = surviving(source, {each.place: each.source.end for each in unclear})
    there = surviving(target, {each.copy: boundaries[each.copy] for each in unclear})
    for each in unclear:
        follow = follows(here[each.place][1], *there[each.copy])
        if follow or (follow is None and ours):
            found[each.place] = ReverseStart.BOUNDARY
    return found


def _grown(each: PartitionResult, on_source: Cluster) -> bool:
    log = on_source.logs.get(each.place)
    return isinstance(log, OffsetRange) and log.end > each.source.end


def _first(found: Firsts, place: TopicPartition) -> Record | Unavailable | None:
    records = found.get(place, ())
    if isinstance(records, Unavailable):
        return records
    return records[0] if records else None


def _judged(
    came: Record | Unavailable | None,
    new: Record | Unavailable | None,
    oldest: Record | Unavailable | None,
) -> ReverseStart | Unavailable:
    for each in (came, new, oldest):
        if isinstance(each, Unavailable):
            return each
    if came is None:
        return ReverseStart.NOTHING
    if new is not None and oldest is not None and new != oldest and same_content(new, oldest):
        return Unavailable("its first new record and its oldest record are identical")
    if same_content(came, new):
        return ReverseStart.BOUNDARY
    return ReverseStart.START if same_content(came, oldest) else ReverseStart.ELSEWHERE


_NEAR, _FAR = 4, 100
"""How many offsets are searched for a record: transaction markers are not records."""


class _Last(NamedTuple):
    """The last copied record of a partition, as of a result.

    Attributes:
        start: log start offset of the source.
        at: its offset on the source, or after it.
        until: end offset of the target.
    """

    place: TopicPartition
    start: int
    at: int
    copy: TopicPartition
    until: int


def find_out_of_order(
    results: Sequence[GapEvidence],
    on_source: Cluster,
    boundaries: Mapping[TopicPartition, int] | Unavailable,
    source: ClusterReader,
    target: ClusterReader,
    most: int = QUICK_LIMIT,
    record_identity: RecordIdentity = _ALIKE,
    compacted: Set[str] = frozenset(),
) -> tuple[str, ...] | Unavailable:
    """Partitions in which a source record follows the first new record of the target.

    The last copied record shows it. If compaction has removed it, all that are left are looked for;
    the boundary was then located by comparing all of them.

    Args:
        results: gap results for the same source logs; each shows what was copied by then.
        boundaries: first new offset of each target partition.
        most: maximum number of offsets to scan.
        record_identity: how copies are identified.
        compacted: topics of the target.

    Raises:
        Unreachable: a partition could not be read.
    """
    if isinstance(boundaries, Unavailable):
        return boundaries
    asked = tuple(dict.fromkeys(_asked(results, on_source, boundaries)))
    ends: dict[TopicPartition, int] = defaultdict(int)
    for each in asked:
        ends[each.copy] = max(ends[each.copy], each.until)
    beyond = {copy: range(boundaries[copy], end) for copy, end in ends.items()}
    last = _read({(e.place, e.at, e.copy.topic in compacted) for e in asked}, source)
    unread = [each for each in asked if (each.place, each.at) not in last]
    lost = [each for each in unread if each.copy.topic not in compacted]
    if lost:
        where = f"{lost[0].place} offset {lost[0].at}"
        return Unavailable(f"{source.name} has no record at or shortly before {where}")
    unread.sort(key=attrgetter("at"))
    all_left = {each.place: range(each.start, each.at + 1) for each in unread}
    total = sum(map(len, (*beyond.values(), *all_left.values())))
    if total > most:
        return Unavailable(
            f"{plural(total, 'offset')} are too many to search here: drctl failback searches them"
            " (step find-missing)"
        )
    digest = record_identity.digest
    wanted: dict[TopicPartition, set[bytes]] = defaultdict(set)
    for each in asked:
        if record := last.get((each.place, each.at)):
            wanted[each.copy].add(digest(record, each.copy.topic))
    copies = {each.place: each.copy for each in unread}
    for place, records in in_chunks(source, all_left):
        wanted[copies[place]] |= {digest(record, copies[place].topic) for record in records}
    misplaced = {
        copy
        for copy, records in in_chunks(target, beyond)
        for record in records
        if not is_copy(record) and digest(record, copy.topic) in wanted[copy]
    }
    sure = {
        str(each.place)
        for each in asked
        if each.copy in misplaced and record_identity.sure(each.copy.topic)
    }
    if misplaced and not sure:
        return record_identity.unsure(min(misplaced).topic)
    return tuple(sorted(sure))


def _asked(
    results: Sequence[GapEvidence], on_source: Cluster, boundaries: Mapping[TopicPartition, int]
) -> Iterator[_Last]:
    """Partitions with new records on the target whose copied records are still on the source."""
    for result in results:
        for each in result.partitions:
            log, at = on_source.logs.get(each.place), last_copied(each)
            start = log.start if isinstance(log, OffsetRange) else each.source.start
            new = each.target is not None and each.only_on_target and each.copy in boundaries
            if new and at >= start and each.target is not None:
                yield _Last(each.place, start, at, each.copy, each.target.end)


def _read(
    wanted: Set[tuple[TopicPartition, int, bool]], source: ClusterReader
) -> Mapping[tuple[TopicPartition, int], Record]:
    """The record at each offset, or the nearest one before it; omitted if there is none.

    Args:
        wanted: offsets, and whether the partition is compacted: then only that offset counts.
    """
    backs = {place: 1 if compacted else _NEAR for place, _, compacted in wanted}
    near = [(p, at - back) for p, at, _ in wanted for back in range(min(backs[p], at + 1))]
    read = {place: r for place, r in source.records(near).items() if isinstance(r, Record)}
    found: dict[tuple[TopicPartition, int], Record] = {}
    for place, at, compacted in wanted:
        tried = (read.get((place, at - back)) for back in range(backs[place]))
        nearest = next(filter(None, tried), None)
        if nearest is None and not compacted:
            nearest = _before(place, at, source)
        if nearest is not None:
            found[place, at] = nearest
    return found


def _before(place: TopicPartition, at: int, source: ClusterReader) -> Record | None:
    nearest = None
    for _, records in in_chunks(source, {place: range(max(0, at - _FAR), at + 1)}):
        nearest = records[-1] if records else nearest
    return nearest


def divergence(
    result: GapEvidence,
    on_source: Cluster,
    on_target: Cluster,
    source: ClusterReader,
    target: ClusterReader,
    record_identity: RecordIdentity = _ALIKE,
) -> str | Unavailable:
    """Where the target has a record that is not on the source; empty if nowhere.

    Args:
        result: a comparison that found nothing missing on the target.
        record_identity: how copies are identified.

    Raises:
        Unreachable: a cluster did not answer.
    """
    new = [str(each) for each in sorted(on_source.logs.keys() - result.ends.keys())]
    if new:
        return Unavailable(f"{new[0]} was not compared")
    origin = on_source.identity
    boundaries = observe_boundaries(
        result, on_source, source, target, MOST, on_target.compacted, record_identity
    )
    if isinstance(boundaries, Unavailable):
        return boundaries
    total = span(boundaries, on_target) + span(result.ends, on_source)
    if total > MOST:
        return Unavailable(
            f"{plural(total, 'offset is', 'offsets are')} too many to search: run drctl gap again"
        )
    # Read the source last: records that reach the target meanwhile are on the source already.
    there = target.following(boundaries, MOST)
    here = source.following(dict(result.ends), MOST)
    for each in result.partitions:
        own, copies = here.get(each.place, ()), there.get(each.copy, ())
        for place, records in ((each.place, own), (each.copy, copies)):
            if isinstance(records, Unavailable):
                return Unavailable(f"{place}: {records.reason}")
        assert not isinstance(own, Unavailable)
        assert not isinstance(copies, Unavailable)
        first = _first_other(own, [c for c in copies if original(c, origin, each.place) is None])
        if first is not None:
            return (
                f"the record at offset {first} of {each.copy} on {target.name} is not a copy of the"
                f" next record that {source.name} has after {result.label}"
            )
    return ""


def _first_other(own: Iterable[Record], copies: Iterable[Record]) -> int | None:
    """The offset of the first copy that does not match the source's own records in order."""
    following = iter(own)
    for copy in copies:
        if content(copy) != content(next(following, None)):
            return copy.offset
    return None
