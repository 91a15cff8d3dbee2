"""What stands before positions of the source: the records that a group there had consumed last."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from drctl.formats.anchors import MOST_RECORDS
from drctl.formats.fingerprint import fingerprint
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
"""Records of a trail: so many equal ones in a row are told apart."""

_COALESCED = 64
"""Offsets between two ranges that are read as one."""


class Step(NamedTuple):
    """A record that can be recognised; headers do not count, for replicators change them."""

    timestamp_ms: int
    fingerprint: int


class LastConsumed(NamedTuple):
    """The records before a position.

    A record is uncommitted where its transaction was aborted, or is open: a replicator may have
    copied it as a record like any other, or not.

    Attributes:
        steps: the newest first; the first one is committed.
        passed: uncommitted records between the first one and the position.
        uncommitted: which of the steps are, by index.
    """

    steps: tuple[Step, ...] = ()
    passed: int = 0
    uncommitted: frozenset[int] = frozenset()


class RangeReader(Protocol):
    """Reads the records of offset ranges of one cluster."""

    def read(self, ranges: TopicRanges, *, uncommitted: bool = False) -> Iterable[Chunk]:
        """Every committed record of these ranges, those of a partition in order.

        Args:
            uncommitted: whether to read records whose transaction was aborted or is open, too.

        Raises:
            ScanFailed: something could not be read to its end.
        """


def step_of(row: Row) -> Step:
    """How a record is recognised."""
    return Step(row[1], fingerprint(row[2], row[3]))


def read_ranges(
    reader: RangeReader,
    wanted: Mapping[TopicPartition, Sequence[OffsetRange]],
    *,
    uncommitted: bool = False,
) -> dict[TopicPartition, list[tuple[int, Step]]]:
    """The records of these ranges (which may overlap), ascending, as offset and step.

    Raises:
        ScanFailed: something could not be read to its end.
    """
    found: dict[TopicPartition, list[tuple[int, Step]]] = {place: [] for place in wanted}
    for chunk in chunks(reader, wanted, uncommitted=uncommitted):
        steps = found[TopicPartition(chunk.topic, chunk.partition)]
        steps += [(row[0], step_of(row)) for row in chunk.rows]
    return found


def chunks(
    reader: RangeReader,
    wanted: Mapping[TopicPartition, Sequence[OffsetRange]],
    *,
    uncommitted: bool = False,
) -> Iterable[Chunk]:
    """The records of these ranges (which may overlap), those of a partition in order, each once.

    Raises:
        ScanFailed: something could not be read to its end.
    """
    ranges: dict[str, dict[int, Sequence[OffsetRange]]] = {}
    for place, runs in wanted.items():
        if merged := coalesced(runs):
            ranges.setdefault(place.topic, {})[place.partition] = merged
    return reader.read(ranges, uncommitted=uncommitted) if ranges else ()


def coalesced(runs: Iterable[OffsetRange]) -> list[OffsetRange]:
    """Disjoint ranges, ascending, that cover these; near ones become one."""
    merged: list[OffsetRange] = []
    for run in sorted(run for run in runs if run.span):
        if merged and run.start <= merged[-1].end + _COALESCED:
            merged[-1] = OffsetRange(merged[-1].start, max(merged[-1].end, run.end))
        else:
            merged.append(run)
    return merged


WIDTHS = (MOST_RECORDS, 4 * MOST_RECORDS, 2_000, 20_000)
"""Offsets looked at: at first, and where they hold fewer records than are wanted (transactions
and compaction leave offsets without any)."""

Position = tuple[TopicPartition, int]

Records = Sequence[tuple[int, Step]]
"""With their offsets, ascending."""


class Before(NamedTuple):
    """What stands before a position of the source.

    Attributes:
        trail: without steps where no committed record is left.
        last: the offset of its first step; -1 where there is none.
    """

    trail: LastConsumed
    last: int


def last_consumed(
    logs: Mapping[TopicPartition, PartitionOffsets | Unavailable],
    reader: RangeReader,
    positions: Collection[Position],
) -> Mapping[Position, Before | Unavailable]:
    """The records before each offset.

    Args:
        logs: of all partitions in which there are positions.

    Raises:
        ScanFailed: something could not be read to its end.
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
                f"offset {offset} lies behind the end offset {log.end}: the log was truncated, or "
                "the topic made anew"
            )
        else:
            waiting[at] = log
    return {**found, **trails_before(reader, waiting)}


