"""drctl's own anchors: what a group had consumed last, so that it can be found on another cluster.

The key is JSON, `["anchor","CLUSTER ID","GROUP","TOPIC",0]`: readable in any tool, and written in
one way only, because compaction goes by its bytes. The value is binary: version (1 byte), flags (1
byte), observed (INT64), committed offset (INT64), leader epoch (INT32), topic id (COMPACT_STRING),
number of records (1 byte), then of each its fingerprint (8 bytes) and its timestamp: INT64 of the
first, of the others how much earlier each is than the one before (VARLONG, modulo 2^64).

Version 2 continues with what lies further back: number of milestones (1 byte, not 0), then of each
its fingerprint and timestamp, as above, and by how much its position is less than the one before
(UNSIGNED_VARLONG), beginning from the committed offset. Without milestones version 1 is written.

Version 3 is for logs with uncommitted records, those whose transaction was aborted or was open. It
is version 2, whose number of milestones may be 0, and continues with: uncommitted records between
the last consumed one and the committed offset (UNSIGNED_VARLONG), and which of the records are
uncommitted (UNSIGNED_VARLONG, the lowest bit for the first one, which never is).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import sub
from typing import NamedTuple

from drctl.formats import primitives
from drctl.formats.primitives import Cursor, Undecodable, is_count, parsed, written

MOST_RECORDS = 33
"""The last consumed one and 32 before it."""

MOST_MILESTONES = 24

_KIND = "anchor"
_KEY, _VALUE = "anchor key", "anchor"
_VERSION, _WITH_MILESTONES, _WITH_UNCOMMITTED = 1, 2, 3
_UNVERIFIED = 1
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
        fingerprint: see `drctl.formats.fingerprint`.
    """

    fingerprint: int
    timestamp_ms: int


class Milestone(NamedTuple):
    """A record further back, for where the last consumed ones were not replicated.

    Attributes:
        position: on the source; it is the last record before this offset.
        fingerprint: as of an `AnchorRecord`.
    """

    position: int
    fingerprint: int
    timestamp_ms: int


class AnchorHead(NamedTuple):
    """An anchor without its records; the fields are those of `Anchor`."""

    offset: int
    leader_epoch: int
    topic_id: str
    observed_ms: int
    unverified: bool


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
        unverified: whether the position could not be seen any more when this was written; a later
            pass (`drctl.formats.anchor_passes`) then says nothing of it.
        milestones: the nearest one first.
        passed: uncommitted records between the last consumed one and the offset.
        uncommitted: which of the records are, by index.
    """

    offset: int
    leader_epoch: int
    topic_id: str
    observed_ms: int
    records: tuple[AnchorRecord, ...]
    unverified: bool = False
    milestones: tuple[Milestone, ...] = ()
    passed: int = 0
    uncommitted: frozenset[int] = frozenset()


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
    return Anchor(
        offset, epoch, topic_id, observed, records, unverified, milestones, passed, uncommitted
    )


def decode_head(data: bytes) -> AnchorHead:
    """Read a value but for its records, which are most of it.

    Raises:
        Undecodable: it begins as none, or is of a version that is not known.
    """
    cursor = Cursor(_VALUE, data)
    return _head(cursor, cursor.int8())


def encode_value(value: Anchor) -> bytes:
    """Write a value.

    Raises:
        ValueError: there are too many records, or a number is too large.
    """
    if len(value.records) > MOST_RECORDS:
        raise ValueError(f"{len(value.records)} records; an anchor holds {MOST_RECORDS}")
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
        parts += _written(value.milestones, value.offset, after)
    if version == _WITH_UNCOMMITTED:
        if not value.uncommitted <= set(range(1, len(value.records))):
            raise ValueError(f"records {sorted(value.uncommitted)} cannot be the uncommitted ones")
        marks = sum(1 << number for number in value.uncommitted)
        parts += [primitives.varint(value.passed), primitives.varint(marks)]
    return b"".join(parts)


def _written(milestones: Sequence[Milestone], behind: int, after: int | None) -> list[bytes]:
    if len(milestones) > MOST_MILESTONES:
        raise ValueError(f"{len(milestones)} milestones; an anchor holds {MOST_MILESTONES}")
    parts = [bytes([len(milestones)])]
    for position, fingerprint, time in milestones:
        if not 0 <= position < behind:
            raise ValueError(f"a milestone at {position}, which is not before {behind}")
        parts.append(fingerprint.to_bytes(_FINGERPRINT_BYTES, "big"))
        parts.append(_earlier(after, time))
        parts.append(primitives.varint(behind - position))
        behind, after = position, time
    return parts


def _earlier(after: int | None, time: int) -> bytes:
    if after is None:
        return primitives.int64(time)
    return primitives.signed_varlong(_signed(after - time))


def _head(cursor: Cursor, version: int) -> AnchorHead:
    if not _VERSION <= version <= _WITH_UNCOMMITTED:
        cursor.fail(f"version {version}, known are {_VERSION} to {_WITH_UNCOMMITTED}")
    flags = cursor.int8()
    if flags & ~_UNVERIFIED:
        cursor.fail(f"flags {flags}, known is {_UNVERIFIED}")
    observed, offset, epoch = cursor.int64(), cursor.int64(), cursor.int32()
    return AnchorHead(offset, epoch, cursor.compact_string(), observed, bool(flags))


def _records(cursor: Cursor) -> tuple[AnchorRecord, ...]:
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
    return tuple(map(AnchorRecord, (first, *fingerprints), times))


def _uncommitted(cursor: Cursor, records: int) -> tuple[int, frozenset[int]]:
    passed, marks = cursor.varlong(), cursor.varlong()
    if not (passed or marks):
        cursor.fail("nothing uncommitted, which is version 1 or 2")
    if marks & 1 or marks >> records:
        cursor.fail(f"uncommitted are {marks:b}, of {records} records")
    return passed, frozenset(n for n in range(records) if marks >> n & 1)


def _milestones(
    cursor: Cursor, behind: int, records: Sequence[AnchorRecord], *, least: int
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
        if not 0 < distance <= behind:
            cursor.fail(f"a milestone {distance} offsets before {behind}")
        behind, after = behind - distance, time
        found.append(Milestone(behind, fingerprint, time))
    return tuple(found)


def _signed(number: int) -> int:
    """As it is in 64 bits."""
    return (number + _HALF) % _WHOLE - _HALF
