"""The gap analysis as one HTML file for people: no script, no network, nothing beside it."""

from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from itertools import groupby

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from drctl.model.gap import Example, GapResult, PartitionGap, TopicGap
from drctl.model.truncation import DoomedPartition
from drctl.report import gap_lines, gap_steps, gap_words, printable, truncation_lines
from drctl.report.gap_picture import Scale, Strip, heat_map, strip, worst_partitions
from drctl.report.time_axis import percent
from drctl.resources import shipped

WORST_PARTITIONS = 25
TOPICS = 25
RANGES = 12
EXAMPLES = 20
NOT_COMPARED = 20
NOTES = 50
SHOWN_BYTES = 160


@dataclass(frozen=True, slots=True)
class Worst:
    """A partition in the table of the worst ones."""

    topic: str
    gap: PartitionGap
    share: float
    ranges: tuple[tuple[int, int], ...]
    more_ranges: int


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


@dataclass(frozen=True, slots=True)
class Sample:
    """An unreplicated record as text."""

    example: Example
    topic: str
    key: printable.Shown
    value: printable.Shown


@dataclass(frozen=True, slots=True)
class Note:
    """Something said of several topics."""

    text: str
    topics: tuple[str, ...]


def render(result: GapResult) -> str:
    """The page; reads nothing but the template."""
    folder = shipped("templates")
    style = (folder / "gap.css").read_text(encoding="utf-8")
    return (
        _environment(str(folder))
        .get_template("gap.html.j2")
        .render(
            result=result,
            style=style,
            style_hash=b64encode(sha256(style.encode()).digest()).decode(),
            version=version("drctl"),
            totals=result.totals,
            gaps=[gap for gap in result.partitions if gap.counts.unreplicated],
            tone=gap_words.tone(result),
            words=gap_words,
            total_lines=gap_lines.total_lines(result),
            order_lines=gap_lines.order_lines(result),
            steps=gap_steps.next_steps(result),
            document=gap_steps.DOCUMENT,
            heat=heat_map(result.histogram) if result.histogram else None,
            topics=_topics(result),
            topic_limit=TOPICS,
            worst=_worst(result),
            samples=tuple(map(_sample, result.examples[:EXAMPLES])),
            doomed=_doomed(result),
            doomed_words=truncation_lines,
            blind=gap_lines.blind_spots(result),
            blind_limit=NOT_COMPARED,
            notes=_notes(result.topics),
            note_limit=NOTES,
        )
    )


def _environment(folder: str) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        finalize=printable.without_secrets,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("number", "plain", "sentence", "plural", "size", "utc", "age"):
        environment.filters[name] = getattr(printable, name)
    environment.filters["percent"] = percent
    environment.filters["share"] = share
    return environment


def share(part: int, whole: int) -> str:
    """A percentage that never rounds something to nothing, nor nearly all to all."""
    if not part or not whole:
        return "0 %"
    if part == whole:
        return "100 %"
    if part / whole < 0.000_01:
        return "under 0.001 %"
    value = 100 * part / whole
    return f"{value:.3f}".rstrip("0").rstrip(".") + " %" if value < 1 else f"{_cut(value)} %"


def _cut(value: float) -> str:
    return f"{value:.1f}" if value < 99.9 else f"{int(value * 1000) / 1000:.3f}"


def _topics(result: GapResult) -> tuple[TopicRow, ...]:
    """Topics with a gap, the worst first, then those with parts not compared."""
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


def _worst(result: GapResult) -> tuple[Worst, ...]:
    """Every partition with a gap, the worst first."""
    gaps = worst_partitions(result)
    largest = gaps[0][1].counts.unreplicated if gaps else 1
    return tuple(
        Worst(
            topic=topic,
            gap=gap,
            share=percent(gap.counts.unreplicated, largest),
            ranges=gap.ranges[:RANGES],
            more_ranges=max(gap.ranges_total, len(gap.ranges)) - len(gap.ranges[:RANGES]),
        )
        for topic, gap in gaps[:WORST_PARTITIONS]
    )


def _doomed(result: GapResult) -> tuple[DoomedPartition, ...]:
    """The partitions that would lose most."""
    found = result.truncation
    return () if found is None else tuple(truncation_lines.worst_of(found)[:WORST_PARTITIONS])


def _sample(example: Example) -> Sample:
    return Sample(
        example=example,
        topic=example.topic,
        key=printable.show(example.key, SHOWN_BYTES),
        value=printable.show(example.value, SHOWN_BYTES),
    )


def _notes(topics: Iterable[TopicGap]) -> tuple[Note, ...]:
    """Each note once, with the topics it is about."""
    pairs = sorted((note, topic.topic) for topic in topics for note in topic.notes)
    return tuple(
        Note(text, tuple(name for _, name in group))
        for text, group in groupby(pairs, key=lambda pair: pair[0])
    )
