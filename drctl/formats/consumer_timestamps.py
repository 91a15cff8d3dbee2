"""Confluent Replicator's topic `__consumer_timestamps`: each group's progress as a timestamp.

The key is a group, topic and partition. The value is the timestamp of the last record that the
group had consumed when it committed. Newer writers append a delta of 4 or 8 bytes. Its meaning is
undocumented: drctl decodes and shows it, but never uses it.
"""

from struct import Struct
from typing import NamedTuple

from drctl.formats.primitives import Cursor, Undecodable, int32, long_string

TOPIC = "__consumer_timestamps"

_KEY, _VALUE = "consumer timestamp key", "consumer timestamp"
_LAYOUTS = {8: Struct(">q"), 12: Struct(">qi"), 16: Struct(">qq")}

VALUE_LENGTHS = frozenset(_LAYOUTS)
"""The valid lengths of values."""


class GroupPartition(NamedTuple):
    """The key."""

    group: str
    topic: str
    partition: int


class ConsumerTimestamp(NamedTuple):
    """The value.

    Attributes:
        timestamp_ms: of the last consumed record.
        delta: None if there is none.
        delta_bytes: its length: 0, 4 or 8.
    """

    timestamp_ms: int
    delta: int | None = None
    delta_bytes: int = 0


def decode_key(data: bytes | None) -> GroupPartition:
    """Decode a key.

    Raises:
        Undecodable: it is invalid.
    """
    cursor = Cursor(_KEY, data)
    found = GroupPartition(cursor.long_string(), cursor.long_string(), cursor.partition())
    cursor.end()
    return found


def encode_key(key: GroupPartition) -> bytes:
    """Encode a key."""
    return long_string(key.group) + long_string(key.topic) + int32(key.partition)


def decode_value(data: bytes | None) -> ConsumerTimestamp | None:
    """Decode a value; None for a tombstone.

    Raises:
        Undecodable: its length is unknown.
    """
    if data is None:
        return None
    layout = _LAYOUTS.get(len(data))
    if layout is None:
        raise Undecodable(_VALUE, f"{len(data)} bytes; known lengths are 8, 12 and 16", data)
    timestamp, *delta = layout.unpack(data)
    if not delta:
        return ConsumerTimestamp(timestamp)
    return ConsumerTimestamp(timestamp, delta[0], len(data) - 8)


def encode_value(value: ConsumerTimestamp) -> bytes:
    """Encode a value."""
    layout = _LAYOUTS[8 + value.delta_bytes]
    if value.delta is None:
        return layout.pack(value.timestamp_ms)
    return layout.pack(value.timestamp_ms, value.delta)
