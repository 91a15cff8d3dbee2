"""Values and the port for comparing records.

A comparer (Spark or direct) gets a `ComparePlan`, digests everything, and then compares record by
record where the digests differ.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple, Protocol

from drctl.model.errors import Unknown
from drctl.model.gap import Histogram, Inversion, OrderScope
from drctl.model.topology import OffsetRange

_FULL = ("No space left on device", "File too large", "Disk quota exceeded")

_MAKE_ROOM = "free disk space for --out and for Spark's local files, then run drctl gap again"
_RUN_AGAIN = (
    "check that all brokers are up, then run drctl gap again; add --verbose for Spark's log"
)


class ScanFailed(Unknown):
    """The comparer could not read all records; its results are invalid.

    Attributes:
        cause: why.
    """

    def __init__(self, cause: str) -> None:
        self.cause = cause
        full = any(words in cause for words in _FULL)
        message = f"nothing was compared: the records could not be read completely: {cause}"
        super().__init__(message, _MAKE_ROOM if full else _RUN_AGAIN)


Progress = Callable[[str, int, int], None]
"""Called with (phase, records done, records in total); cheap to call often."""


class Side(StrEnum):
    """The two clusters of a link."""

    SOURCE = "source"
    TARGET = "target"


@dataclass(frozen=True, slots=True)
class Identity:
    """What makes two records equal.

    Attributes:
        header_names: headers that are part of the identity, if configured for the link.
        ignored_headers: headers that replication adds.
        origin_headers: headers of which each copy has one, if applications write to the same topics
            on both clusters: source records without these headers are compared with target records
            that have one of them. Empty otherwise.
    """

    key: bool = True
    value: bool = True
    headers: bool = True
    timestamp: bool = True
    header_names: tuple[str, ...] = ()
    ignored_headers: frozenset[str] = frozenset()
    origin_headers: frozenset[str] = frozenset()

    def is_copy(self, names: Iterable[str]) -> bool:
        """Whether a record with headers of these names may be a copy."""
        return not self.origin_headers or not self.origin_headers.isdisjoint(names)


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """What to read of a topic, and how to compare its records.

    Attributes:
        by_partition: whether partition n of the source is compared with partition n of the target;
            else all partitions are compared together.
        timestamps: whether timestamps are compared; not if the target uses LogAppendTime.
        bucket_ms: width of a time bucket of a digest; 0 to bucket by hash.
        compacted: whether the target's cleanup.policy contains `compact`.
        source: offsets to read, by partition.
        target: the same for the target topic; empty if it does not exist.
        target_deleted: number of deleted offsets per target partition (its log start offset).
    """

    topic: str
    target_topic: str
    by_partition: bool
    timestamps: bool
    bucket_ms: int
    compacted: bool
    source: Mapping[int, OffsetRange]
    target: Mapping[int, OffsetRange]
    target_deleted: Mapping[int, int]

    def unit(self, partition: int) -> int | None:
        """Return the unit of comparison: the partition, or None for the whole topic."""
        return partition if self.by_partition else None

    def ranges(self, side: Side) -> Mapping[int, OffsetRange]:
        """Return the offsets to read on one cluster."""
        return self.source if side is Side.SOURCE else self.target

    def name_on(self, side: Side) -> str:
        """Return the topic's name on one cluster."""
        return self.topic if side is Side.SOURCE else self.target_topic


Ranges = Mapping[str, Mapping[int, tuple[OffsetRange, ...]]]
"""By source topic, then partition: disjoint offset ranges, ascending."""

Reads = Mapping[Side, Ranges]
"""What to read on both clusters."""

Place = tuple[str, int]
"""A source topic's name and a partition."""

SECOND_SALT = 0x5DEECE66D
"""Makes the second digest of a record independent of the first."""

ONE_CELL = 63
"""Shifting an offset by this many bits leaves 0: the whole partition is one cell."""


@dataclass(frozen=True, slots=True)
class ComparePlan:
    """All topics of one run.

    Attributes:
        buckets: digest buckets per partition; limits the data returned by the executors.
        salt: seed of the digests, so that collisions cannot be prepared.
        cell_bits: digests are kept separately by `offset >> cell_bits`.
        within: the scope in which copies must keep their order (policy.order).
        once: whether digests are likely to differ everywhere: a comparer that can should keep what
            `digest` reads, and not read it again.
        order: whether `check_order` is called after `digest`.
    """

    topics: tuple[TopicPlan, ...]
    identity: Identity
    buckets: int
    salt: int
    cell_bits: int = ONE_CELL
    within: OrderScope = OrderScope.KEY
    once: bool = False
    order: bool = False

    def reading_once(self, order: bool = False) -> "ComparePlan":
        """Return the plan with one bucket, for records that differ everywhere."""
        return replace(self, once=True, buckets=1, order=order)

    def __post_init__(self) -> None:
        """Check that equal records get equal buckets."""
        by_time = [t.topic for t in self.topics if t.bucket_ms]
        without = [t.topic for t in self.topics if not (t.timestamps and self.identity.timestamp)]
        if clash := set(by_time) & set(without):
            raise ValueError(
                f"time buckets for topics without comparable timestamps: {sorted(clash)}"
            )

    def everything(self) -> Reads:
        """Return all ranges of the plan."""
        return {
            side: {t.topic: {p: (r,) for p, r in t.ranges(side).items()} for t in self.topics}
            for side in Side
        }


