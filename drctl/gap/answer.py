"""From what was counted and compared to the answer, partition by partition."""

from collections.abc import Sequence
from dataclasses import dataclass

from drctl.gap.comparison import BucketDigest, ComparePlan, Comparison, Extra, Missing, Side
from drctl.gap.freeze import Frozen, FrozenTopic
from drctl.gap.planning import keeps_timestamps
from drctl.gap.suspects import ReadCounts
from drctl.model.gap import Counts, NotCompared, OrderCounts, PartitionGap, TopicGap
from drctl.model.topology import OffsetRange, PartitionOffsets

NOWHERE = OffsetRange(0, 0)


@dataclass(frozen=True, slots=True)
class Answer:
    """All that a comparison found out."""

    topics: tuple[TopicGap, ...]
    not_compared: tuple[NotCompared, ...]
    comparison: Comparison


def topic_gaps(
    frozen: Frozen, plan: ComparePlan, digests: Sequence[BucketDigest], comparison: Comparison
) -> tuple[TopicGap, ...]:
    """The gap of each topic, in the order of the freeze."""
    reads = {side: ReadCounts.of(digests, side) for side in Side}
    by_partition = {t.topic: t.by_partition for t in plan.topics}
    return tuple(
        TopicGap(
            topic=topic.topic,
            target_topic=topic.target_topic,
            partitions=tuple(
                _partition_gap(topic, partition, reads[Side.SOURCE], reads[Side.TARGET], comparison)
                for partition in sorted(topic.source.keys() | topic.target.keys())
            ),
            notes=tuple(_notes(topic, comparison, by_partition[topic.topic])),
        )
        for topic in frozen.topics
    )


def _partition_gap(
    topic: FrozenTopic,
    partition: int,
    source_reads: ReadCounts,
    target_reads: ReadCounts,
    comparison: Comparison,
) -> PartitionGap:
    place = (topic.topic, partition)
    missing = comparison.missing.get(place, Missing())
    extra = comparison.extra.get(place, Extra())
    source, target = topic.source.get(partition), topic.target.get(partition)
    counts = Counts(
        read_from_source=source_reads.at(*place),
        read_from_target=target_reads.at(*place),
        unreplicated=missing.unreplicated,
        only_on_target=extra.only_on_target,
        duplicated_on_target=extra.duplicated_on_target,
        superseded=missing.superseded,
        expired=missing.expired,
        undecided=source.end - source.last_stable if source else 0,
    )
    return PartitionGap(
        partition=partition,
        source_range=_whole(source) or NOWHERE,
        target_range=_whole(target),
        counts=counts,
        order=OrderCounts(missing.safe, missing.conflicting, missing.unkeyed),
        bytes=missing.bytes,
        ranges=missing.runs,
        ranges_total=missing.runs_total,
        misplaced=missing.misplaced,
        oldest_timestamp=missing.oldest_timestamp,
        newest_timestamp=missing.newest_timestamp,
    )


def _whole(offsets: PartitionOffsets | None) -> OffsetRange | None:
    return None if offsets is None else OffsetRange(offsets.log_start, offsets.end)


def _notes(topic: FrozenTopic, comparison: Comparison, by_partition: bool) -> list[str]:
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
    lacking = sorted(topic.source.keys() - topic.target.keys())
    if by_partition and lacking:
        notes.append(f"the target lacks partitions {', '.join(map(str, lacking))}")
    misplaced = sum(m.misplaced for (t, _), m in comparison.missing.items() if t == topic.topic)
    if misplaced:
        notes.append(
            f"{misplaced} unreplicated records have an equal in another partition of the target:"
            " does the replicator keep partitions?"
        )
    if any(m.expired for (t, _), m in comparison.missing.items() if t == topic.topic):
        notes.append("the target has deleted its oldest records: expired ones cannot be told")
    return notes
