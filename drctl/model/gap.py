"""The answer of a gap analysis: which source records are not on the target.

`to_json` is the document `drctl/gap/1` of the command contract.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from drctl.model.document import (
    HIDDEN,
    MAYBE,
    OPTIONAL,
    Count,
    Document,
    From,
    Moment,
    Name,
    Seconds,
)
from drctl.model.errors import ExitCode
from drctl.model.topology import OffsetRange


class OrderScope(StrEnum):
    """The scope within which applications rely on the order of records."""

    KEY = "key"
    PARTITION = "partition"


@dataclass(frozen=True, slots=True)
class Inversion:
    """A replicated record that precedes another one on the target, but follows it on the source.

    Attributes:
        offset: source offset of the record.
        target_partition: target partition of both copies.
        earlier_offset: source offset of the record that it follows on the source.
        earlier_target_offset: target offset of that record's copy, which comes later.
    """

    topic: str
    partition: Count
    offset: Count
    target_partition: Count
    target_offset: Count
    earlier_offset: Count
    earlier_target_offset: Count


@dataclass(frozen=True, slots=True)
class TruncatedPartition:
    """A source partition with records that the target does not have.

    Attributes:
        cut_from: the first offset that is not on the target, where truncate-and-restore cuts; None
            if only records older than everything on the target are missing there.
        end: end offset of the partition when it was read.
        records: number of records that exist only here.
        others: number of superseded or expired records, which the target does not have either.
    """

    topic: str
    partition: int
    cut_from: int | None
    end: int
    records: int
    bytes: int
    others: int
    other_bytes: int

    @property
    def offsets_cut(self) -> int:
        """Number of offsets that a cut removes; records on the target are restored from there."""
        return 0 if self.cut_from is None else self.end - self.cut_from


@dataclass(frozen=True, slots=True)
class Export:
    """The export of records that exist only on the source.

    Attributes:
        gone: number of records that the source deleted before they could be exported.
        others: number of superseded and expired records, in a subfolder; null if not requested.
        others_gone: the same as `gone`, for superseded and expired records.
        appended: number of offsets appended to the source since the comparison, which were neither
            compared nor exported.
    """

    folder: str
    records: Count
    gone: Count
    others: Annotated[Count | None, MAYBE] = None
    others_gone: Annotated[Count, MAYBE] = 0
    appended: Annotated[Count, MAYBE] = 0


@dataclass(frozen=True, slots=True)
class Truncation:
    """All partitions that would lose anything, by topic and number.

    Attributes:
        export: None if not requested.
    """

    partitions: tuple[TruncatedPartition, ...]
    export: Export | None = None

    @property
    def totals(self) -> Mapping[str, int]:
        """The sum over partitions."""
        names = ("offsets_cut", "records", "bytes", "others", "other_bytes")
        return {name: sum(getattr(each, name) for each in self.partitions) for name in names}


class RecordClass(StrEnum):
    """The class of a record in a comparison."""

    UNREPLICATED = "unreplicated"
    SUPERSEDED = "superseded"
    EXPIRED = "expired"
    ONLY_ON_TARGET = "only_on_target"
    DUPLICATED_ON_TARGET = "duplicated_on_target"


class Engine(StrEnum):
    """The engine that compares records.

    AUTO: drctl itself for few records, else Spark.
    """

    AUTO = "auto"
    SPARK = "spark"
    DIRECT = "direct"


class OrderVerdict(StrEnum):
    """What copying an unreplicated record would do to the order of its key."""

    SAFE = "safe"
    CONFLICTING = "conflicting"
    UNKEYED = "unkeyed"


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of records; `undecided` counts offsets at or after the last stable offset."""

    read_from_source: Count = 0
    read_from_target: Count = 0
    unreplicated: Count = 0
    only_on_target: Count = 0
    duplicated_on_target: Count = 0
    superseded: Count = 0
    expired: Count = 0
    undecided: Count = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True, slots=True)
