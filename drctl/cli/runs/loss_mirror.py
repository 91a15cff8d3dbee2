"""What a replicator has left of how far it came, and of when it was alive."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drctl.cli import wiring
from drctl.gap.traces import Copied, Ends, EndSeen, Pace, Sign
from drctl.model.topology import PartitionOffsets, TopicPartition, Unavailable

if TYPE_CHECKING:
    from drctl.cli.runs.loss_sight import LossSight
    from drctl.model.topology import Record
    from drctl.offsets.mirror_topics import Aliases, Mirrored
    from drctl.offsets.offset_syncs import Sync

_PACE_MS = 600_000
_SHORTEST_MS = 5_000
_LAST = 20
"""Heartbeats that are read: the last of them may be the ends of transactions, or tombstones."""


@dataclass(slots=True)
class MirrorTraces:
    """Asks Connect, and reads what MirrorMaker 2 keeps on the target; the source is not asked.

    Args:
        into: gets what is found.
        places: of the source.
    """

    into: "LossSight"
    places: Sequence[TopicPartition]

    def gather(self) -> None:
        """All of it."""
        kind = self.into.link.settings.replicator.kind
        if kind == "offset-preserving":
            self.into.ask("the target's ends", self._preserved)
            return
        self.into.ask("Connect's offsets of the connector", self._connector)
        if kind == "mirrormaker2":
            self.into.ask("the topics of MirrorMaker 2 on the target", self._mirrored)

    def _preserved(self) -> None:
        ends = self._target_ends()
        upto = {place: log.end for place, log in ends.items()}
        self.into.copied.append(Copied("the target's ends: it keeps offsets", upto))

    def _connector(self) -> None:
        from drctl.systems.replicators.connectors import ConnectorPositions

        replicator = self.into.link.settings.replicator
        client, name = wiring.connect_of(self.into.link), replicator.connectors.source
        if client is None or not name:
            return
        next_offset = replicator.kind == "confluent-replicator"
        finder = ConnectorPositions(client, name, next_offset=next_offset)
        found, wanted = finder.positions(self.into.topics), set(self.places)
        upto = {place: at.offset for place, at in found.items() if place in wanted}
        if upto:
            self.into.copied.append(Copied(f"Connect keeps it for connector {name}", upto))

    def _mirrored(self) -> None:
        from drctl.offsets.mirror_topics import read_mirrored

        link, target = self.into.link, self.into.target
        aliases = wiring.mirror_aliases(link, target)
        if aliases is None:
            self.into.silent.append("what MirrorMaker 2 calls the clusters, nobody tells")
            return
        reader = wiring.range_reader(link.target, link.target_config)
        found = read_mirrored(aliases, None, (target, reader), lambda _phase: None)
        self.into.silent.extend(f"topic {name}: {why}" for name, why in found.unread.items())
        self._synced(found)
        self._checkpointed(found)
        self._heartbeat(aliases)

    def _synced(self, found: "Mirrored") -> None:
        from drctl.offsets.offset_syncs import usable

        wanted = set(self.places)
        syncs = {
            p: kept for p, each in found.syncs.items() if p in wanted and (kept := usable(each))
        }
        if not syncs:
            self.into.silent.append("offset syncs: there are none on the target")
            return
        newest = max(kept[-1].at_ms for kept in syncs.values())
        self.into.signs.append(Sign("the newest offset sync of MirrorMaker 2", newest))
        upto = {
            place: copied_upto(syncs[place][-1], log)
            for place, log in self._target_ends().items()
            if place in syncs
        }
        self.into.copied.append(Copied("offset syncs, and what was copied behind them", upto))
        pace = pace_of(syncs, newest)
        if pace is not None:
            self.into.paces.append(pace)

    def _checkpointed(self, found: "Mirrored") -> None:
        seen: dict[TopicPartition, EndSeen] = {}
        for (_, copy), checkpoint in found.checkpoints.items():
            topic = self.into.link.source_topic(copy.topic)
            if topic is not None and self.into.link.carries(topic):
                place = TopicPartition(topic, copy.partition)
                end = EndSeen(checkpoint.upstream, checkpoint.at_ms)
                seen[place] = max(end, seen.get(place, end))
        if seen:
            evidence = "checkpoints of MirrorMaker 2 say that groups were there"
            self.into.ends.append(Ends(evidence, exact=False, seen=seen))

    def _heartbeat(self, aliases: "Aliases") -> None:
        """Those of the source that were copied: `heartbeats` itself only shows a living worker."""
        topic = aliases.heartbeats
        place, target = TopicPartition(topic, 0), self.into.target
        if target.topics([topic])[topic] is None:
            return
        log = target.offsets([place])[place]
        if not isinstance(log, PartitionOffsets):
            self.into.silent.append(f"topic {topic}: {log.reason}")
            return
        begin = max(log.log_start, log.end - _LAST)
        records = target.following({place: begin}, _LAST).get(place, ())
        times = [] if isinstance(records, Unavailable) else list(map(beat_of, records))
        newest = max((at for at in times if at is not None), default=None)
        if newest is not None:
            self.into.signs.append(Sign(f"the newest copied heartbeat, in {topic}", newest))

    def _target_ends(self) -> Mapping[TopicPartition, PartitionOffsets]:
        link = self.into.link
        copies = {TopicPartition(link.target_topic(p.topic), p.partition): p for p in self.places}
        found = self.into.target.offsets(tuple(copies))
        return {
            copies[copy]: log for copy, log in found.items() if isinstance(log, PartitionOffsets)
        }


def copied_upto(sync: "Sync", log: PartitionOffsets) -> int:
    """Whatever the target holds behind a sync was copied in the same order."""
    return sync.upstream + 1 + max(0, log.end - sync.downstream - 1)


def pace_of(syncs: Mapping[TopicPartition, "Sequence[Sync]"], newest: int) -> Pace | None:
    """How fast was copied in the minutes before the newest sync, by MirrorMaker 2's clock."""
    copied, first = 0, newest
    for kept in syncs.values():
        late = [sync for sync in kept if sync.at_ms >= newest - _PACE_MS]
        if len(late) > 1:
            copied += late[-1].upstream - late[0].upstream
            first = min(first, late[0].at_ms)
    if not copied or newest - first < _SHORTEST_MS:
        return None
    evidence = f"offset syncs of {(newest - first) / 1000:,.0f} s before the newest"
    span_s = (newest - first) / 1000
    return Pace(evidence, copied / span_s, newest, span_s)


def beat_of(record: "Record") -> int | None:
    """When a heartbeat was sent, milliseconds UTC; None where the record is none."""
    from drctl.wire import heartbeats
    from drctl.wire.undecodable import Undecodable

    try:
        return heartbeats.decode_value(record.value)
    except Undecodable:
        return None
