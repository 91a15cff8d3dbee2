"""Reads a gap result: what was compared, and which records are unreplicated."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from operator import add
from typing import Any, NamedTuple, Protocol

from xxhash import xxh64_digest

from drctl.model.errors import Refused
from drctl.model.gap import GapResult, OrderScope, OrderVerdict, PartitionGap, TopicGap
from drctl.model.gap_document import read_document
from drctl.model.strict_json import read_json
from drctl.model.text import plural
from drctl.model.topology import Headers, OffsetRange, Row, TopicPartition
from drctl.reconcile.progress import Change, RecordSet

_SMALL_GAP = 1_000
_MOST_RANGES = 5_000
_AT_ONCE = 10_000


class Piece(NamedTuple):
    """Consecutive records of one partition, at least one."""

    place: TopicPartition
    rows: Sequence[Row]


WantedRow = tuple[int, int, bytes | None, int, OrderVerdict]
"""An unreplicated record in the gap result: offset, timestamp, digest of its key (None for a null
key), bytes of key, value and headers, and what copying it would do to order."""


class Tally(NamedTuple):
    """Totals of a record set, or of its first records.

    Attributes:
        untimed: records with a timestamp that librdkafka cannot write.
        last: offset of the last record; -1 if there is none.
    """

    records: int = 0
    bytes: int = 0
    untimed: int = 0
    last: int = -1

    def without(self, done: "Tally") -> "Tally":
        """Return the totals without the records that are done."""
        return Tally(
            self.records - done.records,
            self.bytes - done.bytes,
            self.untimed - done.untimed,
            self.last,
        )


class WantedRows(Protocol):
    """The rows of a gap result, sorted."""

    def tallies(self) -> Mapping[RecordSet, Tally]:
        """Return the totals of each record set."""

    def done(self, record_set: RecordSet, through: int) -> Tally:
        """Return the totals of a record set up to this offset."""

    def after(
        self, place: TopicPartition, through: Mapping[OrderVerdict, int]
    ) -> Iterator[WantedRow]:
        """Yield the rows of a partition in order, without those up to `through`.

        Args:
            through: by order verdict, the last offset to leave out.
        """

    def offsets_after(
        self, place: TopicPartition, through: Mapping[OrderVerdict, int]
    ) -> Iterator[int]:
        """Yield the offsets of the rows that `after` yields."""


class SourceLog(Protocol):
    """Reads the source."""

    def read(self, topic: str, ranges: Mapping[int, Sequence[OffsetRange]]) -> Iterator[Piece]:
        """Yield every committed record of these ranges, in order within a partition.

        Raises:
            Unknown: a range could not be read completely.
        """


class Copier(Protocol):
    """Appends records and progress in one transaction; a new one fences its predecessor."""

    def begin(self) -> None:
        """Begin a transaction."""

    def append(self, to: TopicPartition, rows: Sequence[Row], stamps: Iterable[bytes]) -> None:
        """Append copies of records to a partition.

        Args:
            stamps: the value of each copy's provenance header, which follows its other headers.

        Raises:
            Stopped: a record cannot be written, or another run took over.
        """

    def settle(self) -> Mapping[TopicPartition, int]:
        """Wait until all records are stored; return the last offset appended to each partition.

        Raises:
            DrctlError: some records were not stored.
        """

    def keep(self, changes: Sequence[Change]) -> None:
        """Append progress.

        Raises:
            DrctlError: it was not stored.
        """

    def commit(self) -> None:
        """Commit the transaction.

        Raises:
            Unknown: no response; the outcome is unknown.
            DrctlError: it was not committed.
        """

    def abort(self) -> None:
        """Abort the transaction; do nothing if none is open."""


class Exporter(Protocol):
    """Writes an export; it is valid only after `finish`."""

    def begin(self, parts: Sequence["ExportedSet"]) -> None:
        """Prepare an export of these record sets.

        Raises:
            Refused: it would overwrite another export.
        """

    def add(self, to: "Exported") -> None:
        """Write a record."""

    def finish(self, parts: Sequence["ExportedSet"]) -> str:
        """Complete the export on disk; return its directory.

        Args:
            parts: the record sets as exported.
        """


class ExportedSet(NamedTuple):
    """A record set in an export.

    Attributes:
        after: source offset after which records were exported; -1 if all were.
        offsets: digest of the exported offsets, as listed in the gap result.
        records: records in the file of the partition.
        gone: records that no longer existed on the source.
    """

    record_set: RecordSet
    after: int
    offsets: str
    records: int
    gone: int = 0


class Exported(NamedTuple):
    """A record of an export."""

    place: TopicPartition
    target_topic: str
    row: Row
    order: OrderVerdict


def key_digest(key: bytes | None) -> bytes | None:
    """Return the digest of a key."""
    return None if key is None else xxh64_digest(key)


def size_of(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Return the bytes of key, value and headers, as counted by gap analysis."""
    size = len(key or b"") + len(value or b"")
    if headers:
        size += sum(len(name) + len(content or b"") for name, content in headers)
    return size