class OrderCounts:
    """Unreplicated records by the effect of copying them on order.

    Attributes:
        inversions: number of replicated records that precede another one on the target, but
            follow it on the source; None if not checked.
    """

    safe: int = 0
    conflicting: int = 0
    unkeyed: int = 0
    inversions: int | None = None

    def __add__(self, other: "OrderCounts") -> "OrderCounts":
        return OrderCounts(
            self.safe + other.safe,
            self.conflicting + other.conflicting,
            self.unkeyed + other.unkeyed,
            _sum(self.inversions, other.inversions),
        )


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None and other is None else (one or 0) + (other or 0)


@dataclass(frozen=True, slots=True)
class Window:
    """Where reading of a partition began, and why.

    Attributes:
        source_start: first source offset that was compared; target_start: likewise.
        position: first source offset that replication has possibly not reached; null if unknown.
        evidence: source of that information.
        margin: number of offsets before the position that are compared, too.
        whole: whether the whole partition was compared.
    """

    topic: Annotated[str, HIDDEN]
    partition: Annotated[int, HIDDEN]
    source_start: Annotated[int, HIDDEN]
    target_start: Annotated[int, HIDDEN]
    position: Count | None
    evidence: str
    margin: Count
    whole: bool


@dataclass(frozen=True, slots=True)
class PartitionGap:
    """A source partition and its records that are not on the target.

    Attributes:
        source_range: compared offsets: `[log start, end)` at the freeze, or a window of it.
        target_range: the same for the target's partition; None if it does not exist.
        ranges: maximal runs of unreplicated offsets, inclusive. They start and end on a committed
            record and may bridge offsets that hold none.
        ranges_total: number of such runs; `ranges` has the first of them.
        bytes: key, value and header bytes of the unreplicated records.
        other_bytes: the same for superseded and expired records.
        misplaced: unreplicated records with an equal record in another target partition.
        repeated: unreplicated records with an equal record on the target, which has fewer copies of
            it than the source: something wrote the record twice.
        oldest_timestamp: milliseconds UTC; None if everything is replicated.
        window: why only part of it was compared; None if all was.
    """

    partition: int
    source_range: OffsetRange
    target_range: OffsetRange | None
    counts: Counts
    order: OrderCounts = OrderCounts()
    bytes: int = 0
    ranges: tuple[tuple[int, int], ...] = ()
    ranges_total: int = 0
    misplaced: int = 0
    oldest_timestamp: int | None = None
    newest_timestamp: int | None = None
    window: Window | None = None
    other_bytes: int = 0
    repeated: int = 0


@dataclass(frozen=True, slots=True)
class TopicGap:
    """One topic of the link.

    Attributes:
        target_topic: its name on the target.
        notes: notes on how this topic was compared.
        topic_id: topic id on the source; empty if unknown.
        target_topic_id: topic id on the target; empty if it does not exist.
    """

    topic: str
    target_topic: str
    partitions: tuple[PartitionGap, ...]
    notes: tuple[str, ...] = ()
    topic_id: str = ""
    target_topic_id: str = ""

    @property
    def counts(self) -> Counts:
        """The sum over partitions."""
        return sum((p.counts for p in self.partitions), Counts())


@dataclass(frozen=True, slots=True)
class NotCompared:
    """A partition that was not compared, and why; the whole topic if partition is null."""

    topic: Name
    partition: Count | None
    reason: Name


@dataclass(frozen=True, slots=True)
class DiscardedDigests:
    """A ledger entry that is no longer valid, and why.

    Attributes:
        side: `source` or `target`.
    """

    topic: str
    side: Annotated[str, ("enum", ("source", "target"))]
    partition: Count
    reason: str


@dataclass(frozen=True, slots=True)
class LedgerUse:
    """The use of the ledger of earlier runs.

    Attributes:
        where: location of the ledger.
        offsets_known: number of offsets, on both clusters, that were not read again.
        oldest_ms: when the oldest of them was read, milliseconds UTC; null if there are none.
        kept: whether the offsets read now were added.
        not_kept_reason: why they were not added; empty if they were.
        discarded: digests of earlier runs that are no longer valid.
    """

    where: str
    offsets_known: Count
    oldest_ms: int | None
    kept: bool
    discarded: tuple[DiscardedDigests, ...] = ()
    not_kept_reason: str = ""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Histogram of the timestamps of unreplicated records in the worst partitions.

    Attributes:
        start_ms: left edge of the first bin, milliseconds UTC.
        width_ms: width of each bin.
        rows: (topic, partition, records per bin); all rows have as many bins.
    """

    start_ms: int
    width_ms: int
    rows: tuple[tuple[str, int, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class Example:
    """An example of an unreplicated record.

    Attributes:
        key: first bytes of the key; None for a null key.
        value: first bytes of the value; None for a tombstone.
        size: key, value and header bytes of the whole record.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    size: int
    order: OrderVerdict


