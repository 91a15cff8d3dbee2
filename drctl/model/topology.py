"""What clusters look like from outside: topics, partitions, offsets."""

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
        """How many offsets; at least as many as there are records."""
        return max(0, self.end - self.start)


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """The log of one partition as its leader answered.

    Attributes:
        log_start: first offset still stored.
        last_stable: first offset not yet decided by its transaction; `end` where all are decided.
        end: offset of the next record.
        leader_epoch: grows with every election of a leader; -1 where the broker does not say. Not
            part of what makes two of these equal.
    """

    log_start: int
    last_stable: int
    end: int
    leader_epoch: int = field(default=-1, compare=False)


class Mark(IntEnum):
    """A place in a log that has no time; the numbers are the protocol's, but for STABLE."""

    END = -1
    START = -2
    NEWEST = -3
    STABLE = -100


class Found(NamedTuple):
    """What a look-up in a log found.

    Attributes:
        offset: -1 where nothing is.
        timestamp_ms: of the record that a look-up by time or of the newest found; else -1.
    """

    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Overview:
    """A cluster seen from afar.

    Attributes:
        partitions: of each topic that the user may see, the partition numbers.
    """

    cluster_id: str
    partitions: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Why something could not be read, in words for a person."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unanswered(Unavailable):
    """No answer came after a write was sent: it may have happened, or may still happen."""


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic as described by its cluster.

    Attributes:
        partitions: partition number to leader's broker id; None where there is no leader.
        config: topic configuration, name to value; empty where it may not be read.
        readable: whether this user may read records of it.
        topic_id: Kafka's topic UUID; empty where the broker gives none.
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
        """Whether the broker replaces timestamps by its own clock's."""
        return self.config.get("message.timestamp.type", "CreateTime") == "LogAppendTime"


@dataclass(frozen=True, slots=True)
class Record:
    """One record as read from a log.

    Attributes:
        timestamp_ms: milliseconds since 1970 UTC; -1 where the record has none.
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
"""Offset, timestamp in milliseconds (-1 where there is none), key, value and headers."""

TopicRanges = Mapping[str, Mapping[int, Sequence[OffsetRange]]]
"""By the topic's own name on its cluster, then partition: disjoint ranges, ascending."""


class Chunk(NamedTuple):
    """Some records of one partition; the next chunk of it goes on behind them."""

    topic: str
    partition: int
    rows: Sequence[Row]
