"""An estimate of missing records from offsets alone, without reading any record.

`to_json` is the document `drctl/gap-estimate/1`. It is never proof;
see docs/explanation/comparison.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal

from drctl.model.document import Count, Document, From, Moment, Name, Seconds
from drctl.model.errors import ExitCode
from drctl.model.gap import NotCompared, SideDocument
from drctl.model.topology import OffsetRange

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MS = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)


class Uncertainty(StrEnum):
    """Why the numbers of a partition may be wrong; explained in `MEANINGS`."""

    TRANSACTIONS = "transactions"
    TRANSACTIONS_ON_TARGET = "transactions_on_target"
    OPEN_TRANSACTION = "open_transaction"
    OPEN_TRANSACTION_ON_TARGET = "open_transaction_on_target"
    COMPACTED = "compacted"
    TIMES_NOT_COMPARABLE = "times_not_comparable"
    CLOCKS_OUT_OF_ORDER = "clocks_out_of_order"
    DELETED_ON_SOURCE = "deleted_on_source"
    DELETED_ON_TARGET = "deleted_on_target"
    AHEAD_ON_TARGET = "ahead_on_target"
    COARSE = "coarse"
    CONFIGURATION_UNKNOWN = "configuration_unknown"
    NOT_ON_TARGET = "not_on_target"
    WHOLE_TOPIC = "whole_topic"


MEANINGS = {
    Uncertainty.TRANSACTIONS: (
        "transactions were used on the source cluster, or this user may not see topic "
        "__transaction_state: control records and aborted records have offsets too, so counts may "
        "be too high, and the lower bound is 0"
    ),
    Uncertainty.TRANSACTIONS_ON_TARGET: (
        "transactions were used on the target cluster, or this user may not see topic "
        "__transaction_state: control records are counted as records and may hide missing ones"
    ),
    Uncertainty.OPEN_TRANSACTION: (
        "a transaction is open on the source: offsets from the last stable offset on are undecided "
        "and not counted"
    ),
    Uncertainty.OPEN_TRANSACTION_ON_TARGET: (
        "a transaction is open on the target: its offsets may or may not become records"
    ),
    Uncertainty.COMPACTED: (
        "the topic is compacted on a cluster, so offset ranges do not give record counts: only "
        "records newer than everything on the target are estimated"
    ),
    Uncertainty.TIMES_NOT_COMPARABLE: (
        "the target uses LogAppendTime, or the link's identity has no timestamp: only totals are "
        "compared, so it is unknown since when records are missing"
    ),
    Uncertainty.CLOCKS_OUT_OF_ORDER: (
        "many records share one timestamp, or follow a record with a timestamp in the future: "
        "timestamps are out of order, so it is unknown since when records are missing"
    ),
    Uncertainty.DELETED_ON_SOURCE: (
        "the source has deleted its oldest records: in the range that it has deleted, additional "
        "records on the target are not counted as ahead"
    ),
    Uncertainty.DELETED_ON_TARGET: (
        "the target has deleted its oldest records: in the range that it has deleted, source "
        "records are not counted as missing"
    ),
    Uncertainty.AHEAD_ON_TARGET: (
        "the target holds records that the source does not have, or holds some twice, or received "
        "some late: they hide missing records of the same time interval, or are missing records "
        "of an earlier one"
    ),
    Uncertainty.COARSE: (
        "there are more differences than allowed look-ups: times are imprecise, and the upper "
        "bound is high; name fewer topics for a more precise estimate"
    ),
    Uncertainty.CONFIGURATION_UNKNOWN: (
        "this user may not read the topic's configuration: the topic is treated as not compacted "
        "and as keeping timestamps; the lower bound is 0"
    ),
    Uncertainty.NOT_ON_TARGET: (
        "the target has no such partition: all records of the source partition count as missing"
    ),
    Uncertainty.WHOLE_TOPIC: "the link does not preserve partitions: all are counted together",
}
"""Printed once per document, not once per partition."""

ASSUMED = (
    "if both sides have the same number of offsets in a time interval, they have the same records"
    " in it"
)
"""The assumption behind both bounds; only reading records can verify it."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Bounds of a number of records that were not counted.

    Attributes:
        at_least: lower bound, valid only if `ASSUMED` is true.
        at_most: upper bound, valid only if `ASSUMED` is true.
    """

    at_least: int = 0
    estimate: int = 0
    at_most: int = 0


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A time range in which source and target hold different numbers of offsets.

    Attributes:
        from_ms: first millisecond of it (UTC); null if it starts at the log starts.
        to_ms: first millisecond after it; null if it lasts to the log ends.
    """

    from_ms: int | None
    to_ms: int | None
    source_offsets: Count
    target_offsets: Count


