"""What a direct comparison keeps of each record: a few fixed-size numbers, not the record.

A stretch of a partition is one bytearray of entries in order of offset. The keys of source records
are kept too while there is room: those of missing records are written in the end.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from struct import Struct

from drctl.model.topology import OffsetRange

Entry = tuple[int, int, int, int, int, int, bytes]
"""Offset, timestamp, size, hash of the key, place of the key, bytes of the key, digest."""

NO_KEY = -1
"""The hash that stands for a null key; Python gives it to nothing. So does a length."""

NOT_KEPT = -1
"""The place of a key for which there was no room."""

ENTRY = Struct("<qqqqqq16s")
PACKED = Struct("<qqqqqqQQ")
"""The same bytes, made of a digest's two halves."""


def key_hash(key: bytes | None) -> int:
    """Stands for a key within this process; seeded by Python with something nobody knows."""
    return NO_KEY if key is None else hash(key)


@dataclass(slots=True)
class KeyRoom:
    """The keys that are kept, one behind the other.

    Attributes:
        limit: bytes of all of them.
    """

    limit: int
    kept: bytearray = field(default_factory=bytearray)

    def key(self, place: int, length: int) -> bytes | None:
        """The key at this place."""
        return None if length == NO_KEY else bytes(self.kept[place : place + length])


@dataclass(frozen=True, slots=True)
class Stretch:
    """An offset range that was read.

    Attributes:
        entries: of its records, in order of offset; other ranges may share them.
    """

    range: OffsetRange
    entries: bytearray

    def within(self, wanted: OffsetRange) -> Iterator[Entry]:
        """The entries of these offsets, in order."""
        first = self._place(max(wanted.start, self.range.start))
        last = self._place(min(wanted.end, self.range.end))
        yield from ENTRY.iter_unpack(memoryview(self.entries)[first:last])

    def _place(self, offset: int) -> int:
        """Where the first entry at or after an offset begins."""
        low, high = 0, len(self.entries) // ENTRY.size
        while low < high:
            middle = (low + high) // 2
            if ENTRY.unpack_from(self.entries, middle * ENTRY.size)[0] < offset:
                low = middle + 1
            else:
                high = middle
        return low * ENTRY.size


@dataclass(slots=True)
class Partition:
    """What is held of one partition: ranges in ascending order that do not overlap."""

    stretches: list[Stretch] = field(default_factory=list)

    def begin(self, ranges: Sequence[OffsetRange]) -> bytearray:
        """Where the entries of these ranges are to go; what was held of them is forgotten."""
        entries = bytearray()
        kept = [s for s in self.stretches if not any(_overlap(s.range, r) for r in ranges)]
        new = [Stretch(r, entries) for r in ranges]
        self.stretches = sorted([*kept, *new], key=lambda s: s.range.start)
        return entries

    def covers(self, ranges: Sequence[OffsetRange]) -> bool:
        """Whether every one of these offsets was read."""
        return all(self._covers(r) for r in ranges)

    def within(self, ranges: Sequence[OffsetRange]) -> Iterator[Entry]:
        """The entries of these offsets, in order."""
        for wanted in ranges:
            for stretch in self.stretches:
                if _overlap(stretch.range, wanted):
                    yield from stretch.within(wanted)

    def _covers(self, wanted: OffsetRange) -> bool:
        position = wanted.start
        for stretch in self.stretches:
            if stretch.range.start <= position < stretch.range.end:
                position = stretch.range.end
        return position >= wanted.end


def _overlap(one: OffsetRange, other: OffsetRange) -> bool:
    return one.start < other.end and other.start < one.end
