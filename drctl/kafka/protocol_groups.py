"""Consumer groups: their coordinators, members of KIP-848's protocol, committed offsets."""

from collections.abc import Iterable, Mapping
from itertools import starmap
from struct import Struct
from typing import NamedTuple

from drctl.formats.primitives import Cursor, int32, string, varint
from drctl.kafka.protocol import (
    INT8,
    INT16,
    INT32,
    INT64,
    NO_TAGS,
    NULLABLE_STRING,
    STRING,
    TEXT,
    Api,
    Field,
    Message,
    array,
    by_topic,
    long_array,
    rows,
    struct,
)

UNUSUAL = "surrogateescape"
"""Metadata is text; what some client wrote that is none comes back as it was."""


def _write_metadata(text: str) -> bytes:
    data = text.encode(errors=UNUSUAL)
    return varint(len(data) + 1) + data


_METADATA = Field(
    _write_metadata,
    lambda cursor: cursor.take(max(0, cursor.varint() - 1)).decode(errors=UNUSUAL),
)

FIND_COORDINATOR = Api("FindCoordinator", 10, 4, True, "3.0")
_COORDINATORS_REQUEST = Message(INT8, array(STRING))
_COORDINATORS = Message(INT32, rows(STRING, INT32, STRING, INT32, INT16, TEXT))
_OF_GROUPS, _OF_TRANSACTIONS = 0, 1

HEARTBEAT = Api("ConsumerGroupHeartbeat", 68, 0, True, "4.0")
_HEARTBEAT_REQUEST = Message(
    STRING,
    STRING,
    INT32,
    NULLABLE_STRING,
    NULLABLE_STRING,
    INT32,
    array(STRING),
    NULLABLE_STRING,
    rows(),
)
JOIN, LEAVE = 0, -1
"""Member epochs that are none."""

FETCH = Api("OffsetFetch", 9, 8, True, "3.0")
_FETCH_REQUEST = Message(rows(STRING, rows()), INT8)
_FETCHED = Message(
    INT32, rows(STRING, rows(STRING, rows(INT32, INT64, INT32, _METADATA, INT16)), INT16)
)
_EVERY_TOPIC = None
_AS_COMMITTED = 0

_POSITION = Struct(">iqi")


def _write_to(to: "To") -> bytes:
    position = _POSITION.pack(to.partition, to.offset, to.leader_epoch)
    return position + _write_metadata(to.metadata) + NO_TAGS


# By hand: a failover commits very many of them, and this takes less than half of the time.
_TO = struct(INT32, INT64, INT32, _METADATA)._replace(write=_write_to)

COMMIT = Api("OffsetCommit", 8, 8, True, "2.4")
_COMMIT_REQUEST = Message(
    STRING,
    INT32,
    STRING,
    NULLABLE_STRING,
    rows(STRING, array(_TO)),
)
_COMMITTED = Message(INT32, rows(STRING, rows(INT32, INT16)))
_NO_MEMBER = (-1, "", None)

DELETE = Api("OffsetDelete", 47, 0, False, "2.4")


class Coordinator(NamedTuple):
    """Which broker coordinates a group.

    Attributes:
        error: Kafka's number; 0 where there is none.
    """

    group: str
    node: int
    error: int
    text: str


class Beat(NamedTuple):
    """What a coordinator answers a member.

    Attributes:
        error: Kafka's number; 0 where there is none.
        member: the id that it is known by from now on.
    """

    error: int
    text: str
    member: str
    epoch: int


class Held(NamedTuple):
    """What a group has committed in one partition.

    Attributes:
        offset: negative where it has committed nothing.
        error: Kafka's number; 0 where there is none.
    """

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    error: int


class GroupHeld(NamedTuple):
    """All of a group; `error` as above, of the group itself."""

    group: str
    error: int
    held: tuple[Held, ...]


class To(NamedTuple):
    """The offset to commit in one partition; no epoch is -1."""

    partition: int
    offset: int
    leader_epoch: int
    metadata: str


class Answered(NamedTuple):
    """What became of a commit; `error` as above."""

    topic: str
    partition: int
    error: int


def find_coordinators(groups: Iterable[str]) -> bytes:
    """Ask for groups' coordinators."""
    return _COORDINATORS_REQUEST.write(_OF_GROUPS, groups)


def find_transaction_coordinator(transactional_id: str) -> bytes:
    """Ask for the coordinator of a transactional id."""
    return _COORDINATORS_REQUEST.write(_OF_TRANSACTIONS, [transactional_id])


def read_coordinators(cursor: Cursor) -> tuple[Coordinator, ...]:
    """Which broker coordinates which group.

    Raises:
        Undecodable: it is not such a response.
    """
    _throttle_ms, found = _COORDINATORS.read(cursor)
    return tuple(
        Coordinator(group, node, error, text) for group, node, _host, _port, error, text in found
    )


def heartbeat(group: str, member: str, epoch: int, rebalance_timeout_ms: int) -> bytes:
    """A member that subscribes to no topic and owns no partition."""
    joins = epoch == JOIN
    timeout_ms, nothing = (rebalance_timeout_ms, ()) if joins else (-1, None)
    return _HEARTBEAT_REQUEST.write(
        group, member, epoch, None, None, timeout_ms, nothing, None, nothing
    )


def read_heartbeat(cursor: Cursor) -> Beat:
    """What the coordinator says; the assignment, empty without topics, is not read.

    Raises:
        Undecodable: it is not such a response.
    """
    cursor.int32()
    error, text = cursor.int16(), cursor.compact_nullable_string()
    member, epoch = cursor.compact_nullable_string(), cursor.int32()
    return Beat(error, text or "", member or "", epoch)


def fetch(groups: Iterable[str]) -> bytes:
    """Ask for all committed offsets of each group: also within open transactions."""
    return _FETCH_REQUEST.write(((group, _EVERY_TOPIC) for group in groups), _AS_COMMITTED)


def read_fetched(cursor: Cursor) -> list[GroupHeld]:
    """What each group has committed.

    Raises:
        Undecodable: it is not such a response.
    """
    _throttle_ms, groups = _FETCHED.read(cursor)
    return [
        GroupHeld(group, error, tuple(starmap(Held, by_topic(topics))))
        for group, topics, error in groups
    ]


def commit(group: str, positions: Mapping[str, Iterable[To]]) -> bytes:
    """Commit these offsets, by topic, for a group without members."""
    return _COMMIT_REQUEST.write(group, *_NO_MEMBER, positions.items())


def read_committed(cursor: Cursor) -> list[Answered]:
    """What became of each commit.

    Raises:
        Undecodable: it is not such a response.
    """
    _throttle_ms, topics = _COMMITTED.read(cursor)
    return list(starmap(Answered, by_topic(topics)))


def delete(group: str, places: Mapping[str, Iterable[int]]) -> bytes:
    """Remove what is committed in these partitions, by topic, of a group without members."""
    return string(group) + long_array(
        string(topic) + long_array(map(int32, numbers)) for topic, numbers in places.items()
    )


def read_deleted(cursor: Cursor) -> tuple[int, list[Answered]]:
    """Kafka's error number, and what became of each partition.

    Raises:
        Undecodable: it is not such a response.
    """
    error, _throttle_ms, found = cursor.int16(), cursor.int32(), list[Answered]()
    for _ in range(cursor.int32()):
        topic = cursor.string()
        for _ in range(cursor.int32()):
            found.append(Answered(topic, cursor.int32(), cursor.int16()))
    cursor.end()
    return error, found
