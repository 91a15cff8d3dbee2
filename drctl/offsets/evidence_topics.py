"""Reads what was noted of positions, from the topics that hold it; each is read once."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from drctl.model.rows import Row
from drctl.model.topology import OffsetRange, PartitionOffsets, TopicPartition, TopicState
from drctl.model.translation import GroupPartition
from drctl.offsets.anchor_log import ANCHORS_TOPIC, AnchorLog
from drctl.offsets.anchor_reading import anchors_of, survived_cluster
from drctl.offsets.by_time import Consumed
from drctl.offsets.link_translation import Evidence, Progress
from drctl.offsets.mirror_topics import Aliases, Mirrored, Place, read_mirrored
from drctl.wire import consumer_timestamps
from drctl.wire.anchors import Anchor
from drctl.wire.undecodable import Undecodable


@dataclass(frozen=True, slots=True)
class EvidenceTopics:
    """Implements `EvidenceReader` with the topics of both clusters.

    Attributes:
        aliases: says what MirrorMaker 2 calls the clusters; None where nobody knows.
        mirrors: whether the link is one of MirrorMaker 2.
    """

    source: Place
    target: Place
    aliases: Callable[[], Aliases | None]
    mirrors: bool

    def read(self, source_alive: bool, progress: Progress) -> Evidence:
        """All of it.

        Raises:
            Unreachable: the target did not answer.
            ScanFailed: a topic could not be read to its end.
        """
        missing: list[str] = []
        mirrored = self._mirrored(source_alive, progress, missing)
        noted = self._anchors(source_alive, progress, missing)
        consumed, damaged = self._consumed(source_alive, progress)
        if damaged:
            missing.append(f"{damaged} records of {consumer_timestamps.TOPIC} cannot be decoded")
        return Evidence(mirrored, noted, consumed, tuple(missing))

    def _mirrored(
        self, source_alive: bool, progress: Progress, missing: list[str]
    ) -> Mirrored | None:
        if not self.mirrors:
            return None
        aliases = self.aliases()
        if aliases is None:
            missing.append("MirrorMaker 2's names of the clusters are not known")
            return None
        found = read_mirrored(aliases, self.source if source_alive else None, self.target, progress)
        missing += [f"{topic}: {reason}" for topic, reason in found.unread.items()]
        if found.undecodable:
            missing.append(f"{found.undecodable} records of MirrorMaker 2's cannot be decoded")
        return found

    def _anchors(
        self, source_alive: bool, progress: Progress, missing: list[str]
    ) -> Mapping[GroupPartition, Anchor]:
        progress(f"reading {ANCHORS_TOPIC}")
        source, log = self.source[0], AnchorLog()
        log.take((row[2], row[3]) for row in whole_topic(self.target, ANCHORS_TOPIC))
        if source_alive:
            found, damaged = anchors_of(log, source.cluster_id(), source)
        else:
            # While the source is silent nobody says its id.
            cluster_id = survived_cluster(log, source.name, self.target[0].cluster_id())
            if cluster_id is None:
                missing.append(
                    f"{ANCHORS_TOPIC} holds other clusters' anchors, not {source.name}'s"
                )
                return {}
            found, damaged = anchors_of(log, cluster_id, None)
        if damaged:
            missing.append(f"{damaged} records of {ANCHORS_TOPIC} are no anchors")
        return found

    def _consumed(
        self, source_alive: bool, progress: Progress
    ) -> tuple[Mapping[GroupPartition, Consumed], int]:
        """Consumers may note them on either cluster; the newer note counts."""
        found: dict[GroupPartition, Consumed] = {}
        damaged = 0
        for place in (self.source, self.target) if source_alive else (self.target,):
            progress(f"reading {consumer_timestamps.TOPIC}")
            latest = {r[2]: r for r in whole_topic(place, consumer_timestamps.TOPIC)}
            for _, at_ms, raw, value, _ in latest.values():
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
        return found, damaged


def whole_topic(place: Place, topic: str) -> Iterator[Row]:
    """Everything that a topic holds, of each partition in order; nothing where there is none."""
    cluster, reader = place
    state = cluster.topics([topic])[topic]
    if not isinstance(state, TopicState):
        return
    logs = cluster.offsets([TopicPartition(topic, number) for number in state.partitions])
    ranges = {
        place.partition: (whole,)
        for place, log in logs.items()
        if isinstance(log, PartitionOffsets)
        and (whole := OffsetRange(log.log_start, log.last_stable)).span
    }
    for chunk in reader.read({topic: ranges}) if ranges else ():
        yield from chunk.rows
