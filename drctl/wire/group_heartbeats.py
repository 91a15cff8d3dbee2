"""Members of consumer groups of the protocol of KIP-848, as far as joining and leaving goes."""

from collections.abc import Iterable
from typing import NamedTuple

from drctl.wire.broker_requests import NO_TAGS, Api, compact_array, each
from drctl.wire.cursor import Cursor
from drctl.wire.primitives import compact_nullable_string, compact_string, int32

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
