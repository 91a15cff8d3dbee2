"""What missing records amount to: counts, runs of offsets, a picture in time, some to look at."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import nsmallest

from drctl.gap.comparison import ExampleOffset, Missing, Place
from drctl.gap.matching import Judged
from drctl.model.gap import Histogram, RecordClass

RUNS_IN_ALL = 200_000
RUNS_A_PARTITION = 10_000
HISTOGRAM_BINS = 60
HISTOGRAM_ROWS = 30
EXAMPLES = 20
ByPlace = Mapping[Place, Sequence[Judged]]
"""The missing records of each source partition."""


def by_place(topic: str, missing: Iterable[Judged]) -> dict[Place, list[Judged]]:
    """The missing records of a topic, by partition."""
    found: dict[Place, list[Judged]] = defaultdict(list)
    for judged in missing:
        found[topic, judged.partition].append(judged)
    return found


def summarise(missing: Sequence[Judged]) -> Missing:
    """Counts by class and verdict of one source partition, without its runs."""
    gone = [m for m in missing if m.record_class is RecordClass.UNREPLICATED]
    classes = Counter(str(m.record_class) for m in missing)
    orders = Counter(str(m.order) for m in gone)
    times = [m.entry[1] for m in gone]
    return Missing(
        unreplicated=len(gone),
        superseded=classes["superseded"],
        expired=classes["expired"],
        safe=orders["safe"],
        conflicting=orders["conflicting"],
        unkeyed=orders["unkeyed"],
        misplaced=sum(m.misplaced for m in gone),
        repeated=sum(m.repeated for m in gone),
        bytes=sum(m.entry[2] for m in gone),
        oldest_timestamp=min(times, default=None),
        newest_timestamp=max(times, default=None),
        other_bytes=sum(m.entry[2] for m in missing) - sum(m.entry[2] for m in gone),
    )


def unreplicated_offsets(missing: Iterable[Judged]) -> list[int]:
    """Their offsets, in the same order."""
    return [j.entry[0] for j in _gone(missing)]


def with_runs(
    missing: Mapping[Place, Missing], runs: Mapping[Place, Sequence[tuple[int, int]]]
) -> dict[Place, Missing]:
    """The same with the first runs of each partition, and how many there are."""
    limit = max(100, min(RUNS_A_PARTITION, RUNS_IN_ALL // max(1, len(runs))))
    return {
        place: replace(m, runs=tuple(found[:limit]), runs_total=len(found))
        for place, m in missing.items()
        for found in [runs.get(place, [])]
    }


def histogram(records: ByPlace, missing: Mapping[Place, Missing]) -> Histogram | None:
    """Where in time the records of the worst partitions lie."""
    worst = sorted(
        (place for place, m in missing.items() if m.unreplicated),
        key=lambda place: (-missing[place].unreplicated, place),
    )[:HISTOGRAM_ROWS]
    times = [
        t
        for place in worst
        for t in (missing[place].oldest_timestamp, missing[place].newest_timestamp)
        if t is not None and t > 0  # records without a timestamp would stretch it back to 1970
    ]
    if not times:
        return None
    start, end = min(times), max(times)
    width = (end - start) // HISTOGRAM_BINS + 1
    rows = []
    for topic, partition in worst:
        bins = Counter((j.entry[1] - start) // width for j in _gone(records[topic, partition]))
        rows.append((topic, partition, tuple(bins[n] for n in range(HISTOGRAM_BINS))))
    return Histogram(start, width, tuple(rows))


def examples(records: ByPlace) -> tuple[ExampleOffset, ...]:
    """The oldest unreplicated records."""
    oldest = nsmallest(
        EXAMPLES,
        (
            (j.entry[1], topic, partition, j.entry[0], j.entry[2], str(j.order))
            for (topic, partition), found in records.items()
            for j in _gone(found)
        ),
    )
    return tuple(
        ExampleOffset(t, p, offset, size, order) for _, t, p, offset, size, order in oldest
    )


def _gone(missing: Iterable[Judged]) -> Iterator[Judged]:
    return (j for j in missing if j.record_class is RecordClass.UNREPLICATED)