@dataclass(frozen=True, slots=True)
class GapResult:
    """The result of `drctl gap`.

    Attributes:
        source: name of the cluster that replication reads from.
        source_id: its cluster id.
        started: when the offsets were frozen, UTC.
        records_path: path of the Parquet files of unreplicated records, relative to `out`.
        within: the scope within which applications rely on order.
        inversions: examples; None if not checked.
        truncation: None if not requested.
        engine: SPARK if Spark was involved; AUTO if unknown (earlier versions).
        reverse_of: the link in drctl.yaml, if its reverse direction was compared; else None.
    """

    link: str
    scope: str
    source: str
    source_id: str
    target: str
    target_id: str
    started: datetime
    seconds: float
    out: str
    topics: tuple[TopicGap, ...]
    not_compared: tuple[NotCompared, ...] = ()
    histogram: Histogram | None = None
    examples: tuple[Example, ...] = ()
    records_path: str = "records"
    ledger: LedgerUse | None = None
    within: OrderScope = OrderScope.KEY
    inversions: tuple[Inversion, ...] | None = None
    truncation: Truncation | None = None
    engine: Engine = Engine.AUTO
    reverse_of: str | None = None
    partitions: tuple[PartitionGap, ...] = field(init=False, repr=False, compare=False)
    totals: Counts = field(init=False, repr=False, compare=False)
    order: OrderCounts = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """The sums; cached, because there may be ten thousand partitions."""
        partitions = tuple(p for t in self.topics for p in t.partitions)
        object.__setattr__(self, "partitions", partitions)
        object.__setattr__(self, "totals", sum((p.counts for p in partitions), Counts()))
        object.__setattr__(self, "order", sum((p.order for p in partitions), OrderCounts()))

    @property
    def complete(self) -> bool:
        """Whether every offset of the stated ranges was read or accounted for."""
        return not self.not_compared and self.totals.undecided == 0

    @property
    def exit_code(self) -> ExitCode:
        """5 if incomplete, else 1 if anything is unreplicated, else 0."""
        if not self.complete:
            return ExitCode.UNKNOWN
        return ExitCode.FOUND if self.totals.unreplicated else ExitCode.DONE

    def to_json(self) -> dict[str, Any]:
        """The document `drctl/gap/1`."""
        return GapDocument.of(self).to_json()


class SideDocument(Document):
    """A cluster."""

    cluster: Name
    id: str


class OrderDocument(Document):
    """Unreplicated records by the effect of copying them on order.

    Attributes:
        inversions: null: not checked.
        within: the scope of order (policy.order); absent in older results: key.
    """

    safe: Count
    conflicting: Count
    unkeyed: Count
    inversions: Count | None
    within: Annotated[OrderScope, MAYBE]


class PartitionDocument(Document):
    """A source partition and its records that are not on the target.

    Attributes:
        source_range: compared offsets: [log start, end) at the freeze, or a window of it.
        target_range: null if the target has no such partition.
        ranges: inclusive ranges of consecutive source offsets.
        repeated: unreplicated records with an equal record on the target, which has fewer copies of
            it.
        oldest_timestamp: milliseconds since 1970 UTC; null if everything is replicated.
        newest_timestamp: milliseconds since 1970 UTC; null if everything is replicated.
        window: null if the whole partition was compared.
        inversions: null, or absent in older results: not checked.
    """

    read = From(PartitionGap)
    partition: Count
    source_range: tuple[Count, Count] = read(lambda p: p.source_range)
    target_range: tuple[Count, Count] | None = read(lambda p: p.target_range)
    read_from_source: Count = read(lambda p: p.counts.read_from_source)
    read_from_target: Count = read(lambda p: p.counts.read_from_target)
    unreplicated: Count = read(lambda p: p.counts.unreplicated)
    only_on_target: Count = read(lambda p: p.counts.only_on_target)
    duplicated_on_target: Count = read(lambda p: p.counts.duplicated_on_target)
    superseded: Count = read(lambda p: p.counts.superseded)
    expired: Count = read(lambda p: p.counts.expired)
    undecided: Count = read(lambda p: p.counts.undecided)
    safe: Count = read(lambda p: p.order.safe)
    conflicting: Count = read(lambda p: p.order.conflicting)
    unkeyed: Count = read(lambda p: p.order.unkeyed)
    inversions: Annotated[Count | None, MAYBE] = read(lambda p: p.order.inversions)
    bytes: Count
    ranges: tuple[tuple[Count, Count], ...]
    ranges_total: Count
    misplaced: Count
    repeated: Annotated[Count, MAYBE]
    oldest_timestamp: int | None
    newest_timestamp: int | None
    window: Window | None


