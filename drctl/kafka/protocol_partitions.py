"""Partitions: their replicas (KIP-966), elections, ends of epochs and logs, offsets of times."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from drctl.elections.cluster_state import Partition
from drctl.formats.primitives import Cursor
from drctl.kafka.protocol import (
    INT8,
    INT16,
    INT32,
    INT64,
    SHORT_STRING,
    STRING,
    TEXT,
    THROTTLE,
    Api,
    Field,
    Read,
    alone,
    answer_of,
    array,
    nullable,
    placed,
    request_of,
    rows,
    skipped,
    struct,
)
from drctl.model.topology import TopicPartition

DESCRIBE_PARTITIONS = Api("DescribeTopicPartitions", 75, 0, True, "3.8")
EPOCH_ENDS = Api("OffsetForLeaderEpoch", 23, 4, True, "2.8")
ELECT_LEADERS = Api("ElectLeaders", 43, 2, True, "2.4")
LIST_OFFSETS = Api("ListOffsets", 2, 1, False, "0.10.1")
LOOK_UP = Api("ListOffsets", 2, 7, True, "3.0")

PREFERRED, UNCLEAN = 0, 1
LAST_TIME = (1 << 63) - 1
"""Kafka's timestamps have 64 bits; what is asked for beyond is nowhere."""

_CLIENT = -1
_ANY_EPOCH = -1
_AT_ONCE = 2000
_DEBUGGER = -2
"""Any replica answers this one, and the end that it answers is its own log's."""
_LATEST = -1

Next = tuple[str, int]
"""Topic and partition with which the next page begins."""


class Answer(NamedTuple):
    """Some partitions, and where the others begin; None where these are the last."""

    partitions: tuple[Partition, ...]
    following: Next | None


class EpochEnd(NamedTuple):
    """One partition's answer.

    Attributes:
        error: Kafka's number; 0 where there is none.
        epoch: the newest one, up to that which was asked for, of which there are records.
        end: the first offset after it.
    """

    topic: str
    error: int
    partition: int
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
        timestamp_ms: of the record that was found; else -1.
        offset: -1 where nothing is.
        leader_epoch: of that record; of the newest one, where the end was asked for; else -1.
    """

    topic: str
    partition: int
    error: int
    timestamp_ms: int
    offset: int
    leader_epoch: int


_NODES = array(INT32)
_UUID = Field(bytes, lambda cursor: cursor.take(16))
_NEXT = nullable(struct(STRING, INT32))
_PARTITION = rows(INT16, INT32, INT32, INT32, _NODES, _NODES, _NODES, _NODES, skipped(_NODES))
_TOPIC = rows(skipped(INT16), TEXT, skipped(_UUID), skipped(INT8), _PARTITION, skipped(INT32))

_PARTITIONS_REQUEST = request_of(rows(STRING), INT32, _NEXT)
_PARTITIONS = answer_of(lambda *found: found, THROTTLE, _TOPIC, _NEXT)


def describe_partitions(topics: Iterable[str], since: Next | None = None) -> bytes:
    """Ask for the partitions of these topics; of all where none is named."""
    return _PARTITIONS_REQUEST(((name,) for name in topics), _AT_ONCE, since)


def read_partitions(cursor: Cursor) -> Answer:
    """The partitions; nothing of topics that do not exist, or may not be seen.

    Raises:
        Undecodable: it is not such a response.
    """
    topics, following = _PARTITIONS(cursor)
    found = [
        Partition(TopicPartition(topic, n), leader if leader >= 0 else None, epoch, *nodes)
        for topic, partitions in topics
        for _error, n, leader, epoch, *nodes in partitions
    ]
    return Answer(tuple(found), following)


_EPOCHS_REQUEST = request_of(INT32, rows(STRING, rows(INT32, INT32, INT32)))


def ask_epoch_ends(epochs: Mapping[str, Iterable[tuple[int, int]]]) -> bytes:
    """Ask leaders, by topic, for pairs of a partition and an epoch."""
    topics = (
        (topic, ((number, _ANY_EPOCH, epoch) for number, epoch in pairs))
        for topic, pairs in epochs.items()
    )
    return _EPOCHS_REQUEST(_CLIENT, topics)


read_epoch_ends: Read[tuple[EpochEnd, ...]] = answer_of(
    alone, THROTTLE, placed(INT16, INT32, INT32, INT64, into=EpochEnd)
)

_ELECTION_REQUEST = request_of(INT8, rows(STRING, array(INT32)), INT32)


def elect_leaders(kind: int, partitions: Mapping[str, Iterable[int]], timeout_ms: int) -> bytes:
    """Ask for elections, by topic and partition; `kind` is `PREFERRED` or `UNCLEAN`."""
    return _ELECTION_REQUEST(kind, partitions.items(), timeout_ms)


read_election = answer_of(Election, THROTTLE, INT16, placed(INT32, INT16, TEXT, into=Elected))

_ASKED_ENDS = rows(SHORT_STRING, rows(INT32, INT64, flexible=False), flexible=False)
_ENDS_REQUEST = request_of(INT32, _ASKED_ENDS, flexible=False)


def ask_log_ends(partitions: Mapping[str, Iterable[int]]) -> bytes:
    """Ask a broker for the ends of its own replicas, by topic and partition."""
    topics = ((name, ((n, _LATEST) for n in numbers)) for name, numbers in partitions.items())
    return _ENDS_REQUEST(_DEBUGGER, topics)


_END = placed(INT32, INT16, skipped(INT64), INT64, into=End, flexible=False)
read_log_ends: Read[tuple[End, ...]] = answer_of(alone, _END, flexible=False)

_LOOK_UP_REQUEST = request_of(INT32, INT8, rows(STRING, rows(INT32, INT32, INT64)))


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
    return _LOOK_UP_REQUEST(_CLIENT, committed, topics)


read_looked_up: Read[tuple[LookedUp, ...]] = answer_of(
    alone, THROTTLE, placed(INT32, INT16, INT64, INT64, INT32, into=LookedUp)
)
"""In the order of the broker."""
