"""Where a replica's own log ends, however far the others are (ListOffsets of a debugger)."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from drctl.wire.broker_requests import Api
from drctl.wire.cursor import Cursor
from drctl.wire.primitives import int32, int64, string

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