class TopicDocument(Document):
    """One topic of the link.

    Attributes:
        topic_id: topic id on the source; null if the cluster reports none, absent in older results.
        target_topic_id: the same on the target; null also if the topic does not exist.
    """

    read = From(TopicGap)
    topic: Name
    target_topic: Name
    topic_id: Annotated[str | None, MAYBE] = read(lambda t: t.topic_id or None)
    target_topic_id: Annotated[str | None, MAYBE] = read(lambda t: t.target_topic_id or None)
    notes: tuple[str, ...]
    partitions: tuple[PartitionDocument, ...]


class CutDocument(Document):
    """What truncate-and-restore would cut of a partition.

    Attributes:
        cut_from: first offset that is not on the target.
        offsets_cut: offsets that truncate-and-restore would cut.
        records: unreplicated records, which exist only on the source.
        others: superseded or expired records, which are not on the target either.
    """

    topic: str
    partition: Count
    cut_from: Count | None
    end: Count
    offsets_cut: Count
    records: Count
    bytes: Count
    others: Count
    other_bytes: Count


class TruncationDocument(Document):
    """What truncate-and-restore would cut.

    Attributes:
        offsets_cut: offsets that truncate-and-restore would cut.
        records: unreplicated records, which exist only on the source.
        others: superseded or expired records, which are not on the target either.
        export: with --export.
    """

    read = From(Truncation)
    offsets_cut: Count = read(lambda t: t.totals["offsets_cut"])
    records: Count = read(lambda t: t.totals["records"])
    bytes: Count = read(lambda t: t.totals["bytes"])
    others: Count = read(lambda t: t.totals["others"])
    other_bytes: Count = read(lambda t: t.totals["other_bytes"])
    export: Export | None
    partitions: tuple[CutDocument, ...]


class GapDocument(Document):
    """The records of a link's source that are not on its target.

    Attributes:
        out: folder of the whole result.
        engine: what compared the records: spark if Spark was involved; null or absent in results of
            earlier versions.
        ledger: null: run without a ledger.
        inversions: examples; null, or absent in older results: not checked (--order).
        truncation: of `drctl gap truncation`.
        reverse_of: the link in drctl.yaml, if a failback compared its reverse direction.
    """

    SCHEMA = "drctl/gap/1"
    read = From(GapResult)
    link: Name
    reverse_of: Annotated[Name | None, OPTIONAL]
    scope: Annotated[str, ("enum", ("auto", "full", "tail", "estimate"))]
    complete: bool
    out: str
    source: SideDocument = read(lambda g: SideDocument(cluster=g.source, id=g.source_id))
    target: SideDocument = read(lambda g: SideDocument(cluster=g.target, id=g.target_id))
    started: Moment = read(lambda g: g.started.isoformat(timespec="milliseconds"))
    seconds: Seconds = read(lambda g: round(g.seconds, 3))
    engine: Annotated[str | None, ("enum", ("spark", "direct", None)), MAYBE] = read(
        lambda g: None if g.engine is Engine.AUTO else g.engine.value
    )
    totals: Counts
    order: OrderDocument = read(lambda g: OrderDocument.of(g.order, within=g.within))
    inversions: Annotated[tuple[Inversion, ...] | None, MAYBE]
    ledger: LedgerUse | None
    topics: tuple[TopicDocument, ...]
    not_compared: tuple[NotCompared, ...]
    truncation: Annotated[TruncationDocument | None, OPTIONAL]
