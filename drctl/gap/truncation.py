"""What of a gap would be destroyed, if the source were cut back or made anew from the target."""

from dataclasses import replace

from drctl.model.gap import GapResult, PartitionGap
from drctl.model.truncation import DoomedPartition, Truncation


def truncation_of(result: GapResult) -> Truncation:
    """Every partition of the source that holds something the target has not."""
    found = (
        _doomed(topic.topic, gap)
        for topic in sorted(result.topics, key=lambda topic: topic.topic)
        for gap in topic.partitions
    )
    return Truncation(tuple(each for each in found if each.records or each.others))


def with_truncation(result: GapResult) -> GapResult:
    """The result that says so."""
    return replace(result, truncation=truncation_of(result))


def _doomed(topic: str, gap: PartitionGap) -> DoomedPartition:
    return DoomedPartition(
        topic=topic,
        partition=gap.partition,
        cut_from=gap.ranges[0][0] if gap.ranges else None,
        end=gap.source_range.end,
        records=gap.counts.unreplicated,
        bytes=gap.bytes,
        others=gap.counts.superseded + gap.counts.expired,
        other_bytes=gap.other_bytes,
    )
