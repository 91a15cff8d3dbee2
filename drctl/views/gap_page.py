"""The gap analysis as one self-contained HTML file: no scripts, no network access."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise

from drctl.model.gap import GapResult, Histogram, TopicGap
from drctl.model.text import plural
from drctl.views import estimate_text, gap_text
from drctl.views.page import render_page
from drctl.views.text import number, plain, show
from drctl.views.time_axis import Axis, Tick, percent

LEVELS = 5
MAX_BINS = 72
MAX_ROWS = 24
MAX_CELLS = 120
WORST_PARTITIONS = 25
TOPICS = 25
RANGES = 12
EXAMPLES = 20
NOT_COMPARED = 20
NOTES = 50
SHOWN_BYTES = 160
_FAR_APART = 16


@dataclass(frozen=True, slots=True)
class Cell:
    """A rectangle, in percent of the strip; `height` in percent of its height."""

    x: float
    width: float
    level: int
    title: str
    height: float = 100.0


@dataclass(frozen=True, slots=True)
class Row:
    """One partition of the heat map."""

    topic: str
    partition: int
    records: int
    cells: tuple[Cell, ...]
    title: str


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Records by partition and time.

    Attributes:
        sums: one bar per bin, over all partitions of the histogram (`hidden` ones included).
        peak: the highest bar, in words.
        legend: (level, number of records).
        records: records in the histogram.
        hidden: partitions without a row.
    """

    rows: tuple[Row, ...]
    sums: tuple[Cell, ...]
    peak: str
    ticks: tuple[Tick, ...]
    legend: tuple[tuple[int, str], ...]
    first: str
    last: str
    bin_width: str
    records: int
    hidden: int


@dataclass(frozen=True, slots=True)
class Strip:
    """The partitions of a topic side by side, by partition number."""

    cells: tuple[Cell, ...]
    each: int
    partitions: int


