"""Tracked offsets: a group's committed offset and the records that it consumed last.

The key is JSON, `["offset","CLUSTER ID","GROUP","TOPIC",0]`: readable in any tool, with exactly one
encoding, because compaction compares bytes. The value is binary: version (1 byte), flags (1 byte),
time of observation (INT64), committed offset (INT64), leader epoch (INT32), topic id
(COMPACT_STRING), number of records (1 byte), then for each record its fingerprint (8 bytes) and its
timestamp: INT64 for the first, for the others the difference to the previous one (VARLONG, modulo
2^64; positive if earlier).

Version 2 continues with older records: number of milestones (1 byte, not 0), then for each its
fingerprint and timestamp, as above, and its distance from the previous one in offsets
(UNSIGNED_VARLONG), starting from the committed offset. Without milestones version 1 is written.

Version 3 is for logs with records of aborted or open transactions. It is version 2, where the
number of milestones may be 0, and continues with: number of uncommitted records between the last
consumed one and the committed offset (UNSIGNED_VARLONG), and a bitmap of the uncommitted records
(UNSIGNED_VARLONG, lowest bit for the first record, which is always committed).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import sub
from typing import NamedTuple

from drctl.formats import primitives
from drctl.formats.primitives import Cursor, Undecodable, compact_json, is_count, parse_json

MOST_RECORDS = 33
"""The last consumed record and the 32 before it."""

MOST_MILESTONES = 24

_KIND = "offset"
_KEY, _VALUE = "tracked offset key", "tracked offset"
_VERSION, _WITH_MILESTONES, _WITH_UNCOMMITTED = 1, 2, 3
_UNVERIFIED = 1
_FINGERPRINT_BYTES = 8
_HALF, _WHOLE = 1 << 63, 1 << 64


class OffsetKey(NamedTuple):
    """A group and a partition of a source.

    Attributes:
        cluster_id: Kafka's id of the source; a target may have several sources.
    """

    cluster_id: str
    group: str
    topic: str
    partition: int


class ConsumedRecord(NamedTuple):
    """A consumed record.

    Attributes:
        fingerprint: see `drctl.formats.fingerprint`.
    """

    fingerprint: int
    timestamp_ms: int


class Milestone(NamedTuple):
    """An older consumed record, for when the last consumed ones were not replicated.

    Attributes:
        position: source offset; the record is the last one before it.
        fingerprint: see `drctl.formats.fingerprint`.
    """

    position: int
    fingerprint: int
    timestamp_ms: int


class TrackedHead(NamedTuple):
    """A tracked offset without its records; the fields are those of `TrackedOffset`."""

    offset: int
    leader_epoch: int
    topic_id: str
    observed_ms: int
    unverified: bool


@dataclass(frozen=True, slots=True)
class TrackedOffset:
    """A group's committed offset and the records that it consumed last.

    Attributes:
        offset: committed offset on the source.
        leader_epoch: committed with the offset; -1 if unknown.
        topic_id: Kafka's id of the source topic, which changes if the topic is recreated; empty if
            the broker reports none.
        observed_ms: when drctl read the offset, in milliseconds since 1970 UTC.
        records: last consumed record first; empty if there was none.
        unverified: the committed offset was not found on the source when this was written; later
            passes (`drctl.formats.tracking_passes`) do not confirm it.
        milestones: nearest first.
        passed: number of uncommitted records between the last consumed one and the offset.
        uncommitted: indexes of the uncommitted records.
    """

    offset: int
    leader_epoch: int
    topic_id: str
    observed_ms: int
    records: tuple[ConsumedRecord, ...]
    unverified: bool = False
    milestones: tuple[Milestone, ...] = ()
    passed: int = 0
    uncommitted: frozenset[int] = frozenset()


def decode_key(data: bytes | None) -> OffsetKey:
    """Decode a key.

    Raises:
        Undecodable: it is not the key of a tracked offset.
    """
    match parse_json(_KEY, data):
        case [kind, str() as cluster, str() as group, str() as topic, int() as partition] if (
            kind == _KIND and is_count(partition)
        ):
            found = OffsetKey(cluster, group, topic, partition)
        case _:
            raise Undecodable(_KEY, "wrong structure", data)
    if encode_key(found) != data:
        raise Undecodable(_KEY, "not in drctl's encoding", data)
    return found


def encode_key(key: OffsetKey) -> bytes:
    """Encode a key."""
    return compact_json([_KIND, *key])


def decode_value(data: bytes | None) -> TrackedOffset | None:
    """Decode a value; None for a tombstone.

    Raises:
        Undecodable: it is invalid or of an unknown version.
    """
    if data is None:
        return None
    cursor = Cursor(_VALUE, data)
    version = cursor.int8()
    offset, epoch, topic_id, observed, unverified = _head(cursor, version)
    records = _records(cursor)
    milestones: tuple[Milestone, ...] = ()
    if version >= _WITH_MILESTONES:
        milestones = _milestones(cursor, offset, records, least=version == _WITH_MILESTONES)
    passed, uncommitted = 0, frozenset[int]()
    if version == _WITH_UNCOMMITTED:
        passed, uncommitted = _uncommitted(cursor, len(records))
    cursor.end()
    return TrackedOffset(
        offset, epoch, topic_id, observed, records, unverified, milestones, passed, uncommitted
    )


def decode_head(data: bytes) -> TrackedHead:
    """Decode a value without its records, which are most of it.

    Raises:
        Undecodable: its start is invalid or of an unknown version.
    """
    cursor = Cursor(_VALUE, data)
    return _head(cursor, cursor.int8())


def encode_value(value: TrackedOffset) -> bytes:
    """Encode a value.

    Raises:
        ValueError: there are too many records, or a number is too large.
    """
    if len(value.records) > MOST_RECORDS:
        raise ValueError(f"{len(value.records)} records; at most {MOST_RECORDS} are allowed")
    version = _WITH_MILESTONES if value.milestones else _VERSION
    if value.passed or value.uncommitted:
        version = _WITH_UNCOMMITTED
    parts = [
        bytes([version, _UNVERIFIED * value.unverified]),
        primitives.int64(value.observed_ms),
        primitives.int64(value.offset),
        primitives.int32(value.leader_epoch),
        primitives.compact_string(value.topic_id),
        bytes([len(value.records)]),
    ]
    after: int | None = None
    for fingerprint, time in value.records:
        parts.append(fingerprint.to_bytes(_FINGERPRINT_BYTES, "big"))
        parts.append(_earlier(after, time))
        after = time
    if version >= _WITH_MILESTONES:
        parts += _encoded_milestones(value.milestones, value.offset, after)
    if version == _WITH_UNCOMMITTED:
        if not value.uncommitted <= set(range(1, len(value.records))):
            raise ValueError(f"invalid indexes of uncommitted records: {sorted(value.uncommitted)}")
        marks = sum(1 << number for number in value.uncommitted)
        parts += [primitives.varint(value.passed), primitives.varint(marks)]
    return b"".join(parts)


def _encoded_milestones(
    milestones: Sequence[Milestone], previous: int, after: int | None
) -> list[bytes]:
    if len(milestones) > MOST_MILESTONES:
        raise ValueError(f"{len(milestones)} milestones; at most {MOST_MILESTONES} are allowed")
    parts = [bytes([len(milestones)])]
    for position, fingerprint, time in milestones:
        if not 0 <= position < previous:
            raise ValueError(f"milestone at {position} is not before {previous}")
        parts.append(fingerprint.to_bytes(_FINGERPRINT_BYTES, "big"))
        parts.append(_earlier(after, time))
        parts.append(primitives.varint(previous - position))
        previous, after = position, time
    return parts


def _earlier(after: int | None, time: int) -> bytes:
    if after is None:
        return primitives.int64(time)
    return primitives.signed_varlong(_signed(after - time))


def _head(cursor: Cursor, version: int) -> TrackedHead:
    if not _VERSION <= version <= _WITH_UNCOMMITTED:
        cursor.fail(f"version {version}; known versions are {_VERSION} to {_WITH_UNCOMMITTED}")
    flags = cursor.int8()
    if flags & ~_UNVERIFIED:
        cursor.fail(f"flags {flags}; the only known flag is {_UNVERIFIED}")
    observed, offset, epoch = cursor.int64(), cursor.int64(), cursor.int32()
    return TrackedHead(offset, epoch, cursor.compact_string(), observed, bool(flags))


def _records(cursor: Cursor) -> tuple[ConsumedRecord, ...]:
    count = cursor.int8()
    if count > MOST_RECORDS:
        cursor.fail(f"{count} records")
    if not count:
        return ()
    first, time = cursor.uint64(), cursor.int64()
    fingerprints, earlier = cursor.uint64_varlongs(count - 1)
    times = list(accumulate(earlier, sub, initial=time))
    if not -_HALF <= min(times) <= max(times) < _HALF:
        times = list(map(_signed, times))
    return tuple(map(ConsumedRecord, (first, *fingerprints), times))


def _uncommitted(cursor: Cursor, records: int) -> tuple[int, frozenset[int]]:
    passed, marks = cursor.varlong(), cursor.varlong()
    if not (passed or marks):
        cursor.fail(f"version {_WITH_UNCOMMITTED} without uncommitted records")
    if marks & 1 or marks >> records:
        cursor.fail(f"uncommitted bitmap {marks:b} for {records} records")
    return passed, frozenset(n for n in range(records) if marks >> n & 1)


def _milestones(
    cursor: Cursor, previous: int, records: Sequence[ConsumedRecord], *, least: int
) -> tuple[Milestone, ...]:
    count = cursor.int8()
    if not least <= count <= MOST_MILESTONES:
        cursor.fail(f"{count} milestones")
    found: list[Milestone] = []
    after = records[-1].timestamp_ms if records else None
    for _ in range(count):
        fingerprint = cursor.uint64()
        time = cursor.int64() if after is None else _signed(after - cursor.signed_varlong())
        distance = cursor.varlong()
        if not 0 < distance <= previous:
            cursor.fail(f"a milestone {distance} offsets before {previous}")
        previous, after = previous - distance, time
        found.append(Milestone(previous, fingerprint, time))
    return tuple(found)


def _signed(number: int) -> int:
    """Wrap a number to 64 bits, signed."""
    return (number + _HALF) % _WHOLE - _HALF
