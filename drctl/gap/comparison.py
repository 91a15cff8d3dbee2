"""The values between the freeze and the answer, and the port that compares records.

A comparer (Spark, or the in-memory reference) gets a `ComparePlan`, first digests everything, then
compares record by record what the digests could not settle.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from drctl.model.errors import Unknown
from drctl.model.gap import Histogram, Inversion, OrderScope
from drctl.model.topology import OffsetRange

_FULL = ("No space left on device", "File too large", "Disk quota exceeded")

_MAKE_ROOM = "free space on the disks of --out and of Spark's scratch files, and run it again"
_RUN_AGAIN = "see that all brokers run, and run drctl gap again; with --verbose Spark says more"


class ScanFailed(Unknown):
    """The comparer could not read something to its end; what it had found is void.

    Attributes:
        cause: why, in words for a person.
    """

    def __init__(self, cause: str) -> None:
        self.cause = cause
        full = any(words in cause for words in _FULL)
        message = f"the records could not be read to their end, nothing was compared: {cause}"
        super().__init__(message, _MAKE_ROOM if full else _RUN_AGAIN)


Progress = Callable[[str, int, int], None]
"""Called with (phase, records done, records to do); cheap to call often."""


class Side(StrEnum):
    """The two ends of a link."""

    SOURCE = "source"
    TARGET = "target"


@dataclass(frozen=True, slots=True)
class Identity:
    """What makes two records the same.

    Attributes:
        header_names: headers that alone identify a record, where the link says so.
        ignored_headers: headers that replication adds.
    """

    key: bool = True
    value: bool = True
    headers: bool = True
    timestamp: bool = True
    header_names: tuple[str, ...] = ()
    ignored_headers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """What is read of one topic, and how its records are told apart.

    Attributes:
        by_partition: partition n of the source is compared with partition n of the target;
            else all partitions together.
        timestamps: whether timestamps count; not where the target keeps its own (LogAppendTime).
        bucket_ms: width of a digest's bucket of time; 0 for buckets of the identity's hash.
        compacted: whether the target's cleanup.policy contains `compact`.
        source: committed offsets to read, by partition.
        target: the same of the target topic; empty where it does not exist.
        target_deleted: offsets that each target partition no longer holds (its log start).
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
        """What a partition is compared within: itself, or None for the whole topic."""
        return partition if self.by_partition else None

    def ranges(self, side: Side) -> Mapping[int, OffsetRange]:
        """Offsets to read on one side."""
        return self.source if side is Side.SOURCE else self.target

    def name_on(self, side: Side) -> str:
        """The topic's name on one side."""
        return self.topic if side is Side.SOURCE else self.target_topic


Ranges = Mapping[str, Mapping[int, tuple[OffsetRange, ...]]]
"""By source topic, then partition: disjoint offset ranges, ascending."""

Reads = Mapping[Side, Ranges]
"""What to read of both sides."""

Place = tuple[str, int]
"""A source topic's name and a partition."""

SECOND_SALT = 0x5DEECE66D
"""Makes the second digest of a record independent of the first."""

ONE_CELL = 63
"""Of an offset shifted by so many bits nothing is left: all of a partition is one cell."""


@dataclass(frozen=True, slots=True)
class ComparePlan:
    """All topics of one run.

    Attributes:
        buckets: digest buckets a partition; bounds what leaves the executors.
        salt: seeds the digests, so that nobody can prepare a collision.
        cell_bits: digests are kept apart by `offset >> cell_bits`.
        within: what has an order that a copy must not break.
    """

    topics: tuple[TopicPlan, ...]
    identity: Identity
    buckets: int
    salt: int
    cell_bits: int = ONE_CELL
    within: OrderScope = OrderScope.KEY

    def __post_init__(self) -> None:
        """Check that equal records fall into equal buckets."""
        by_time = [t.topic for t in self.topics if t.bucket_ms]
        without = [t.topic for t in self.topics if not (t.timestamps and self.identity.timestamp)]
        if clash := set(by_time) & set(without):
            raise ValueError(f"buckets of time where times do not count: {sorted(clash)}")

    def everything(self) -> Reads:
        """All of the plan's ranges."""
        return {
            side: {t.topic: {p: (r,) for p, r in t.ranges(side).items()} for t in self.topics}
            for side in Side
        }


class BucketDigest(NamedTuple):
    """What one bucket of one partition of one side holds, within one cell of offsets.

    Attributes:
        cell: `offset >> cell_bits` of all its records.
        sum1: sum of the records' first 64-bit digest, modulo 2**64, signed.
        sum2: the same of the second, independent one.
        first: smallest offset; last: largest.
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
    """What of a topic has to be compared record by record.

    Attributes:
        buckets: (unit, bucket) whose digests differ.
        source: offset ranges that hold these buckets, by partition, disjoint and ascending.
        replicated_from: by source partition, the smallest offset in a bucket that was settled:
            all of that bucket is on the target.
        dense: source partitions in which every offset holds a record.
    """

    plan: TopicPlan
    buckets: frozenset[tuple[int | None, int]]
    source: Mapping[int, tuple[OffsetRange, ...]]
    target: Mapping[int, tuple[OffsetRange, ...]]
    replicated_from: Mapping[int, int]
    dense: frozenset[int]

    def ranges(self, side: Side) -> Mapping[int, tuple[OffsetRange, ...]]:
        """Offsets to read again on one side."""
        return self.source if side is Side.SOURCE else self.target


@dataclass(frozen=True, slots=True)
class Missing:
    """The source records of one partition that have no equal on the target, by class.

    Attributes:
        runs: inclusive offset ranges of the unreplicated ones, ascending; the first of them.
        runs_total: how many such ranges there are.
        repeated: unreplicated ones with an equal on the target, which holds it less often.
        bytes: key, value and header bytes of the unreplicated ones; the times are theirs too.
        other_bytes: the same of superseded and expired ones.
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
    """The target records of one unit that have no equal on the source."""

    only_on_target: int = 0
    duplicated_on_target: int = 0


