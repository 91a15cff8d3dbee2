"""The content of the tracked offsets topic (`__drctl_anchors`)."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from drctl.config.link import Link
from drctl.formats import tracked_offsets, tracked_positions, tracking_passes
from drctl.formats.primitives import Undecodable
from drctl.formats.tracked_offsets import OffsetKey, TrackedHead, TrackedOffset
from drctl.formats.tracked_positions import ConnectorKey, TrackedPositions
from drctl.formats.tracking_passes import Pass, PassKey, Scope
from drctl.model.ports import OffsetReader
from drctl.model.topology import TopicPartition, TopicState
from drctl.model.translation import GroupPartition

TRACKED_OFFSETS_TOPIC = "__drctl_anchors"
"""Stores tracked offsets; compacted, on the target."""

Change = tuple[bytes, bytes | None]
"""Key and value of a record of the topic; the value is None for a tombstone."""


def scope_of(link: Link) -> Scope:
    """Return the patterns of a link, as a tracker uses them."""
    settings = link.settings
    return Scope(link.source, settings.topics, settings.exclude, settings.groups)


class Held(NamedTuple):
    """A tracked offset as stored in the topic.

    Attributes:
        value: the encoded tracked offset.
    """

    head: TrackedHead
    value: bytes

    @property
    def tracked(self) -> TrackedOffset | None:
        """The decoded tracked offset; None if it cannot be decoded."""
        try:
            return tracked_offsets.decode_value(self.value)
        except Undecodable:
            return None


class TrackingLog:
    """The tracked offsets in the topic, built from its records in order.

    Two trackers may track the same offset: the newer observation wins, not the later write.

    Attributes:
        shadowed: tracked offsets of which compaction would keep an older observation.
    """

    def __init__(self) -> None:
        self._tracked_offsets: dict[OffsetKey, Held] = {}
        self._passes: dict[PassKey, Pass] = {}
        self._positions: dict[ConnectorKey, TrackedPositions] = {}
        self._damaged: set[bytes] = set()
        self.shadowed: set[OffsetKey] = set()

    @property
    def damaged(self) -> int:
        """Number of keys whose record cannot be decoded."""
        return len(self._damaged)

    def take(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """Add records."""
        for raw, value in records:
            name = raw or b""
            try:
                if tracking_passes.is_key(raw):
                    self._note_pass(tracking_passes.decode_key(raw), value)
                elif tracked_positions.is_key(raw):
                    self._note_positions(tracked_positions.decode_key(raw), value)
                else:
                    self._note(tracked_offsets.decode_key(raw), value)
            except Undecodable:
                self._damaged.add(name)
            else:
                self._damaged.discard(name)

    def held(self, key: OffsetKey) -> Held | None:
        """Return the newest tracked offset of a group and partition, if there is one."""
        return self._tracked_offsets.get(key)

    def holds(self, raw: bytes, value: bytes | None) -> bool:
        """Return whether the log holds this record or a newer one of its key."""
        if tracking_passes.is_key(raw):
            noted = tracking_passes.decode_value(value)
            known = self._passes.get(tracking_passes.decode_key(raw))
            return noted is None or (known is not None and known.at_ms >= noted.at_ms)
        if tracked_positions.is_key(raw):
            exported = tracked_positions.decode_value(value)
            newest = self._positions.get(tracked_positions.decode_key(raw))
            return exported is None or (newest is not None and newest.at_ms >= exported.at_ms)
        held = self._tracked_offsets.get(tracked_offsets.decode_key(raw))
        if value is None or held is None:
            return value is None
        return held.head.observed_ms >= tracked_offsets.decode_head(value).observed_ms

    def of_cluster(self, cluster_id: str) -> Iterator[tuple[OffsetKey, Held]]:
        """Yield all tracked offsets of a source cluster."""
        return (
            (k, held) for k, held in self._tracked_offsets.items() if k.cluster_id == cluster_id
        )

    def cluster_ids(self) -> frozenset[str]:
        """Return the ids of all source clusters."""
        exported = frozenset(key.cluster_id for key in self._positions)
        return exported | frozenset(key.cluster_id for key in self._tracked_offsets)

    def positions(self, cluster_id: str) -> Mapping[str, TrackedPositions]:
        """Return the newest export of each connector that writes to a cluster, by name."""
        found = self._positions.items()
        return {key.name: each for key, each in found if key.cluster_id == cluster_id}

    def passes(self, cluster_id: str) -> tuple[Pass, ...]:
        """Return the last pass of each scope over a cluster."""
        return tuple(found for key, found in self._passes.items() if key.cluster_id == cluster_id)

    def last_pass_ms(self, scope: str) -> int | None:
        """Return the start of the last pass of a scope over any cluster."""
        return max((p.at_ms for key, p in self._passes.items() if key.scope == scope), default=None)

    def _note(self, key: OffsetKey, value: bytes | None) -> None:
        if value is None:
            self._tracked_offsets.pop(key, None)
            self.shadowed.discard(key)
            return
        found = Held(tracked_offsets.decode_head(value), value)
        known = self._tracked_offsets.get(key)
        if known is not None and found.head.observed_ms < known.head.observed_ms:
            self.shadowed.add(key)
        else:
            self._tracked_offsets[key] = found
            self.shadowed.discard(key)

    def _note_positions(self, key: ConnectorKey, value: bytes | None) -> None:
        found, known = tracked_positions.decode_value(value), self._positions.get(key)
        if found is None:
            self._positions.pop(key, None)
        elif known is None or found.at_ms >= known.at_ms:
            self._positions[key] = found

    def _note_pass(self, key: PassKey, value: bytes | None) -> None:
        found = tracking_passes.decode_value(value)
        if found is None:
            self._passes.pop(key, None)
        else:
            self._passes[key] = found


class Confirmations:
    """Determines until when tracked offsets were confirmed by later passes.

    Patterns from the topic are compared as text and never executed: anyone who can write to the
    topic could otherwise block a process with an expensive pattern.

    Args:
        passes: passes of that cluster.
        own: scope in drctl.yaml; a pass of another scope counts only for groups and topics that
            it names.
    """

    def __init__(self, passes: Iterable[Pass], own: Scope | None) -> None:
        self._passes = tuple(sorted(passes, key=lambda each: -each.at_ms))
        self._own = own
        self._topics: dict[tuple[int, str], bool] = {}
        self._groups: dict[tuple[int, str], bool] = {}

    def seen_ms(self, key: OffsetKey, head: TrackedHead) -> int:
        """Return when this committed offset was last confirmed, in milliseconds since 1970 UTC."""
        if not head.unverified:
            for number, each in enumerate(self._passes):
                if each.at_ms <= head.observed_ms:
                    break
                if self._covers(number, each, key):
                    return each.at_ms
        return head.observed_ms

    def _covers(self, number: int, each: Pass, key: OffsetKey) -> bool:
        group, topic = (number, key.group), (number, key.topic)
        own = self._own if self._own and self._own.same_patterns(each.scope) else None
        if group not in self._groups:
            named = each.scope.names_group(key.group)
            self._groups[group] = own.covers_group(key.group) if own else named
        if topic not in self._topics:
            named = each.scope.names_topic(key.topic)
            self._topics[topic] = own.covers_topic(key.topic) if own else named
        return self._groups[group] and self._topics[topic]


def tracked_offsets_of(
    log: TrackingLog, cluster_id: str, source: OffsetReader | None, scope: Scope | None
) -> tuple[Mapping[GroupPartition, TrackedOffset], int]:
    """Return the tracked offsets of a cluster, and the number of damaged records.

    Args:
        source: that cluster, if reachable: tracked offsets in topics that were deleted or recreated
            are then left out.
        scope: scope of the link; None if unknown.

    Raises:
        Unreachable: the source did not answer.
    """
    seen_ms = Confirmations(log.passes(cluster_id), scope).seen_ms
    found: dict[GroupPartition, TrackedOffset] = {}
    damaged = log.damaged
    for key, held in log.of_cluster(cluster_id):
        tracked = held.tracked
        if tracked is None:
            damaged += 1
            continue
        place = GroupPartition(key.group, TopicPartition(key.topic, key.partition))
        found[place] = replace(tracked, observed_ms=seen_ms(key, held.head))
    if source is None or not found:
        return found, damaged
    topics = source.topics(sorted({place.partition.topic for place in found}))
    current = {
        place: tracked
        for place, tracked in found.items()
        if isinstance(state := topics[place.partition.topic], TopicState)
        and tracked.topic_id in ("", state.topic_id)
    }
    return current, damaged


def unreachable_source_id(log: TrackingLog, source: str, target_id: str) -> str | None:
    """Return the cluster id of an unreachable source from its tracked offsets.

    Each pass in the topic stores its source's name in drctl.yaml. If all tracked offsets are of one
    cluster, that cluster is returned under any name. Returns an empty string if there are no
    tracked offsets, None if all are of other clusters.

    Args:
        source: its name in drctl.yaml.
        target_id: id of the cluster that stores the tracked offsets; its own are ignored.
    """
    ids = log.cluster_ids() - {target_id}
    if not ids:
        return ""
    looked = {
        found.at_ms: cluster_id
        for cluster_id in ids
        for found in log.passes(cluster_id)
        if found.scope.source == source
    }
    if looked:
        return looked[max(looked)]
    return next(iter(ids)) if len(ids) == 1 else None
