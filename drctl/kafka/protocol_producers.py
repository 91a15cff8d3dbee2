"""Producer ids: which ones a partition knows, and the next one of a broker."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from drctl.formats.primitives import (
    Cursor,
    compact_nullable_string,
    compact_string,
    int16,
    int32,
    int64,
)
from drctl.kafka.protocol import NO_TAGS, Api, compact_array, each

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


LIST_TRANSACTIONS = Api("ListTransactions", 66, 0, True, "3.0")
DESCRIBE_TRANSACTIONS = Api("DescribeTransactions", 65, 0, True, "3.0")


class Listed(NamedTuple):
    """A transactional id and where it stands, in Kafka's word."""

    transactional_id: str
    producer_id: int
    state: str


class Described(NamedTuple):
    """A transaction.

    Attributes:
        error: Kafka's number; 0 where there is none.
        started_ms: UTC; -1 where there is none.
        partitions: that take part, by topic and number.
    """

    error: int
    transactional_id: str
    state: str
    timeout_ms: int
    started_ms: int
    producer_id: int
    epoch: int
    partitions: frozenset[tuple[str, int]]


def list_transactions(producer_ids: Iterable[int]) -> bytes:
    """Ask a broker for those that it coordinates for these producers."""
    return compact_array(()) + compact_array(map(int64, producer_ids)) + NO_TAGS


def read_listed(cursor: Cursor) -> tuple[int, tuple[Listed, ...]]:
    """Kafka's error number, and the transactions.

    Raises:
        Undecodable: it is no such answer.
    """
    cursor.int32()
    error = cursor.int16()
    each(cursor, Cursor.compact_string)
    found = each(cursor, _listed)
    cursor.tags()
    cursor.end()
    return error, found


def describe_transactions(transactional_ids: Iterable[str]) -> bytes:
    """Ask their coordinator for transactions."""
    return compact_array(map(compact_string, transactional_ids)) + NO_TAGS


def read_described(cursor: Cursor) -> tuple[Described, ...]:
    """The transactions.

    Raises:
        Undecodable: it is no such answer.
    """
    cursor.int32()
    found = each(cursor, _described)
    cursor.tags()
    cursor.end()
    return found


def _listed(cursor: Cursor) -> Listed:
    found = Listed(cursor.compact_string(), cursor.int64(), cursor.compact_string())
    cursor.tags()
    return found


def _described(cursor: Cursor) -> Described:
    error, name, state = cursor.int16(), cursor.compact_string(), cursor.compact_string()
    timeout_ms, started_ms = cursor.int32(), cursor.int64()
    producer_id, epoch = cursor.int64(), cursor.int16()
    places: set[tuple[str, int]] = set()
    for _ in range(cursor.varint() - 1):
        topic = cursor.compact_string()
        places |= {(topic, number) for number in each(cursor, Cursor.int32)}
        cursor.tags()
    cursor.tags()
    return Described(
        error, name, state, timeout_ms, started_ms, producer_id, epoch, frozenset(places)
    )