@dataclass(frozen=True, slots=True)
class PartitionEstimate:
    """One partition, or a whole topic where the link does not keep partitions.

    Attributes:
        partition: None for a whole topic; the ranges are None then, too.
        source_range: `[log start, end)`; None where the source has no such partition.
        source_offsets: number of offsets up to the last stable offset.
        ahead_on_target: offsets of the target in time ranges in which the source has fewer.
        undecided: source offsets at or after the last stable offset.
        diverges_from: milliseconds UTC of the first interval in which the source has more.
        stopped_at: milliseconds UTC of the first source record from which on the target has
            nothing at all.
        time_ranges: the first ones in which the sides differ.
    """

    partition: int | None
    source_range: OffsetRange | None
    target_range: OffsetRange | None
    source_offsets: int
    target_offsets: int
    missing: Missing = Missing()
    ahead_on_target: int = 0
    undecided: int = 0
    diverges_from: int | None = None
    stopped_at: int | None = None
    time_ranges: tuple[TimeRange, ...] = ()
    uncertainty: tuple[Uncertainty, ...] = ()

    @property
    def diverges(self) -> bool:
        """Whether records may be missing."""
        return self.missing.at_most > 0


@dataclass(frozen=True, slots=True)
class TopicEstimate:
    """One topic of the link.

    Attributes:
        target_topic: its name on the target.
    """

    topic: str
    target_topic: str
    partitions: tuple[PartitionEstimate, ...]


@dataclass(frozen=True, slots=True)
class EstimateTotals:
    """The sums over partitions; `diverging` and `ahead` count partitions."""

    missing: Missing
    ahead_on_target: int
    undecided: int
    source_offsets: int
    target_offsets: int
    partitions: int
    diverging: int
    ahead: int


@dataclass(frozen=True, slots=True)
class EstimateResult:
    """The result of `drctl gap --scope estimate`.

    Attributes:
        started: start of the estimate, UTC.
    """

    link: str
    source: str
    source_id: str
    target: str
    target_id: str
    started: datetime
    seconds: float
    topics: tuple[TopicEstimate, ...]
    not_compared: tuple[NotCompared, ...] = ()
    totals: EstimateTotals = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """The sums; cached, because there may be ten thousand partitions."""
        object.__setattr__(self, "totals", _totals(self.topics))

    @property
    def exit_code(self) -> ExitCode:
        """Always 5: an estimate is not a verification."""
        return ExitCode.UNKNOWN

    def to_json(self) -> dict[str, Any]:
        """The document `drctl/gap-estimate/1`."""
        return EstimateDocument.of(self).to_json()


def _totals(topics: tuple[TopicEstimate, ...]) -> EstimateTotals:
    partitions = [p for topic in topics for p in topic.partitions]
    return EstimateTotals(
        missing=Missing(
            sum(p.missing.at_least for p in partitions),
            sum(p.missing.estimate for p in partitions),
            sum(p.missing.at_most for p in partitions),
        ),
        ahead_on_target=sum(p.ahead_on_target for p in partitions),
        undecided=sum(p.undecided for p in partitions),
        source_offsets=sum(p.source_offsets for p in partitions),
        target_offsets=sum(p.target_offsets for p in partitions),
        partitions=len(partitions),
        diverging=sum(p.diverges for p in partitions),
        ahead=sum(p.ahead_on_target > 0 for p in partitions),
    )


