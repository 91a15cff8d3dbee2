"""From frozen offsets to the plan of a comparison."""

import math
import secrets
from collections.abc import Mapping

from drctl.config.link import Link
from drctl.gap.comparison import ComparePlan, Identity, TopicPlan
from drctl.gap.freeze import Frozen, FrozenTopic
from drctl.model.ports import ClusterReader
from drctl.model.topology import PartitionOffsets, TopicPartition

REPLICATION_HEADERS = frozenset(
    {"__replicator_id", "__drctl_origin", "redpanda-migrator-offset", "mskreplicator-provenance"}
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


def plan_comparison(link: Link, frozen: Frozen, source: ClusterReader) -> ComparePlan:
    """Decide how each topic is read and bucketed."""
    identity = identity_of(link)
    partitions = sum(max(len(t.source), len(t.target)) for t in frozen.topics)
    buckets = max(8, min(1024, DIGEST_ROWS // max(1, partitions)))
    timed = [t for t in frozen.topics if identity.timestamp and keeps_timestamps(t)]
    spans = _time_spans(timed, source)
    topics = tuple(
        TopicPlan(
            topic=t.topic,
            target_topic=t.target_topic,
            by_partition=link.settings.keeps_partitions,
            timestamps=keeps_timestamps(t),
            bucket_ms=_width(spans[t.topic], buckets) if t.topic in spans else 0,
            compacted=t.target_state is not None and t.target_state.compacted,
            source=t.committed(t.source),
            target=t.committed(t.target),
            target_deleted={p: o.log_start for p, o in t.target.items()},
        )
        for t in frozen.topics
    )
    return ComparePlan(topics, identity, buckets, salt=secrets.randbits(62))


def keeps_timestamps(topic: FrozenTopic) -> bool:
    """Whether the target keeps the timestamps of the source's records."""
    return topic.target_state is None or not topic.target_state.log_append_time


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
    first = source.first_timestamps(starts)
    last = source.max_timestamps(tuple(starts))
    spans: dict[str, int] = {t.topic: 0 for t in topics}
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