def compared(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    """Return what is compared with the gap result: timestamps, digests of keys, and sizes."""
    _, times, keys, values, headers = zip(*rows, strict=True)
    # map() with functions in C takes a third of the time; null and empty fields are rare.
    digests = map(xxh64_digest if all(keys) else key_digest, keys)
    if all(keys) and all(values) and not any(headers):
        return [times, tuple(digests), tuple(map(add, map(len, keys), map(len, values)))]
    return [times, tuple(digests), tuple(map(size_of, keys, values, headers))]


def ranges_of(offsets: Iterable[int], start: int) -> list[OffsetRange]:
    """Merge these ascending offsets into few ranges; skip offsets before `start`."""
    gap, found, coming = _SMALL_GAP, list[OffsetRange](), iter(offsets)
    while some := list(islice(coming, _AT_ONCE)):
        if some[-1] < start:
            continue
        first = max(start, some[0])
        if some[-1] - first < max(gap, len(some)):
            found = _merged([*found, OffsetRange(first, some[-1] + 1)], gap)
        else:
            ones = (OffsetRange(offset, offset + 1) for offset in some if offset >= start)
            found = _merged(chain(found, ones), gap)
        while len(found) > _MOST_RANGES:
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


_RUN_AGAIN = "run `drctl gap` again and use its output directory"


@dataclass(frozen=True, slots=True)
class FoundPartition:
    """The gap of one partition of the source.

    Attributes:
        target_range: None if the target had no such partition.
        whole: whether the whole source log was compared, from its start.
        newer_on_target: whether the target may hold records newer than an unreplicated one, if the
            result compared only records with the same key.
        source_topic_id: topic id; empty if the result does not contain it.
    """

    place: TopicPartition
    target_topic: str
    source_range: OffsetRange
    target_range: OffsetRange | None
    unreplicated: int
    whole: bool
    newer_on_target: bool
    source_topic_id: str = ""
    target_topic_id: str = ""

    @property
    def there(self) -> TopicPartition:
        """The partition with the same number on the target."""
        return TopicPartition(self.target_topic, self.place.partition)


@dataclass(frozen=True, slots=True)
class FoundGap:
    """A gap result.

    Attributes:
        id: digest of the result; progress is stored under it.
        not_compared: what the result does not cover, in words; empty if it is complete.
    """

    id: str
    link: str
    source: str
    source_id: str
    target: str
    target_id: str
    started: str
    partitions: tuple[FoundPartition, ...]
    not_compared: tuple[str, ...]

    @property
    def topics(self) -> tuple[str, ...]:
        """Names of all topics on the source."""
        return tuple(dict.fromkeys(p.place.topic for p in self.partitions))


def read_gap(text: str, where: str) -> FoundGap:
    """Parse `gap.json`.

    Args:
        where: the directory, for messages.

    Raises:
        Refused: it is not a valid gap result.
    """
    try:
        kept = read_document(read_json(text))
    except ValueError as wrong:
        raise Refused(f"no valid gap result in {where}: {wrong}", _RUN_AGAIN) from None
    result = kept.result
    return FoundGap(
        kept.id,
        result.link,
        result.source,
        result.source_id,
        result.target,
        result.target_id,
        result.started.isoformat(timespec="milliseconds"),
        tuple(
            _partition(topic, each, result.within)
            for topic in result.topics
            for each in topic.partitions
        ),
        tuple(_not_compared(result)),
    )


def others_of(gap: FoundGap, result: GapResult) -> FoundGap:
    """Return the gap with superseded and expired records counted instead of unreplicated ones."""
    counts = {
        TopicPartition(topic.topic, each.partition): each.counts.superseded + each.counts.expired
        for topic in result.topics
        for each in topic.partitions
    }
    return replace(
        gap, partitions=tuple(replace(p, unreplicated=counts[p.place]) for p in gap.partitions)
    )


def check_rows(gap: FoundGap, tallies: Mapping[RecordSet, Tally], where: str) -> None:
    """Check that the listed records match the counts in `gap.json`.

    Raises:
        Refused: they do not.
    """
    listed: Counter[TopicPartition] = Counter()
    for record_set, tally in tallies.items():
        listed[record_set.place] += tally.records
    counted = Counter({p.place: p.unreplicated for p in gap.partitions if p.unreplicated})
    if listed != counted:
        place = min(p for p in listed | counted if listed[p] != counted[p])
        raise Refused(
            f"damaged gap result: {where} lists {listed[place]} records of {place}, gap.json says"
            f" {counted[place]}",
            _RUN_AGAIN,
        )


def _partition(topic: TopicGap, gap: PartitionGap, within: OrderScope) -> FoundPartition:
    return FoundPartition(
        TopicPartition(topic.topic, gap.partition),
        topic.target_topic,
        gap.source_range,
        gap.target_range,
        gap.counts.unreplicated,
        gap.window is None or gap.window.whole,
        within is OrderScope.KEY and _newer(gap),
        topic.topic_id,
        topic.target_topic_id,
    )


def _newer(gap: PartitionGap) -> bool:
    """Whether the target may hold records newer than an unreplicated one.

    To be safe, a transaction marker at the end of the source counts as a newer record.
    """
    if not gap.counts.unreplicated:
        return False
    tail = gap.ranges_total == 1 and gap.ranges[0][1] == gap.source_range.end - 1
    return bool(gap.counts.only_on_target) or not tail


def _not_compared(result: GapResult) -> Iterator[str]:
    for item in result.not_compared:
        which = "" if item.partition is None else f"-{item.partition}"
        yield f"{item.topic}{which}: {item.reason}"
    if undecided := result.totals.undecided:
        yield f"{plural(undecided, 'offset')} on the source were in open transactions"
