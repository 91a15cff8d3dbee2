"""A cluster as one of its brokers describes it (KIP-700): racks, and what the asker may do."""

from collections.abc import Mapping
from typing import NamedTuple

from drctl.wire.acls import OPERATIONS
from drctl.wire.broker_requests import NO_TAGS, Api, each
from drctl.wire.cursor import Cursor

DESCRIBE_CLUSTER = Api("DescribeCluster", 60, 0, True, "2.8")


class DescribedCluster(NamedTuple):
    """What the broker says.

    Attributes:
        error: Kafka's number; 0 where there is none.
        text: why, for a person; may be empty.
        racks: by broker; empty where it has none.
        operations: what the asker may do with the cluster itself; None where that is not told.
    """

    error: int
    text: str
    racks: Mapping[int, str]
    operations: frozenset[str] | None


def describe_cluster() -> bytes:
    """Ask for all of it."""
    return b"\x01" + NO_TAGS


def read_described(cursor: Cursor) -> DescribedCluster:
    """The answer to `describe_cluster`.

    Raises:
        Undecodable: it is no such answer.
    """
    cursor.int32()
    error, text = cursor.int16(), cursor.compact_nullable_string() or ""
    cursor.compact_string()
    cursor.int32()
    racks = dict(each(cursor, _rack))
    allowed = cursor.int32()
    cursor.tags()
    cursor.end()
    return DescribedCluster(error, text, racks, _operations(allowed))


def _rack(cursor: Cursor) -> tuple[int, str]:
    node = cursor.int32()
    cursor.compact_string()
    cursor.int32()
    rack = cursor.compact_nullable_string()
    cursor.tags()
    return node, rack or ""


def _operations(bits: int) -> frozenset[str] | None:
    """A bit for each number of `OPERATIONS`; who may not describe the cluster gets none."""
    if bits <= 0:
        return None
    return frozenset(name for number, name in enumerate(OPERATIONS) if bits >> number & 1)
