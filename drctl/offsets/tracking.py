"""Reads the committed offsets of a link's groups, and decides which tracked offsets to write.

A tracked offset contains the records before a committed offset, and some older ones (milestones),
so that the offset can be found on another cluster.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import NamedTuple, Protocol

from drctl.formats import tracked_positions, tracking_passes
from drctl.formats.tracked_offsets import (
    Milestone,
    OffsetKey,
    TrackedHead,
    TrackedOffset,
    encode_key,
    encode_value,
)
from drctl.formats.tracked_positions import ConnectorKey, TrackedPositions
from drctl.formats.tracking_passes import Pass, PassKey, Scope
from drctl.model.errors import ConfigError, DrctlError, ExitCode
from drctl.model.groups import Committed, Group, GroupState, Positions
from drctl.model.ports import ClusterReader, GroupReader
from drctl.model.topology import PartitionOffsets, TopicPartition, TopicState, Unavailable
from drctl.model.translation import GroupPartition
from drctl.offsets.consumed import (
    Before,
    LastConsumed,
    Position,
    known_from,
    last_consumed,
    milestones_before,
)
from drctl.offsets.link_translation import Cluster
from drctl.offsets.situation import Carried
from drctl.offsets.tracking_log import Change, Confirmations, Held, TrackingLog


class Problem(NamedTuple):
    """Something that could not be read, and why.

    Attributes:
        group: empty if it concerns a connector.
        topic: empty if it concerns the whole group.
        partition: -1 if it concerns the whole group.
        connector: a source connector; empty if it concerns a group.
    """

    group: str
    topic: str
    partition: int
    reason: str
    connector: str = ""


@dataclass(frozen=True, slots=True)
class SourceOffsets:
    """The committed offsets on a source at one moment.

    Attributes:
        groups: number of groups of the link.
        committed: their committed offsets in topics of the link.
        topics: the topics of these offsets.
        gone: known offsets that the source reports as deleted.
        unseen: known offsets that it does not report.
    """

    groups: int
    committed: Mapping[GroupPartition, Committed]
    topics: Mapping[str, TopicState]
    gone: frozenset[GroupPartition]
    unseen: frozenset[GroupPartition]
    problems: tuple[Problem, ...]


def read_source_offsets(
    link: Carried, cluster: ClusterReader, groups: GroupReader, known: Collection[GroupPartition]
) -> SourceOffsets:
    """Read groups, committed offsets and topics from the source; no records.

    Raises:
        Unreachable: the source did not answer.
    """
    carries = cache(link.carries)
    # What is known of a cluster that fails is worth keeping.
    names = [name for name in groups.groups(incomplete=True) if link.carries_group(name)]
    committed = groups.committed(names)
    found = {
        GroupPartition(group, partition): position
        for group, positions in committed.items()
        if not isinstance(positions, Unavailable)
        for partition, position in positions.items()
        if carries(partition.topic)
    }
    missing = [place for place in known if place not in found]
    unlisted = {place.group for place in missing} - committed.keys()
    lost = groups.described(unlisted) if unlisted else {}
    wanted = {place.partition.topic for place in (*found, *missing)}
    states = cluster.topics(sorted(wanted)) if wanted else {}
    seen = {name: state for name, state in states.items() if isinstance(state, TopicState)}
    visible = {place: c for place, c in found.items() if place.partition.topic in seen}
    hidden = found.keys() - visible.keys()
    gone = {place for place in missing if _deleted(place, committed, lost, states)}
    problems = {
        Problem(name, "", -1, unread.reason)
        for name, unread in (*committed.items(), *lost.items())
        if isinstance(unread, Unavailable)
    } | {
        Problem(group, *partition, state.reason)
        for group, partition in hidden
        if isinstance(state := states[partition.topic], Unavailable)
    }
    unseen = frozenset({*missing, *hidden} - gone)
    reported = tuple(sorted(problems))
    return SourceOffsets(len(names), visible, seen, frozenset(gone), unseen, reported)


def _deleted(
    place: GroupPartition,
    committed: Mapping[str, Positions | Unavailable],
    lost: Mapping[str, Group | Unavailable],
    states: Mapping[str, TopicState | Unavailable | None],
) -> bool:
    """Return whether the source reports that there is no such committed offset."""
    if place.group in lost:
        group = lost[place.group]
        return isinstance(group, Group) and group.state is GroupState.DEAD
    if isinstance(committed[place.group], Unavailable):
        return False
    # Kafka omits offsets in topics that are not visible to this user.
    return not isinstance(states[place.partition.topic], Unavailable)


_RECREATED = Unavailable("the topic was recreated while it was read")
_FORBIDDEN = Unavailable("not authorized to read the topic")


class Reading(NamedTuple):
    """The records before a committed offset.

    Attributes:
        consumed: the last consumed records; without steps if none are left.
        milestones: some older records.
    """

    consumed: LastConsumed
    milestones: tuple[Milestone, ...] = ()


def read_before(
    source: Cluster,
    state: SourceOffsets,
    moved: Mapping[GroupPartition, Committed],
    known: Mapping[GroupPartition, Held],
    turn: int,
) -> Mapping[GroupPartition, Reading | Unavailable]:
    """Return the records before changed committed offsets, or why they cannot be read.

    Args:
        known: previous tracked offsets.
        turn: a number that differs in each pass.

    Raises:
        Unreachable: the source did not answer.
        ScanFailed: records could not be read completely.
    """
    if not moved:
        return {}
    names = {place.partition.topic for place in moved}
    readable = {name for name in names if state.topics[name].readable}
    wanted: dict[Position, None] = {
        (place.partition, position.offset): None
        for place, position in moved.items()
        if place.partition.topic in readable
    }
    logs = source.reader.offsets({partition for partition, _ in wanted})
    before = last_consumed(logs, source.records, wanted)
    usable = {at: each for at, each in before.items() if isinstance(each, Before)}
    there = {at: log for at in usable if isinstance(log := logs[at[0]], PartitionOffsets)}
    remembered = (  # only of the current topics, not of recreated ones
        (place.partition, tracked)
        for place in moved
        if (held := known.get(place)) is not None
        and held.head.topic_id == state.topics[place.partition.topic].topic_id
        and (tracked := held.tracked) is not None
    )
    noted = known_from(usable, remembered)
    milestones = milestones_before(source.records, there, noted, turn)
    after = source.reader.topics(sorted(readable)) if readable else {}

    def reading(place: GroupPartition, position: Committed) -> Reading | Unavailable:
        topic = place.partition.topic
        if topic not in readable:
            return _FORBIDDEN
        now = after[topic]
        if not isinstance(now, TopicState) or now.topic_id != state.topics[topic].topic_id:
            return _RECREATED
        at = (place.partition, position.offset)
        found = before[at]
        return found if isinstance(found, Unavailable) else Reading(found.consumed, milestones[at])

    return {place: reading(place, position) for place, position in moved.items()}


FORGET_MS = 24 * 3_600_000
"""How long a tracked offset is kept after its offset was deleted, in case the source lost it."""

_SKEW_MS = 3_600_000
"""Maximum clock skew: a tracked offset from further in the future is replaced."""


@dataclass(slots=True)
class TrackingDecisions:
    """Collects the changes of one pass.

    Attributes:
        seen_ms: returns when a tracked offset was last confirmed.
        shadowed: tracked offsets that compaction would remove in favor of older ones.
        notes: tracked offsets to write.
        forgotten: tracked offsets to delete.
        unverified: number of tracked offsets whose committed offset was not found.
    """

    cluster_id: str
    now_ms: int
    seen_ms: Callable[[OffsetKey, TrackedHead], int]
    shadowed: Collection[OffsetKey]
    notes: list[Change] = field(default_factory=list)
    forgotten: list[Change] = field(default_factory=list)
    unverified: int = 0

    def moved(
        self,
        place: GroupPartition,
        held: Held | None,
        position: Committed,
        topic_id: str,
        reading: Reading,
    ) -> None:
        """Record a committed offset that is not tracked, or differs from its tracked offset."""
        consumed = reading.consumed
        tracked = TrackedOffset(
            position.offset,
            position.leader_epoch,
            topic_id,
            self._now(held),
            consumed.steps,
            milestones=reading.milestones,
            passed=consumed.passed,
            uncommitted=consumed.uncommitted,
        )
        self._write(self._key(place), held, tracked)

    def kept(self, place: GroupPartition, held: Held) -> None:
        """Confirm an unchanged committed offset."""
        key = self._key(place)
        if held.head.unverified or key in self.shadowed:
            self._rewrite(key, held, self._now(held), unverified=False)

    def lost(self, place: GroupPartition, held: Held | None, *, gone: bool) -> None:
        """Handle a committed offset that was not found.

        Args:
            gone: whether the source reports that it does not exist.
        """
        if held is None:
            return
        key = self._key(place)
        seen_ms = self.seen_ms(key, held.head)
        if gone and held.head.unverified and self.now_ms - seen_ms >= FORGET_MS:
            self.forgotten.append((encode_key(key), None))
            return
        self.unverified += 1
        if not held.head.unverified or key in self.shadowed:
            self._rewrite(key, held, seen_ms, unverified=True)

    def _rewrite(self, key: OffsetKey, held: Held, observed_ms: int, *, unverified: bool) -> None:
        tracked = held.tracked
        if tracked is None:
            # It cannot be decoded; the next pass writes it again.
            self.forgotten.append((encode_key(key), None))
        else:
            self._write(key, held, replace(tracked, observed_ms=observed_ms, unverified=unverified))

    def _write(self, key: OffsetKey, held: Held | None, tracked: TrackedOffset) -> None:
        name = encode_key(key)
        if held is not None and held.head.observed_ms > tracked.observed_ms:
            # Written with a clock far ahead: it must be deleted before it can be replaced.
            self.notes.append((name, None))
        self.notes.append((name, encode_value(tracked)))

    def _now(self, held: Held | None) -> int:
        """Return a time newer than the existing tracked offset, regardless of clocks."""
        if held is None or held.head.observed_ms > self.now_ms + _SKEW_MS:
            return self.now_ms
        return max(self.now_ms, held.head.observed_ms + 1)

    def _key(self, place: GroupPartition) -> OffsetKey:
        return OffsetKey(self.cluster_id, place.group, *place.partition)


Progress = Callable[[str], None]
Exported = Mapping[str, TrackedPositions | Unavailable]
"""Source positions by connector, or why they could not be read."""


@dataclass(frozen=True, slots=True)
class TrackingPass:
    """The outcome of reading a source once.

    Attributes:
        cluster_id: cluster id of the source.
        began_ms: start, in milliseconds since 1970 UTC.
        groups: number of groups of the link.
        committed_offsets: number of their committed offsets in topics of the link.
        moved: number of committed offsets that differ from their tracked offset.
        without_records: how many of these have no consumed record left.
        unverified: number of tracked offsets whose committed offset was not found.
        notes: tracked offsets to write.
        forgotten: tracked offsets to delete.
        positions: source positions of connectors to write.
        own: the pass record, which confirms all of this when written.
    """

    cluster_id: str
    began_ms: int
    groups: int
    committed_offsets: int
    moved: int
    without_records: int
    unverified: int
    notes: tuple[Change, ...]
    forgotten: tuple[Change, ...]
    positions: tuple[Change, ...]
    own: Change
    problems: tuple[Problem, ...]

    @property
    def noted(self) -> int:
        """Number of tracked offsets to write."""
        return sum(value is not None for _, value in self.notes)

    @property
    def changes(self) -> tuple[Change, ...]:
        """Everything to write, in order: the pass record comes last."""
        return (*self.notes, *self.forgotten, *self.positions, self.own)


@dataclass(frozen=True, slots=True)
class Tracker:
    """Reads the committed offsets of a link's groups; writes nothing.

    Attributes:
        scope: the patterns of the link.
        now_ms: the clock.
        export: reads the positions of the link's source connectors; its argument is the time.
    """

    link: Carried
    scope: Scope
    source: Cluster
    now_ms: Callable[[], int]
    export: Callable[[int], Exported] = lambda _: {}

    def look(self, log: TrackingLog, target_id: str, progress: Progress) -> TrackingPass:
        """Make one pass: read the source, and decide what to write.

        Args:
            log: existing tracked offsets, read before this pass, so all of them are older.
            target_id: id of the cluster that stores them.

        Raises:
            ConfigError: the source is the cluster that stores them.
            Unreachable: the source did not answer.
            ScanFailed: records could not be read completely.
        """
        progress("reading groups")
        began_ms = self.now_ms()
        reader = self.source.reader
        cluster_id = reader.cluster_id()
        if cluster_id == target_id:
            raise ConfigError(
                f"source and target of the link are the same cluster {reader.name}",
                "set `from` and `to` of the link to different clusters",
            )
        carries, carries_group = cache(self.link.carries), cache(self.link.carries_group)
        known = {
            GroupPartition(key.group, TopicPartition(key.topic, key.partition)): held
            for key, held in log.of_cluster(cluster_id)
            if carries_group(key.group) and carries(key.topic)
        }
        state = read_source_offsets(self.link, reader, self.source.groups, known.keys())
        moved = {  # including offsets in recreated topics
            place: at
            for place, at in state.committed.items()
            if (held := known.get(place)) is None
            or (held.head.offset, held.head.leader_epoch, held.head.topic_id)
            != (at.offset, at.leader_epoch, state.topics[place.partition.topic].topic_id)
        }
        if moved:
            progress("reading the last consumed records")
        readings = read_before(self.source, state, moved, known, began_ms)
        seen_ms = Confirmations(log.passes(cluster_id), self.scope).seen_ms
        decisions = TrackingDecisions(cluster_id, began_ms, seen_ms, log.shadowed)
        for place, position in state.committed.items():
            noted, reading = known.get(place), readings.get(place)
            if isinstance(reading, Unavailable):
                decisions.lost(place, noted, gone=False)
            elif reading is not None:
                topic_id = state.topics[place.partition.topic].topic_id
                decisions.moved(place, noted, position, topic_id, reading)
            elif noted is not None:
                decisions.kept(place, noted)
        for place in sorted(state.gone | state.unseen):
            decisions.lost(place, known.get(place), gone=place in state.gone)
        exported = self.export(began_ms)
        key = PassKey(cluster_id, self.scope.digest)
        own = Pass(began_ms, self.scope, state.groups, len(state.committed))
        unread = (
            Problem(group, *partition, reading.reason)
            for (group, partition), reading in readings.items()
            if isinstance(reading, Unavailable)
        )
        not_exported = (
            Problem("", "", -1, found.reason, name)
            for name, found in exported.items()
            if isinstance(found, Unavailable)
        )
        return TrackingPass(
            cluster_id=cluster_id,
            began_ms=began_ms,
            groups=state.groups,
            committed_offsets=len(state.committed),
            moved=len(readings),
            without_records=sum(
                isinstance(each, Reading) and not each.consumed.steps for each in readings.values()
            ),
            unverified=decisions.unverified,
            notes=tuple(decisions.notes),
            forgotten=tuple(decisions.forgotten),
            positions=tuple(
                (
                    tracked_positions.encode_key(ConnectorKey(cluster_id, name)),
                    tracked_positions.encode_value(found),
                )
                for name, found in exported.items()
                if isinstance(found, TrackedPositions)
            ),
            own=(tracking_passes.encode_key(key), tracking_passes.encode_value(own)),
            problems=(*state.problems, *unread, *not_exported),
        )


@dataclass(frozen=True, slots=True)
class PassResult:
    """The result of a pass.

    Attributes:
        executed: whether the pass was written.
        topic_existed: whether the topic existed before.
        look: the outcome; None if the pass failed.
        failed: why the pass failed; None if it did not.
        known_ms: start of the last complete pass; None if there was none. Tracked offsets are as of
            then.
    """

    began_ms: int
    seconds: float
    executed: bool
    topic_existed: bool
    look: TrackingPass | None
    failed: DrctlError | None
    known_ms: int | None

    @property
    def complete(self) -> bool:
        """Whether all committed offsets were read."""
        return self.look is not None and self.failed is None and not self.look.problems

    @property
    def exit_code(self) -> ExitCode:
        """Exit code of a single pass."""
        return ExitCode.DONE if self.complete else ExitCode.UNKNOWN

    @property
    def age_seconds(self) -> float | None:
        """Age of the tracked offsets at the end of the pass."""
        if self.known_ms is None:
            return None
        return max(0.0, (self.began_ms - self.known_ms) / 1000 + self.seconds)


class TrackingReader(Protocol):
    """Reads the tracked offsets topic."""

    @property
    def exists(self) -> bool:
        """Whether the topic existed when last read."""

    def cluster_id(self) -> str:
        """Return the id of the cluster that stores it.

        Raises:
            Unreachable: it did not answer.
        """

    def catch_up(self) -> TrackingLog:
        """Read the topic up to its current end.

        Raises:
            Unreachable: the cluster did not answer.
        """

    def check(self) -> None:
        """Check whether the topic is writable.

        Raises:
            ConfigError: it is not.
        """


class TrackingWriter(Protocol):
    """Writes to the tracked offsets topic."""

    def write(self, changes: Sequence[Change]) -> None:
        """Write all changes and read them back.

        Raises:
            Unreachable: no response.
        """


@dataclass(slots=True)
class Passes:
    """Runs passes for a link.

    Attributes:
        writes: None to write nothing.
    """

    tracker: Tracker
    reads: TrackingReader
    writes: TrackingWriter | None
    _known_ms: int | None = None

    def run(self, progress: Progress) -> PassResult:
        """Make one pass; a failure is part of the result."""
        began, began_ms = time.monotonic(), self.tracker.now_ms()
        look: TrackingPass | None = None
        failed: DrctlError | None = None
        existed = False
        try:
            # Read before the source, so that everything read there is newer.
            log = self.reads.catch_up()
            existed = self.reads.exists
            self._known_ms = log.last_pass_ms(self.tracker.scope.digest)
            look = self.tracker.look(log, self.reads.cluster_id(), progress)
            if self.writes is None:
                self.reads.check()
            else:
                progress("writing tracked offsets")
                self.writes.write(look.changes)
                self._known_ms = look.began_ms
        except DrctlError as error:
            failed = error
        seconds, executed = time.monotonic() - began, self.writes is not None
        return PassResult(began_ms, seconds, executed, existed, look, failed, self._known_ms)
