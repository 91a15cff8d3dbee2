"""Offsets of many partitions by time or mark, in one question to their leader (ListOffsets)."""

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from drctl.wire.broker_requests import NO_TAGS, Api, compact_array
from drctl.wire.cursor import Cursor
from drctl.wire.primitives import compact_string

LOOK_UP = Api("ListOffsets", 2, 7, True, "3.0")

LAST_TIME = (1 << 63) - 1
"""Kafka's timestamps have 64 bits; what is asked for beyond is nowhere."""

_CLIENT = struct.pack(">i", -1)
_QUESTION = struct.Struct(">iiqb")
_ANSWER = struct.Struct(">ihqqi")
_ANY_EPOCH = -1


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
