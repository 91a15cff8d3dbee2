"""What a direct comparison keeps in memory per record: a few fixed-size numbers.

A range of a partition is one bytearray of entries in offset order. Keys of source records are kept,
too, while there is room, because the keys of missing records are written to the result.
"""

from base64 import b64encode
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Protocol

from xxhash import xxh64_intdigest

from drctl.gap.comparison import (
    ONE_CELL,
    SECOND_SALT,
    BucketDigest,
    ComparePlan,
    Identity,
    Side,
    TopicPlan,
)
from drctl.model.topology import Chunk, Headers, OffsetRange, Row, TopicRanges

_SEED = 42
_ALL_BITS = 2**64 - 1
_NO, _YES = (0).to_bytes(4, "little"), (1).to_bytes(4, "little")
_LONG = Struct("<q").pack
_BEYOND = Struct("<qq").pack
_FIRST, _LAST = -(2**63) // 1000 + 1, (2**63 - 1) // 1000
"""The milliseconds that 64 bits can hold as microseconds."""
_LONG_UNSIGNED = Struct("<Q").pack

_ESCAPES = {
    **{code: f"\\u{code:04X}" for code in range(0x20)},
    **str.maketrans({'"': '\\"', "\\": r"\\", "\b": r"\b", "\f": r"\f"}),
    **str.maketrans({"\n": r"\n", "\r": r"\r", "\t": r"\t"}),
}
"""The escape sequences of Spark's JSON writer."""

Digests = tuple[int, int]
"""Two independent unsigned 64-bit digests of a record."""

Digest = Callable[[int, bytes | None, bytes | None, Headers], Digests]
"""Digests timestamp, key, value and headers."""

_Content = Callable[[int, bytes | None, bytes | None], Digests]


def record_digest(identity: Identity, timestamps: bool, salt: int) -> Digest:
    """Return the function that digests the records of a topic.

    Args:
        timestamps: whether the timestamps of this topic are comparable.
    """
    content = _content(identity, identity.timestamp and timestamps, salt)
    if not identity.headers and not identity.header_names:
        return lambda time, key, value, _headers: content(time, key, value)
    seeds = _seeded(salt), _seeded(SECOND_SALT)
    ignored = frozenset(name.encode() for name in identity.ignored_headers)
    named = frozenset(name.encode() for name in identity.header_names)
    nothing = [_text(())] * (identity.headers + bool(named))

    def digest(time: int, key: bytes | None, value: bytes | None, headers: Headers) -> Digests:
        parts = nothing
        if headers:
            parts = []
            if identity.headers:
                parts.append(_text(h for h in headers if h[0] not in ignored))
            if named:
                parts.append(_text(h for h in headers if h[0] in named))
        first, second = seeds
        for number in content(time, key, value):
            part = _LONG_UNSIGNED(number)
            first, second = xxh64_intdigest(part, first), xxh64_intdigest(part, second)
        for part in parts:
            first, second = xxh64_intdigest(part, first), xxh64_intdigest(part, second)
        return first, second

    return digest


def target_digest(identity: Identity, timestamps: bool, salt: int) -> Digest:
    """Return the function for the target: its own records equal none of the source's.

    Args:
        timestamps: as for `record_digest`.
    """
    of, names = record_digest(identity, timestamps, salt), _names(identity)
    if not names:
        return of

    def digest(time: int, key: bytes | None, value: bytes | None, headers: Headers) -> Digests:
        first, second = of(time, key, value, headers)
        if any(header[0] in names for header in headers):
            return first, second
        return first ^ _ALL_BITS, second ^ _ALL_BITS

    return digest


def source_rows(identity: Identity, rows: Sequence[Row]) -> Sequence[Row]:
    """Return the records that were written on the source itself."""
    names = _names(identity)
    if not names:
        return rows
    return [row for row in rows if not any(header[0] in names for header in row[4])]


def _names(identity: Identity) -> frozenset[bytes]:
    return frozenset(name.encode() for name in identity.origin_headers)


