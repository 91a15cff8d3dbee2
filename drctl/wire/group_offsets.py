"""What groups have committed, many groups in one request; and commits from outside of a group."""

import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from drctl.wire.broker_requests import NO_TAGS, Api, compact_array
from drctl.wire.cursor import Cursor
from drctl.wire.primitives import compact_string, int32, varint

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
