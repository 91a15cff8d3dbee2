"""Producer ids and transactions: what partitions and coordinators know of them."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from drctl.kafka.protocol import (
    INT16,
    INT32,
    INT64,
    NULLABLE_STRING,
    STRING,
    TEXT,
    THROTTLE,
    Api,
    Read,
    alone,
    answer_of,
    array,
    placed,
    request_of,
    rows,
    skipped,
)
from drctl.model.producer_ids import Producer

DESCRIBE_PRODUCERS = Api("DescribeProducers", 61, 0, True, "2.8")
INIT_PRODUCER_ID = Api("InitProducerId", 22, 4, True, "2.7")
LIST_TRANSACTIONS = Api("ListTransactions", 66, 0, True, "3.0")
DESCRIBE_TRANSACTIONS = Api("DescribeTransactions", 65, 0, True, "3.0")

_UNUSED_TIMEOUT_MS = 60_000


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


def _described(*found: Any) -> Described:
    *row, topics = found
    places = frozenset((topic, number) for topic, numbers in topics for number in numbers)
    return Described._make([*row, places])


_PRODUCERS_REQUEST = request_of(rows(STRING, array(INT32)))
_PRODUCER = rows(INT64, INT32, INT32, INT64, skipped(INT32), INT64, into=Producer)


def describe_producers(partitions: Mapping[str, Iterable[int]]) -> bytes:
    """Ask a leader which producers it knows, by topic and partition."""
    return _PRODUCERS_REQUEST(partitions.items())


read_producers: Read[Sequence[PartitionProducers]] = answer_of(
    alone, THROTTLE, placed(INT32, INT16, TEXT, _PRODUCER, into=PartitionProducers)
)

init_producer_id = partial(
    request_of(NULLABLE_STRING, INT32, INT64, INT16), None, _UNUSED_TIMEOUT_MS, -1, -1
)
"""Ask for an id that belongs to no transactional id."""

read_init = answer_of(Given, THROTTLE, INT16, INT64, INT16)

list_transactions = partial(request_of(array(STRING), array(INT64)), ())
"""Ask a broker for the transactions of these producers that it coordinates."""

read_listed: Read[tuple[int, tuple[Listed, ...]]] = answer_of(
    lambda *found: found,
    THROTTLE,
    INT16,
    skipped(array(STRING)),
    rows(STRING, INT64, STRING, into=Listed),
)
"""Kafka's error number, and the transactions."""

describe_transactions = request_of(array(STRING))
"""Ask their coordinator for transactions."""

_PLACES = rows(STRING, array(INT32))
_TRANSACTION = (INT16, STRING, STRING, INT32, INT64, INT64, INT16, _PLACES)
read_described: Read[tuple[Described, ...]] = answer_of(
    alone, THROTTLE, rows(*_TRANSACTION, into=_described)
)