def _content(identity: Identity, timed: bool, salt: int) -> _Content:
    """Return the function that digests key, value and timestamp, if they are compared."""
    keyed, valued, hashed = identity.key, identity.value, xxh64_intdigest
    begin = _seeded(salt), _seeded(salt ^ SECOND_SALT, SECOND_SALT)
    # The flag before a key is hashed first: always from one of two seeds.
    with_key, without_key = ([hashed(flag, seed) for seed in begin] for flag in (_NO, _YES))

    def content(time: int, key: bytes | None, value: bytes | None) -> Digests:
        first, second = begin
        if keyed:
            first, second = without_key
            if key is not None:
                first, second = hashed(key, with_key[0]), hashed(key, with_key[1])
        if valued:
            if value is None:
                first, second = hashed(_YES, first), hashed(_YES, second)
            else:
                first = hashed(value, hashed(_NO, first))
                second = hashed(value, hashed(_NO, second))
        if timed:
            # Spark's timestamps are microseconds in 64 bits.
            when = _LONG(time * 1000) if _FIRST <= time <= _LAST else _BEYOND(time, 0)
            first, second = hashed(when, first), hashed(when, second)
        return first, second

    return content


def _seeded(*numbers: int) -> int:
    seed = _SEED
    for number in numbers:
        seed = xxh64_intdigest(_LONG(number), seed)
    return seed


def _text(headers: Iterable[tuple[bytes, bytes | None]]) -> bytes:
    """Format headers like Spark's JSON, each followed by a comma."""
    return b"[" + b"".join(_one(name, value) for name, value in headers)


def _one(name: bytes, value: bytes | None) -> bytes:
    key = name.decode("utf-8", "replace").translate(_ESCAPES).encode()
    content = b"" if value is None else b',"value":"' + b64encode(value) + b'"'
    return b'{"key":"' + key + b'"' + content + b"},"


class LogReader(Protocol):
    """Reads the committed records of offset ranges of many partitions."""

    def read(self, side: Side, ranges: TopicRanges) -> Iterator[Chunk]:
        """Yield every committed record of these ranges, in order within a partition.

        Raises:
            ScanFailed: the records could not be read completely.
        """


Entry = tuple[int, int, int, int, int, int, bytes]
"""Offset, timestamp, size, hash of the key, place of the key, bytes of the key, digest."""

NO_KEY = -1
"""Hash and length of a null key; Python's `hash` never returns it."""

NOT_KEPT = -1
"""Position of a key that did not fit into memory."""

ENTRY = Struct("<qqqqqq16s")
PACKED = Struct("<qqqqqqQQ")
"""The layout of `ENTRY`, with the digest as two numbers."""


def key_hash(key: bytes | None) -> int:
    """Return the hash of a key within this process; Python seeds it randomly."""
    return NO_KEY if key is None else hash(key)


@dataclass(slots=True)
class KeyRoom:
    """The keys that are kept in memory, concatenated.

    Attributes:
        limit: maximum size in bytes.
    """

    limit: int
    kept: bytearray = field(default_factory=bytearray)

    def key(self, place: int, length: int) -> bytes | None:
        """Return the key at this position."""
        return None if length == NO_KEY else bytes(self.kept[place : place + length])


@dataclass(frozen=True, slots=True)
class HeldRange:
    """An offset range that was read.

    Attributes:
        entries: entries of its records, in offset order; may be shared with other ranges.
    """

    range: OffsetRange
    entries: bytearray

    def within(self, wanted: OffsetRange) -> Iterator[Entry]:
        """The entries of these offsets, in order."""
        first = self._place(max(wanted.start, self.range.start))
        last = self._place(min(wanted.end, self.range.end))
        yield from ENTRY.iter_unpack(memoryview(self.entries)[first:last])

    def _place(self, offset: int) -> int:
        """Return the position of the first entry at or after an offset."""
        numbers = range(0, len(self.entries), ENTRY.size)
        first = bisect_left(numbers, offset, key=lambda at: ENTRY.unpack_from(self.entries, at)[0])
        return first * ENTRY.size


