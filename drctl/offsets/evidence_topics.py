"""Reads evidence of committed offsets from topics; each topic is read once."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from drctl.formats import consumer_timestamps
from drctl.formats.primitives import Undecodable
from drctl.formats.tracking_passes import Scope
from drctl.model.text import plural
from drctl.model.topology import Chunk, OffsetRange, PartitionOffsets, TopicPartition, TopicState
from drctl.model.translation import GroupPartition
from drctl.offsets.by_time import Consumed
from drctl.offsets.evidence import CopiedPosition, Evidence, Progress, positions_of
from drctl.offsets.mirror_topics import Aliases, Mirrored, Place, read_mirrored
from drctl.offsets.tracking_log import (
    TRACKED_OFFSETS_TOPIC,
    TrackingLog,
    tracked_offsets_of,
    unreachable_source_id,
)


@dataclass(frozen=True, slots=True)
class EvidenceTopics:
    """Implements `EvidenceReader` with the topics of both clusters.

    Attributes:
        aliases: MirrorMaker 2's cluster aliases; None if unknown.
        mirrors: whether MirrorMaker 2 replicates the link.
        copied_topic: copy of the source's `__consumer_offsets` on the target; None if none.
        scope: the link's patterns, as trackers use them.
    """

    source: Place
    target: Place
    aliases: Callable[[], Aliases | None]
    mirrors: bool
    copied_topic: str | None = None
    scope: Scope | None = None

    def read(self, source_alive: bool, progress: Progress) -> Evidence:
        """Read all evidence.

        Raises:
            Unreachable: the target did not answer.
            ScanFailed: a topic could not be read completely.
        """
        missing: list[str] = []
        mirrored = self._mirrored(source_alive, progress, missing)
        progress(f"reading {TRACKED_OFFSETS_TOPIC}")
        log = TrackingLog()
        for chunk in chunks_of(self.target, TRACKED_OFFSETS_TOPIC, missing):
            log.take((row[2], row[3]) for row in chunk.rows)
        source_id = self._source_id(log, source_alive, missing)
        source = self.source[0] if source_alive else None
        tracked_offsets, damaged = tracked_offsets_of(log, source_id, source, self.scope)
        if damaged:
            missing.append(
                f"{TRACKED_OFFSETS_TOPIC}: {plural(damaged, 'record')} cannot be decoded"
            )
        consumed = self._consumed(source_alive, progress, missing)
        # While the source answers, it reports committed offsets itself.
        copied = {} if source_alive else self._copied(progress, missing)
        return Evidence(source_id, mirrored, tracked_offsets, consumed, copied, tuple(missing))

    def _mirrored(
        self, source_alive: bool, progress: Progress, missing: list[str]
    ) -> Mirrored | None:
        if not self.mirrors:
            return None
        aliases = self.aliases()
        if aliases is None:
            missing.append("MirrorMaker 2's cluster aliases are unknown")
            return None
        found = read_mirrored(aliases, self.source if source_alive else None, self.target, progress)
        missing += [f"{topic}: {reason}" for topic, reason in found.unread.items()]
        if found.undecodable:
            missing.append(
                f"MirrorMaker 2's topics: {plural(found.undecodable, 'record')} cannot be decoded"
            )
        return found

    def _source_id(self, log: TrackingLog, source_alive: bool, missing: list[str]) -> str:
        source = self.source[0]
        if source_alive:
            return source.cluster_id()
        # If the source is unreachable, only tracked offsets contain its cluster id.
        found = unreachable_source_id(log, source.name, self.target[0].cluster_id())
        if found is None:
            missing.append(f"{TRACKED_OFFSETS_TOPIC} has no tracked offsets of {source.name}")
        return found or ""

    def _consumed(
        self, source_alive: bool, progress: Progress, missing: list[str]
    ) -> Mapping[GroupPartition, Consumed]:
        """Read consumer timestamps from both clusters; the newer one wins."""
        found: dict[GroupPartition, Consumed] = {}
        damaged = 0
        topic = consumer_timestamps.TOPIC
        for place in (self.source, self.target) if source_alive else (self.target,):
            progress(f"reading {topic}")
            for raw, (at_ms, value) in newest_values(chunks_of(place, topic, missing)).items():
                try:
                    key = consumer_timestamps.decode_key(raw)
                    noted = consumer_timestamps.decode_value(value)
                except Undecodable:
                    damaged += 1
                    continue
                whose = GroupPartition(key.group, TopicPartition(key.topic, key.partition))
                known = found.get(whose)
                if noted is not None and (known is None or (known.at_ms or 0) < at_ms):
                    found[whose] = Consumed(noted.timestamp_ms, at_ms)
        if damaged:
            missing.append(f"{topic}: {plural(damaged, 'record')} cannot be decoded")
        return found

    def _copied(
        self, progress: Progress, missing: list[str]
    ) -> Mapping[GroupPartition, CopiedPosition]:
        topic = self.copied_topic
        if topic is None:
            return {}
        progress(f"reading {topic}")
        state = self.target[0].topics([topic])[topic]
        if not isinstance(state, TopicState):
            why = "it does not exist" if state is None else state.reason
            missing.append(f"{topic} (copy of __consumer_offsets): {why}")
            return {}
        found = positions_of(topic, topic_chunks(self.target, state, missing))
        if found.undecodable:
            missing.append(f"{topic}: {plural(found.undecodable, 'record')} cannot be decoded")
        return found.positions


def newest_values(chunks: Iterable[Chunk]) -> Mapping[bytes | None, tuple[int, bytes | None]]:
    """Return the newest record of each key: when it was written, and its value.

    Within a partition the later record wins; across partitions, the one written last.
    """
    by_partition: dict[int, dict[bytes | None, tuple[int, bytes | None]]] = {}
    for chunk in chunks:
        newest = by_partition.setdefault(chunk.partition, {})
        newest.update((key, (at_ms, value)) for _, at_ms, key, value, _ in chunk.rows)
    found: dict[bytes | None, tuple[int, bytes | None]] = {}
    for _, newest in sorted(by_partition.items()):
        for key, record in newest.items():
            if key not in found or found[key][0] <= record[0]:
                found[key] = record
    return found


def chunks_of(place: Place, topic: str, missing: list[str]) -> Iterator[Chunk]:
    """Yield all records of a topic, in order within a partition; none if it does not exist."""
    state = place[0].topics([topic])[topic]
    if isinstance(state, TopicState):
        yield from topic_chunks(place, state, missing)


def topic_chunks(place: Place, topic: TopicState, missing: list[str]) -> Iterator[Chunk]:
    """Yield all records of a topic, in order within a partition.

    Args:
        missing: collects partitions that cannot be read, with the reason.
    """
    cluster, reader = place
    ranges: dict[int, tuple[OffsetRange]] = {}
    partitions = [TopicPartition(topic.name, number) for number in topic.partitions]
    for partition, log in cluster.offsets(partitions).items():
        if not isinstance(log, PartitionOffsets):
            missing.append(f"{partition}: {log.reason}")
        elif (whole := OffsetRange(log.log_start, log.last_stable)).span:
            ranges[partition.partition] = (whole,)
    if ranges:
        yield from reader.read({topic.name: ranges})