@dataclass(frozen=True, slots=True)
class ExampleOffset:
    """Where an unreplicated record worth looking at is."""

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
        extra: by source topic and target partition (the lowest one, where not by partition).
    """

    missing: Mapping[Place, Missing]
    extra: Mapping[Place, Extra]
    histogram: Histogram | None = None
    examples: tuple[ExampleOffset, ...] = ()


INVERSION_EXAMPLES = 20
"""So many are kept to look at."""


@dataclass(frozen=True, slots=True)
class OrderCheck:
    """Replicated records that stand in another order on the target.

    Attributes:
        inversions: how many, by source topic and source partition; without those that have none.
        examples: some of them.
    """

    inversions: Mapping[Place, int]
    examples: tuple[Inversion, ...] = ()


class RecordComparer(Protocol):
    """Reads the records; keeps nothing of them but what these values hold."""

    def digest(self, plan: ComparePlan, reads: Reads, progress: Progress) -> Sequence[BucketDigest]:
        """Digest every record of these ranges, which lie within the plan's.

        Raises:
            ScanFailed: something could not be read to its end.
        """

    def compare(
        self, plan: ComparePlan, suspects: Sequence[TopicSuspects], progress: Progress
    ) -> Comparison:
        """Compare record by record; writes the unreplicated records where the comparer keeps them.

        Raises:
            ScanFailed: something could not be read to its end.
        """

    def check_order(self, plan: ComparePlan, progress: Progress) -> OrderCheck:
        """Look at the order of all replicated records of the plan; reads all of them.

        Writes those in another order where the comparer keeps what it found.

        Raises:
            ScanFailed: something could not be read to its end.
        """


RUNS_IN_ALL = 200_000
RUNS_A_PARTITION = 10_000
HISTOGRAM_BINS = 60
HISTOGRAM_ROWS = 30
EXAMPLES = 20


def runs_limit(partitions: int) -> int:
    """How many runs of missing records are kept of each of so many partitions."""
    return max(100, min(RUNS_A_PARTITION, RUNS_IN_ALL // max(1, partitions)))


class HistogramFrame(NamedTuple):
    """The partitions with the most unreplicated records, and the bins of their timestamps.

    Attributes:
        start: of the first of `HISTOGRAM_BINS` bins, milliseconds; width: of each of them.
    """

    worst: Sequence[Place]
    start: int
    width: int


def histogram_frame(missing: Mapping[Place, Missing]) -> HistogramFrame | None:
    """None where no unreplicated record has a timestamp."""
    worst = sorted(
        (place for place, m in missing.items() if m.unreplicated),
        key=lambda place: (-missing[place].unreplicated, place),
    )[:HISTOGRAM_ROWS]
    times = [
        t
        for place in worst
        for t in (missing[place].oldest_timestamp, missing[place].newest_timestamp)
        if t is not None and t > 0  # records without a timestamp would stretch it back to 1970
    ]
    if not times:
        return None
    start = min(times)
    return HistogramFrame(worst, start, (max(times) - start) // HISTOGRAM_BINS + 1)


def span_of(reads: Reads) -> int:
    """Offsets to read on both sides."""
    return sum(
        r.span
        for topics in reads.values()
        for partitions in topics.values()
        for ranges in partitions.values()
        for r in ranges
    )


LAYERS = 4
"""Disjoint ranges of one partition that are read at most; closer ones are read as one."""

_MODULUS = 2**64

Bucket = tuple[int | None, int]
"""A unit (partition, or None for the whole topic) and a bucket of it."""


def find_suspects(plan: ComparePlan, digests: Sequence[BucketDigest]) -> tuple[TopicSuspects, ...]:
    """The topics in which at least one bucket differs, with these buckets and their offsets."""
    by_topic: dict[str, list[BucketDigest]] = defaultdict(list)
    for digest in digests:
        by_topic[digest.topic].append(digest)
    found = (_topic_suspects(topic, by_topic[topic.topic]) for topic in plan.topics)
    return tuple(suspects for suspects in found if suspects.buckets)


def suspect_span(suspects: Iterable[TopicSuspects]) -> int:
    """Offsets that have to be read again on both sides."""
    return sum(
        r.span for s in suspects for side in Side for rs in s.ranges(side).values() for r in rs
    )


def _topic_suspects(topic: TopicPlan, digests: Sequence[BucketDigest]) -> TopicSuspects:
    buckets = frozenset(_differing(topic, digests))
    spans: dict[Side, dict[int, list[OffsetRange]]] = {side: defaultdict(list) for side in Side}
    settled: dict[int, int] = {}
    records: Counter[int] = Counter()
    for d in digests:
        suspect = (topic.unit(d.partition), d.bucket) in buckets
        if suspect:
            spans[d.side][d.partition].append(OffsetRange(d.first, d.last + 1))
        if d.side is Side.SOURCE:
            records[d.partition] += d.records
            if not suspect:
                settled[d.partition] = min(d.first, settled.get(d.partition, d.first))
    source, target = ({p: merge(rs, LAYERS) for p, rs in spans[side].items()} for side in Side)
    dense = frozenset(p for p, r in topic.source.items() if records[p] == r.span)
    return TopicSuspects(topic, buckets, source, target, settled, dense)


def _differing(topic: TopicPlan, digests: Iterable[BucketDigest]) -> Iterable[Bucket]:
    """Buckets whose two sides do not hold equal multisets."""
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
    """At most `limit` disjoint ranges that cover all given ones, leaving out the widest gaps."""
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
