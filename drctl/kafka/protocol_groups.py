"""Members of consumer groups of the protocol of KIP-848, as far as joining and leaving goes."""

import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from drctl.formats.primitives import Cursor, compact_nullable_string, compact_string, int32, varint
from drctl.kafka.protocol import NO_TAGS, Api, compact_array, each

FIND_COORDINATOR = Api("FindCoordinator", 10, 4, True, "3.0")
HEARTBEAT = Api("ConsumerGroupHeartbeat", 68, 0, True, "4.0")

JOIN, LEAVE = 0, -1
"""Member epochs that are none."""

_OF_GROUPS = b"\0"
_NULL = b"\0"


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


def find_coordinators(groups: Iterable[str]) -> bytes:
    """Ask for groups' coordinators."""
    return _OF_GROUPS + compact_array(map(compact_string, groups)) + NO_TAGS


def read_coordinators(cursor: Cursor) -> tuple[Coordinator, ...]:
    """Which broker coordinates which group.

    Raises:
        Undecodable: it is no such answer.
    """
    cursor.int32()
    found = each(cursor, _coordinator)
    cursor.tags()
    cursor.end()
    return found


def heartbeat(group: str, member: str, epoch: int, rebalance_timeout_ms: int) -> bytes:
    """A member that subscribes to no topic and owns no partition."""
    joins = epoch == JOIN
    nothing = compact_array(()) if joins else _NULL
    return b"".join(
        (
            compact_string(group),
            compact_string(member),
            int32(epoch),
            compact_nullable_string(None),
            compact_nullable_string(None),
            int32(rebalance_timeout_ms if joins else -1),
            nothing,
            compact_nullable_string(None),
            nothing,
            NO_TAGS,
        )
    )


def read_heartbeat(cursor: Cursor) -> Beat:
    """What the coordinator says; what it assigns to nobody's topics is not looked at.

    Raises:
        Undecodable: it is no such answer.
    """
    cursor.int32()
    error, text = cursor.int16(), cursor.compact_nullable_string()
    member, epoch = cursor.compact_nullable_string(), cursor.int32()
    return Beat(error, text or "", member or "", epoch)


def _coordinator(cursor: Cursor) -> Coordinator:
    group, node = cursor.compact_string(), cursor.int32()
    cursor.compact_string()
    cursor.int32()
    found = Coordinator(group, node, cursor.int16(), cursor.compact_nullable_string() or "")
    cursor.tags()
    return found


FETCH = Api("OffsetFetch", 9, 8, True, "3.0")
COMMIT = Api("OffsetCommit", 8, 8, True, "2.4")

UNUSUAL = "surrogateescape"
"""Metadata is text; what some client wrote that is none comes back as it was."""

_EVERY_TOPIC = b"\0"
_AS_COMMITTED = b"\0"
_NO_MEMBER = int32(-1) + compact_string("") + b"\0"
_POSITION = struct.Struct(">iqi")
_ERROR = struct.Struct(">ih")


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
    """Where a group is to stand in one partition; no epoch is -1."""

    partition: int
    offset: int
    leader_epoch: int
    metadata: str


class Answered(NamedTuple):
    """What became of a commit; `error` as above."""

    topic: str
    partition: int
    error: int


def fetch(groups: Iterable[str]) -> bytes:
    """Ask for all positions of each group, as committed last: also within open transactions."""
    asked = (compact_string(group) + _EVERY_TOPIC + NO_TAGS for group in groups)
    return compact_array(asked) + _AS_COMMITTED + NO_TAGS


def read_fetched(cursor: Cursor) -> list[GroupHeld]:
    """What each group has committed.

    Raises:
        Undecodable: it is no such answer.
    """
    cursor.int32()
    found = []
    for _ in range(cursor.varint() - 1):
        group, held = cursor.compact_string(), []
        for _ in range(cursor.varint() - 1):
            topic = cursor.compact_string()
            for _ in range(cursor.varint() - 1):
                number, offset, epoch = _POSITION.unpack(cursor.take(_POSITION.size))
                metadata = cursor.take(max(0, cursor.varint() - 1)).decode(errors=UNUSUAL)
                held.append(Held(topic, number, offset, epoch, metadata, cursor.int16()))
                cursor.tags()
            cursor.tags()
        found.append(GroupHeld(group, cursor.int16(), tuple(held)))
        cursor.tags()
    cursor.tags()
    cursor.end()
    return found


def commit(group: str, positions: Mapping[str, Iterable[To]]) -> bytes:
    """Have a group without members stand at these positions, by topic."""
    topics = (
        compact_string(topic) + compact_array(map(_to, places)) + NO_TAGS
        for topic, places in positions.items()
    )
    return compact_string(group) + _NO_MEMBER + compact_array(topics) + NO_TAGS


def read_committed(cursor: Cursor) -> list[Answered]:
    """What became of each position.

    Raises:
        Undecodable: it is no such answer.
    """
    cursor.int32()
    found = []
    for _ in range(cursor.varint() - 1):
        topic = cursor.compact_string()
        for _ in range(cursor.varint() - 1):
            found.append(Answered(topic, *_ERROR.unpack(cursor.take(_ERROR.size))))
            cursor.tags()
        cursor.tags()
    cursor.tags()
    cursor.end()
    return found


def _to(to: To) -> bytes:
    text = to.metadata.encode(errors=UNUSUAL)
    position = _POSITION.pack(to.partition, to.offset, to.leader_epoch)
    return position + varint(len(text) + 1) + text + NO_TAGS
