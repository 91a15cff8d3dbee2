"""Topics, partitions, offsets and records of a cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """A partition of a topic, by name and number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class OffsetRange(NamedTuple):
    """Offsets `[start, end)`."""

    start: int
    end: int

    @property
    def span(self) -> int:
        """Number of offsets; the number of records may be lower."""
        return max(0, self.end - self.start)


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """The offsets of a partition, as reported by its leader.

    Attributes:
        log_start: first offset still stored.
        last_stable: first offset in an open transaction; `end` if there is none.
        end: offset of the next record.
        leader_epoch: increases with each leader election; -1 if the broker does not report it. Not
            compared by `==`.
    """

    log_start: int
    last_stable: int
    end: int
    leader_epoch: int = field(default=-1, compare=False)


class Mark(IntEnum):
    """A position in a log that is not a time; its values are the protocol's, except STABLE."""

    END = -1
    START = -2
    NEWEST = -3
    STABLE = -100


class Found(NamedTuple):
    """The result of an offset lookup.

    Attributes:
        offset: -1 if nothing was found.
        timestamp_ms: timestamp of the record found by time, or of the newest record; else -1.
        leader_epoch: leader epoch of the record, or for END the newest one of the log; -1 if
            unknown.
    """

    offset: int
    timestamp_ms: int
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class Overview:
    """An overview of a cluster.

    Attributes:
        partitions: partition numbers of each topic that the user may describe.
    """

    cluster_id: str
    partitions: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Why something could not be read."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unanswered(Unavailable):
    """A write was not answered: it may have been applied, or may be applied later."""


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic as described by its cluster.

    Attributes:
        partitions: partition number to leader's broker id; None without a leader.
        config: topic configuration, name to value; empty if it may not be read.
        readable: whether this user may read records of it.
        topic_id: Kafka's topic UUID; empty if the broker reports none.
    """

    name: str
    partitions: Mapping[int, int | None]
    config: Mapping[str, str] = field(default_factory=dict)
    readable: bool = True
    topic_id: str = ""

    @property
    def compacted(self) -> bool:
        """Whether cleanup.policy contains `compact`."""
        return "compact" in self.config.get("cleanup.policy", "delete")

    @property
    def log_append_time(self) -> bool:
        """Whether the broker sets timestamps (LogAppendTime)."""
        return self.config.get("message.timestamp.type", "CreateTime") == "LogAppendTime"


@dataclass(frozen=True, slots=True)
class Record:
    """One record as read from a log.

    Attributes:
        timestamp_ms: milliseconds since 1970 UTC; -1 if it has none.
        key: None for a null key, b"" for an empty one.
        value: None for a tombstone.
        headers: in order; names may repeat; a value may be None.
    """

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


Headers = tuple[tuple[bytes, bytes | None], ...]
"""In order; names may repeat."""

Row = tuple[int, int, bytes | None, bytes | None, Headers]
"""Offset, timestamp in milliseconds (-1 if there is none), key, value and headers."""

TopicRanges = Mapping[str, Mapping[int, Sequence[OffsetRange]]]
"""Disjoint, ascending ranges by topic (its name on that cluster) and partition."""


class Chunk(NamedTuple):
    """Consecutive records of one partition; the next chunk continues after them."""

    topic: str
    partition: int
    rows: Sequence[Row]
