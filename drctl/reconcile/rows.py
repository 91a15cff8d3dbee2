"""The unreplicated records that a gap result lists, and what the run needs from outside."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from xxhash import xxh64_digest

from drctl.model.gap import OrderVerdict
from drctl.model.rows import Chunk, Headers, Row
from drctl.model.topology import OffsetRange, TopicPartition
from drctl.reconcile.progress import Change, Lane

_SMALL_GAP = 1_000
_MOST_RANGES = 5_000


class Wanted(NamedTuple):
    """An unreplicated record as the gap analysis saw it.

    Attributes:
        key: a digest of it; None for a null key.
        size: bytes of key, value and headers.
    """

    offset: int
    timestamp_ms: int
    key: bytes | None
    size: int
    order: OrderVerdict


class Tally(NamedTuple):
    """The records of a lane, or of its beginning.

    Attributes:
        untimed: how many have a timestamp that librdkafka cannot write.
        last: the offset of the last one; -1 where there is none.
    """

    records: int = 0
    bytes: int = 0
    untimed: int = 0
    last: int = -1


class WantedRows(Protocol):
    """The rows of a gap result, sorted, wherever they are kept."""

    def tallies(self) -> Mapping[Lane, Tally]:
        """What each lane holds."""

    def done(self, lane: Lane, through: int) -> Tally:
        """What a lane holds up to this offset."""

    def after(self, place: TopicPartition, through: Mapping[OrderVerdict, int]) -> Iterator[Wanted]:
        """The rows of these lanes of a partition, each lane's behind its offset, in order."""

    def offsets_after(
        self, place: TopicPartition, through: Mapping[OrderVerdict, int]
    ) -> Iterator[int]:
        """Their offsets."""


class SourceLog(Protocol):
    """Reads the source."""

    def read(self, topic: str, ranges: Mapping[int, Sequence[OffsetRange]]) -> Iterator[Chunk]:
        """Every committed record of these ranges, those of a partition in order.

        Raises:
            Unknown: something could not be read to its end.
        """


class Copier(Protocol):
    """Appends records and progress in one transaction; whoever opens it fences the one before."""

    def begin(self) -> None:
        """Begin a transaction."""

    def append(self, to: TopicPartition, row: Row, header: tuple[str, bytes]) -> None:
        """Append a copy of a record, with one more header.

        Raises:
            Stopped: this record cannot be written, or another run took over.
        """

    def settle(self) -> Mapping[TopicPartition, int]:
        """Wait until all of it is stored; the last offset in each partition that was appended to.

        Raises:
            DrctlError: some of it was not.
        """

    def keep(self, changes: Sequence[Change]) -> None:
        """Append progress.

        Raises:
            DrctlError: it was not stored.
        """

    def commit(self) -> None:
        """Make all of it count.

        Raises:
            Unknown: no answer came; whether it counts is not known.
            DrctlError: it does not count.
        """

    def abort(self) -> None:
        """Make nothing of it count; does nothing where no transaction is open."""


class Exporter(Protocol):
    """Takes records of an export; nothing counts before `finish`."""

    def add(self, to: "Exported") -> None:
        """Write one."""

    def finish(self) -> str:
        """Have all of it on disk; where it is."""


class Exported(NamedTuple):
    """A record of an export."""

    place: TopicPartition
    target_topic: str
    row: Row
    order: OrderVerdict


def key_digest(key: bytes | None) -> bytes | None:
    """What is kept of a key."""
    return None if key is None else xxh64_digest(key)


def size_of(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Bytes of key, value and headers, as the gap analysis counts them."""
    size = len(key or b"") + len(value or b"")
    if headers:
        size += sum(len(name) + len(content or b"") for name, content in headers)
    return size


def is_the_one(wanted: Wanted, row: Row) -> bool:
    """Whether a record of the log is the one that the gap analysis saw there."""
    offset, timestamp_ms, key, value, headers = row
    return (
        wanted.offset == offset
        and wanted.timestamp_ms == timestamp_ms
        and wanted.key == key_digest(key)
        and wanted.size == size_of(key, value, headers)
    )


def ranges_of(offsets: Iterable[int], start: int) -> list[OffsetRange]:
    """Few ranges that hold these ascending offsets, as far as they are not before `start`."""
    gap, found = _SMALL_GAP, list[OffsetRange]()
    for offset in offsets:
        if offset < start:
            continue
        if found and offset - found[-1].end < gap:
            found[-1] = OffsetRange(found[-1].start, offset + 1)
        else:
            found.append(OffsetRange(offset, offset + 1))
        if len(found) > _MOST_RANGES:
            gap *= 2
            found = _merged(found, gap)
    return found


def _merged(ranges: Iterable[OffsetRange], gap: int) -> list[OffsetRange]:
    found: list[OffsetRange] = []
    for each in ranges:
        if found and each.start - found[-1].end < gap:
            found[-1] = OffsetRange(found[-1].start, each.end)
        else:
            found.append(each)
    return found
