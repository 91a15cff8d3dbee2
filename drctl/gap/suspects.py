"""From digests to what has to be compared record by record, and where it lies."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from drctl.gap.comparison import BucketDigest, ComparePlan, Side, TopicPlan, TopicSuspects
from drctl.model.topology import OffsetRange

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
    return TopicSuspects(
        plan=topic,
        buckets=buckets,
        source=_ranges(topic, Side.SOURCE, buckets, digests),
        target=_ranges(topic, Side.TARGET, buckets, digests),
        replicated_from=_settled_from(topic, buckets, digests),
        dense=_dense(topic, digests),
    )


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


def _ranges(
    topic: TopicPlan, side: Side, buckets: frozenset[Bucket], digests: Iterable[BucketDigest]
) -> Mapping[int, tuple[OffsetRange, ...]]:
    spans: dict[int, list[OffsetRange]] = defaultdict(list)
    for d in digests:
        if d.side is side and (topic.unit(d.partition), d.bucket) in buckets:
            spans[d.partition].append(OffsetRange(d.first, d.last + 1))
    return {partition: merge(ranges, LAYERS) for partition, ranges in spans.items()}


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


def _settled_from(
    topic: TopicPlan, buckets: frozenset[Bucket], digests: Iterable[BucketDigest]
) -> dict[int, int]:
    settled: dict[int, int] = {}
    for d in digests:
        if d.side is Side.SOURCE and (topic.unit(d.partition), d.bucket) not in buckets:
            settled[d.partition] = min(d.first, settled.get(d.partition, d.first))
    return settled


def _dense(topic: TopicPlan, digests: Iterable[BucketDigest]) -> frozenset[int]:
    records: dict[int, int] = defaultdict(int)
    for d in digests:
        if d.side is Side.SOURCE:
            records[d.partition] += d.records
    return frozenset(p for p, r in topic.source.items() if records[p] == r.span)


@dataclass(frozen=True, slots=True)
class ReadCounts:
    """Records read, by topic and partition, on one side."""

    by_place: Mapping[tuple[str, int], int]

    @classmethod
    def of(cls, digests: Iterable[BucketDigest], side: Side) -> "ReadCounts":
        """Count what the digests hold."""
        counts: dict[tuple[str, int], int] = defaultdict(int)
        for d in digests:
            if d.side is side:
                counts[d.topic, d.partition] += d.records
        return cls(counts)

    def at(self, topic: str, partition: int) -> int:
        """Records of one partition; 0 where none were read."""
        return self.by_place.get((topic, partition), 0)
