"""MirrorMaker 2's checkpoints: source offsets of groups and their translations."""

from typing import NamedTuple

from drctl.formats.primitives import Cursor, int16, int32, int64, string

_KEY, _VALUE = "checkpoint key", "checkpoint"
_NEWEST = 0


class CheckpointKey(NamedTuple):
    """A group and a partition; the topic name is the one on the target."""

    group: str
    topic: str
    partition: int


class Checkpoint(NamedTuple):
    """A committed offset on the source, and its translation."""

    upstream: int
    downstream: int
    metadata: str = ""


def decode_key(data: bytes | None) -> CheckpointKey:
    """Decode a key.

    Raises:
        Undecodable: it is invalid.
    """
    cursor = Cursor(_KEY, data)
    found = CheckpointKey(cursor.string(), cursor.string(), cursor.partition())
    cursor.end()
    return found


def encode_key(key: CheckpointKey) -> bytes:
    """Encode a key."""
    return string(key.group) + string(key.topic) + int32(key.partition)


def decode_value(data: bytes | None) -> Checkpoint | None:
    """Decode a value; None for a tombstone.

    Raises:
        Undecodable: it is invalid or of an unknown version.
    """
    if data is None:
        return None
    cursor = Cursor(_VALUE, data)
    cursor.version(_NEWEST)
    found = Checkpoint(cursor.int64(), cursor.int64(), cursor.string())
    cursor.end()
    return found


def encode_value(value: Checkpoint) -> bytes:
    """Encode a value."""
    offsets = int64(value.upstream) + int64(value.downstream)
    return int16(_NEWEST) + offsets + string(value.metadata)
