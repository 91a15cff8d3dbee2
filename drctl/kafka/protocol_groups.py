"""Consumer groups: their coordinators, members of KIP-848's protocol, committed offsets."""

from collections.abc import Iterable, Mapping
from functools import partial
from struct import Struct
from typing import NamedTuple

from drctl.formats.primitives import Cursor, varint
from drctl.kafka.protocol import (
    INT8,
    INT16,
    INT32,
    INT64,
    NO_TAGS,
    NULLABLE_STRING,
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
    placed,
    request_of,
    rows,
    skipped,
    struct,
)

UNUSUAL = "surrogateescape"
"""Metadata is text; what some client wrote that is none comes back as it was."""


def _write_metadata(text: str) -> bytes:
    data = text.encode(errors=UNUSUAL)
    return varint(len(data) + 1) + data


_METADATA = Field(
    _write_metadata, lambda cursor: cursor.take(max(0, cursor.varint() - 1)).decode(errors=UNUSUAL)
)

FIND_COORDINATOR = Api("FindCoordinator", 10, 4, True, "3.0")
HEARTBEAT = Api("ConsumerGroupHeartbeat", 68, 0, True, "4.0")
FETCH = Api("OffsetFetch", 9, 8, True, "3.0")
COMMIT = Api("OffsetCommit", 8, 8, True, "2.4")
DELETE = Api("OffsetDelete", 47, 0, False, "2.4")

JOIN, LEAVE = 0, -1
"""Member epochs that are none."""

_OF_GROUPS, _OF_TRANSACTIONS = 0, 1
_EVERY_TOPIC = None
_AS_COMMITTED = 0
_NO_MEMBER = (-1, "", None)


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
    held: tuple[Held, ...]
    error: int


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


_COORDINATORS_REQUEST = request_of(INT8, array(STRING))
find_coordinators = partial(_COORDINATORS_REQUEST, _OF_GROUPS)
"""Ask for groups' coordinators."""


def find_transaction_coordinator(transactional_id: str) -> bytes:
    """Ask for the coordinator of a transactional id."""
    return _COORDINATORS_REQUEST(_OF_TRANSACTIONS, [transactional_id])


_COORDINATOR = (STRING, INT32, skipped(STRING), skipped(INT32), INT16, TEXT)
read_coordinators: Read[tuple[Coordinator, ...]] = answer_of(
    alone, THROTTLE, rows(*_COORDINATOR, into=Coordinator)
)

_HEARTBEAT_REQUEST = request_of(
    *(STRING, STRING, INT32, NULLABLE_STRING, NULLABLE_STRING, INT32),
    *(array(STRING), NULLABLE_STRING, rows()),
)


def heartbeat(group: str, member: str, epoch: int, rebalance_timeout_ms: int) -> bytes:
    """A member that subscribes to no topic and owns no partition."""
    joins = epoch == JOIN
    timeout_ms, nothing = (rebalance_timeout_ms, ()) if joins else (-1, None)
    return _HEARTBEAT_REQUEST(group, member, epoch, None, None, timeout_ms, nothing, None, nothing)


def read_heartbeat(cursor: Cursor) -> Beat:
    """What the coordinator says; the assignment, empty without topics, is not read.

    Raises:
        Undecodable: it is not such a response.
    """
    cursor.int32()
    error, text = cursor.int16(), cursor.compact_nullable_string()
    member, epoch = cursor.compact_nullable_string(), cursor.int32()
    return Beat(error, text or "", member or "", epoch)


_FETCH_REQUEST = request_of(rows(STRING, rows()), INT8)


def fetch(groups: Iterable[str]) -> bytes:
    """Ask for all committed offsets of each group: also within open transactions."""
    return _FETCH_REQUEST(((group, _EVERY_TOPIC) for group in groups), _AS_COMMITTED)


_HELD = placed(INT32, INT64, INT32, _METADATA, INT16, into=Held)
read_fetched: Read[tuple[GroupHeld, ...]] = answer_of(
    alone, THROTTLE, rows(STRING, _HELD, INT16, into=GroupHeld)
)

_POSITION = Struct(">iqi")


def _write_to(to: To) -> bytes:
    position = _POSITION.pack(to.partition, to.offset, to.leader_epoch)
    return position + _write_metadata(to.metadata) + NO_TAGS


# By hand: a failover commits very many of them, and this takes less than half of the time.
_TO = struct(INT32, INT64, INT32, _METADATA)._replace(write=_write_to)
_COMMIT_REQUEST = request_of(STRING, INT32, STRING, NULLABLE_STRING, rows(STRING, array(_TO)))


def commit(group: str, positions: Mapping[str, Iterable[To]]) -> bytes:
    """Commit these offsets, by topic, for a group without members."""
    return _COMMIT_REQUEST(group, *_NO_MEMBER, positions.items())


read_committed: Read[list[Answered]] = answer_of(
    list, THROTTLE, placed(INT32, INT16, into=Answered)
)

_PLACES = rows(SHORT_STRING, array(INT32, flexible=False), flexible=False)
_DELETE_REQUEST = request_of(SHORT_STRING, _PLACES, flexible=False)


def delete(group: str, places: Mapping[str, Iterable[int]]) -> bytes:
    """Remove what is committed in these partitions, by topic, of a group without members."""
    return _DELETE_REQUEST(group, places.items())


_DELETED = placed(INT32, INT16, into=Answered, flexible=False)
read_deleted: Read[tuple[int, list[Answered]]] = answer_of(
    lambda error, rows: (error, list(rows)), INT16, THROTTLE, _DELETED, flexible=False
)
"""Kafka's error number, and what became of each partition."""
