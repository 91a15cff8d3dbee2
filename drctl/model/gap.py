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
    """Within what records have an order that somebody relies upon."""

    KEY = "key"
    PARTITION = "partition"


@dataclass(frozen=True, slots=True)
class Inversion:
    """A replicated record that stands on the target before one that it follows on the source.

    Attributes:
        offset: of the record on the source.
        target_partition: where its copy is; both copies are in the same one.
        earlier_offset: of the record that it follows on the source.
        earlier_target_offset: of that one's copy, which stands behind.
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
    """A partition of the source that holds what the target has not.

    Attributes:
        cut_from: the first offset that is not on the target: truncate-and-restore cuts here; None
            where only records before what the target still holds are not there.
        end: the end of the partition when it was looked at.
        records: that are nowhere but here.
        others: superseded or expired ones, which the target has not either.
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
        """How many offsets a cut takes; those of them that the target holds come back from it."""
        return 0 if self.cut_from is None else self.end - self.cut_from


@dataclass(frozen=True, slots=True)
class Export:
    """Where the records are kept that are nowhere else.

    Attributes:
        gone: how many of them were gone from the source before they could be exported.
        others: superseded and expired ones, in a folder within; None where nobody asked for them.
        others_gone: likewise.
        appended: offsets that were appended to the source since the comparison: what they hold was
            neither compared nor exported.
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
        export: None where nobody asked for any.
    """

    partitions: tuple[TruncatedPartition, ...]
    export: Export | None = None

    @property
    def totals(self) -> Mapping[str, int]:
        """Of all partitions."""
        names = ("offsets_cut", "records", "bytes", "others", "other_bytes")
        return {name: sum(getattr(each, name) for each in self.partitions) for name in names}


class RecordClass(StrEnum):
    """What became of a record (design: gap analysis, classes)."""

    UNREPLICATED = "unreplicated"
    SUPERSEDED = "superseded"
    EXPIRED = "expired"
    ONLY_ON_TARGET = "only_on_target"
    DUPLICATED_ON_TARGET = "duplicated_on_target"


class Engine(StrEnum):
    """What compares the records.

    AUTO: drctl itself where few are to be read, else Spark.
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
    """Numbers of records, but for `undecided`: offsets behind the last stable one."""

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
    """Unreplicated records by what copying them would do.

    Attributes:
        inversions: replicated records that stand on the target before one that they follow on the
            source; None where nobody looked for any.
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
    """Where reading of a partition began, and why there.

    Attributes:
        source_start: first source offset that was compared; target_start: likewise.
        position: first source offset that replication may not have reached; None: nobody says.
        evidence: who says so.
        margin: offsets before the position that were to be compared too.
        whole: whether all of the partition was compared.
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
    """One partition of the source and what of it is not on the target.

    Attributes:
        source_range: what was compared: `[log start, end)` at the freeze, or the window of it.
        target_range: the same of the target's partition; None where the target has no such one.
        ranges: maximal runs of unreplicated offsets, inclusive. They start and end on a committed
            record and may bridge offsets that hold none.
        ranges_total: how many such runs there are; `ranges` holds the first of them.
        bytes: key, value and header bytes of the unreplicated records.
        other_bytes: the same of superseded and expired ones.
        misplaced: unreplicated records whose equal lies in another partition of the target.
        repeated: unreplicated records with an equal on the target, which holds it less often than
            the source does: second copies, where something wrote a record twice.
        oldest_timestamp: milliseconds UTC; None where nothing is unreplicated.
        window: why not all of it was compared; None where all was.
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
        notes: what a reader must know about how this topic was compared.
        topic_id: Kafka's id of the topic on the source; empty where it is not known.
        target_topic_id: the same on the target; empty where there is no such topic.
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
    """Something the answer does not cover, and why; a whole topic where partition is None."""

    topic: Name
    partition: Count | None
    reason: Name


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Something a ledger knew of a log that does not hold any more, and why.

    Attributes:
        side: `source` or `target`.
    """

    topic: str
    side: Annotated[str, ("enum", ("source", "target"))]
    partition: Count
    reason: str


@dataclass(frozen=True, slots=True)
class LedgerUse:
    """What a ledger of earlier runs gave to this one.

    Attributes:
        where: where the ledger is kept.
        offsets_known: how many offsets, of both sides, were not read again.
        oldest_ms: when the oldest of them was read, milliseconds UTC; None without any.
        kept: whether what was read now was added.
        why_not: why it was not; empty where it was.
    """

    where: str
    offsets_known: Count
    oldest_ms: int | None
    kept: bool
    forgotten: tuple[Forgotten, ...] = ()
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Where in time the unreplicated records of the worst partitions lie.

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
    """An unreplicated record to look at.

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
    """Everything `drctl gap` found out.

    Attributes:
        source: name of the cluster that replication reads from.
        source_id: its cluster id.
        started: when the offsets were frozen, UTC.
        records_path: where the Parquet of unreplicated records is, relative to `out`.
        within: what has an order that somebody relies upon.
        inversions: some of them; None where nobody looked for any.
        truncation: None where nobody asked for it.
        engine: SPARK where Spark took any part; AUTO where it is not known (earlier versions).
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
    partitions: tuple[PartitionGap, ...] = field(init=False, repr=False, compare=False)
    totals: Counts = field(init=False, repr=False, compare=False)
    order: OrderCounts = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Add up once: there may be ten thousand partitions."""
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
        """5 where not complete, else 1 where anything is unreplicated, else 0."""
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
    """Unreplicated records by what copying them would do.

    Attributes:
        inversions: null: not checked.
        within: what has an order (policy.order); absent in older results: key.
    """

    safe: Count
    conflicting: Count
    unkeyed: Count
    inversions: Count | None
    within: Annotated[OrderScope, MAYBE]


class PartitionDocument(Document):
    """One partition of the source and what of it is not on the target.

    Attributes:
        source_range: what was compared: [log start, end) at the freeze, or the window of it.
        target_range: null where the target has no such partition.
        ranges: inclusive source offsets, maximal runs.
        repeated: unreplicated records with an equal on the target, which holds it less often:
            second copies.
        oldest_timestamp: milliseconds since 1970 UTC; null where nothing is unreplicated.
        newest_timestamp: milliseconds since 1970 UTC; null where nothing is unreplicated.
        window: null where all was compared.
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
        topic_id: Kafka's id of the topic on the source; null where the cluster gives none, absent
            in older results.
        target_topic_id: the same on the target; null also where it has no such topic.
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
        records: unreplicated: nowhere but on the source.
        others: superseded or expired: not on the target either.
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
        records: unreplicated: nowhere but on the source.
        others: superseded or expired: not on the target either.
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
        engine: what compared the records: spark where Spark took any part; null or absent in
            results of earlier versions.
        ledger: null: run without a ledger.
        inversions: some of them; null, or absent in older results: nobody looked (--order).
        truncation: of `drctl gap truncation`.
    """

    SCHEMA = "drctl/gap/1"
    read = From(GapResult)
    link: Name
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