class TotalsDocument(Document):
    """The sums over partitions.

    Attributes:
        missing_at_least: valid only if `assumed` is true.
        missing_at_most: valid only if `assumed` is true.
        diverging_partitions: partitions whose records may be missing on the target.
    """

    read = From(EstimateTotals)
    missing_at_least: Count = read(lambda t: t.missing.at_least)
    missing_estimate: Count = read(lambda t: t.missing.estimate)
    missing_at_most: Count = read(lambda t: t.missing.at_most)
    ahead_on_target: Count
    undecided: Count
    source_offsets: Count
    target_offsets: Count
    partitions: Count
    diverging_partitions: Count = read(lambda t: t.diverging)
    ahead_partitions: Count = read(lambda t: t.ahead)


class TimestampDocument(Document):
    """A timestamp of a record, which may be any number.

    Attributes:
        utc: null if it is not a valid date.
    """

    ms: int
    utc: Moment | None


def _moment(timestamp_ms: int | None) -> TimestampDocument | None:
    if timestamp_ms is None:
        return None
    utc = None
    if 0 <= timestamp_ms <= _LAST_MS:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
        utc = moment.isoformat(timespec="milliseconds")
    return TimestampDocument(ms=timestamp_ms, utc=utc)


class PartitionDocument(Document):
    """One partition, or a whole topic where the link does not keep partitions.

    Attributes:
        partition: null: all partitions of the topic together.
        source_range: [log start, end); null: the source has no such partition, or all are counted
            together.
        target_range: the same of the target.
        source_offsets: up to the last stable offset.
        missing_at_least: valid only if `assumed` is true.
        missing_at_most: valid only if `assumed` is true.
        ahead_on_target: target offsets minus source offsets, where the target has more.
        undecided: source offsets at or after the last stable offset.
        diverges_from: since when the source has more offsets.
        stopped_at: timestamp of a source record; from then on the target has nothing.
        time_ranges: the first time ranges in which the clusters differ.
        uncertainty: explained in `uncertainty` of the document.
    """

    read = From(PartitionEstimate)
    partition: Count | None
    source_range: tuple[Count, Count] | None = read(lambda p: p.source_range)
    target_range: tuple[Count, Count] | None = read(lambda p: p.target_range)
    source_offsets: Count
    target_offsets: Count
    missing_at_least: Count = read(lambda p: p.missing.at_least)
    missing_estimate: Count = read(lambda p: p.missing.estimate)
    missing_at_most: Count = read(lambda p: p.missing.at_most)
    ahead_on_target: Count
    undecided: Count
    diverges_from: TimestampDocument | None = read(lambda p: _moment(p.diverges_from))
    stopped_at: TimestampDocument | None = read(lambda p: _moment(p.stopped_at))
    time_ranges: Annotated[tuple[TimeRange, ...], ("maxItems", 20)]
    uncertainty: Annotated[tuple[Uncertainty, ...], ("uniqueItems", True)]


class TopicDocument(Document):
    """One topic of the link."""

    topic: Name
    target_topic: Name
    partitions: tuple[PartitionDocument, ...]


class EstimateDocument(Document):
    """About how many records of a link's source are not on its target, from offsets alone.

    Attributes:
        complete: an estimate is no proof.
        assumed: the bounds are valid only if this is true.
        uncertainty: what each word in `uncertainty` of a partition means.
    """

    SCHEMA = "drctl/gap-estimate/1"
    read = From(EstimateResult)
    link: Name
    scope: Literal["estimate"] = "estimate"
    complete: Literal[False] = False
    source: SideDocument = read(lambda e: SideDocument(cluster=e.source, id=e.source_id))
    target: SideDocument = read(lambda e: SideDocument(cluster=e.target, id=e.target_id))
    started: Moment = read(lambda e: e.started.isoformat(timespec="milliseconds"))
    seconds: Seconds = read(lambda e: round(e.seconds, 3))
    assumed: Name = ASSUMED
    uncertainty: Annotated[
        Mapping[str, Name], ("propertyNames", {"enum": [doubt.value for doubt in Uncertainty]})
    ] = read(lambda e: _meanings(e))
    totals: TotalsDocument
    topics: tuple[TopicDocument, ...]
    not_compared: tuple[NotCompared, ...]


def _meanings(estimate: EstimateResult) -> Mapping[str, str]:
    reported = {doubt for t in estimate.topics for p in t.partitions for doubt in p.uncertainty}
    return {doubt.value: MEANINGS[doubt] for doubt in Uncertainty if doubt in reported}
