"""MirrorMaker 2's heartbeats: when it last was alive."""

from typing import NamedTuple

from drctl.formats.primitives import Cursor, int16, int64, string

_KEY, _VALUE = "heartbeat key", "heartbeat"
_NEWEST = 0


class Flow(NamedTuple):
    """The key: from which cluster to which, by MirrorMaker 2's names for them."""

    source: str
    target: str


def decode_key(data: bytes | None) -> Flow:
    """Read a key.

    Raises:
        Undecodable: it is none.
    """
    cursor = Cursor(_KEY, data)
    found = Flow(cursor.string(), cursor.string())
    cursor.end()
    return found


def encode_key(key: Flow) -> bytes:
    """Write a key."""
    return string(key.source) + string(key.target)


def decode_value(data: bytes | None) -> int | None:
    """Read a value, in milliseconds since 1970 UTC; None for a tombstone.

    Raises:
        Undecodable: it is none, or of a version that is not known.
    """
    if data is None:
        return None
    cursor = Cursor(_VALUE, data)
    cursor.version(_NEWEST)
    timestamp_ms = cursor.int64()
    cursor.end()
    return timestamp_ms


def encode_value(timestamp_ms: int) -> bytes:
    """Write a value."""
    return int16(_NEWEST) + int64(timestamp_ms)