@dataclass(slots=True)
class Partition:
    """The ranges of a partition in memory, ascending and disjoint."""

    ranges_held: list[HeldRange] = field(default_factory=list)

    def begin(self, ranges: Sequence[OffsetRange]) -> bytearray:
        """Start new entries for these ranges; discard what was kept of them before."""
        entries = bytearray()
        kept = [s for s in self.ranges_held if not any(_overlap(s.range, r) for r in ranges)]
        new = [HeldRange(r, entries) for r in ranges]
        self.ranges_held = sorted([*kept, *new], key=lambda s: s.range.start)
        return entries

    def covers(self, ranges: Sequence[OffsetRange]) -> bool:
        """Return whether all of these offsets were read."""
        return all(self._covers(r) for r in ranges)

    def within(self, ranges: Sequence[OffsetRange]) -> Iterator[Entry]:
        """The entries of these offsets, in order."""
        for wanted in ranges:
            for held_range in self.ranges_held:
                if _overlap(held_range.range, wanted):
                    yield from held_range.within(wanted)

    def _covers(self, wanted: OffsetRange) -> bool:
        position = wanted.start
        for held_range in self.ranges_held:
            if held_range.range.start <= position < held_range.range.end:
                position = held_range.range.end
        return position >= wanted.end


def _overlap(one: OffsetRange, other: OffsetRange) -> bool:
    return one.start < other.end and other.start < one.end


_WORD = 2**64

_Sums = list[int]
"""Of a bucket: records, first and second sum, first and last offset."""


@dataclass(slots=True)
class Intake:
    """Digests one partition on one cluster.

    Attributes:
        digest: digests a record of this topic.
        entries: entries of the records; None to keep none.
        keys: the keys in memory; None to keep none.
    """

    plan: ComparePlan
    topic: TopicPlan
    side: Side
    partition: int
    digest: Digest
    entries: bytearray | None
    keys: KeyRoom | None
    sums: dict[tuple[int, int], _Sums] = field(default_factory=dict)

    def take(self, rows: Sequence[Row]) -> None:
        """Digest these records, and keep their entries."""
        # One loop with as few calls as possible: it runs for every record.
        width, buckets, sums = self.topic.bucket_ms, self.plan.buckets, self.sums
        bits = min(self.plan.cell_bits, ONE_CELL)
        of, entries, pack, room, limit = self.digest, self.entries, PACKED.pack, bytearray(), 0
        if self.keys is not None:
            room, limit = self.keys.kept, self.keys.limit
        for offset, time, key, value, headers in rows:
            first, second = of(time, key, value, headers)
            name = ((time // width if width else _signed(first)) % buckets, offset >> bits)
            known = sums.get(name)
            if known is None:
                sums[name] = [1, first, second, offset, offset]
            else:
                known[0] += 1
                known[1] += first
                known[2] += second
                known[4] = offset
            if entries is None:
                continue
            size = len(value) if value else 0
            if headers:
                size += sum(len(name) + len(content or b"") for name, content in headers)
            if key is None:
                entries += pack(offset, time, size, NO_KEY, 0, NO_KEY, first, second)
                continue
            length, place = len(key), len(room)
            if place + length <= limit:
                room += key
            else:
                place = NOT_KEPT
            entries += pack(offset, time, size + length, hash(key), place, length, first, second)

    def count(self, slice_of_time: int, rows: Sequence[Row]) -> None:
        """Count records of one slice of time without digests, because both clusters have them."""
        name = slice_of_time % self.plan.buckets, 0
        known = self.sums.get(name)
        if known is None:
            self.sums[name] = [len(rows), 0, 0, rows[0][0], rows[-1][0]]
        else:
            known[0] += len(rows)
            known[4] = rows[-1][0]

    def digests(self) -> Iterator[BucketDigest]:
        """Yield the digest of each bucket in each cell."""
        place = self.topic.topic, self.side, self.partition
        for (bucket, cell), (records, sum1, sum2, first, last) in self.sums.items():
            sums = _signed(sum1), _signed(sum2)
            yield BucketDigest(*place, bucket, records, *sums, first, last, cell)


def _signed(number: int) -> int:
    return (number + _WORD // 2) % _WORD - _WORD // 2
