"""Builds the result, partition by partition, from digests and comparison."""

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
from drctl.model.text import plural
from drctl.model.topology import OffsetRange, PartitionOffsets, TopicPartition


def truncation_of(result: GapResult) -> Truncation:
    """Return every source partition with records that are not on the target."""
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
    """Return the result with its truncation."""
    return replace(result, truncation=truncation_of(result))


NOWHERE = OffsetRange(0, 0)


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of a comparison."""

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
    """Build the gap of each topic, for the partitions that were compared.

    Args:
        windows: windows of a tail comparison; empty for a full one.
        check_order: None if the order of replicated records was not checked.
    """
    read: Counter[tuple[Side, str, int]] = Counter()
    for d in digests:
        read[d.side, d.topic, d.partition] += d.records
    # Summed up once: there may be ten thousand partitions.
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
    """List what a reader must know about the numbers of this topic."""
    if topic.target_state is None:
        return [f"topic {topic.target_topic} does not exist on the target: no record is replicated"]
    notes = []
    if not topic.target_state.config:
        notes.append(
            "the target topic's configuration is not readable: assumed to be not compacted and to"
            " keep timestamps"
        )
    if not keeps_timestamps(topic):
        notes.append("the target topic uses LogAppendTime: compared without timestamps")
    if not by_partition:
        notes.append("compared across partitions: replication does not preserve partitions")
    missing_partitions = sorted(topic.source.keys() - topic.target.keys())
    if by_partition and missing_partitions:
        numbers = ", ".join(map(str, missing_partitions))
        notes.append(f"partitions missing on the target: {numbers}")
    if misplaced:
        notes.append(
            f"{plural(misplaced, 'unreplicated record has', 'unreplicated records have')} an equal"
            " record in another partition on the target: does the replicator preserve partitions?"
        )
    if expired:
        notes.append(
            "the target has deleted its oldest records: it cannot be verified that it ever had the"
            " expired ones"
        )
    return notes
