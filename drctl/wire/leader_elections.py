"""Has the controller elect leaders (KIP-460); a broker passes the request on to it."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from drctl.wire.broker_requests import NO_TAGS, Api, compact_array, each
from drctl.wire.cursor import Cursor
from drctl.wire.primitives import compact_string, int32

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
    topics = each(cursor, _topic)
    cursor.tags()
    cursor.end()
    return Election(error, tuple(row for rows in topics for row in rows))


def _topic(cursor: Cursor) -> tuple[Elected, ...]:
    topic = cursor.compact_string()
    rows = each(cursor, lambda inner: _partition(topic, inner))
    cursor.tags()
    return rows


def _partition(topic: str, cursor: Cursor) -> Elected:
    number, error = cursor.int32(), cursor.int16()
    text = cursor.compact_nullable_string() or ""
    cursor.tags()
    return Elected(topic, number, error, text)
