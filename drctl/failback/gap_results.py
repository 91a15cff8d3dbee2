"""A result of `drctl gap`, read from `gap.json`; valid until the clusters change."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from drctl.model.errors import ConfigError
from drctl.model.gap import NotCompared, OrderScope, PartitionGap, TopicGap
from drctl.model.gap_document import read_document
from drctl.model.topology import OffsetRange, TopicPartition

FULL = "full"
"""The scope of a result that compares everything."""


@dataclass(frozen=True, slots=True)
class Sample:
    """An unreplicated record from the result's Parquet files.

    Attributes:
        order: safe, conflicting or unkeyed.
    """

    place: TopicPartition
    offset: int
    timestamp_ms: int
    key: bytes | None
    order: str


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """One partition of the source in a result.

    Attributes:
        copy: its partition on the target.
        ranges: the first of `ranges_total` ranges of missing offsets, inclusive.
        topic_id: Kafka's id of the topic; empty where the result does not say.
        copy_id: Kafka's id of the target topic; empty where the result does not say.
        aside: records that the target had and has compacted or deleted.
        none_copied: whether all records of the copy are new.
    """

    place: TopicPartition
    copy: TopicPartition
    source: OffsetRange
    target: OffsetRange | None
    unreplicated: int
    only_on_target: int
    duplicated: int
    safe: int
    conflicting: int
    unkeyed: int
    ranges: tuple[tuple[int, int], ...] = ()
    ranges_total: int = 0
    topic_id: str = ""
    copy_id: str = ""
    aside: int = 0
    none_copied: bool = False


@dataclass(frozen=True, slots=True)
class GapEvidence:
    """The parts of a result that a failback uses.

    Attributes:
        where: its folder.
        id: the key under which `drctl reconcile` stores its progress.
        inversions: None if not checked.
        within: the scope in which order was compared.
    """

    where: str
    started: datetime
    scope: str
    complete: bool
    source: str
    source_id: str
    target: str
    target_id: str
    partitions: tuple[PartitionResult, ...]
    not_compared: tuple[str, ...] = ()
    inversions: int | None = None
    samples: tuple[Sample, ...] = ()
    id: str = ""
    within: OrderScope = OrderScope.KEY

    @property
    def unreplicated(self) -> int:
        """How many records are not replicated to the target."""
        return sum(each.unreplicated for each in self.partitions)

    @property
    def duplicated(self) -> int:
        """How many extra copies the target has."""
        return sum(each.duplicated for each in self.partitions)

    @property
    def ends(self) -> Mapping[TopicPartition, int]:
        """Log end offsets of the source."""
        return {each.place: each.source.end for each in self.partitions}

    def is_whole_of(self, source_id: str, target_id: str) -> bool:
        """Whether the result is a full comparison of these clusters."""
        of_these = (self.source_id, self.target_id) == (source_id, target_id)
        return of_these and self.complete and self.scope == FULL

    @property
    def label(self) -> str:
        """The folder and time of the result."""
        return f"{self.where.rpartition('/')[2]}, of {self.started:%Y-%m-%d %H:%M:%S} UTC"


def read_gap(document: Any, where: str) -> GapEvidence:
    """Read the document of a `gap.json`.

    Raises:
        ConfigError: it is not a result of drctl gap.
    """
    try:
        kept = read_document(document)
    except ValueError as wrong:
        raise ConfigError(
            f"{where} is not a result of drctl gap: {wrong}",
            "name a folder that drctl gap --out wrote",
        ) from wrong
    result = kept.result
    return GapEvidence(
        where,
        result.started,
        result.scope,
        result.complete,
        result.source,
        result.source_id,
        result.target,
        result.target_id,
        tuple(
            _seen(topic, each, result.scope == FULL)
            for topic in result.topics
            for each in topic.partitions
        ),
        tuple(map(_not_compared, result.not_compared)),
        result.order.inversions,
        id=kept.id,
        within=result.within,
    )


def _seen(topic: TopicGap, gap: PartitionGap, full: bool) -> PartitionResult:
    return PartitionResult(
        TopicPartition(topic.topic, gap.partition),
        TopicPartition(topic.target_topic, gap.partition),
        gap.source_range,
        gap.target_range,
        gap.counts.unreplicated,
        gap.counts.only_on_target,
        gap.counts.duplicated_on_target,
        gap.order.safe,
        gap.order.conflicting,
        gap.order.unkeyed,
        gap.ranges,
        gap.ranges_total,
        topic.topic_id,
        topic.target_topic_id,
        gap.counts.superseded + gap.counts.expired,
        full and 0 < gap.counts.read_from_target == gap.counts.only_on_target,
    )


def _not_compared(item: NotCompared) -> str:
    name = item.topic if item.partition is None else f"{item.topic}-{item.partition}"
    return f"{name}: {item.reason}"
