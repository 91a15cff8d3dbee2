"""Reads the records before committed offsets on the source: what a group consumed last.

Some older records (milestones) are read too: they help if replication lagged. One call of a
`RangeReader` reads the ranges of many partitions.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from drctl.formats.fingerprint import fingerprint
from drctl.formats.tracked_offsets import (
    MOST_MILESTONES,
    MOST_RECORDS,
    ConsumedRecord,
    Milestone,
    TrackedOffset,
)
from drctl.model.errors import Unknown
from drctl.model.topology import (
    Chunk,
    OffsetRange,
    PartitionOffsets,
    Row,
    TopicPartition,
    TopicRanges,
    Unavailable,
)

LENGTH = 32
"""If this many of the last consumed records are all equal, they cannot be told apart."""

WIDTHS = (MOST_RECORDS, 4 * MOST_RECORDS, 2_000, 20_000)
"""Offsets to read, in several attempts: transactions and compaction leave offsets without
records."""

_COALESCED = 64
"""Ranges at most this many offsets apart are read as one."""

Logs = Mapping[TopicPartition, PartitionOffsets | Unavailable]
"""Log start and end offsets by partition, or why they could not be read."""

Position = tuple[TopicPartition, int]


Step = ConsumedRecord
"""A fingerprint of a record, without headers, because replicators change them."""

Records = Sequence[tuple[int, Step]]
"""Records with their offsets, ascending."""


class LastConsumed(NamedTuple):
    """The records before a committed offset.

    Uncommitted records are those of aborted or open transactions; a replicator may have copied
    them or not.

    Attributes:
        steps: records, the newest first; the first one is committed.
        passed: uncommitted records between the first one and the committed offset.
        uncommitted: indexes of uncommitted records.
    """

    steps: tuple[Step, ...] = ()
    passed: int = 0
    uncommitted: frozenset[int] = frozenset()


class RangeReader(Protocol):
    """Reads the records of offset ranges of one cluster."""

    def read(self, ranges: TopicRanges, *, uncommitted: bool = False) -> Iterable[Chunk]:
        """Read every committed record of these ranges, in order within a partition.

        Args:
            uncommitted: whether to read records of aborted and open transactions, too.

        Raises:
            ScanFailed: the records could not be read completely.
        """


def step_of(row: Row) -> Step:
    """Return the fingerprint of a record."""
    return Step(fingerprint(row[2], row[3]), row[1])


def by_partition(
    ranges: Iterable[tuple[TopicPartition, OffsetRange]],
) -> dict[TopicPartition, list[OffsetRange]]:
    """Group ranges by partition."""
    found: dict[TopicPartition, list[OffsetRange]] = defaultdict(list)
    for partition, each in ranges:
        found[partition].append(each)
    return found


def read_ranges(
    reader: RangeReader,
    wanted: Mapping[TopicPartition, Sequence[OffsetRange]],
    *,
    uncommitted: bool = False,
) -> dict[TopicPartition, list[tuple[int, Step]]]:
    """Read the records of these ranges (which may overlap), ascending, as offset and step.

    Raises:
        ScanFailed: the records could not be read completely.
    """
    found: dict[TopicPartition, list[tuple[int, Step]]] = {place: [] for place in wanted}
    for chunk in chunks(reader, wanted, uncommitted=uncommitted):
        records = found[TopicPartition(chunk.topic, chunk.partition)]
        records += [(row[0], step_of(row)) for row in chunk.rows]
    return found


def chunks(
    reader: RangeReader,
    wanted: Mapping[TopicPartition, Sequence[OffsetRange]],
    *,
    uncommitted: bool = False,
) -> Iterable[Chunk]:
    """Read the records of these ranges (which may overlap), in order and each once.

    Raises:
        ScanFailed: the records could not be read completely.
    """
    ranges: dict[str, dict[int, Sequence[OffsetRange]]] = {}
    for place, runs in wanted.items():
        if merged := coalesced(runs):
            ranges.setdefault(place.topic, {})[place.partition] = merged
    return reader.read(ranges, uncommitted=uncommitted) if ranges else ()


def coalesced(runs: Iterable[OffsetRange]) -> list[OffsetRange]:
    """Merge ranges to disjoint ones, ascending; close ranges become one."""
    merged: list[OffsetRange] = []
    for run in sorted(run for run in runs if run.span):
        if merged and run.start <= merged[-1].end + _COALESCED:
            merged[-1] = OffsetRange(merged[-1].start, max(merged[-1].end, run.end))
        else:
            merged.append(run)
    return merged


def spread(start: int, end: int, places: int, size: int) -> list[OffsetRange]:
    """Return short ranges spread from the first to the last of these offsets."""
    last = max(0, end - start - size)
    starts = {start + last * place // (places - 1) for place in range(places)}
    return [OffsetRange(s, min(s + size, end)) for s in sorted(starts) if s < end]


class Before(NamedTuple):
    """The records before a committed offset on the source.

    Attributes:
        consumed: without steps if no committed record is left.
        last: offset of its first step; -1 if there is none.
    """

    consumed: LastConsumed
    last: int


def last_consumed(
    logs: Logs, reader: RangeReader, positions: Collection[Position]
) -> Mapping[Position, Before | Unavailable]:
    """Read the records before each offset.

    Args:
        logs: logs of all partitions.

    Raises:
        ScanFailed: the records could not be read completely.
    """
    found: dict[Position, Before | Unavailable] = {}
    waiting: dict[Position, PartitionOffsets] = {}
    for at in positions:
        partition, offset = at
        log = logs[partition]
        if isinstance(log, Unavailable):
            found[at] = log
        elif offset > log.end:
            found[at] = Unavailable(
                f"offset {offset} is after the end offset {log.end}: the log was truncated, or "
                "the topic was recreated"
            )
        else:
            waiting[at] = log
    return {**found, **records_before(reader, waiting)}


def records_before(
    reader: RangeReader, logs: Mapping[Position, PartitionOffsets]
) -> Mapping[Position, Before]:
    """Read the records before each of these offsets, which must be within their logs.

    Uncommitted records are read only if there are offsets without committed records.

    Raises:
        ScanFailed: the records could not be read completely.
    """
    committed = committed_before(reader, logs)
    spans = {at: _everything(at[1], logs[at], each) for at, each in committed.items() if each}
    sparse = {at: span for at, span in spans.items() if at[1] - span.start > len(committed[at])}
    every = {**committed, **records_in(reader, sparse, uncommitted=True)}
    found = dict.fromkeys(logs, Before(LastConsumed(), -1))
    return found | {at: _before_offset(at[1], committed[at], every[at]) for at in spans}


def _everything(offset: int, log: PartitionOffsets, committed: Records) -> OffsetRange:
    """Return the offsets in which uncommitted records are read, too."""
    first, last = committed[0][0], committed[-1][0]
    if len(committed) < MOST_RECORDS:
        first = max(log.log_start, first - MOST_RECORDS)
    return OffsetRange(first, offset if offset - last <= WIDTHS[-1] else last + 1)


def _before_offset(offset: int, committed: Records, every: Records) -> Before:
    last = committed[-1][0]
    sure = {at for at, _ in committed}
    newest = [(at, step) for at, step in reversed(every) if at <= last][:MOST_RECORDS]
    passed = sum(at > last for at, _ in every)
    if offset - last > WIDTHS[-1]:
        passed = offset - last - 1
    uncommitted = frozenset(n for n, (at, _) in enumerate(newest) if at not in sure)
    return Before(LastConsumed(tuple(step for _, step in newest), passed, uncommitted), last)


def committed_before(
    reader: RangeReader, logs: Mapping[Position, PartitionOffsets]
) -> Mapping[Position, Records]:
    """Read the committed records before each of these offsets, which must be within their logs.

    Raises:
        ScanFailed: the records could not be read completely.
    """
    found: dict[Position, Records] = dict.fromkeys(logs, ())
    waiting = {at: log for at, log in logs.items() if at[1] > log.log_start}
    for width in WIDTHS:
        windows: dict[Position, OffsetRange] = {}
        for at, log in waiting.items():
            end = min(at[1], log.last_stable)  # up to the last stable offset
            windows[at] = OffsetRange(max(log.log_start, end - width), end)
        for at, steps in records_in(reader, windows).items():
            found[at] = steps[-MOST_RECORDS:]
            if len(steps) >= MOST_RECORDS or windows[at].start == waiting[at].log_start:
                del waiting[at]
    return found


def next_to_consume(
    reader: RangeReader, logs: Mapping[Position, PartitionOffsets]
) -> Mapping[Position, LastConsumed]:
    """Read the first record at or after each offset; `passed` counts uncommitted ones before it.

    The result has no steps if no such record is nearby.

    Raises:
        ScanFailed: the records could not be read completely.
    """
    first: dict[Position, tuple[int, Step]] = {}
    waiting = dict(logs)
    for width in WIDTHS:
        windows: dict[Position, OffsetRange] = {}
        for at, log in waiting.items():
            start = max(log.log_start, at[1])
            windows[at] = OffsetRange(start, min(start + width, log.last_stable))
        for at, steps in records_in(reader, windows).items():
            if steps:
                first[at] = steps[0]
            if steps or windows[at].end == waiting[at].last_stable:
                del waiting[at]
    gaps = {
        at: OffsetRange(start, offset)
        for at, (offset, _) in first.items()
        if (start := max(logs[at].log_start, at[1])) < offset
    }
    passed = records_in(reader, gaps, uncommitted=True)
    found = dict.fromkeys(logs, LastConsumed())
    return found | {
        at: LastConsumed((step,), len(passed.get(at, ()))) for at, (_, step) in first.items()
    }


def records_in(
    reader: RangeReader, windows: Mapping[Position, OffsetRange], *, uncommitted: bool = False
) -> Mapping[Position, Records]:
    """Read the records of each window, ascending; overlapping windows are read once.

    Raises:
        ScanFailed: the records could not be read completely.
    """
    wanted = by_partition((partition, window) for (partition, _), window in windows.items())
    held = read_ranges(reader, wanted, uncommitted=uncommitted)
    offsets = {partition: [offset for offset, _ in steps] for partition, steps in held.items()}
    found = {}
    for at, window in windows.items():
        first, end = (bisect_left(offsets[at[0]], edge) for edge in window)
        found[at] = held[at[0]][first:end]
    return found


SPACING = 4
"""Maximum ratio between the distances of consecutive milestones."""

REACH = MOST_RECORDS * SPACING**10
"""Maximum distance of a milestone from its committed offset: about 35 million offsets."""

READ_AT_ONCE = 500
"""Maximum number of milestones read per pass."""

_SPAN = 8
"""Offsets read before a position to find its record."""

Known = dict[TopicPartition, dict[int, Milestone]]
"""Milestones by partition and position."""


def known_from(
    before: Mapping[Position, Before],
    tracked_offsets: Iterable[tuple[TopicPartition, TrackedOffset]],
) -> Known:
    """Collect milestones from records read now and from earlier tracked offsets."""
    known: Known = defaultdict(dict)
    for partition, tracked in tracked_offsets:
        here = known[partition]
        here.update((milestone.position, milestone) for milestone in tracked.milestones)
        if not tracked.passed:
            here.update(
                (tracked.offset, Milestone(tracked.offset, *r)) for r in tracked.records[:1]
            )
    for (partition, _), (consumed, last) in before.items():
        for step in consumed.steps[:1]:
            known[partition][last + 1] = Milestone(last + 1, *step)
    return known


def milestones_before(
    reader: RangeReader, logs: Mapping[Position, PartitionOffsets], known: Known, turn: int
) -> Mapping[Position, tuple[Milestone, ...]]:
    """Return the milestones of each position, the nearest one first; omit unreadable ones.

    Args:
        logs: logs of the positions.
        turn: a number that differs in each pass, to start with different milestones.
    """
    held = {partition: dict(known.get(partition, {})) for partition, _ in logs}
    for partition, milestone in _milestones_at(reader, _missing(logs, held, turn), logs):
        held[partition][milestone.position] = milestone
    positions = {partition: sorted(found) for partition, found in held.items()}
    return {
        (partition, offset): tuple(
            held[partition][position] for position in _chosen(offset, positions[partition])
        )
        for partition, offset in logs
    }


def _chosen(offset: int, known: Sequence[int]) -> list[int]:
    """Choose as few of the known positions as necessary, the nearest one first."""
    found: list[int] = []
    near = MOST_RECORDS
    while near < REACH and len(found) < MOST_MILESTONES:
        further = bisect_left(known, offset - near) - 1
        if further < 0:
            break
        within = bisect_left(known, offset - near * SPACING)
        found.append(known[min(within, further)])
        near = offset - found[-1]
    return found


def _missing(
    logs: Mapping[Position, PartitionOffsets], known: Known, turn: int
) -> Sequence[Position]:
    """Return the milestones to read, the most useful ones first."""
    positions = {partition: sorted(found) for partition, found in known.items()}
    uses = Counter(
        (partition, position)
        for (partition, offset), log in logs.items()
        for position in _gaps(offset, log, positions[partition])
    )
    found = sorted(uses)
    begin = turn % len(found) if found else 0
    found = found[begin:] + found[:begin]
    return sorted(found, key=lambda at: -uses[at])[:READ_AT_ONCE]


def _gaps(offset: int, log: PartitionOffsets, known: Sequence[int]) -> Iterator[int]:
    """Yield positions that fill the gaps between known ones."""
    near, far = MOST_RECORDS, min(REACH, offset - log.log_start - 1)
    while near < far:
        within = bisect_left(known, offset - near * SPACING)
        if within < bisect_left(known, offset - near):
            near = offset - known[within]
            continue
        distance = min(near * SPACING, far)
        position = offset - distance
        if distance < far:
            # On a grid, so that nearby positions share milestones, now and later.
            grid = 1 << (distance // 4).bit_length() - 1
            position = -(-position // grid) * grid
        if position <= log.last_stable:
            yield position
        near = offset - position


def _milestones_at(
    reader: RangeReader, wanted: Iterable[Position], logs: Mapping[Position, PartitionOffsets]
) -> Iterator[tuple[TopicPartition, Milestone]]:
    starts = {partition: log.log_start for (partition, _), log in logs.items()}
    ranges = {
        (partition, position): OffsetRange(max(starts[partition], position - _SPAN), position)
        for partition, position in wanted
    }
    try:
        held = records_in(reader, ranges)
    except Unknown:
        return  # milestones are optional: they only help if replication lags
    for (partition, _), records in held.items():
        for offset, step in records[-1:]:
            yield partition, Milestone(offset + 1, *step)
