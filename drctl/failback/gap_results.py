"""A result of `drctl gap`, read back from `gap.json`: evidence until the clusters have moved."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from drctl.model.errors import ConfigError
from drctl.model.gap import SCHEMA
from drctl.model.topology import OffsetRange, TopicPartition


@dataclass(frozen=True, slots=True)
class Sample:
    """An unreplicated record, as the result's Parquet has it.

    Attributes:
        order: safe, conflicting or unkeyed.
    """

    place: TopicPartition
    offset: int
    timestamp_ms: int
    key: bytes | None
    order: str


@dataclass(frozen=True, slots=True)
class PartitionSeen:
    """One partition of the source in a result.

    Attributes:
        copy: its partition on the target.
        ranges: of missing offsets, inclusive; the first of `ranges_total`.
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

    @property
    def boundary(self) -> int | None:
        """The first offset of the target that is new there; None where it has no such partition."""
        return self.target.end - self.only_on_target if self.target is not None else None


@dataclass(frozen=True, slots=True)
class GapEvidence:
    """A result, as far as the way back rests on it.

    Attributes:
        where: its folder.
        id: by which `drctl reconcile` keeps what it did.
        inversions: None where nobody looked for any.
    """

    where: str
    started: datetime
    scope: str
    complete: bool
    source: str
    source_id: str
    target: str
    target_id: str
    partitions: tuple[PartitionSeen, ...]
    not_compared: tuple[str, ...] = ()
    inversions: int | None = None
    samples: tuple[Sample, ...] = ()
    id: str = ""

    @property
    def unreplicated(self) -> int:
        """How many records the target lacks."""
        return sum(each.unreplicated for each in self.partitions)

    @property
    def duplicated(self) -> int:
        """How many the target has more often than the source."""
        return sum(each.duplicated for each in self.partitions)

    @property
    def ends(self) -> Mapping[TopicPartition, int]:
        """Where the source ended."""
        return {each.place: each.source.end for each in self.partitions}

    @property
    def told(self) -> str:
        """Which one it is."""
        return f"{self.where.rpartition('/')[2]}, of {self.started:%Y-%m-%d %H:%M:%S} UTC"


def read_gap(document: Mapping[str, Any], where: str) -> GapEvidence:
    """From the document of a `gap.json`.

    Raises:
        ConfigError: it is none.
    """
    try:
        if document["schema"] != SCHEMA:
            raise ValueError(f"its schema is {document['schema']!r}")
        return GapEvidence(
            where,
            datetime.fromisoformat(document["started"]),
            str(document["scope"]),
            bool(document["complete"]),
            str(document["source"]["cluster"]),
            str(document["source"]["id"]),
            str(document["target"]["cluster"]),
            str(document["target"]["id"]),
            tuple(_partitions(document)),
            tuple(_not_compared(each) for each in document["not_compared"]),
            document["order"]["inversions"],
        )
    except (KeyError, TypeError, ValueError) as wrong:
        raise ConfigError(
            f"{where} is no result of drctl gap: {wrong}", "name a folder that --out was given"
        ) from wrong


def _partitions(document: Mapping[str, Any]) -> Iterator[PartitionSeen]:
    for topic in document["topics"]:
        for each in topic["partitions"]:
            number, there = int(each["partition"]), each["target_range"]
            yield PartitionSeen(
                TopicPartition(topic["topic"], number),
                TopicPartition(topic["target_topic"], number),
                OffsetRange(*each["source_range"]),
                OffsetRange(*there) if there else None,
                each["unreplicated"],
                each["only_on_target"],
                each["duplicated_on_target"],
                each["safe"],
                each["conflicting"],
                each["unkeyed"],
                tuple((first, last) for first, last in each["ranges"]),
                each["ranges_total"],
            )


def _not_compared(item: Mapping[str, Any]) -> str:
    number = item["partition"]
    name = item["topic"] if number is None else f"{item['topic']}-{number}"
    return f"{name}: {item['reason']}"
