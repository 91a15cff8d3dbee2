"""What stands before positions of the source: the records that a group there had consumed last."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from drctl.model.ports import ClusterReader
from drctl.model.topology import OffsetRange, PartitionOffsets, TopicPartition, Unavailable
from drctl.offsets.trail import RangeReader, Step, Trail, read_ranges
from drctl.wire.anchors import MOST_RECORDS

_WIDTHS = (MOST_RECORDS, 4 * MOST_RECORDS, 2_000)
"""Offsets looked at: at first, and where they hold fewer records than are wanted (transactions
and compaction leave offsets without any)."""

Position = tuple[TopicPartition, int]


def last_consumed(
    source: ClusterReader, reader: RangeReader, positions: Collection[Position]
) -> Mapping[Position, Trail | Unavailable]:
    """The records before each offset, the last consumed one first; empty where none is left.

    Raises:
        Unreachable: the source did not answer.
        ScanFailed: something could not be read to its end.
    """
    logs = source.offsets({partition for partition, _ in positions})
    found: dict[Position, Trail | Unavailable] = {}
    waiting: dict[Position, PartitionOffsets] = {}
    for at in positions:
        partition, offset = at
        log = logs[partition]
        if isinstance(log, Unavailable):
            found[at] = log
        elif offset > log.end:
            found[at] = Unavailable(
                f"offset {offset} lies behind the end offset {log.end}: the log was truncated"
            )
        else:
            found[at] = ()
            if offset > log.log_start:
                waiting[at] = log
    for width in _WIDTHS:
        windows = {(p, offset): _window(offset, log, width) for (p, offset), log in waiting.items()}
        for at, trail in _trails(reader, windows).items():
            found[at] = trail
            if len(trail) >= MOST_RECORDS or windows[at].start == waiting[at].log_start:
                del waiting[at]
    return found


def _window(offset: int, log: PartitionOffsets, width: int) -> OffsetRange:
    """Offsets before a position, as far as their transactions are decided."""
    return OffsetRange(max(log.log_start, offset - width), min(offset, log.last_stable))


def _trails(
    reader: RangeReader, windows: Mapping[Position, OffsetRange]
) -> Mapping[Position, Trail]:
    wanted: dict[TopicPartition, list[OffsetRange]] = defaultdict(list)
    for (partition, _), window in windows.items():
        wanted[partition].append(window)
    held = read_ranges(reader, wanted)
    offsets = {partition: [offset for offset, _ in steps] for partition, steps in held.items()}
    return {at: _trail(held[at[0]], offsets[at[0]], window) for at, window in windows.items()}


def _trail(steps: Sequence[tuple[int, Step]], offsets: Sequence[int], window: OffsetRange) -> Trail:
    first, behind = (bisect_left(offsets, edge) for edge in window)
    inside = steps[first:behind][-MOST_RECORDS:]
    return tuple(step for _, step in reversed(inside))
