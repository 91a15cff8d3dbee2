"""Producer ids and transactions: what partitions and coordinators know of them."""

from collections.abc import Iterable, Mapping
from itertools import starmap
from typing import NamedTuple

from drctl.formats.primitives import Cursor
from drctl.kafka.protocol import (
    INT16,
    INT32,
    INT64,
    NULLABLE_STRING,
    STRING,
    TEXT,
    Api,
    Message,
    array,
    by_topic,
    rows,
)

DESCRIBE_PRODUCERS = Api("DescribeProducers", 61, 0, True, "2.8")
_PRODUCERS_REQUEST = Message(rows(STRING, array(INT32)))
_PRODUCER = rows(INT64, INT32, INT32, INT64, INT32, INT64)
_PRODUCERS = Message(INT32, rows(STRING, rows(INT32, INT16, TEXT, _PRODUCER)))

INIT_PRODUCER_ID = Api("InitProducerId", 22, 4, True, "2.7")
_INIT_REQUEST = Message(NULLABLE_STRING, INT32, INT64, INT16)
_INIT = Message(INT32, INT16, INT64, INT16)
_UNUSED_TIMEOUT_MS = 60_000

LIST_TRANSACTIONS = Api("ListTransactions", 66, 0, True, "3.0")
_LIST_REQUEST = Message(array(STRING), array(INT64))
_LISTED = Message(INT32, INT16, array(STRING), rows(STRING, INT64, STRING))

DESCRIBE_TRANSACTIONS = Api("DescribeTransactions", 65, 0, True, "3.0")
_DESCRIBE_REQUEST = Message(array(STRING))
_DESCRIBED = Message(
    INT32,
    rows(INT16, STRING, STRING, INT32, INT64, INT64, INT16, rows(STRING, array(INT32))),
)


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


class Listed(NamedTuple):
    """A transactional id and its state, in Kafka's word."""

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


def describe_producers(partitions: Mapping[str, Iterable[int]]) -> bytes:
    """Ask a leader which producers it knows, by topic and partition."""
    return _PRODUCERS_REQUEST.write(partitions.items())


def read_producers(cursor: Cursor) -> tuple[PartitionProducers, ...]:
    """The producers that a leader knows.

    Raises:
        Undecodable: it is not such a response.
    """
    _throttle_ms, topics = _PRODUCERS.read(cursor)
    return tuple(
        PartitionProducers(topic, partition, error, text, tuple(starmap(Producer, producers)))
        for topic, partition, error, text, producers in by_topic(topics)
    )


def init_producer_id() -> bytes:
    """Ask for an id that belongs to no transactional id."""
    return _INIT_REQUEST.write(None, _UNUSED_TIMEOUT_MS, -1, -1)


def read_init(cursor: Cursor) -> Given:
    """The id.

    Raises:
        Undecodable: it is not such a response.
    """
    _throttle_ms, *given = _INIT.read(cursor)
    return Given(*given)


def list_transactions(producer_ids: Iterable[int]) -> bytes:
    """Ask a broker for the transactions of these producers that it coordinates."""
    return _LIST_REQUEST.write((), producer_ids)


def read_listed(cursor: Cursor) -> tuple[int, tuple[Listed, ...]]:
    """Kafka's error number, and the transactions.

    Raises:
        Undecodable: it is not such a response.
    """
    _throttle_ms, error, _unknown_states, transactions = _LISTED.read(cursor)
    return error, tuple(starmap(Listed, transactions))


def describe_transactions(transactional_ids: Iterable[str]) -> bytes:
    """Ask their coordinator for transactions."""
    return _DESCRIBE_REQUEST.write(transactional_ids)


def read_described(cursor: Cursor) -> tuple[Described, ...]:
    """The transactions.

    Raises:
        Undecodable: it is not such a response.
    """
    _throttle_ms, transactions = _DESCRIBED.read(cursor)
    found = []
    for *row, topics in transactions:
        places = frozenset((topic, number) for topic, numbers in topics for number in numbers)
        found.append(Described._make([*row, places]))
    return tuple(found)