class Scale:
    """Color levels for counts: linear, or logarithmic if counts differ widely.

    The lowest level starts at one record, so that even one unreplicated record is visible.
    """

    def __init__(self, counts: Iterable[int]) -> None:
        some = [count for count in counts if count]
        smallest, largest = min(some, default=1), max(some, default=1)
        if largest <= _FAR_APART * smallest:
            tops = {-(-largest * n // LEVELS) for n in range(1, LEVELS)}
        else:
            tops = {
                round(smallest * (largest / smallest) ** (n / LEVELS)) for n in range(1, LEVELS)
            }
        self._tops = (*sorted(tops - {largest}), largest)

    def level(self, count: int) -> int:
        """Return the level of a count: 0 for none, up to `LEVELS`."""
        if not count:
            return 0
        below = sum(top < count for top in self._tops)
        return below + 1 + LEVELS - len(self._tops)

    def legend(self) -> tuple[tuple[int, str], ...]:
        """Return each level with its range of counts."""
        entries = []
        for low, high in pairwise([0, *self._tops]):
            text = number(high) if low + 1 == high else f"{low + 1:,} to {high:,}"
            entries.append((self.level(high), text))
        return tuple(entries)


def heat_map(histogram: Histogram, max_rows: int = MAX_ROWS) -> HeatMap | None:
    """Build the heat map of a histogram; None if no record has a timestamp."""
    ranked = sorted(histogram.rows, key=lambda row: (-sum(row[2]), row[0], row[1]))
    ranked = [row for row in ranked if sum(row[2])]
    if not ranked or histogram.width_ms <= 0:
        return None
    merge = -(-len(ranked[0][2]) // MAX_BINS)
    shown = [(t, p, _merge(bins, merge)) for t, p, bins in ranked[:max_rows]]
    axis = Axis(histogram.start_ms, histogram.width_ms * merge, len(shown[0][2]))
    scale = Scale(count for _, _, bins in shown for count in bins)
    columns = zip(*(bins for _, _, bins in ranked), strict=True)
    sums = _merge([sum(column) for column in columns], merge)
    busiest = max(range(len(sums)), key=sums.__getitem__)
    return HeatMap(
        rows=tuple(_row(topic, partition, bins, axis, scale) for topic, partition, bins in shown),
        sums=_bars(sums, axis),
        peak=f"{plural(sums[busiest], 'record')} {axis.span(busiest)}",
        ticks=axis.ticks(),
        legend=scale.legend(),
        first=axis.edge(0),
        last=axis.edge(axis.bins),
        bin_width=axis.bin_width(),
        records=sum(sums),
        hidden=len(ranked) - len(shown),
    )


def strip(topic: TopicGap, not_compared: frozenset[int], scale: Scale) -> Strip:
    """Build one cell per partition, or per few partitions if there are very many."""
    gaps = sorted(topic.partitions, key=lambda gap: gap.partition)
    each = -(-len(gaps) // MAX_CELLS)
    groups = [gaps[n : n + each] for n in range(0, len(gaps), each)]
    cells = []
    for n, group in enumerate(groups):
        count = sum(gap.counts.unreplicated for gap in group)
        blind = not count and any(gap.partition in not_compared for gap in group)
        name = _partitions([gap.partition for gap in group])
        shown = "not compared" if blind else plural(count, "record")
        level = -1 if blind else scale.level(-(-count // len(group)))
        cells.append(
            Cell(percent(n, len(groups)), percent(1, len(groups)), level, f"{name}: {shown}")
        )
    return Strip(tuple(cells), each, len(gaps))


def _merge(bins: Sequence[int], merge: int) -> tuple[int, ...]:
    return tuple(sum(bins[n : n + merge]) for n in range(0, len(bins), merge))


def _row(topic: str, partition: int, bins: Sequence[int], axis: Axis, scale: Scale) -> Row:
    cells = tuple(
        _cell(axis, n, count, scale.level(count)) for n, count in enumerate(bins) if count
    )
    title = f"{plain(topic)}-{partition}: {plural(sum(bins), 'unreplicated record')}"
    return Row(plain(topic), partition, sum(bins), cells, title)


def _bars(sums: Sequence[int], axis: Axis) -> tuple[Cell, ...]:
    largest = max(sums)
    return tuple(
        _cell(axis, n, count, LEVELS, max(2.0, percent(count, largest)))
        for n, count in enumerate(sums)
        if count
    )


def _cell(axis: Axis, number: int, count: int, level: int, height: float = 100.0) -> Cell:
    title = f"{plural(count, 'record')} {axis.span(number)}"
    return Cell(percent(number, axis.bins), percent(1, axis.bins), level, title, height)


def _partitions(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"partition {numbers[0]}"
    return f"partitions {numbers[0]} to {numbers[-1]}"


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic with its share of the gap."""

    name: str
    target: str
    missing: int
    read: int
    bytes: int
    share: float
    strip: Strip


def render(result: GapResult) -> str:
    """Render the page."""
    truncated = estimate_text.worst_of(result.truncation) if result.truncation else []
    return render_page(
        "gap.html.j2",
        result=result,
        totals=result.totals,
        gaps=[gap for gap in result.partitions if gap.counts.unreplicated],
        tone=gap_text.tone(result),
        gap_text=gap_text,
        total_lines=gap_text.total_lines(result),
        order_lines=gap_text.order_lines(result),
        steps=gap_text.next_steps(result),
        document=gap_text.DOCUMENT,
        heat=heat_map(result.histogram) if result.histogram else None,
        topics=_topics(result),
        topic_limit=TOPICS,
        worst=gap_text.worst_partitions(result)[:WORST_PARTITIONS],
        range_limit=RANGES,
        samples=result.examples[:EXAMPLES],
        show=partial(show, limit=SHOWN_BYTES),
        truncated=truncated[:WORST_PARTITIONS],
        truncation_text=estimate_text,
        blind=gap_text.uncompared_parts(result),
        blind_limit=NOT_COMPARED,
        notes=_notes(result.topics),
        note_limit=NOTES,
    )


def _topics(result: GapResult) -> tuple[TopicRow, ...]:
    """List topics with a gap, the largest first, then topics that were only partly compared."""
    blind: dict[str, set[int]] = {}
    for item in result.not_compared:
        every = {
            gap.partition for t in result.topics if t.topic == item.topic for gap in t.partitions
        }
        found = every if item.partition is None else {item.partition}
        blind.setdefault(item.topic, set()).update(found)
    counted = [(topic, topic.counts) for topic in result.topics]
    counted = [(t, c) for t, c in counted if c.unreplicated or (t.topic in blind and t.partitions)]
    counted.sort(key=lambda pair: (-pair[1].unreplicated, pair[0].topic))
    largest = max((counts.unreplicated for _, counts in counted), default=0)
    scale = Scale(gap.counts.unreplicated for gap in result.partitions)
    return tuple(
        TopicRow(
            name=topic.topic,
            target=topic.target_topic,
            missing=counts.unreplicated,
            read=counts.read_from_source,
            bytes=sum(gap.bytes for gap in topic.partitions),
            share=percent(counts.unreplicated, largest or 1),
            strip=strip(topic, frozenset(blind.get(topic.topic, ())), scale),
        )
        for topic, counts in counted
    )


def _notes(topics: Iterable[TopicGap]) -> list[tuple[str, list[str]]]:
    """List each note once, with its topics."""
    pairs = sorted((note, topic.topic) for topic in topics for note in topic.notes)
    groups = groupby(pairs, key=lambda pair: pair[0])
    return [(text, [name for _, name in group]) for text, group in groups]
