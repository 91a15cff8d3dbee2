"""MirrorMaker 2's checkpoints: committed offsets of the source, as it translated them."""

from typing import NamedTuple

from drctl.formats.primitives import Cursor, int16, int32, int64, string

_KEY, _VALUE = "checkpoint key", "checkpoint"
_NEWEST = 0


class CheckpointKey(NamedTuple):
    """Whose position, and where: the topic has the name that it has on the target."""

    group: str
    topic: str
    partition: int


class Checkpoint(NamedTuple):
    """What the group had committed, and what that is on the target."""

    upstream: int
    downstream: int
    metadata: str = ""


def decode_key(data: bytes | None) -> CheckpointKey:
    """Read a key.

    Raises:
        Undecodable: it is none.
    """
    cursor = Cursor(_KEY, data)
    found = CheckpointKey(cursor.string(), cursor.string(), cursor.partition())
    cursor.end()
    return found


def encode_key(key: CheckpointKey) -> bytes:
    """Write a key."""
    return string(key.group) + string(key.topic) + int32(key.partition)


def decode_value(data: bytes | None) -> Checkpoint | None:
    """Read a value; None for a tombstone.

    Raises:
        Undecodable: it is none, or of a version that is not known.
    """
    if data is None:
        return None
    cursor = Cursor(_VALUE, data)
    cursor.version(_NEWEST)
    found = Checkpoint(cursor.int64(), cursor.int64(), cursor.string())
    cursor.end()
    return found


def encode_value(value: Checkpoint) -> bytes:
    """Write a value."""
    offsets = int64(value.upstream) + int64(value.downstream)
    return int16(_NEWEST) + offsets + string(value.metadata)
