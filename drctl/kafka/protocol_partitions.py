"""Partitions with their replicas and those that may still be elected (KIP-966)."""

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from drctl.formats.primitives import Cursor, compact_string, int32, int64, string
from drctl.kafka.protocol import NO_TAGS, Api, compact_array, each

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


EPOCH_ENDS = Api("OffsetForLeaderEpoch", 23, 4, True, "2.8")

_CONSUMER = -1
_ANY_EPOCH = -1


class EpochEnd(NamedTuple):
    """One partition's answer.

    Attributes:
        error: Kafka's number; 0 where there is none.
        epoch: the newest one, up to that which was asked for, of which there are records.
        end: the first offset behind it.
    """

    topic: str
    partition: int
    error: int
    epoch: int
    end: int


def ask_epoch_ends(epochs: Mapping[str, Iterable[tuple[int, int]]]) -> bytes:
    """Ask leaders, by topic, for pairs of a partition and an epoch."""
    topics = (
        compact_string(topic)
        + compact_array(
            int32(number) + int32(_ANY_EPOCH) + int32(epoch) + NO_TAGS for number, epoch in pairs
        )
        + NO_TAGS
        for topic, pairs in epochs.items()
    )
    return int32(_CONSUMER) + compact_array(topics) + NO_TAGS


def read_epoch_ends(cursor: Cursor) -> tuple[EpochEnd, ...]:
    """The ends.

    Raises:
        Undecodable: it is no such answer.
    """
    cursor.int32()
    topics = each(cursor, _epoch_ends_topic)
    cursor.tags()
    cursor.end()
    return tuple(row for rows in topics for row in rows)


def _epoch_ends_topic(cursor: Cursor) -> tuple[EpochEnd, ...]:
    topic = cursor.compact_string()
    rows = each(cursor, lambda inner: _epoch_ends_partition(topic, inner))
    cursor.tags()
    return rows


def _epoch_ends_partition(topic: str, cursor: Cursor) -> EpochEnd:
    error, number = cursor.int16(), cursor.int32()
    epoch, end = cursor.int32(), cursor.int64()
    cursor.tags()
    return EpochEnd(topic, number, error, epoch, end)


ELECT_LEADERS = Api("ElectLeaders", 43, 2, True, "2.4")

PREFERRED, UNCLEAN = 0, 1


class Elected(NamedTuple):
    """What became of one partition.

    Attributes:
        error: Kafka's number; 0 where it has a new leader.
        text: the controller's words; may be empty.
    """

    topic: str
    partition: int
    error: int
    text: str


class Election(NamedTuple):
    """What became of the request.

    Attributes:
        error: Kafka's number of why none was held; 0 where there is none.
    """

    error: int
    partitions: tuple[Elected, ...]


def elect_leaders(kind: int, partitions: Mapping[str, Iterable[int]], timeout_ms: int) -> bytes:
    """Ask for elections, by topic and partition; `kind` is `PREFERRED` or `UNCLEAN`."""
    topics = (
        compact_string(topic) + compact_array(map(int32, numbers)) + NO_TAGS
        for topic, numbers in partitions.items()
    )
    return bytes([kind]) + compact_array(topics) + int32(timeout_ms) + NO_TAGS


def read_election(cursor: Cursor) -> Election:
    """The outcome.

    Raises:
        Undecodable: it is no such answer.
    """
    cursor.int32()
    error = cursor.int16()
    topics = each(cursor, _leader_elections_topic)
    cursor.tags()
    cursor.end()
    return Election(error, tuple(row for rows in topics for row in rows))


def _leader_elections_topic(cursor: Cursor) -> tuple[Elected, ...]:
    topic = cursor.compact_string()
    rows = each(cursor, lambda inner: _leader_elections_partition(topic, inner))
    cursor.tags()
    return rows


def _leader_elections_partition(topic: str, cursor: Cursor) -> Elected:
    number, error = cursor.int32(), cursor.int16()
    text = cursor.compact_nullable_string() or ""
    cursor.tags()
    return Elected(topic, number, error, text)


LIST_OFFSETS = Api("ListOffsets", 2, 1, False, "0.10.1")

_DEBUGGER = -2
"""Any replica answers this one, and the end that it answers is its own log's."""

_LATEST = -1


class End(NamedTuple):
    """One partition's answer.

    Attributes:
        error: Kafka's number; 0 where there is none.
    """

    topic: str
    partition: int
    error: int
    offset: int


def ask_log_ends(partitions: Mapping[str, Iterable[int]]) -> bytes:
    """Ask a broker for the ends of its own replicas, by topic and partition."""
    return int32(_DEBUGGER) + _array(
        string(topic) + _array(int32(number) + int64(_LATEST) for number in numbers)
        for topic, numbers in partitions.items()
    )


def read_log_ends(cursor: Cursor) -> tuple[End, ...]:
    """The ends.

    Raises:
        Undecodable: it is no such answer.
    """
    found = []
    for _ in range(cursor.int32()):
        topic = cursor.string()
        for _ in range(cursor.int32()):
            number, error = cursor.int32(), cursor.int16()
            cursor.int64()
            found.append(End(topic, number, error, cursor.int64()))
    cursor.end()
    return tuple(found)


def _array(items: Iterable[bytes]) -> bytes:
    held = list(items)
    return int32(len(held)) + b"".join(held)


LOOK_UP = Api("ListOffsets", 2, 7, True, "3.0")

LAST_TIME = (1 << 63) - 1
"""Kafka's timestamps have 64 bits; what is asked for beyond is nowhere."""

_CLIENT = struct.pack(">i", -1)
_QUESTION = struct.Struct(">iiqb")
_ANSWER = struct.Struct(">ihqqi")


class LookedUp(NamedTuple):
    """One partition's answer.

    Attributes:
        error: Kafka's number; 0 where there is none.
        offset: -1 where nothing is.
        timestamp_ms: of the record that was found; else -1.
    """

    topic: str
    partition: int
    error: int
    offset: int
    timestamp_ms: int


def look_up(whens: Mapping[str, Sequence[tuple[int, int]]], *, committed: bool) -> bytes:
    """Ask a leader.

    Args:
        whens: by topic, partitions with a time in milliseconds or a mark; each partition once.
        committed: whether the end is that of the last stable record.
    """
    topics = (
        compact_string(topic)
        + compact_array(
            [_QUESTION.pack(number, _ANY_EPOCH, min(when, LAST_TIME), 0) for number, when in asked]
        )
        + NO_TAGS
        for topic, asked in whens.items()
    )
    return _CLIENT + bytes((committed,)) + compact_array(topics) + NO_TAGS


def read_looked_up(cursor: Cursor) -> list[LookedUp]:
    """The answers, in the order of the broker.

    Raises:
        Undecodable: it is no such answer.
    """
    found = []
    cursor.int32()
    for _ in range(cursor.varint() - 1):
        topic = cursor.compact_string()
        for _ in range(cursor.varint() - 1):
            number, error, when, offset, _epoch = _ANSWER.unpack(cursor.take(_ANSWER.size))
            cursor.tags()
            found.append(LookedUp(topic, number, error, offset, when))
        cursor.tags()
    cursor.tags()
    cursor.end()
    return found
