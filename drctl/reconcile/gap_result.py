"""A gap result as it is read back: what was compared, and how many records are to be decided."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from drctl.model.errors import Refused
from drctl.model.gap import GapResult, PartitionGap, TopicGap
from drctl.model.gap_document import KeptGap, read_document
from drctl.model.gap_order import OrderScope
from drctl.model.strict_json import read_json
from drctl.model.topology import OffsetRange, TopicPartition
from drctl.reconcile.progress import Lane
from drctl.reconcile.rows import Tally

_ANEW = "run `drctl gap` again and give its folder"


@dataclass(frozen=True, slots=True)
class FoundPartition:
    """What was found in one partition of the source.

    Attributes:
        target_range: None where the target had no such partition.
        whole: whether all of the source's log was compared, from its start.
        newer_on_target: whether the target may hold something newer than an unreplicated record,
            where the result has not said of each one whether it does: it judged by key.
        source_topic_id: Kafka's id of the topic; empty where the result does not say.
    """

    place: TopicPartition
    target_topic: str
    source_range: OffsetRange
    target_range: OffsetRange | None
    unreplicated: int
    whole: bool
    newer_on_target: bool
    source_topic_id: str = ""
    target_topic_id: str = ""


@dataclass(frozen=True, slots=True)
class FoundGap:
    """A gap result.

    Attributes:
        id: made of all that the result says: progress is kept by it.
        not_compared: what the result does not cover, in words; empty where it is complete.
    """

    id: str
    link: str
    source: str
    source_id: str
    target: str
    target_id: str
    started: str
    partitions: tuple[FoundPartition, ...]
    not_compared: tuple[str, ...]

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of all topics, as the source has them."""
        return tuple(dict.fromkeys(p.place.topic for p in self.partitions))


def read_gap(text: str, where: str) -> FoundGap:
    """What `gap.json` says.

    Args:
        where: the folder, for messages.

    Raises:
        Refused: it is no gap result that can be acted upon.
    """
    try:
        return _found(read_document(read_json(text)))
    except ValueError as wrong:
        raise Refused(f"{where} holds no gap result: {wrong}", _ANEW) from None


def others_of(gap: FoundGap, result: GapResult) -> FoundGap:
    """The same, counting superseded and expired records instead of unreplicated ones."""
    counts = {
        TopicPartition(topic.topic, each.partition): each.counts.superseded + each.counts.expired
        for topic in result.topics
        for each in topic.partitions
    }
    return replace(
        gap, partitions=tuple(replace(p, unreplicated=counts[p.place]) for p in gap.partitions)
    )


def check_rows(gap: FoundGap, tallies: Mapping[Lane, Tally], where: str) -> None:
    """See that the records that are listed are those that were counted.

    Raises:
        Refused: they are not.
    """
    listed: Counter[TopicPartition] = Counter()
    for lane, tally in tallies.items():
        listed[lane.place] += tally.records
    counted = Counter({p.place: p.unreplicated for p in gap.partitions if p.unreplicated})
    if listed != counted:
        place = min(p for p in listed | counted if listed[p] != counted[p])
        raise Refused(
            f"{where} lists {listed[place]} records of {place}, gap.json counted"
            f" {counted[place]}: it is damaged",
            _ANEW,
        )


def _found(kept: KeptGap) -> FoundGap:
    result = kept.result
    return FoundGap(
        kept.id,
        result.link,
        result.source,
        result.source_id,
        result.target,
        result.target_id,
        result.started.isoformat(timespec="milliseconds"),
        tuple(
            _partition(topic, each, result.within)
            for topic in result.topics
            for each in topic.partitions
        ),
        tuple(_not_compared(result)),
    )


def _partition(topic: TopicGap, gap: PartitionGap, within: OrderScope) -> FoundPartition:
    return FoundPartition(
        TopicPartition(topic.topic, gap.partition),
        topic.target_topic,
        gap.source_range,
        gap.target_range,
        gap.counts.unreplicated,
        gap.window is None or gap.window.whole,
        within is OrderScope.KEY and _newer(gap),
        topic.topic_id,
        topic.target_topic_id,
    )


def _newer(gap: PartitionGap) -> bool:
    """Careful: a marker of a transaction at the end of the source counts like a record."""
    if not gap.counts.unreplicated:
        return False
    tail = gap.ranges_total == 1 and gap.ranges[0][1] == gap.source_range.end - 1
    return bool(gap.counts.only_on_target) or not tail


def _not_compared(result: GapResult) -> Iterator[str]:
    for item in result.not_compared:
        which = "" if item.partition is None else f"-{item.partition}"
        yield f"{item.topic}{which}: {item.reason}"
    if undecided := result.totals.undecided:
        yield f"{undecided} offsets of the source lay behind an open transaction"
