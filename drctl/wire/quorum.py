"""Who leads the metadata quorum (KIP-595); a broker passes the question on to the controller."""

from typing import NamedTuple

from drctl.wire.broker_requests import NO_TAGS, Api, compact_array
from drctl.wire.cursor import Cursor
from drctl.wire.primitives import compact_string, int32

DESCRIBE_QUORUM = Api("DescribeQuorum", 55, 0, True, "3.0")

_TOPIC = "__cluster_metadata"


class Quorum(NamedTuple):
    """What the leader says.

    Attributes:
        error: Kafka's number; 0 where there is none.
        leader: the active controller; -1 where there is none.
    """

    error: int
    leader: int
    epoch: int
    voters: tuple[int, ...]


def describe_quorum() -> bytes:
    """Ask who leads."""
    partition = int32(0) + NO_TAGS
    topic = compact_string(_TOPIC) + compact_array([partition]) + NO_TAGS
    return compact_array([topic]) + NO_TAGS


def read_quorum(cursor: Cursor) -> Quorum:
    """Who leads.

    Raises:
        Undecodable: it is no such answer.
    """
    found = Quorum(cursor.int16(), -1, -1, ())
    for _ in range(cursor.varint() - 1):
        cursor.compact_string()
        for _ in range(cursor.varint() - 1):
            found = _partition(cursor)
        cursor.tags()
    cursor.tags()
    cursor.end()
    return found


def _partition(cursor: Cursor) -> Quorum:
    cursor.int32()
    error, leader, epoch = cursor.int16(), cursor.int32(), cursor.int32()
    cursor.int64()
    voters, _observers = _replicas(cursor), _replicas(cursor)
    cursor.tags()
    return Quorum(error, leader, epoch, voters)


def _replicas(cursor: Cursor) -> tuple[int, ...]:
    found = []
    for _ in range(cursor.varint() - 1):
        found.append(cursor.int32())
        cursor.int64()
        cursor.tags()
    return tuple(found)