class BucketDigest(NamedTuple):
    """Digest of one bucket of one partition on one cluster, within one cell of offsets.

    Attributes:
        cell: `offset >> cell_bits` of all its records.
        sum1: sum of the records' first 64-bit digest, modulo 2**64, signed.
        sum2: the same for the second, independent digest.
        first: smallest offset.
        last: largest offset.
    """

    topic: str
    side: Side
    partition: int
    bucket: int
    records: int
    sum1: int
    sum2: int
    first: int
    last: int
    cell: int = 0


@dataclass(frozen=True, slots=True)
class TopicSuspects:
    """What has to be compared record by record in a topic.

    Attributes:
        buckets: (unit, bucket) with different digests.
        source: offset ranges that contain these buckets, by partition, disjoint and ascending.
        replicated_from: by source partition, the smallest offset in a bucket with equal digests.
        replicated_to: the same, the largest offset.
        dense: source partitions in which every offset holds a record.
    """

    plan: TopicPlan
    buckets: frozenset[tuple[int | None, int]]
    source: Mapping[int, tuple[OffsetRange, ...]]
    target: Mapping[int, tuple[OffsetRange, ...]]
    replicated_from: Mapping[int, int]
    replicated_to: Mapping[int, int]
    dense: frozenset[int]

    def ranges(self, side: Side) -> Mapping[int, tuple[OffsetRange, ...]]:
        """Return the offsets to read again on one cluster."""
        return self.source if side is Side.SOURCE else self.target


@dataclass(frozen=True, slots=True)
class Missing:
    """Source records of one partition that are not on the target, by class.

    Attributes:
        runs: the first inclusive offset ranges of unreplicated records, ascending.
        runs_total: total number of such ranges.
        repeated: unreplicated records with an equal record on the target, which has fewer copies.
        bytes: key, value and header bytes of unreplicated records; timestamps likewise.
        other_bytes: bytes of superseded and expired records.
    """

    unreplicated: int = 0
    superseded: int = 0
    expired: int = 0
    safe: int = 0
    conflicting: int = 0
    unkeyed: int = 0
    misplaced: int = 0
    bytes: int = 0
    oldest_timestamp: int | None = None
    newest_timestamp: int | None = None
    runs: tuple[tuple[int, int], ...] = ()
    runs_total: int = 0
    other_bytes: int = 0
    repeated: int = 0


@dataclass(frozen=True, slots=True)
class Extra:
    """Target records of one unit that are not on the source."""

    only_on_target: int = 0
    duplicated_on_target: int = 0


@dataclass(frozen=True, slots=True)
class ExampleOffset:
    """The offset of an example of an unreplicated record."""

    topic: str
    partition: int
    offset: int
    size: int
    order: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """The outcome of the record-by-record comparison.

    Attributes:
        missing: by source topic and source partition.
        extra: by source topic and target partition (the lowest one, if not by partition).
    """

    missing: Mapping[Place, Missing]
    extra: Mapping[Place, Extra]
    histogram: Histogram | None = None
    examples: tuple[ExampleOffset, ...] = ()


INVERSION_EXAMPLES = 20
"""Number of inversions kept as examples."""


@dataclass(frozen=True, slots=True)
class OrderCheck:
    """Replicated records that are in a different order on the target.

    Attributes:
        inversions: their number, by source topic and source partition; only if not zero.
        examples: some of them.
    """

    inversions: Mapping[Place, int]
    examples: tuple[Inversion, ...] = ()


class RecordComparer(Protocol):
    """Reads and compares records."""

    def digest(self, plan: ComparePlan, reads: Reads, progress: Progress) -> Sequence[BucketDigest]:
        """Digest every record of these ranges of the plan.

        Raises:
            ScanFailed: the records could not be read completely.
        """

    def compare(
        self, plan: ComparePlan, suspects: Sequence[TopicSuspects], progress: Progress
    ) -> Comparison:
        """Compare record by record; write the unreplicated records to the output of the comparer.

        Raises:
            ScanFailed: the records could not be read completely.
        """

    def check_order(self, plan: ComparePlan, progress: Progress) -> OrderCheck:
        """Check the order of all replicated records of the plan; may read all of them again.

        Writes the inversions to the output of the comparer.

        Raises:
            ScanFailed: the records could not be read completely.
        """


RUNS_IN_ALL = 200_000
RUNS_A_PARTITION = 10_000
HISTOGRAM_BINS = 60
HISTOGRAM_ROWS = 30
EXAMPLES = 20


