"""From frozen offsets to the plan of a comparison."""

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from drctl.config.link import Link
from drctl.formats import migrator_headers, provenance
from drctl.gap.comparison import ONE_CELL, ComparePlan, Identity, TopicPlan
from drctl.gap.freeze import Frozen, FrozenTopic
from drctl.model.gap import OrderScope
from drctl.model.ports import ClusterReader
from drctl.model.topology import PartitionOffsets, TopicPartition

REPLICATION_HEADERS = frozenset(
    {
        "__replicator_id",
        provenance.HEADER,
        migrator_headers.OFFSET_HEADER,
        migrator_headers.ORIGIN_HEADER,
        "mskreplicator-provenance",
    }
)
"""Headers that replicators add to their copies."""

DIGEST_ROWS = 2**15
"""Digest buckets of one side, over all partitions, that a run aims at."""

PARTITIONS_LOOKED_AT = 500
"""Partitions, the longest ones of each topic, whose first records decide the width of buckets."""

HEADER = "header:"


def identity_of(link: Link) -> Identity:
    """What makes two records the same on this link."""
    fields = link.settings.identity
    return Identity(
        key="key" in fields,
        value="value" in fields,
        headers="headers" in fields,
        timestamp="timestamp" in fields,
        header_names=tuple(f.removeprefix(HEADER) for f in fields if f.startswith(HEADER)),
        ignored_headers=REPLICATION_HEADERS | set(link.settings.ignore_headers),
    )


@dataclass(frozen=True, slots=True)
class Basis:
    """How digests are made, where they must be comparable with those of other runs.

    Attributes:
        widths: `bucket_ms` by topic; other topics get one as always, but at least `min_width`.
    """

    salt: int
    buckets: int
    cell_bits: int = ONE_CELL
    widths: Mapping[str, int] = field(default_factory=dict)
    min_width: int = 1


def bucket_count(frozen: Frozen) -> int:
    """Digest buckets a partition: fewer of them where there are many partitions."""
    partitions = sum(max(len(t.source), len(t.target)) for t in frozen.topics)
    return max(8, min(1024, DIGEST_ROWS // max(1, partitions)))


def plan_comparison(
    link: Link,
    frozen: Frozen,
    source: ClusterReader,
    basis: Basis | None = None,
    within: OrderScope = OrderScope.KEY,
) -> ComparePlan:
    """Decide how each topic is read and bucketed.

    Args:
        within: what has an order that a copy must not break.
    """
    identity = identity_of(link)
    # A new salt for each run, unless digests are to be kept: so nobody can prepare a collision.
    basis = basis or Basis(secrets.randbits(62), bucket_count(frozen))
    timed = [t for t in frozen.topics if identity.timestamp and keeps_timestamps(t)]
    widths = _widths(timed, source, basis)
    topics = tuple(
        TopicPlan(
            topic=t.topic,
            target_topic=t.target_topic,
            by_partition=link.settings.keeps_partitions,
            timestamps=keeps_timestamps(t),
            bucket_ms=widths.get(t.topic, 0),
            compacted=t.target_state is not None and t.target_state.compacted,
            source=t.committed(t.source),
            target=t.committed(t.target),
            target_deleted={p: o.log_start for p, o in t.target.items()},
        )
        for t in frozen.topics
    )
    return ComparePlan(topics, identity, basis.buckets, basis.salt, basis.cell_bits, within)


def keeps_timestamps(topic: FrozenTopic) -> bool:
    """Whether the target keeps the timestamps of the source's records."""
    return topic.target_state is None or not topic.target_state.log_append_time


def _widths(topics: Sequence[FrozenTopic], source: ClusterReader, basis: Basis) -> dict[str, int]:
    """Milliseconds a bucket, of topics whose times count."""
    known = {t.topic: width for t in topics if (width := basis.widths.get(t.topic))}
    spans = _time_spans([t for t in topics if t.topic not in known], source)
    return known | {
        topic: max(basis.min_width, _width(span, basis.buckets)) for topic, span in spans.items()
    }


def _width(span_ms: int, buckets: int) -> int:
    """A power of two, so that topics of about one age share a width; at least 1 ms."""
    return 1 << math.ceil(math.log2(max(1, span_ms / buckets)))


def _time_spans(topics: list[FrozenTopic], source: ClusterReader) -> Mapping[str, int]:
    """Milliseconds between the first record's timestamp and the largest one, by topic."""
    starts = {
        TopicPartition(t.topic, p): o.log_start
        for t in topics
        for p, o in _longest(t, max(1, min(8, PARTITIONS_LOOKED_AT // len(topics))))
        if o.last_stable > o.log_start
    }
    spans: dict[str, int] = {t.topic: 0 for t in topics}
    if not starts:
        return spans
    first = source.first_timestamps(starts)
    last = source.max_timestamps(tuple(starts))
    for partition in starts:
        oldest, newest = first.get(partition), last.get(partition)
        if isinstance(oldest, int) and isinstance(newest, int):
            spans[partition.topic] = max(spans[partition.topic], newest - oldest)
    return spans


def _longest(topic: FrozenTopic, number: int) -> list[tuple[int, PartitionOffsets]]:
    by_length = sorted(
        topic.source.items(), key=lambda item: item[1].log_start - item[1].last_stable
    )
    return by_length[:number]
