"""What stands before positions of the source: the records that a group there had consumed last."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from drctl.model.topology import OffsetRange, PartitionOffsets, TopicPartition, Unavailable
from drctl.offsets.trail import RangeReader, Step, Trail, read_ranges
from drctl.wire.anchors import MOST_RECORDS

WIDTHS = (MOST_RECORDS, 4 * MOST_RECORDS, 2_000, 20_000)
"""Offsets looked at: at first, and where they hold fewer records than are wanted (transactions
and compaction leave offsets without any)."""

Position = tuple[TopicPartition, int]


def last_consumed(
    logs: Mapping[TopicPartition, PartitionOffsets | Unavailable],
    reader: RangeReader,
    positions: Collection[Position],
) -> Mapping[Position, Trail | Unavailable]:
    """The records before each offset, the last consumed one first; empty where none is left.

    Args:
        logs: of all partitions in which there are positions.

    Raises:
        ScanFailed: something could not be read to its end.
    """
    found: dict[Position, Trail | Unavailable] = {}
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
) -> Mapping[Position, Trail]:
    """The records before each of these offsets, which lie in their logs.

    Raises:
        ScanFailed: something could not be read to its end.
    """
    found: dict[Position, Trail] = dict.fromkeys(logs, ())
    waiting = {at: log for at, log in logs.items() if at[1] > log.log_start}
    for width in WIDTHS:
        windows = {at: _before(at[1], log, width) for at, log in waiting.items()}
        for at, steps in _inside(reader, windows).items():
            found[at] = tuple(step for _, step in reversed(steps[-MOST_RECORDS:]))
            if len(steps) >= MOST_RECORDS or windows[at].start == waiting[at].log_start:
                del waiting[at]
    return found


def next_to_consume(
    reader: RangeReader, logs: Mapping[Position, PartitionOffsets]
) -> Mapping[Position, Step | None]:
    """The first record from each of these offsets on; None where there is none nearby.

    Raises:
        ScanFailed: something could not be read to its end.
    """
    found: dict[Position, Step | None] = dict.fromkeys(logs)
    waiting = dict(logs)
    for width in WIDTHS:
        windows = {at: _behind(at[1], log, width) for at, log in waiting.items()}
        for at, steps in _inside(reader, windows).items():
            found[at] = steps[0][1] if steps else None
            if steps or windows[at].end == waiting[at].last_stable:
                del waiting[at]
    return found


def _before(offset: int, log: PartitionOffsets, width: int) -> OffsetRange:
    """Offsets before a position, as far as their transactions are decided."""
    return OffsetRange(max(log.log_start, offset - width), min(offset, log.last_stable))


def _behind(offset: int, log: PartitionOffsets, width: int) -> OffsetRange:
    start = max(log.log_start, offset)
    return OffsetRange(start, min(start + width, log.last_stable))


def _inside(
    reader: RangeReader, windows: Mapping[Position, OffsetRange]
) -> Mapping[Position, Sequence[tuple[int, Step]]]:
    """The records of each window, ascending; what several windows share is read once."""
    wanted: dict[TopicPartition, list[OffsetRange]] = defaultdict(list)
    for (partition, _), window in windows.items():
        wanted[partition].append(window)
    held = read_ranges(reader, wanted)
    offsets = {partition: [offset for offset, _ in steps] for partition, steps in held.items()}
    found = {}
    for at, window in windows.items():
        first, end = (bisect_left(offsets[at[0]], edge) for edge in window)
        found[at] = held[at[0]][first:end]
    return found
