"""Sums up missing records that are in memory."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import nsmallest
from typing import Any, NamedTuple, Protocol

from drctl.gap.comparison import (
    EXAMPLES,
    HISTOGRAM_BINS,
    Comparison,
    ExampleOffset,
    Extra,
    Missing,
    Place,
    histogram_frame,
    runs_limit,
)
from drctl.model.gap import Histogram, Inversion, OrderVerdict, RecordClass


class Classified(NamedTuple):
    """A source record that is not on the target, and its classification.

    Attributes:
        entry: begins with offset, timestamp and size.
    """

    partition: int
    entry: tuple[int, int, int, *tuple[Any, ...]]
    record_class: RecordClass
    order: OrderVerdict
    misplaced: bool
    repeated: bool


class MissingRow(NamedTuple):
    """A source record that is not on the target, as written to the result."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    size: int
    record_class: RecordClass
    order: OrderVerdict
    misplaced: bool
    repeated: bool


class RowWriter(Protocol):
    """Writes the result, also if it is empty; replaces an earlier one."""

    def write(self, rows: Iterable[MissingRow]) -> None:
        """Write all missing records: unreplicated ones and others separately.

        Raises:
            ScanFailed: the disk is full.
        """

    def write_inversions(self, rows: Iterable[Inversion]) -> None:
        """Write all replicated records that are in a different order.

        Raises:
            ScanFailed: the disk is full.
        """


ByPlace = Mapping[Place, Sequence[Classified]]
"""Records of each source partition."""

Runs = Callable[[Sequence[int]], Sequence[tuple[int, int]]]
"""Merges ascending offsets of a partition into inclusive ranges."""


def summed_up(
    records: ByPlace, runs_at: Callable[[str, int], Runs], extra: Mapping[Place, Extra]
) -> Comparison:
    """Sum up missing records.

    Args:
        records: missing records by source partition, ascending.
        runs_at: how to merge offsets of a topic and partition.
    """
    gone = {
        place: [j for j in found if j.record_class is RecordClass.UNREPLICATED]
        for place, found in records.items()
    }
    limit = runs_limit(sum(map(bool, gone.values())))
    missing = {}
    for place, found in records.items():
        runs = runs_at(*place)([j.entry[0] for j in gone[place]])
        missing[place] = _summarised(found, gone[place], runs, limit)
    return Comparison(missing, extra, _histogram(gone, missing), _examples(gone))


def _summarised(
    missing: Sequence[Classified],
    gone: Sequence[Classified],
    runs: Sequence[tuple[int, int]],
    limit: int,
) -> Missing:
    """Count the missing records of one source partition by class and order verdict.

    Args:
        gone: the unreplicated ones.
    """
    classes = Counter(str(m.record_class) for m in missing)
    orders = Counter(str(m.order) for m in gone)
    times = [m.entry[1] for m in gone]
    size = sum(m.entry[2] for m in gone)
    return Missing(
        unreplicated=len(gone),
        superseded=classes["superseded"],
        expired=classes["expired"],
        safe=orders["safe"],
        conflicting=orders["conflicting"],
        unkeyed=orders["unkeyed"],
        misplaced=sum(m.misplaced for m in gone),
        repeated=sum(m.repeated for m in gone),
        bytes=size,
        oldest_timestamp=min(times, default=None),
        newest_timestamp=max(times, default=None),
        runs=tuple(runs[:limit]),
        runs_total=len(runs),
        other_bytes=sum(m.entry[2] for m in missing) - size,
    )


def _histogram(gone: ByPlace, missing: Mapping[Place, Missing]) -> Histogram | None:
    """Build the histogram of the partitions with the largest gaps."""
    frame = histogram_frame(missing)
    if frame is None:
        return None
    worst, start, width = frame
    rows = []
    for place in worst:
        bins = Counter((j.entry[1] - start) // width for j in gone[place])
        rows.append((*place, tuple(bins[n] for n in range(HISTOGRAM_BINS))))
    return Histogram(start, width, tuple(rows))


def _examples(gone: ByPlace) -> tuple[ExampleOffset, ...]:
    """Return the oldest unreplicated records."""
    found = (
        (j.entry[1], *place, j.entry[0], j.entry[2], str(j.order))
        for place, records in gone.items()
        for j in records
    )
    return tuple(ExampleOffset(*each[1:]) for each in nsmallest(EXAMPLES, found))
