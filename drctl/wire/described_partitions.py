"""Partitions with their replicas and those that may still be elected (KIP-966)."""

from collections.abc import Iterable
from typing import NamedTuple

from drctl.wire.broker_requests import NO_TAGS, Api, compact_array, each
from drctl.wire.cursor import Cursor
from drctl.wire.primitives import compact_string, int32

DESCRIBE_PARTITIONS = Api("DescribeTopicPartitions", 75, 0, True, "3.8")

_AT_ONCE = 2000
_NULL, _NOT_NULL = 0xFF, b"\x01"
_ID_BYTES = 16


class Described(NamedTuple):
    """A partition.

    Attributes:
        error: Kafka's number; 0 where there is none.
        leader: -1 where there is none.
        in_sync: replicas that held everything when a leader last said so.
        eligible: out of sync, and yet they hold everything that was committed (ELR).
        last_known: who was eligible last, where nobody is any more.
    """

    topic: str
    partition: int
    error: int
    leader: int
    epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    eligible: tuple[int, ...]
    last_known: tuple[int, ...]


class Next(NamedTuple):
    """Where the next answer goes on."""

    topic: str
    partition: int


class Answer(NamedTuple):
    """Some partitions, and where the others begin; None where these are the last.

    Attributes:
        absent: topics that do not exist, or may not be seen, with Kafka's number.
    """

    partitions: tuple[Described, ...]
    absent: tuple[tuple[str, int], ...]
    following: Next | None


def describe_partitions(topics: Iterable[str], since: Next | None = None) -> bytes:
    """Ask for the partitions of these topics; of all where none is named."""
    names = compact_array(compact_string(name) + NO_TAGS for name in topics)
    if since is None:
        cursor = bytes([_NULL])
    else:
        cursor = _NOT_NULL + compact_string(since.topic) + int32(since.partition) + NO_TAGS
    return names + int32(_AT_ONCE) + cursor + NO_TAGS


def read_partitions(cursor: Cursor) -> Answer:
    """The partitions.

    Raises:
        Undecodable: it is no such answer.
    """
    cursor.int32()
    found: list[Described] = []
    absent: list[tuple[str, int]] = []
    for error, topic, rows in each(cursor, _topic):
        found += rows
        if error:
            absent.append((topic, error))
    following = None
    if cursor.int8() != _NULL:
        following = Next(cursor.compact_string(), cursor.int32())
        cursor.tags()
    cursor.tags()
    cursor.end()
    return Answer(tuple(found), tuple(absent), following)


def _topic(cursor: Cursor) -> tuple[int, str, tuple[Described, ...]]:
    error = cursor.int16()
    topic = cursor.compact_nullable_string() or ""
    cursor.take(_ID_BYTES)
    cursor.int8()
    rows = each(cursor, lambda inner: _partition(topic, inner))
    cursor.int32()
    cursor.tags()
    return error, topic, rows


def _partition(topic: str, cursor: Cursor) -> Described:
    error, number = cursor.int16(), cursor.int32()
    leader, epoch = cursor.int32(), cursor.int32()
    replicas, in_sync, eligible, last_known = (each(cursor, Cursor.int32) for _ in range(4))
    each(cursor, Cursor.int32)
    cursor.tags()
    return Described(topic, number, error, leader, epoch, replicas, in_sync, eligible, last_known)
