"""MirrorMaker 2's offset-syncs: pairs of offsets of the same record on both clusters."""

from struct import Struct
from typing import NamedTuple

from drctl.formats.primitives import Cursor, Undecodable, int32, string

_KEY, _VALUE = "offset sync key", "offset sync"
_PAIR = Struct(">qq")


class SyncedPartition(NamedTuple):
    """The key: a partition; the topic name is the one on the source."""

    topic: str
    partition: int


class OffsetSync(NamedTuple):
    """The value: the offsets of one record."""

    upstream: int
    downstream: int


def decode_key(data: bytes | None) -> SyncedPartition:
    """Decode a key.

    Raises:
        Undecodable: it is invalid.
    """
    cursor = Cursor(_KEY, data)
    found = SyncedPartition(cursor.string(), cursor.partition())
    cursor.end()
    return found


def encode_key(key: SyncedPartition) -> bytes:
    """Encode a key."""
    return string(key.topic) + int32(key.partition)


def decode_value(data: bytes | None) -> OffsetSync | None:
    """Decode a value; None for a tombstone.

    Raises:
        Undecodable: it is invalid.
    """
    if data is None:
        return None
    if len(data) != _PAIR.size:
        raise Undecodable(_VALUE, f"{len(data)} bytes, not {_PAIR.size}", data)
    return OffsetSync(*_PAIR.unpack(data))


def encode_value(value: OffsetSync) -> bytes:
    """Encode a value."""
    return _PAIR.pack(*value)