def trails_before(
    reader: RangeReader, logs: Mapping[Position, PartitionOffsets]
) -> Mapping[Position, Before]:
    """The records before each of these offsets, which lie in their logs.

    Only where committed records leave offsets free the others are read, too.

    Raises:
        ScanFailed: something could not be read to its end.
    """
    committed = committed_before(reader, logs)
    found = dict.fromkeys(logs, Before(LastConsumed(), -1))
    wanted: dict[TopicPartition, list[OffsetRange]] = defaultdict(list)
    spans = {at: _everything(at[1], logs[at], each) for at, each in committed.items() if each}
    for at, span in spans.items():
        if at[1] - span.start > len(committed[at]):
            wanted[at[0]].append(span)
    held = read_ranges(reader, wanted, uncommitted=True)
    offsets = {partition: [at for at, _ in records] for partition, records in held.items()}
    for at, span in spans.items():
        partition, every = at[0], committed[at]
        if at[1] - span.start > len(every):
            begin, end = (bisect_left(offsets[partition], edge) for edge in span)
            every = held[partition][begin:end]
        found[at] = _trail(at[1], committed[at], every)
    return found


def _everything(offset: int, log: PartitionOffsets, committed: Records) -> OffsetRange:
    """Where uncommitted records matter; not more than is looked at for committed ones."""
    first, last = committed[0][0], committed[-1][0]
    if len(committed) < MOST_RECORDS:
        first = max(log.log_start, first - MOST_RECORDS)
    return OffsetRange(first, offset if offset - last <= WIDTHS[-1] else last + 1)


def _trail(offset: int, committed: Records, every: Records) -> Before:
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
    """The committed records before each of these offsets, which lie in their logs.

    Raises:
        ScanFailed: something could not be read to its end.
    """
    found: dict[Position, Records] = dict.fromkeys(logs, ())
    waiting = {at: log for at, log in logs.items() if at[1] > log.log_start}
    for width in WIDTHS:
        windows = {at: _before(at[1], log, width) for at, log in waiting.items()}
        for at, steps in _inside(reader, windows).items():
            found[at] = steps[-MOST_RECORDS:]
            if len(steps) >= MOST_RECORDS or windows[at].start == waiting[at].log_start:
                del waiting[at]
    return found


def next_to_consume(
    reader: RangeReader, logs: Mapping[Position, PartitionOffsets]
) -> Mapping[Position, LastConsumed]:
    """The first record from each of these offsets on; `passed` are the uncommitted ones before it.

    Without steps where there is none nearby.

    Raises:
        ScanFailed: something could not be read to its end.
    """
    first: dict[Position, tuple[int, Step]] = {}
    waiting = dict(logs)
    for width in WIDTHS:
        windows = {at: _behind(at[1], log, width) for at, log in waiting.items()}
        for at, steps in _inside(reader, windows).items():
            if steps:
                first[at] = steps[0]
            if steps or windows[at].end == waiting[at].last_stable:
                del waiting[at]
    gaps = {
        (partition, offset): OffsetRange(start, first[partition, offset][0])
        for (partition, offset) in first
        if (start := max(logs[partition, offset].log_start, offset)) < first[partition, offset][0]
    }
    passed = {at: len(records) for at, records in _inside(reader, gaps, uncommitted=True).items()}
    return {
        at: LastConsumed((first[at][1],), passed.get(at, 0)) if at in first else LastConsumed()
        for at in logs
    }


def _before(offset: int, log: PartitionOffsets, width: int) -> OffsetRange:
    """Offsets before a position, as far as their transactions are decided."""
    end = min(offset, log.last_stable)
    return OffsetRange(max(log.log_start, end - width), end)


def _behind(offset: int, log: PartitionOffsets, width: int) -> OffsetRange:
    start = max(log.log_start, offset)
    return OffsetRange(start, min(start + width, log.last_stable))


def _inside(
    reader: RangeReader, windows: Mapping[Position, OffsetRange], *, uncommitted: bool = False
) -> Mapping[Position, Records]:
    """The records of each window, ascending; what several windows share is read once."""
    wanted: dict[TopicPartition, list[OffsetRange]] = defaultdict(list)
    for (partition, _), window in windows.items():
        wanted[partition].append(window)
    held = read_ranges(reader, wanted, uncommitted=uncommitted)
    offsets = {partition: [offset for offset, _ in steps] for partition, steps in held.items()}
    found = {}
    for at, window in windows.items():
        first, end = (bisect_left(offsets[at[0]], edge) for edge in window)
        found[at] = held[at[0]][first:end]
    return found
