"""From what was counted and compared to the answer, partition by partition."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from drctl.gap.comparison import (
    BucketDigest,
    ComparePlan,
    Comparison,
    Extra,
    Missing,
    OrderCheck,
    Side,
    TopicPlan,
)
from drctl.gap.freeze import Frozen, FrozenTopic, keeps_timestamps
from drctl.model.gap import (
    Counts,
    GapResult,
    Inversion,
    LedgerUse,
    NotCompared,
    OrderCounts,
    PartitionGap,
    TopicGap,
    TruncatedPartition,
    Truncation,
    Window,
)
from drctl.model.topology import OffsetRange, PartitionOffsets, TopicPartition


def truncation_of(result: GapResult) -> Truncation:
    """Every partition of the source that holds something the target has not."""
    found = (
        TruncatedPartition(
            topic=topic.topic,
            partition=gap.partition,
            cut_from=gap.ranges[0][0] if gap.ranges else None,
            end=gap.source_range.end,
            records=gap.counts.unreplicated,
            bytes=gap.bytes,
            others=gap.counts.superseded + gap.counts.expired,
            other_bytes=gap.other_bytes,
        )
        for topic in sorted(result.topics, key=lambda topic: topic.topic)
        for gap in topic.partitions
    )
    return Truncation(tuple(each for each in found if each.records or each.others))


def with_truncation(result: GapResult) -> GapResult:
    """The result that says so."""
    return replace(result, truncation=truncation_of(result))


NOWHERE = OffsetRange(0, 0)


@dataclass(frozen=True, slots=True)
class Answer:
    """All that a comparison found out."""

    topics: tuple[TopicGap, ...]
    not_compared: tuple[NotCompared, ...]
    comparison: Comparison
    ledger: LedgerUse | None = None
    inversions: tuple[Inversion, ...] | None = None


def topic_gaps(
    frozen: Frozen,
    plan: ComparePlan,
    digests: Sequence[BucketDigest],
    comparison: Comparison,
    windows: Mapping[TopicPartition, Window],
    check_order: OrderCheck | None = None,
) -> tuple[TopicGap, ...]:
    """The gap of each topic, in the order of the freeze; of the partitions that were compared.

    Args:
        windows: that the run kept to; none where it read all.
        check_order: None where nobody looked at the order of replicated records.
    """
    read: Counter[tuple[Side, str, int]] = Counter()
    for d in digests:
        read[d.side, d.topic, d.partition] += d.records
    # Added up once: there may be ten thousand partitions.
    misplaced: Counter[str] = Counter()
    for (name, _), each in comparison.missing.items():
        misplaced[name] += each.misplaced
    expired = {name for (name, _), each in comparison.missing.items() if each.expired}

    def partition_gap(topic: FrozenTopic, partition: int) -> PartitionGap:
        place = TopicPartition(topic.topic, partition)
        missing = comparison.missing.get(place, Missing())
        extra = comparison.extra.get(place, Extra())
        source, target = topic.source.get(partition), topic.target.get(partition)
        window = windows.get(place)
        return PartitionGap(
            partition=partition,
            source_range=_range(source, window.source_start if window else None) or NOWHERE,
            target_range=_range(target, window.target_start if window else None),
            counts=Counts(
                read_from_source=read[Side.SOURCE, *place],
                read_from_target=read[Side.TARGET, *place],
                unreplicated=missing.unreplicated,
                only_on_target=extra.only_on_target,
                duplicated_on_target=extra.duplicated_on_target,
                superseded=missing.superseded,
                expired=missing.expired,
                undecided=source.end - source.last_stable if source else 0,
            ),
            order=OrderCounts(
                missing.safe,
                missing.conflicting,
                missing.unkeyed,
                None if check_order is None else check_order.inversions.get(place, 0),
            ),
            bytes=missing.bytes,
            ranges=missing.runs,
            ranges_total=missing.runs_total,
            misplaced=missing.misplaced,
            oldest_timestamp=missing.oldest_timestamp,
            newest_timestamp=missing.newest_timestamp,
            window=window,
            other_bytes=missing.other_bytes,
            repeated=missing.repeated,
        )

    def topic_gap(topic: FrozenTopic, of: TopicPlan) -> TopicGap:
        there = topic.target_state.topic_id if topic.target_state else ""
        return TopicGap(
            topic.topic,
            topic.target_topic,
            tuple(partition_gap(topic, n) for n in sorted({*of.source, *of.target})),
            tuple(_notes(topic, misplaced[topic.topic], topic.topic in expired, of.by_partition)),
            topic.state.topic_id,
            there,
        )

    plans = {each.topic: each for each in plan.topics}
    return tuple(topic_gap(topic, plans[topic.topic]) for topic in frozen.topics)


def _range(offsets: PartitionOffsets | None, start: int | None) -> OffsetRange | None:
    if offsets is None:
        return None
    return OffsetRange(offsets.log_start if start is None else start, offsets.end)


def _notes(topic: FrozenTopic, misplaced: int, expired: bool, by_partition: bool) -> list[str]:
    """What a reader must know to trust this topic's numbers."""
    if topic.target_state is None:
        return [f"the target has no topic {topic.target_topic}: all of it is unreplicated"]
    notes = []
    if not topic.target_state.config:
        notes.append(
            "the target topic's configuration may not be read: taken as not compacted and as"
            " keeping timestamps"
        )
    if not keeps_timestamps(topic):
        notes.append("the target keeps its own time (LogAppendTime): compared without timestamps")
    if not by_partition:
        notes.append("compared as a whole: the link does not keep partitions")
    missing_ranges = sorted(topic.source.keys() - topic.target.keys())
    if by_partition and missing_ranges:
        notes.append(f"the target lacks partitions {', '.join(map(str, missing_ranges))}")
    if misplaced:
        notes.append(
            f"{misplaced} unreplicated records have an equal in another partition of the target:"
            " does the replicator keep partitions?"
        )
    if expired:
        notes.append("the target has deleted its oldest records: expired ones cannot be told")
    return notes
