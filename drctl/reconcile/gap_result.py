"""A gap result as it is read back: what was compared, and how many records are to be decided."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, NamedTuple, Protocol

from xxhash import xxh64_digest

from drctl.model.errors import Refused
from drctl.model.gap import GapResult, OrderScope, OrderVerdict, PartitionGap, TopicGap
from drctl.model.gap_document import read_document
from drctl.model.strict_json import read_json
from drctl.model.topology import Headers, OffsetRange, Row, TopicPartition
from drctl.reconcile.progress import Change, RecordSet

_SMALL_GAP = 1_000
_MOST_RANGES = 5_000
_AT_ONCE = 10_000


Seen = tuple[int, int, bytes | None, int, Any]
"""A record of the log: offset, timestamp, digest of its key, size as gap analysis counts it, and
the record itself, which only a copier or an exporter looks into."""

Copy = tuple[TopicPartition, Seen, bytes]
"""Where a record goes to, and the value of the provenance header that it gets."""


class Piece(NamedTuple):
    """Some records of one partition, in order; the next piece of it continues after them."""

    place: TopicPartition
    rows: Sequence[Seen]


WantedRow = tuple[int, int, bytes | None, int, OrderVerdict]
"""An unreplicated record as the gap analysis saw it: offset, timestamp, digest of its key (None for
a null key), bytes of key, value and headers, and what copying it would do to order."""


class Tally(NamedTuple):
    """The records of a record set, or of its beginning.

    Attributes:
        untimed: how many have a timestamp that librdkafka cannot write.
        last: the offset of the last one; -1 where there is none.
    """

    records: int = 0
    bytes: int = 0
    untimed: int = 0
    last: int = -1

    def without(self, done: "Tally") -> "Tally":
        """What is left behind these; the last record stays the last one."""
        return Tally(
            self.records - done.records,
            self.bytes - done.bytes,
            self.untimed - done.untimed,
            self.last,
        )


class WantedRows(Protocol):
    """The rows of a gap result, sorted, wherever they are kept."""

    def tallies(self) -> Mapping[RecordSet, Tally]:
        """What each record set holds."""

    def done(self, record_set: RecordSet, through: int) -> Tally:
        """What a record set holds up to this offset."""

    def after(
        self, place: TopicPartition, through: Mapping[OrderVerdict, int]
    ) -> Iterator[WantedRow]:
        """The rows of a partition after the offset of their order verdict, in order."""

    def offsets_after(
        self, place: TopicPartition, through: Mapping[OrderVerdict, int]
    ) -> Iterator[int]:
        """Their offsets."""


class SourceLog(Protocol):
    """Reads the source."""

    def read(self, topic: str, ranges: Mapping[int, Sequence[OffsetRange]]) -> Iterator[Piece]:
        """Every committed record of these ranges, those of a partition in order, each as a `Row`.

        Raises:
            Unknown: something could not be read to its end.
        """


class Copier(Protocol):
    """Appends records and progress in one transaction; whoever opens it fences the one before."""

    def begin(self) -> None:
        """Begin a transaction."""

    def append(self, copies: Sequence[Copy]) -> None:
        """Append copies of records, each with its provenance header after its own headers.

        Raises:
            Stopped: one cannot be written, or another run took over.
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

    def begin(self, parts: Sequence["ExportedSet"]) -> None:
        """Make room for an export of this, as far as it is known before.

        Raises:
            Refused: another one would have to go for it.
        """

    def add(self, to: "Exported") -> None:
        """Write one."""

    def finish(self, parts: Sequence["ExportedSet"]) -> str:
        """Have all of it on disk; where it is.

        Args:
            parts: what it holds, as it turned out.
        """


class ExportedSet(NamedTuple):
    """What an export holds of a record set.

    Attributes:
        after: the source offset after which the records were exported; -1 where all of them were.
        offsets: a digest of the offsets after it, as the gap result lists them.
        records: how many of them are in the file of the partition.
        gone: how many of them the source did not hold any more.
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
    """What is kept of a key."""
    return None if key is None else xxh64_digest(key)


def size_of(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Bytes of key, value and headers, as the gap analysis counts them."""
    size = len(key or b"") + len(value or b"")
    if headers:
        size += sum(len(name) + len(content or b"") for name, content in headers)
    return size


def seen_of(row: Row) -> Seen:
    """What is looked at of a record that is whole."""
    offset, timestamp_ms, key, value, headers = row
    return offset, timestamp_ms, key_digest(key), size_of(key, value, headers), row


def ranges_of(offsets: Iterable[int], start: int) -> list[OffsetRange]:
    """Few ranges that hold these ascending offsets, as far as they are not before `start`."""
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


_RUN_AGAIN = "run `drctl gap` again and give its folder"


@dataclass(frozen=True, slots=True)
class FoundPartition:
    """The gap of one partition of the source.

    Attributes:
        target_range: None where the target had no such partition.
        whole: whether all of the source's log was compared, from its start.
        newer_on_target: whether the target may hold something newer than an unreplicated record,
            where the result does not say so record by record: it judged by key.
        source_topic_id: Kafka's id of the topic; empty where the result does not say.
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
        """The partition of the same number on the target."""
        return TopicPartition(self.target_topic, self.place.partition)


@dataclass(frozen=True, slots=True)
class FoundGap:
    """A gap result.

    Attributes:
        id: made of all that the result says: progress is kept by it.
        not_compared: what the result does not cover, in words; empty where it is complete.
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
        """The names of all topics, as the source has them."""
        return tuple(dict.fromkeys(p.place.topic for p in self.partitions))


def read_gap(text: str, where: str) -> FoundGap:
    """What `gap.json` says.

    Args:
        where: the folder, for messages.

    Raises:
        Refused: it is no gap result that can be acted upon.
    """
    try:
        kept = read_document(read_json(text))
    except ValueError as wrong:
        raise Refused(f"{where} holds no gap result: {wrong}", _RUN_AGAIN) from None
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
    """The same, counting superseded and expired records instead of unreplicated ones."""
    counts = {
        TopicPartition(topic.topic, each.partition): each.counts.superseded + each.counts.expired
        for topic in result.topics
        for each in topic.partitions
    }
    return replace(
        gap, partitions=tuple(replace(p, unreplicated=counts[p.place]) for p in gap.partitions)
    )


def check_rows(gap: FoundGap, tallies: Mapping[RecordSet, Tally], where: str) -> None:
    """See that the records that are listed are those that were counted.

    Raises:
        Refused: they are not.
    """
    listed: Counter[TopicPartition] = Counter()
    for record_set, tally in tallies.items():
        listed[record_set.place] += tally.records
    counted = Counter({p.place: p.unreplicated for p in gap.partitions if p.unreplicated})
    if listed != counted:
        place = min(p for p in listed | counted if listed[p] != counted[p])
        raise Refused(
            f"{where} lists {listed[place]} records of {place}, gap.json counted"
            f" {counted[place]}: it is damaged",
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
    """Careful: a marker of a transaction at the end of the source counts like a record."""
    if not gap.counts.unreplicated:
        return False
    tail = gap.ranges_total == 1 and gap.ranges[0][1] == gap.source_range.end - 1
    return bool(gap.counts.only_on_target) or not tail


def _not_compared(result: GapResult) -> Iterator[str]:
    for item in result.not_compared:
        which = "" if item.partition is None else f"-{item.partition}"
        yield f"{item.topic}{which}: {item.reason}"
    if undecided := result.totals.undecided:
        yield f"{undecided} offsets of the source lay behind an open transaction"
