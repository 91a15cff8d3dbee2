"""What a replicator has left of how far it came, and of when it was alive."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from drctl.cli import wiring
from drctl.gap.traces import Copied, Ends, EndSeen, Sign
from drctl.model.errors import DrctlError
from drctl.model.topology import PartitionOffsets, TopicPartition, Unavailable

if TYPE_CHECKING:
    from drctl.cli.runs.loss_sight import LossSight
    from drctl.model.topology import Record
    from drctl.offsets.mirror_topics import Aliases, Mirrored
    from drctl.offsets.offset_syncs import Sync
    from drctl.systems.connect.client import ConnectReader

_RUNNING = "RUNNING"
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
    syncs: Mapping[TopicPartition, "Sequence[Sync]"] = field(default_factory=dict, init=False)
    _logs: dict[TopicPartition, PartitionOffsets] | None = field(default=None, init=False)

    def logs(self) -> Mapping[TopicPartition, PartitionOffsets]:
        """The copies' logs, by partition of the source; they are asked for once.

        Raises:
            Unreachable: the target did not answer.
        """
        if self._logs is None:
            self._logs = self.into.ends_of(self.places)
        return self._logs

    def gather(self) -> None:
        """What the target holds."""
        kind = self.into.link.settings.replicator.kind
        if kind == "offset-preserving":
            self.into.ask("the target's ends", self._preserved)
        if kind == "mirrormaker2":
            self.into.ask("the topics of MirrorMaker 2 on the target", self._mirrored)

    def ask_connect(self) -> None:
        """Whether it runs, and how far it came."""
        link, name = self.into.link, self._source_connector
        client = wiring.connect_of(link)
        if client is None or not name or link.settings.replicator.kind == "offset-preserving":
            return
        if self.into.told is None:
            self.into.ask("Connect", lambda: self._replicates(client, name))
        else:
            self.into.halted = self.into.told
        self.into.ask("Connect's offsets of the connector", lambda: self._copied(client, name))

    def _preserved(self) -> None:
        upto = {place: log.end for place, log in self.logs().items()}
        self.into.copied.append(Copied("the target's ends: it keeps offsets", upto))

    @property
    def _source_connector(self) -> str:
        return self.into.link.settings.replicator.connectors.source or ""

    def _replicates(self, client: "ConnectReader", name: str) -> None:
        """Who was told to stop, or has failed, may have done so while the source lived."""
        try:
            status = client.status(name)
        except DrctlError:
            self.into.halted = "Kafka Connect does not answer"
            raise
        states = [task.state for task in status.tasks]
        if status.state != _RUNNING:
            self.into.halted = f"connector {name} is {status.state}"
        elif not states:
            self.into.halted = f"connector {name} has no task"
        elif "PAUSED" in states or all(state != _RUNNING for state in states):
            self.into.halted = f"the tasks of connector {name} are {', '.join(sorted({*states}))}"
        elif other := sorted({*states} - {_RUNNING}):
            self.into.failed = True
            self.into.silent.append(
                f"until when tasks of connector {name} copied that are {', '.join(other)}"
            )

    def _copied(self, client: "ConnectReader", name: str) -> None:
        from drctl.systems.replicators.connectors import ConnectorPositions

        replicator = self.into.link.settings.replicator
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
        self.syncs = syncs
        upto = {
            place: copied_upto(syncs[place][-1], log)
            for place, log in self.logs().items()
            if place in syncs
        }
        self.into.copied.append(Copied("offset syncs, and what was copied behind them", upto))

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
            self.into.signs.append(Sign(f"the newest copied heartbeat, in {topic}", newest, True))


def copied_upto(sync: "Sync", log: PartitionOffsets) -> int:
    """Whatever the target holds behind a sync was copied in the same order."""
    return sync.upstream + 1 + max(0, log.end - sync.downstream - 1)


def beat_of(record: "Record") -> int | None:
    """When a heartbeat was sent, milliseconds UTC; None where the record is none."""
    from drctl.wire import heartbeats
    from drctl.wire.undecodable import Undecodable

    try:
        return heartbeats.decode_value(record.value)
    except Undecodable:
        return None
