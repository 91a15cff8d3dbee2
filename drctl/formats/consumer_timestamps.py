"""Confluent Replicator's topic `__consumer_timestamps`: how far each group got, as a time.

The key is a group, topic and partition; the value the timestamp of the last record that the group
had consumed when it committed. Newer writers put a delta after it, in 4 or 8 bytes. What it means
is not documented and was not proven: it is kept and shown, and nothing is ever computed from it.
"""

from struct import Struct
from typing import NamedTuple

from drctl.formats.primitives import Cursor, Undecodable, int32, long_string

TOPIC = "__consumer_timestamps"

_KEY, _VALUE = "consumer timestamp key", "consumer timestamp"
_LAYOUTS = {8: Struct(">q"), 12: Struct(">qi"), 16: Struct(">qq")}

VALUE_LENGTHS = frozenset(_LAYOUTS)
"""Values of these lengths decode, and no others."""


class GroupPartition(NamedTuple):
    """The key: whose position, and where."""

    group: str
    topic: str
    partition: int


class ConsumerTimestamp(NamedTuple):
    """The value.

    Attributes:
        timestamp_ms: of the last consumed record.
        delta: None where the writer gave none.
        delta_bytes: in how many bytes it stands: 0, 4 or 8.
    """

    timestamp_ms: int
    delta: int | None = None
    delta_bytes: int = 0


def decode_key(data: bytes | None) -> GroupPartition:
    """Read a key.

    Raises:
        Undecodable: it is none.
    """
    cursor = Cursor(_KEY, data)
    found = GroupPartition(cursor.long_string(), cursor.long_string(), cursor.partition())
    cursor.end()
    return found


def encode_key(key: GroupPartition) -> bytes:
    """Write a key."""
    return long_string(key.group) + long_string(key.topic) + int32(key.partition)


def decode_value(data: bytes | None) -> ConsumerTimestamp | None:
    """Read a value; None for a tombstone.

    Raises:
        Undecodable: it has none of the known lengths.
    """
    if data is None:
        return None
    layout = _LAYOUTS.get(len(data))
    if layout is None:
        raise Undecodable(_VALUE, f"{len(data)} bytes; known are 8, 12 and 16", data)
    timestamp, *delta = layout.unpack(data)
    if not delta:
        return ConsumerTimestamp(timestamp)
    return ConsumerTimestamp(timestamp, delta[0], len(data) - 8)


def encode_value(value: ConsumerTimestamp) -> bytes:
    """Write a value."""
    layout = _LAYOUTS[8 + value.delta_bytes]
    if value.delta is None:
        return layout.pack(value.timestamp_ms)
    return layout.pack(value.timestamp_ms, value.delta)