def runs_limit(partitions: int) -> int:
    """Return how many ranges of missing records are kept per partition."""
    return max(100, min(RUNS_A_PARTITION, RUNS_IN_ALL // max(1, partitions)))


class HistogramFrame(NamedTuple):
    """The partitions with the most unreplicated records, and the bins of their timestamps.

    Attributes:
        start: start of the first of `HISTOGRAM_BINS` bins, in milliseconds.
        width: width of each bin.
    """

    worst: Sequence[Place]
    start: int
    width: int


def histogram_frame(missing: Mapping[Place, Missing]) -> HistogramFrame | None:
    """Choose partitions and bins; None if no unreplicated record has a timestamp."""
    worst = sorted(
        (place for place, m in missing.items() if m.unreplicated),
        key=lambda place: (-missing[place].unreplicated, place),
    )[:HISTOGRAM_ROWS]
    times = [
        t
        for place in worst
        for t in (missing[place].oldest_timestamp, missing[place].newest_timestamp)
        if t is not None and t > 0  # records without a timestamp would extend it back to 1970
    ]
    if not times:
        return None
    start = min(times)
    return HistogramFrame(worst, start, (max(times) - start) // HISTOGRAM_BINS + 1)


def span_of(reads: Reads) -> int:
    """Return the number of offsets to read on both clusters."""
    return sum(
        r.span
        for topics in reads.values()
        for partitions in topics.values()
        for ranges in partitions.values()
        for r in ranges
    )


LAYERS = 4
"""Maximum number of disjoint ranges read per partition; the closest ones are merged."""

_MODULUS = 2**64

Bucket = tuple[int | None, int]
"""A unit (partition, or None for the whole topic) and a bucket of it."""


def find_suspects(plan: ComparePlan, digests: Sequence[BucketDigest]) -> tuple[TopicSuspects, ...]:
    """Return the topics with at least one differing bucket, with these buckets and offsets."""
    by_topic: dict[str, list[BucketDigest]] = defaultdict(list)
    for digest in digests:
        by_topic[digest.topic].append(digest)
    found = (_topic_suspects(topic, by_topic[topic.topic]) for topic in plan.topics)
    return tuple(suspects for suspects in found if suspects.buckets)


def suspect_span(suspects: Iterable[TopicSuspects]) -> int:
    """Return the number of offsets to read again on both clusters."""
    return sum(
        r.span for s in suspects for side in Side for rs in s.ranges(side).values() for r in rs
    )


def _topic_suspects(topic: TopicPlan, digests: Sequence[BucketDigest]) -> TopicSuspects:
    buckets = frozenset(_differing(topic, digests))
    spans: dict[Side, dict[int, list[OffsetRange]]] = {side: defaultdict(list) for side in Side}
    settled: dict[int, int] = {}
    settled_to: dict[int, int] = {}
    records: Counter[int] = Counter()
    for d in digests:
        suspect = (topic.unit(d.partition), d.bucket) in buckets
        if suspect:
            spans[d.side][d.partition].append(OffsetRange(d.first, d.last + 1))
        if d.side is Side.SOURCE:
            records[d.partition] += d.records
            if not suspect:
                settled[d.partition] = min(d.first, settled.get(d.partition, d.first))
                settled_to[d.partition] = max(d.last, settled_to.get(d.partition, d.last))
    source, target = ({p: merge(rs, LAYERS) for p, rs in spans[side].items()} for side in Side)
    dense = frozenset(p for p, r in topic.source.items() if records[p] == r.span)
    return TopicSuspects(topic, buckets, source, target, settled, settled_to, dense)


def _differing(topic: TopicPlan, digests: Iterable[BucketDigest]) -> Iterable[Bucket]:
    """Return buckets whose records differ between the clusters."""
    balance: dict[Bucket, tuple[int, int, int]] = defaultdict(lambda: (0, 0, 0))
    for digest in digests:
        sign = 1 if digest.side is Side.SOURCE else -1
        bucket = (topic.unit(digest.partition), digest.bucket)
        records, sum1, sum2 = balance[bucket]
        balance[bucket] = (
            records + sign * digest.records,
            (sum1 + sign * digest.sum1) % _MODULUS,
            (sum2 + sign * digest.sum2) % _MODULUS,
        )
    return (bucket for bucket, rest in balance.items() if rest != (0, 0, 0))


def merge(ranges: Iterable[OffsetRange], limit: int) -> tuple[OffsetRange, ...]:
    """Merge ranges into at most `limit` disjoint ones, keeping the widest gaps."""
    merged: list[OffsetRange] = []
    for current in sorted(ranges):
        if merged and current.start <= merged[-1].end:
            merged[-1] = OffsetRange(merged[-1].start, max(merged[-1].end, current.end))
        else:
            merged.append(current)
    gaps = sorted(
        range(1, len(merged)), key=lambda i: merged[i].start - merged[i - 1].end, reverse=True
    )
    cuts = sorted(gaps[: limit - 1])
    edges = zip([0, *cuts], [*cuts, len(merged)], strict=True)
    return tuple(OffsetRange(merged[a].start, merged[b - 1].end) for a, b in edges if b > a)
