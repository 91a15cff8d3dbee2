"""MirrorMaker 2's heartbeats: when MirrorMaker 2 last wrote one."""

from typing import NamedTuple

from drctl.formats.primitives import Cursor, int16, int64, string

_KEY, _VALUE = "heartbeat key", "heartbeat"
_NEWEST = 0


class Flow(NamedTuple):
    """The key: MirrorMaker 2's aliases of the source and target cluster."""

    source: str
    target: str


def decode_key(data: bytes | None) -> Flow:
    """Decode a key.

    Raises:
        Undecodable: it is invalid.
    """
    cursor = Cursor(_KEY, data)
    found = Flow(cursor.string(), cursor.string())
    cursor.end()
    return found


def encode_key(key: Flow) -> bytes:
    """Encode a key."""
    return string(key.source) + string(key.target)


def decode_value(data: bytes | None) -> int | None:
    """Decode a value, in milliseconds since 1970 UTC; None for a tombstone.

    Raises:
        Undecodable: it is invalid or of an unknown version.
    """
    if data is None:
        return None
    cursor = Cursor(_VALUE, data)
    cursor.version(_NEWEST)
    timestamp_ms = cursor.int64()
    cursor.end()
    return timestamp_ms


def encode_value(timestamp_ms: int) -> bytes:
    """Encode a value."""
    return int16(_NEWEST) + int64(timestamp_ms)
