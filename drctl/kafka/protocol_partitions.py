"""Partitions: their replicas (KIP-966), elections, ends of epochs and logs, offsets of times."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import starmap
from typing import NamedTuple

from drctl.formats.primitives import Cursor, int32, int64, string
from drctl.kafka.protocol import (
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    TEXT,
    Api,
    Field,
    Message,
    array,
    by_topic,
    long_array,
    nullable,
    rows,
    struct,
)

_NODES = array(INT32)
_UUID = Field(bytes, lambda cursor: cursor.take(16))
_CLIENT = -1
_ANY_EPOCH = -1

DESCRIBE_PARTITIONS = Api("DescribeTopicPartitions", 75, 0, True, "3.8")
_NEXT = nullable(struct(STRING, INT32))
_PARTITIONS_REQUEST = Message(rows(STRING), INT32, _NEXT)
_PARTITION = rows(INT16, INT32, INT32, INT32, _NODES, _NODES, _NODES, _NODES, _NODES)
_PARTITIONS = Message(INT32, rows(INT16, TEXT, _UUID, INT8, _PARTITION, INT32), _NEXT)
_AT_ONCE = 2000

EPOCH_ENDS = Api("OffsetForLeaderEpoch", 23, 4, True, "2.8")
_EPOCHS_REQUEST = Message(INT32, rows(STRING, rows(INT32, INT32, INT32)))
_EPOCH_ENDS = Message(INT32, rows(STRING, rows(INT16, INT32, INT32, INT64)))

ELECT_LEADERS = Api("ElectLeaders", 43, 2, True, "2.4")
_ELECTION_REQUEST = Message(INT8, rows(STRING, array(INT32)), INT32)
_ELECTION = Message(INT32, INT16, rows(STRING, rows(INT32, INT16, TEXT)))
PREFERRED, UNCLEAN = 0, 1

LIST_OFFSETS = Api("ListOffsets", 2, 1, False, "0.10.1")
_DEBUGGER = -2
"""Any replica answers this one, and the end that it answers is its own log's."""
_LATEST = -1

LOOK_UP = Api("ListOffsets", 2, 7, True, "3.0")
_LOOK_UP_REQUEST = Message(INT32, INT8, rows(STRING, rows(INT32, INT32, INT64)))
_LOOKED_UP = Message(INT32, rows(STRING, rows(INT32, INT16, INT64, INT64, INT32)))
LAST_TIME = (1 << 63) - 1
"""Kafka's timestamps have 64 bits; what is asked for beyond is nowhere."""


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
    """Where the next page begins."""

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


class EpochEnd(NamedTuple):
    """One partition's answer.

    Attributes:
        error: Kafka's number; 0 where there is none.
        epoch: the newest one, up to that which was asked for, of which there are records.
        end: the first offset after it.
    """

    topic: str
    partition: int
    error: int
    epoch: int
    end: int


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


class End(NamedTuple):
    """One partition's answer.

    Attributes:
        error: Kafka's number; 0 where there is none.
    """

    topic: str
    partition: int
    error: int
    offset: int


class LookedUp(NamedTuple):
    """One partition's answer.

    Attributes:
        error: Kafka's number; 0 where there is none.
        offset: -1 where nothing is.
        timestamp_ms: of the record that was found; else -1.
        leader_epoch: of that record; of the newest one, where the end was asked for; else -1.
    """

    topic: str
    partition: int
    error: int
    offset: int
    timestamp_ms: int
    leader_epoch: int


def describe_partitions(topics: Iterable[str], since: Next | None = None) -> bytes:
    """Ask for the partitions of these topics; of all where none is named."""
    return _PARTITIONS_REQUEST.write(((name,) for name in topics), _AT_ONCE, since)


def read_partitions(cursor: Cursor) -> Answer:
    """The partitions.

    Raises:
        Undecodable: it is not such a response.
    """
    _throttle_ms, topics, following = _PARTITIONS.read(cursor)
    found = [
        Described(topic, number, error, leader, epoch, *map(tuple, nodes[:4]))
        for _error, topic, _id, _internal, partitions, _operations in topics
        for error, number, leader, epoch, *nodes in partitions
    ]
    absent = tuple((topic, error) for error, topic, *_ in topics if error)
    return Answer(tuple(found), absent, following and Next(*following))


def ask_epoch_ends(epochs: Mapping[str, Iterable[tuple[int, int]]]) -> bytes:
    """Ask leaders, by topic, for pairs of a partition and an epoch."""
    topics = (
        (topic, ((number, _ANY_EPOCH, epoch) for number, epoch in pairs))
        for topic, pairs in epochs.items()
    )
    return _EPOCHS_REQUEST.write(_CLIENT, topics)


def read_epoch_ends(cursor: Cursor) -> tuple[EpochEnd, ...]:
    """The ends.

    Raises:
        Undecodable: it is not such a response.
    """
    _throttle_ms, topics = _EPOCH_ENDS.read(cursor)
    return tuple(
        EpochEnd(topic, number, error, epoch, end)
        for topic, error, number, epoch, end in by_topic(topics)
    )


def elect_leaders(kind: int, partitions: Mapping[str, Iterable[int]], timeout_ms: int) -> bytes:
    """Ask for elections, by topic and partition; `kind` is `PREFERRED` or `UNCLEAN`."""
    return _ELECTION_REQUEST.write(kind, partitions.items(), timeout_ms)


def read_election(cursor: Cursor) -> Election:
    """The outcome.

    Raises:
        Undecodable: it is not such a response.
    """
    _throttle_ms, error, topics = _ELECTION.read(cursor)
    return Election(error, tuple(starmap(Elected, by_topic(topics))))


def ask_log_ends(partitions: Mapping[str, Iterable[int]]) -> bytes:
    """Ask a broker for the ends of its own replicas, by topic and partition."""
    return int32(_DEBUGGER) + long_array(
        string(topic) + long_array(int32(number) + int64(_LATEST) for number in numbers)
        for topic, numbers in partitions.items()
    )


def read_log_ends(cursor: Cursor) -> tuple[End, ...]:
    """The ends.

    Raises:
        Undecodable: it is not such a response.
    """
    found = []
    for _ in range(cursor.int32()):
        topic = cursor.string()
        for _ in range(cursor.int32()):
            number, error, _timestamp = cursor.int32(), cursor.int16(), cursor.int64()
            found.append(End(topic, number, error, cursor.int64()))
    cursor.end()
    return tuple(found)


def look_up(whens: Mapping[str, Sequence[tuple[int, int]]], *, committed: bool) -> bytes:
    """Ask a leader for offsets.

    Args:
        whens: by topic, partitions with a time in milliseconds or a mark; each partition once.
        committed: whether the end is that of the last stable record.
    """
    topics = (
        (topic, ((number, _ANY_EPOCH, min(when, LAST_TIME)) for number, when in asked))
        for topic, asked in whens.items()
    )
    return _LOOK_UP_REQUEST.write(_CLIENT, committed, topics)


def read_looked_up(cursor: Cursor) -> list[LookedUp]:
    """The answers, in the order of the broker.

    Raises:
        Undecodable: it is not such a response.
    """
    _throttle_ms, topics = _LOOKED_UP.read(cursor)
    return [
        LookedUp(topic, number, error, offset, timestamp_ms, epoch)
        for topic, number, error, timestamp_ms, offset, epoch in by_topic(topics)
    ]
