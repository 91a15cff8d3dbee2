"""drctl's own anchors: what a group had consumed last, so that it can be found on another cluster.

The key is JSON, `["anchor","CLUSTER ID","GROUP","TOPIC",0]`: readable in any tool, and written in
one way only, because compaction goes by its bytes. The value is binary: version (1 byte), flags (1
byte), observed (INT64), committed offset (INT64), leader epoch (INT32), topic id (COMPACT_STRING),
number of records (1 byte), then of each its fingerprint (8 bytes) and its timestamp: INT64 of the
first, of the others how much earlier each is than the one before (VARLONG, modulo 2^64).
"""

from dataclasses import dataclass
from typing import NamedTuple

from drctl.wire import primitives as write
from drctl.wire.cursor import Cursor
from drctl.wire.exact_json import is_count, parsed, written
from drctl.wire.undecodable import Undecodable

MOST_RECORDS = 33
"""The last consumed one and 32 before it."""

_KIND = "anchor"
_KEY, _VALUE = "anchor key", "anchor"
_VERSION = 1
_ASTRAY = 1
_FINGERPRINT_BYTES = 8
_HALF, _WHOLE = 1 << 63, 1 << 64


class AnchorKey(NamedTuple):
    """Whose position, and where on which cluster.

    Attributes:
        cluster_id: Kafka's id of the source: one target may survive several.
    """

    cluster_id: str
    group: str
    topic: str
    partition: int


class AnchorRecord(NamedTuple):
    """A consumed record, as far as it is remembered.

    Attributes:
        fingerprint: see `drctl.wire.fingerprint`.
    """

    fingerprint: int
    timestamp_ms: int


class AnchorHead(NamedTuple):
    """An anchor without its records; the fields are those of `Anchor`."""

    offset: int
    leader_epoch: int
    topic_id: str
    observed_ms: int
    astray: bool


@dataclass(frozen=True, slots=True)
class Anchor:
    """Where a group was, and what it had seen last.

    Attributes:
        offset: what it had committed on the source.
        leader_epoch: committed with it; -1 where it is not known.
        topic_id: Kafka's id of the source topic: another one is another log; empty where the
            broker gives none.
        observed_ms: when drctl saw that, in milliseconds since 1970 UTC.
        records: the last consumed one first, then those before it; empty where there was none.
        astray: whether the position could not be seen any more when this was written; a later
            pass (`drctl.wire.anchor_passes`) then says nothing of it.
    """

    offset: int
    leader_epoch: int
    topic_id: str
    observed_ms: int
    records: tuple[AnchorRecord, ...]
    astray: bool = False


def decode_key(data: bytes | None) -> AnchorKey:
    """Read a key.

    Raises:
        Undecodable: it is none.
    """
    match parsed(_KEY, data):
        case [kind, str() as cluster, str() as group, str() as topic, int() as partition] if (
            kind == _KIND and is_count(partition)
        ):
            found = AnchorKey(cluster, group, topic, partition)
        case _:
            raise Undecodable(_KEY, "not an anchor's", data)
    if encode_key(found) != data:
        raise Undecodable(_KEY, "not as drctl writes it", data)
    return found


def encode_key(key: AnchorKey) -> bytes:
    """Write a key."""
    return written([_KIND, *key])


def decode_value(data: bytes | None) -> Anchor | None:
    """Read a value; None for a tombstone.

    Raises:
        Undecodable: it is none, or of a version that is not known.
    """
    if data is None:
        return None
    cursor = Cursor(_VALUE, data)
    offset, epoch, topic_id, observed, astray = _head(cursor)
    found = Anchor(offset, epoch, topic_id, observed, _records(cursor), astray)
    cursor.end()
    return found


def decode_head(data: bytes) -> AnchorHead:
    """Read a value but for its records, which are most of it.

    Raises:
        Undecodable: it begins as none, or is of a version that is not known.
    """
    return _head(Cursor(_VALUE, data))


def encode_value(value: Anchor) -> bytes:
    """Write a value.

    Raises:
        ValueError: there are too many records, or a number is too large.
    """
    if len(value.records) > MOST_RECORDS:
        raise ValueError(f"{len(value.records)} records; an anchor holds {MOST_RECORDS}")
    parts = [
        bytes([_VERSION, _ASTRAY if value.astray else 0]),
        write.int64(value.observed_ms),
        write.int64(value.offset),
        write.int32(value.leader_epoch),
        write.compact_string(value.topic_id),
        bytes([len(value.records)]),
    ]
    after: int | None = None
    for fingerprint, time in value.records:
        parts.append(fingerprint.to_bytes(_FINGERPRINT_BYTES, "big"))
        parts.append(
            write.int64(time) if after is None else write.signed_varlong(_signed(after - time))
        )
        after = time
    return b"".join(parts)


def _head(cursor: Cursor) -> AnchorHead:
    version = cursor.int8()
    if version != _VERSION:
        cursor.fail(f"version {version}, known is {_VERSION}")
    flags = cursor.int8()
    if flags & ~_ASTRAY:
        cursor.fail(f"flags {flags}, known is {_ASTRAY}")
    observed, offset, epoch = cursor.int64(), cursor.int64(), cursor.int32()
    return AnchorHead(offset, epoch, cursor.compact_string(), observed, bool(flags))


def _records(cursor: Cursor) -> tuple[AnchorRecord, ...]:
    count = cursor.int8()
    if count > MOST_RECORDS:
        cursor.fail(f"{count} records")
    found: list[AnchorRecord] = []
    for _ in range(count):
        fingerprint = int.from_bytes(cursor.take(_FINGERPRINT_BYTES), "big")
        if found:
            time = _signed(found[-1].timestamp_ms - cursor.signed_varlong())
        else:
            time = cursor.int64()
        found.append(AnchorRecord(fingerprint, time))
    return tuple(found)


def _signed(number: int) -> int:
    """As it is in 64 bits."""
    return (number + _HALF) % _WHOLE - _HALF
