"""Producer ids: which ones a partition knows, and the next one of a broker."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from drctl.wire.broker_requests import NO_TAGS, Api, compact_array, each
from drctl.wire.cursor import Cursor
from drctl.wire.primitives import (
    compact_nullable_string,
    compact_string,
    int16,
    int32,
    int64,
)

DESCRIBE_PRODUCERS = Api("DescribeProducers", 61, 0, True, "2.8")
INIT_PRODUCER_ID = Api("InitProducerId", 22, 4, True, "2.7")

_UNUSED_TIMEOUT_MS = 60_000


class Producer(NamedTuple):
    """What a partition remembers of a producer.

    Attributes:
        sequence: of its last record; -1 where there is none.
        timestamp_ms: of its last record; -1 where there is none.
        coordinator_epoch: of the last transaction marker; -1 where there is none.
        open_since: offset at which its open transaction began; -1 where it has none.
    """

    producer_id: int
    epoch: int
    sequence: int
    timestamp_ms: int
    coordinator_epoch: int
    open_since: int


class PartitionProducers(NamedTuple):
    """One partition's answer.

    Attributes:
        error: Kafka's number; 0 where there is none.
        text: why, for a person; may be empty.
    """

    topic: str
    partition: int
    error: int
    text: str
    producers: tuple[Producer, ...]


class Given(NamedTuple):
    """An id that a broker gave.

    Attributes:
        error: Kafka's number; 0 where there is none.
    """

    error: int
    producer_id: int
    epoch: int


def describe_producers(partitions: Mapping[str, Iterable[int]]) -> bytes:
    """Ask a leader what it knows, by topic and partition."""
    topics = (
        compact_string(topic) + compact_array(int32(number) for number in numbers) + NO_TAGS
        for topic, numbers in partitions.items()
    )
    return compact_array(topics) + NO_TAGS


def read_producers(cursor: Cursor) -> tuple[PartitionProducers, ...]:
    """What a leader knows.

    Raises:
        Undecodable: it is no such answer.
    """
    cursor.int32()
    found: list[PartitionProducers] = []
    for _ in range(cursor.varint() - 1):
        topic = cursor.compact_string()
        found += each(cursor, lambda c, topic=topic: _partition(c, topic))  # type: ignore[misc]
        cursor.tags()
    cursor.tags()
    cursor.end()
    return tuple(found)


def init_producer_id() -> bytes:
    """Ask for an id that belongs to no transactional id."""
    name = compact_nullable_string(None)
    return name + int32(_UNUSED_TIMEOUT_MS) + int64(-1) + int16(-1) + NO_TAGS


def read_init(cursor: Cursor) -> Given:
    """The id.

    Raises:
        Undecodable: it is no such answer.
    """
    cursor.int32()
    found = Given(cursor.int16(), cursor.int64(), cursor.int16())
    cursor.tags()
    cursor.end()
    return found


def _partition(cursor: Cursor, topic: str) -> PartitionProducers:
    number, error = cursor.int32(), cursor.int16()
    text = cursor.compact_nullable_string() or ""
    found = PartitionProducers(topic, number, error, text, each(cursor, _producer))
    cursor.tags()
    return found


def _producer(cursor: Cursor) -> Producer:
    found = Producer(
        cursor.int64(),
        cursor.int32(),
        cursor.int32(),
        cursor.int64(),
        cursor.int32(),
        cursor.int64(),
    )
    cursor.tags()
    return found
