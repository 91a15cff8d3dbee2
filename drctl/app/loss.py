"""Estimates the loss from what is left of the source: copies, MirrorMaker 2's topics, Connect.

Copies have the timestamp at which their record was written to the source. Offsets are looked up by
timestamp and records are not read, so the cost is that of `drctl gap --scope estimate`.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import islice, pairwise
from statistics import median
from typing import TYPE_CHECKING

from drctl.app import adapters, run_adapters
from drctl.engine.run_state import decoding
from drctl.gap.loss import (
    EDGES_S,
    KEEPING_UP_MS,
    Copied,
    Ends,
    EndSeen,
    LossEvidence,
    Sign,
    WriteHistory,
    estimate,
    pause_around,
)
from drctl.model.errors import DrctlError
from drctl.model.journal import Entry
from drctl.model.loss import Loss
from drctl.model.state_snapshot import ClusterSnapshot, StateSnapshot
from drctl.model.topology import Found, PartitionOffsets, TopicPartition, Unavailable
from drctl.model.typed_json import read_as

if TYPE_CHECKING:
    from drctl.app.adapters import ConnectReader
    from drctl.app.notices import Task
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.model.journal import JournalReader
    from drctl.model.ports import ClusterReader
    from drctl.model.topology import Record
    from drctl.offsets.checkpoints import Sync
    from drctl.offsets.mirror_topics import Aliases, Mirrored

_LAGS_MS = (
    *(0, 100, 200, 400, 700, 1_000, 1_500, 2_000, KEEPING_UP_MS, 5_000, 7_000, 10_000, 15_000),
    *(20_000, 30_000, 60_000, 300_000, 3_600_000, 86_400_000),
)
"""Lag buckets, up to one day: timestamps that are older are event times and do not show the lag."""

_MANY_PARTITIONS = 200
_SAMPLED = 4
"""With more partitions than `_MANY_PARTITIONS`, only every fourth time is looked up, which takes
less than a second."""

_AHEAD_MS = 1_000
"""A record copied this long before its own timestamp has no reliable timestamp."""

_LAGGING_MS = 700
"""Copies with less lag than this show when the source was alive."""

_PAUSE_MS, _PAUSE_FACTOR = 2_000, 3
"""Offset syncs stopped if a gap exceeds `_PAUSE_MS` and `_PAUSE_FACTOR` times the median gap."""

_STEADY_MS = 1_000
"""How long offset syncs must have arrived without a stop."""

Answers = Mapping[tuple[TopicPartition, int], Found]
"""Results of lookups by time, by source partition and time."""


@dataclass(slots=True)
class Copies:
    """Derives the write history of each partition from its copies.

    Args:
        into: collects the evidence.
        logs: the logs on the target, by partition of the source.
        syncs: MirrorMaker 2's offset syncs, by partition of the source.
    """

    into: "LossReader"
    logs: Mapping[TopicPartition, PartitionOffsets]
    syncs: Mapping[TopicPartition, Sequence["Sync"]]

    def gather(self, now_ms: int) -> None:
        """Collect all evidence."""
        held = {place: log for place, log in self.logs.items() if log.end > log.log_start}
        self.into.found.empty |= self.logs.keys() - held.keys()
        newest = {p: at for p, at in self._newest(held).items() if at <= now_ms}
        if newest:
            last = max(newest.values())
            copied = [s.at_ms for s in self.into.found.signs if s.copying and s.at_ms <= now_ms]
            every = 1 if len(newest) <= _MANY_PARTITIONS else _SAMPLED
            edges = edges_before(max([last, *copied]))[::-every][::-1]
            lookups = {
                p: [*edges, *(lag_times(sync.at_ms) if (sync := self._last_sync(p)) else ())]
                for p, at in newest.items()
                if at >= edges[-1]
            }
            answers = self._look_up(lookups)
            for place, at_ms in newest.items():
                sync = self._last_sync(place)
                found = by_own_times(held[place], at_ms, sync, edges, answers, place)
                if found is not None:
                    self.into.found.write_history[place] = found
        self._use_observed_ends(held, now_ms)
        self._signs_of_life(newest)

    def _newest(self, held: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        copies = {self.into.copy_of(place): place for place in held}
        times = self.into.target.max_timestamps(tuple(copies)) if copies else {}
        return {
            copies[copy]: at
            for copy, at in times.items()
            if not isinstance(at, Unavailable) and at >= 0
        }

    def _last_sync(self, place: TopicPartition) -> "Sync | None":
        """The last offset sync, if it refers to an offset within the log."""
        syncs, log = self.syncs.get(place, ()), self.logs[place]
        kept = [sync for sync in syncs[-1:] if log.log_start <= sync.downstream < log.end]
        return kept[0] if kept else None

    def _look_up(self, times: Mapping[TopicPartition, Sequence[int]]) -> Answers:
        lookups = [(place, max(0, at)) for place, each in times.items() for at in each]
        if not lookups:
            return {}
        copies = [(self.into.copy_of(place), at) for place, at in lookups]
        answers = self.into.target.look_up(copies)()
        return {
            lookup: answer
            for lookup, answer in zip(lookups, answers, strict=True)
            if isinstance(answer, Found)
        }

    def _use_observed_ends(self, held: Iterable[TopicPartition], now_ms: int) -> None:
        """Use offset syncs or recorded end offsets if the timestamps of copies are not usable."""
        evidence = self.into.found
        for place in held:
            if place in evidence.write_history:
                continue
            points = [EndSeen(sync.upstream + 1, sync.at_ms) for sync in self.syncs.get(place, ())]
            recorded = [e.seen[place] for e in evidence.ends if e.exact and place in e.seen]
            copied_to = max(
                (c.copied_to[place] for c in evidence.copied if place in c.copied_to), default=0
            )
            found = by_observed_ends(points or recorded, copied_to, now_ms)
            if found is not None:
                evidence.write_history[place] = found

    def _signs_of_life(self, newest: Mapping[TopicPartition, int]) -> None:
        """Until when offset syncs and the timestamps of copies show that the source was alive.

        A timestamp counts as reliable if an offset sync was written at about the same time.
        """
        signs, history = self.into.found.signs, self.into.found.write_history
        synced = [kept[-1].at_ms for p, kept in self.syncs.items() if not self._has_own_times(p)]
        if synced:
            words = "the newest offset sync of MirrorMaker 2"
            signs.append(Sign(words, max(synced), copying=True))
        lagging = [kept for p, kept in self.syncs.items() if self._is_lagging(p)]
        steady_ms = steady_until(sync.at_ms for kept in lagging for sync in kept)
        if steady_ms is not None:
            # Copies are complete only until their own timestamps, which are much earlier.
            words = "MirrorMaker 2 lagged and wrote offset syncs without a pause"
            signs.append(Sign(words, steady_ms))
        own = {p: newest[p] for p, each in history.items() if each.own}
        if not own:
            return
        lags = {p: history[p].lag_ms for p in own}
        reliable = [p for p, lag in lags.items() if lag is not None and lag <= KEEPING_UP_MS]
        if reliable:
            at_ms = max(own[p] for p in reliable)
            words = "the newest copy's timestamp, confirmed by offset syncs"
            signs.append(Sign(words, at_ms, copying=True))
        at_ms = max(own.values())
        if not reliable or at_ms > max(own[p] for p in reliable):
            sign = Sign("the newest copy's own timestamp", at_ms, copying=True, by_record=True)
            signs.append(sign)

    def _has_own_times(self, place: TopicPartition) -> bool:
        history = self.into.found.write_history
        return place in history and history[place].own

    def _is_lagging(self, place: TopicPartition) -> bool:
        lag_ms = self.into.found.write_history[place].lag_ms if self._has_own_times(place) else 0
        return (lag_ms or 0) >= _LAGGING_MS


def steady_until(syncs_ms: Iterable[int]) -> int | None:
    """The end of the last period of offset syncs without a pause, milliseconds UTC.

    Syncs of records fetched before a pause are all written right after it, so a short burst does
    not show that the source was alive.
    """
    times = sorted(syncs_ms)
    gaps = [after - before for before, after in pairwise(times)]
    pause_ms = max(_PAUSE_MS, _PAUSE_FACTOR * median(gaps)) if gaps else 0
    periods: list[list[int]] = []
    for at_ms in times:
        if not periods or at_ms - periods[-1][-1] > pause_ms:
            periods.append([])
        periods[-1].append(at_ms)
    ends = [period[-1] for period in periods if period[-1] - period[0] >= _STEADY_MS]
    return ends[-1] if ends else None


def edges_before(last_ms: int) -> list[int]:
    """The times between which write rates are measured, the newest first."""
    return [last_ms - round(seconds * 1000) for seconds in EDGES_S]


def lag_times(at_ms: int) -> list[int]:
    """The times to look up to measure the lag of a record that was copied at `at_ms`."""
    return [at_ms + _AHEAD_MS, *(at_ms - lag for lag in _LAGS_MS)]


def by_own_times(
    log: PartitionOffsets,
    newest_ms: int,
    sync: "Sync | None",
    edges: Sequence[int],
    answers: Answers,
    place: TopicPartition,
) -> WriteHistory | None:
    """The write history by the timestamps of copies; None if copies have other timestamps."""
    if sync is not None and sync.at_ms - newest_ms > _LAGS_MS[-1]:
        return None
    if newest_ms < edges[-1]:
        return WriteHistory(newest_ms, tuple((edge, 0) for edge in edges))
    lag = None
    synced_ms = 0 if sync is None else sync.at_ms
    if sync is not None:
        lag = _lag(sync, place, answers)
        if lag is None:
            return None
    since = []
    for edge in edges:
        found = answers.get((place, max(0, edge)))
        if found is None:
            return None
        since.append((edge, log.end - found.offset if found.offset >= 0 else 0))
    oldest = answers[place, max(0, edges[-1])]
    whole = 0 <= oldest.offset <= log.log_start and oldest.timestamp_ms >= edges[-1]
    begins = oldest.timestamp_ms if whole else None
    return WriteHistory(newest_ms, tuple(since), begins, lag, synced_ms)


def _lag(sync: "Sync", place: TopicPartition, answers: Answers) -> int | None:
    """The minimum lag of the synced record when it was copied, in milliseconds.

    None if its timestamp is in the future or days old, because its producer set an event time.
    """
    ahead, *times = lag_times(sync.at_ms)

    def written_since(at_ms: int) -> bool:
        found = answers.get((place, max(0, at_ms)))
        return found is not None and 0 <= found.offset <= sync.downstream

    if written_since(ahead):
        return None
    lags = zip((0, *_LAGS_MS), times, strict=False)
    return next((lag for lag, at_ms in lags if written_since(at_ms)), None)


def by_observed_ends(points: Sequence[EndSeen], copied_to: int, now_ms: int) -> WriteHistory | None:
    """The write history by end offsets of the source that were observed at known times.

    Args:
        copied_to: the source offset after the last copy.
    """
    observed = sorted((p for p in points if p.at_ms <= now_ms), key=lambda point: point.at_ms)
    if len(observed) < 2:
        return None
    first, last = observed[0], observed[-1]
    end = max(copied_to, last.offset)
    edges = edges_before(last.at_ms)
    since = []
    for edge in edges:
        before = [point.offset for point in observed if point.at_ms <= edge]
        since.append((edge, end - (before[-1] if before else first.offset)))
    whole = first.at_ms > edges[-1]
    return WriteHistory(last.at_ms, tuple(since), first.at_ms if whole else None, own=False)


_NEWEST = 5
"""How many runs and results of `drctl gap` are read; older ones add nothing."""


@dataclass(slots=True)
class KnownEnds:
    """Reads end offsets of the source from journals, `drctl gap`, tracked offsets and the ledger.

    Args:
        into: collects the evidence.
    """

    into: "LossReader"
    _ids: set[str] = field(default_factory=set, init=False)

    def gather(self) -> None:
        """Collect all evidence."""
        self.into.ask("the journal on the target", self._journaled)
        self.into.ask("results of drctl gap on this host", self._gap_results)
        self.into.ask("tracked offsets of drctl offsets track", self._tracked_offsets)
        # Last, because the ledger is found by the source's cluster id, which the others contain.
        self.into.ask("the ledger of drctl gap", self._ledger)

    def _journaled(self) -> None:
        """What snapshot-state recorded of the source in this run and earlier ones."""
        link = self.into.link
        reader = run_adapters.journal_reader(link)
        for run in reader.runs()[:_NEWEST]:
            self.into.ask(f"the journal of run {run}", partial(self._snapshots, reader, run))

    def _snapshots(self, reader: "JournalReader", run: str) -> None:
        for entry in reader.entries(run):
            with decoding(run):
                snapshot = snapshot_in(entry, self.into.link.source)
                seen = ends_of(snapshot, entry) if snapshot else {}
            if snapshot and seen:
                self.into.found.ends.append(Ends(f"recorded by run {run}", exact=True, seen=seen))
                self._ids.add(snapshot.cluster_id)

    def _gap_results(self) -> None:
        from drctl.views.run_completion import gap_results

        link = self.into.link
        for kept in islice(gap_results(self.into.config.state_dir), _NEWEST):
            result = kept.result
            if (result.link, result.source) != (link.name, link.source):
                continue
            at_ms = round(result.started.timestamp() * 1000)
            seen = {place: EndSeen(end, at_ms) for place, end in kept.ends.items()}
            evidence = f"reported by drctl gap ({kept.file.parent.name})"
            self.into.found.ends.append(Ends(evidence, exact=True, seen=seen))
            self._ids.add(result.source_id)

    def _tracked_offsets(self) -> None:
        """Committed offsets are a lower limit of end offsets."""
        from drctl.offsets.tracking_log import Confirmations, scope_of, unreachable_source_id

        link = self.into.link
        reader = adapters.reader(link.target, link.target_config).tracked_offsets
        log = reader.catch_up()
        cluster = (
            unreachable_source_id(log, link.source, reader.cluster_id()) if reader.exists else ""
        )
        if not cluster:
            return
        self._ids.add(cluster)
        passes = log.passes(cluster)
        if passes:
            newest_ms = max(each.at_ms for each in passes)
            self.into.found.signs.append(Sign("observed by drctl offsets track", newest_ms))
        seen_ms = Confirmations(passes, scope_of(link)).seen_ms
        seen = (
            (TopicPartition(*key[2:]), EndSeen(held.head.offset, seen_ms(key, held.head)))
            for key, held in log.of_cluster(cluster)
            if link.carries(key.topic)
        )
        self.into.saw("groups observed by drctl offsets track", seen)

    def _ledger(self) -> None:
        """Digested ranges are a lower limit of end offsets."""
        from drctl.gap.comparison import Side
        from drctl.gap.ledger_updates import book_name

        store = adapters.ledger(self.into.config, writes=False)
        names = [
            book_name(self.into.link, source_id, self.into.target.cluster_id())
            for source_id in sorted(self._ids - {""})
        ]
        seen = (
            (TopicPartition(key.topic, key.partition), EndSeen(last.end, last.digested_at))
            for name in names
            if store.book(name) is not None
            for key, log in store.logs(name, self.into.topics).items()
            if key.side is Side.SOURCE and log.cells
            for last in [max(log.cells.values(), key=lambda cell: cell.end)]
        )
        self.into.saw(f"the ledger of drctl gap, {store.where}", seen)


def snapshot_in(entry: Entry, source: str) -> ClusterSnapshot | None:
    """The snapshot of the source in a journal entry; None if the entry has no snapshot."""
    intent = entry.get("intent") or {}
    return read_as(StateSnapshot, intent).clusters.get(source) if "clusters" in intent else None


def ends_of(snapshot: ClusterSnapshot, entry: Entry) -> dict[TopicPartition, EndSeen]:
    """The end offsets when the entry was written."""
    at_ms = round(datetime.fromisoformat(str(entry["at"])).timestamp() * 1000)
    found = {}
    for name, end in snapshot.ends.items():
        topic, _, number = name.rpartition("-")
        if isinstance(end, int) and topic and number.isdecimal():
            found[TopicPartition(topic, int(number))] = EndSeen(end, at_ms)
    return found


_RUNNING = "RUNNING"
WORKER_HEARTBEATS = "heartbeats"
"""The topic of the heartbeat connector itself, which shows that its worker runs."""

_WORKER_HEARTBEATS, _BEFORE_NEWEST_MS = 600, 120_000
"""How many worker heartbeats are read, and from what time before the newest copy; one is sent per
second by default."""

_HEARTBEATS = 20
"""How many offsets are read before the log end, where transaction markers or tombstones may be."""


@dataclass(slots=True)
class ReplicatorEvidence:
    """Reads the replicator's progress from Connect and the target, without the source.

    Args:
        into: collects the evidence.
        places: partitions of the source.
    """

    into: "LossReader"
    places: Sequence[TopicPartition]
    syncs: Mapping[TopicPartition, "Sequence[Sync]"] = field(default_factory=dict, init=False)
    _logs: dict[TopicPartition, PartitionOffsets] | None = field(default=None, init=False)

    def logs(self) -> Mapping[TopicPartition, PartitionOffsets]:
        """The copies' logs, by partition of the source; requested only once.

        Raises:
            Unreachable: the target did not answer.
        """
        if self._logs is None:
            self._logs = self.into.ends_of(self.places)
        return self._logs

    def gather(self) -> None:
        """Collect the evidence on the target."""
        kind = self.into.link.settings.replicator.kind
        if kind == "offset-preserving":
            self.into.ask("log ends of the target", self._preserved)
        if kind == "mirrormaker2":
            self.into.ask("the topics of MirrorMaker 2 on the target", self._mirrored)

    def ask_connect(self) -> None:
        """Collect whether replication runs, and the source offsets that it committed."""
        link = self.into.link
        name = link.settings.replicator.connectors.source
        client = adapters.connect_of(link)
        if client is None or not name or link.settings.replicator.kind == "offset-preserving":
            return
        if self.into.halted is None:
            self.into.ask("Connect", lambda: self._running(client, name))
        else:
            self.into.found.halted = self.into.halted
        self.into.ask("Connect's offsets of the connector", lambda: self._copied(client, name))

    def _preserved(self) -> None:
        copied_to = {place: log.end for place, log in self.logs().items()}
        self.into.found.copied.append(
            Copied("log ends of the target: offsets are preserved", copied_to)
        )

    def _running(self, client: "ConnectReader", name: str) -> None:
        """A connector that does not run may have stopped while the source was still alive."""
        try:
            status = client.status(name)
        except DrctlError:
            self.into.found.halted = "Kafka Connect does not answer"
            raise
        states = [task.state for task in status.tasks]
        if status.state != _RUNNING:
            self.into.found.halted = f"connector {name} is {status.state}"
        elif not states:
            self.into.found.halted = f"connector {name} has no task"
        elif "PAUSED" in states or all(state != _RUNNING for state in states):
            shown = ", ".join(sorted({*states}))
            self.into.found.halted = f"the tasks of connector {name} are {shown}"
        elif other := sorted({*states} - {_RUNNING}):
            self.into.found.failed = True
            self.into.found.silent.append(
                f"when the {', '.join(other)} tasks of connector {name} last copied"
            )

    def _copied(self, client: "ConnectReader", name: str) -> None:
        from drctl.app.replication_progress import ConnectorPositions

        replicator = self.into.link.settings.replicator
        next_offset = replicator.kind == "confluent-replicator"
        finder = ConnectorPositions(client, name, next_offset=next_offset)
        found, wanted = finder.positions(self.into.topics), set(self.places)
        copied_to = {place: at.offset for place, at in found.items() if place in wanted}
        if copied_to:
            self.into.found.copied.append(Copied(f"Connect offsets of connector {name}", copied_to))

    def _mirrored(self) -> None:
        from drctl.offsets.mirror_topics import read_mirrored

        link, target = self.into.link, self.into.target
        aliases = adapters.mirror_aliases(link, target)
        if aliases is None:
            self.into.found.silent.append("MirrorMaker 2 cluster aliases are unknown")
            return
        reader = adapters.range_reader(link.target, link.target_config)
        found = read_mirrored(aliases, None, (target, reader), lambda _phase: None)
        self.into.found.silent.extend(f"topic {name}: {why}" for name, why in found.unread.items())
        self.into.ask("heartbeats of MirrorMaker 2", lambda: self._paused(aliases, found))
        self._synced(found)
        self._checkpointed(found)
        self._heartbeat(aliases)

    def _paused(self, aliases: "Aliases", found: "Mirrored") -> None:
        """Check by the worker's own heartbeats whether it was suspended at its last copy.

        The worker writes its heartbeats to the target even if the source does not answer.
        """
        wanted = set(self.places)
        noted = [sync.at_ms for p, kept in found.syncs.items() if p in wanted for sync in kept]
        if not noted:
            return
        copied_ms, now_ms = max(noted), round(self.into.now() * 1000)
        self.into.found.pause_unseen = True
        heartbeats = self._worker_heartbeats(aliases, copied_ms)
        self.into.found.pause_unseen = not heartbeats
        stopped = self.into.halted is not None
        cut = len(heartbeats) == _WORKER_HEARTBEATS
        until_ms = None if stopped or cut else now_ms
        self.into.found.pause = pause_around(heartbeats, copied_ms, until_ms)

    def _worker_heartbeats(self, aliases: "Aliases", copied_ms: int) -> list[int]:
        place, target = TopicPartition(WORKER_HEARTBEATS, 0), self.into.target
        if target.topics([place.topic])[place.topic] is None:
            return []
        (begin,) = target.look_up([(place, max(0, copied_ms - _BEFORE_NEWEST_MS))])()
        if not isinstance(begin, Found) or begin.offset < 0:
            return []
        records = target.following({place: begin.offset}, _WORKER_HEARTBEATS).get(place, ())
        own = () if isinstance(records, Unavailable) else records
        flow = aliases.source, aliases.target
        times = (heartbeat_ms(each) for each in own if flow_of(each) == flow)
        return [at_ms for at_ms in times if at_ms is not None]

    def _synced(self, found: "Mirrored") -> None:
        from drctl.offsets.checkpoints import usable

        wanted = set(self.places)
        syncs = {
            p: self._before_pause(kept)
            for p, each in found.syncs.items()
            if p in wanted and (kept := usable(each))
        }
        if not syncs:
            self.into.found.silent.append("no offset syncs on the target")
            return
        self.syncs = syncs
        copied_to = {
            place: copied_upto(syncs[place][-1], log)
            for place, log in self.logs().items()
            if place in syncs
        }
        self.into.found.copied.append(Copied("offset syncs and later copies", copied_to))

    def _before_pause(self, syncs: "Sequence[Sync]") -> "Sequence[Sync]":
        """Correct the times of syncs written right after a pause: they were fetched before it."""
        pause = self.into.found.pause
        if pause is None:
            return syncs
        return [sync._replace(at_ms=pause.before(sync.at_ms)) for sync in syncs]

    def _checkpointed(self, found: "Mirrored") -> None:
        link, pause = self.into.link, self.into.found.pause
        seen = (
            (
                TopicPartition(topic, copy.partition),
                EndSeen(each.upstream, pause.before(each.at_ms) if pause else each.at_ms),
            )
            for (_, copy), each in found.checkpoints.items()
            if (topic := link.source_topic(copy.topic)) is not None and link.carries(topic)
        )
        self.into.saw("MirrorMaker 2 checkpoints of groups", seen)

    def _heartbeat(self, aliases: "Aliases") -> None:
        """Copied heartbeats of the source; `heartbeats` itself only shows that a worker runs."""
        topic = aliases.heartbeats
        place, target = TopicPartition(topic, 0), self.into.target
        if target.topics([topic])[topic] is None:
            return
        log = target.offsets([place])[place]
        if not isinstance(log, PartitionOffsets):
            self.into.found.silent.append(f"topic {topic}: {log.reason}")
            return
        begin = max(log.log_start, log.end - _HEARTBEATS)
        records = target.following({place: begin}, _HEARTBEATS).get(place, ())
        times = [] if isinstance(records, Unavailable) else list(map(heartbeat_ms, records))
        newest = max((at for at in times if at is not None), default=None)
        if newest is not None:
            words = f"the newest copied heartbeat, in {topic}"
            self.into.found.signs.append(Sign(words, newest, copying=True))


def copied_upto(sync: "Sync", log: PartitionOffsets) -> int:
    """The source offset after the last copy: records after a sync are copied in order."""
    return sync.upstream + 1 + max(0, log.end - sync.downstream - 1)


def flow_of(record: "Record") -> tuple[str, str] | None:
    """The source and target alias of a heartbeat; None if it cannot be decoded."""
    from drctl.formats import heartbeats
    from drctl.formats.primitives import Undecodable

    try:
        return heartbeats.decode_key(record.key)
    except Undecodable:
        return None


def heartbeat_ms(record: "Record") -> int | None:
    """When a heartbeat was sent, milliseconds UTC; None if the record is not a heartbeat."""
    from drctl.formats import heartbeats
    from drctl.formats.primitives import Undecodable

    try:
        return heartbeats.decode_value(record.value)
    except Undecodable:
        return None


ESTIMATING = "estimating the loss"


@dataclass(slots=True)
class LossReader:
    """Collects all evidence of the loss, and names the systems that do not answer.

    Args:
        target: the reader of the surviving cluster.
        topics: the topics of the source.
        task: shows what is read.
        halted: why replication was not running when its stop was requested; empty if it was
            running. None to read the state from Connect now.
    """

    config: "Config"
    link: "Link"
    target: "ClusterReader"
    topics: Sequence[str]
    now: Callable[[], float] = time.time
    task: "Task | None" = None
    halted: str | None = None
    found: LossEvidence = field(default_factory=LossEvidence, init=False)

    def loss(self) -> Loss:
        """Estimate the loss.

        Raises:
            Unreachable: the target did not answer.
        """
        return estimate(self.evidence_found(), round(self.now() * 1000))

    def evidence_found(self) -> LossEvidence:
        """Collect all evidence.

        Raises:
            Unreachable: the target did not answer.
        """
        partitions = self.target.overview().partitions
        self.found.source = self.link.source
        self.found.places = tuple(
            TopicPartition(topic, number)
            for topic in self.topics
            for number in partitions.get(self.link.target_topic(topic), ())
        )
        KnownEnds(self).gather()
        replicator = ReplicatorEvidence(self, self.found.places)
        replicator.gather()
        copies = Copies(self, replicator.logs(), replicator.syncs)
        self.ask("when the copies were written", lambda: copies.gather(round(self.now() * 1000)))
        # Last, because after a requested stop Connect answers only once its tasks have ended.
        replicator.ask_connect()
        return self.found

    def copy_of(self, place: TopicPartition) -> TopicPartition:
        """The partition on the target of a partition of the source."""
        return TopicPartition(self.link.target_topic(place.topic), place.partition)

    def ends_of(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, PartitionOffsets]:
        """The logs on the target, by partition of the source; without unavailable ones.

        Raises:
            Unreachable: the target did not answer.
        """
        copies = {self.copy_of(place): place for place in places}
        found = self.target.offsets(tuple(copies))
        return {
            copies[copy]: log for copy, log in found.items() if isinstance(log, PartitionOffsets)
        }

    def saw(self, evidence: str, ends: Iterable[tuple[TopicPartition, EndSeen]]) -> None:
        """Add observed end offsets; the highest of each partition counts."""
        seen: dict[TopicPartition, EndSeen] = {}
        for place, end in ends:
            seen[place] = max(end, seen.get(place, end))
        if seen:
            self.found.ends.append(Ends(evidence, exact=False, seen=seen))

    def ask(self, what: str, look: Callable[[], None]) -> None:
        """Read one kind of evidence; record an error and continue."""
        if self.task is not None:
            self.task.update(description=f"{ESTIMATING}: {what}")
        try:
            look()
        except DrctlError as error:
            self.found.silent.append(f"{what}: {error.message}")
