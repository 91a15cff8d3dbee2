"""Transactions as their coordinators know them (KIP-664)."""

from collections.abc import Iterable
from typing import NamedTuple

from drctl.wire.broker_requests import NO_TAGS, Api, compact_array, each
from drctl.wire.cursor import Cursor
from drctl.wire.primitives import compact_string, int64

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
