"""One look at where all groups of a link stand, and what has to be noted of that."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from drctl.formats import anchor_passes
from drctl.formats.anchor_passes import Pass, PassKey, Scope
from drctl.formats.anchors import (
    MOST_MILESTONES,
    MOST_RECORDS,
    Anchor,
    AnchorHead,
    AnchorKey,
    AnchorRecord,
    Milestone,
    decode_value,
    encode_key,
    encode_value,
)
from drctl.formats.primitives import Undecodable
from drctl.model.errors import ConfigError, Unknown
from drctl.model.groups import Committed, Group, GroupState, Positions
from drctl.model.ports import ClusterReader, GroupReader
from drctl.model.topology import (
    OffsetRange,
    PartitionOffsets,
    TopicPartition,
    TopicState,
    Unavailable,
)
from drctl.model.translation import GroupPartition
from drctl.offsets.anchor_log import AnchorLog, Change, Confirmations, Held
from drctl.offsets.consumed import (
    Before,
    LastConsumed,
    Position,
    RangeReader,
    Step,
    last_consumed,
    read_ranges,
)
from drctl.offsets.link_translation import Cluster
from drctl.offsets.situation import Carried

SPACING = 4
"""How many times as far back the next one may lie."""

REACH = MOST_RECORDS * SPACING**10
"""How many offsets back they go: some 35 million."""

READ_AT_ONCE = 500
"""How many are read in a pass at most, whatever the number of positions."""

_SPAN = 8
"""Offsets before a position that are looked at for its record."""

Known = dict[TopicPartition, dict[int, Milestone]]
"""By partition and position."""


def known_from(
    before: Mapping[Position, Before], anchors: Iterable[tuple[TopicPartition, Anchor]]
) -> Known:
    """What was read for other positions, and what earlier anchors of the same logs knew."""
    known: Known = defaultdict(dict)
    for partition, anchor in anchors:
        here = known[partition]
        here.update((milestone.position, milestone) for milestone in anchor.milestones)
        if not anchor.passed:
            here.update((anchor.offset, Milestone(anchor.offset, *r)) for r in anchor.records[:1])
    for (partition, _), (trail, last) in before.items():
        for step in trail.steps[:1]:
            known[partition][last + 1] = Milestone(last + 1, step.fingerprint, step.timestamp_ms)
    return known


def milestones_before(
    reader: RangeReader, logs: Mapping[Position, PartitionOffsets], known: Known, turn: int
) -> Mapping[Position, tuple[Milestone, ...]]:
    """Those of each position, the nearest one first; what cannot be read now is left out.

    Args:
        logs: of the positions.
        turn: a number that differs from pass to pass: others come first then.
    """
    held = {partition: dict(known.get(partition, {})) for partition, _ in logs}
    for (partition, _), milestone in _read(reader, _lacking(logs, held, turn), logs):
        held[partition][milestone.position] = milestone
    positions = {partition: sorted(found) for partition, found in held.items()}
    return {
        (partition, offset): tuple(
            held[partition][position] for position in _chosen(offset, positions[partition])
        )
        for partition, offset in logs
    }


def _chosen(offset: int, known: Sequence[int]) -> list[int]:
    """Of the known positions as few as will do, the nearest one first."""
    found: list[int] = []
    near = MOST_RECORDS
    while near < REACH and len(found) < MOST_MILESTONES:
        further = bisect_left(known, offset - near) - 1
        if further < 0:
            break
        within = bisect_left(known, offset - near * SPACING)
        found.append(known[min(within, further)])
        near = offset - found[-1]
    return found


def _lacking(
    logs: Mapping[Position, PartitionOffsets], known: Known, turn: int
) -> Sequence[Position]:
    """What to read: first that which is of use to many positions."""
    positions = {partition: sorted(found) for partition, found in known.items()}
    uses = Counter[Position]()
    for (partition, offset), log in logs.items():
        for position in _gaps(offset, log, positions[partition]):
            uses[partition, position] += 1
    found = sorted(uses)
    begin = turn % len(found) if found else 0
    found = found[begin:] + found[:begin]
    return sorted(found, key=lambda at: -uses[at])[:READ_AT_ONCE]


def _gaps(offset: int, log: PartitionOffsets, known: Sequence[int]) -> Iterator[int]:
    """Positions that would fill the gaps between the known ones."""
    near, far = MOST_RECORDS, min(REACH, offset - log.log_start - 1)
    while near < far:
        within = bisect_left(known, offset - near * SPACING)
        if within < bisect_left(known, offset - near):
            near = offset - known[within]
            continue
        distance = min(near * SPACING, far)
        position = offset - distance
        if distance < far:
            # On a grid, so that the positions nearby want the same ones, now and later.
            grid = 1 << (distance // 4).bit_length() - 1
            position = -(-position // grid) * grid
        if position <= log.last_stable:
            yield position
        near = offset - position


def _read(
    reader: RangeReader,
    wanted: Iterable[Position],
    logs: Mapping[Position, PartitionOffsets],
) -> Iterator[tuple[Position, Milestone]]:
    starts = {partition: log.log_start for (partition, _), log in logs.items()}
    ranges = {
        (partition, position): OffsetRange(max(starts[partition], position - _SPAN), position)
        for partition, position in wanted
    }
    runs: dict[TopicPartition, list[OffsetRange]] = defaultdict(list)
    for (partition, _), run in ranges.items():
        runs[partition].append(run)
    try:
        held = read_ranges(reader, runs)
    except Unknown:
        return  # they are for bad days; what the pass is for it has
    for at, run in ranges.items():
        steps = held[at[0]]
        last = bisect_left(steps, run.end, key=_offset) - 1
        if last >= 0 and steps[last][0] >= run.start:
            found, step = steps[last]
            yield at, Milestone(found + 1, step.fingerprint, step.timestamp_ms)


def _offset(step: tuple[int, Step]) -> int:
    return step[0]


class Problem(NamedTuple):
    """Something that could not be looked at, and why.

    Attributes:
        topic: empty where all of the group is meant.
        partition: -1 then.
    """

    group: str
    topic: str
    partition: int
    reason: str


@dataclass(frozen=True, slots=True)
class SourceOffsets:
    """One look at a source.

    Attributes:
        groups: how many the link carries.
        positions: in topics that it carries.
        topics: those of the positions.
        gone: known positions of which the source says that they are no more.
        unseen: known positions of which it says nothing.
    """

    groups: int
    positions: Mapping[GroupPartition, Committed]
    topics: Mapping[str, TopicState]
    gone: frozenset[GroupPartition]
    unseen: frozenset[GroupPartition]
    problems: tuple[Problem, ...]


def look_around(
    link: Carried,
    cluster: ClusterReader,
    groups: GroupReader,
    known: Collection[GroupPartition],
) -> SourceOffsets:
    """Ask for everything once; reads no record.

    Raises:
        Unreachable: the source did not answer.
    """
    carries = cache(link.carries)
    names = [name for name in groups.groups() if link.carries_group(name)]
    committed = groups.committed(names)
    found = dict(_positions(committed, carries))
    missing = [place for place in known if place not in found]
    strange = {place.group for place in missing} - committed.keys()
    lost = groups.described(strange) if strange else {}
    wanted = {place.partition.topic for place in (*found, *missing)}
    states = cluster.topics(sorted(wanted)) if wanted else {}
    seen = {name: state for name, state in states.items() if isinstance(state, TopicState)}
    positions = {place: c for place, c in found.items() if place.partition.topic in seen}
    hidden = found.keys() - positions.keys()
    gone = {place for place in missing if _denied(place, committed, lost, states)}
    return SourceOffsets(
        groups=len(names),
        positions=positions,
        topics=seen,
        gone=frozenset(gone),
        unseen=frozenset({*missing, *hidden} - gone),
        problems=tuple(sorted({*_sight_unread({**committed, **lost}), *_hidden(hidden, states)})),
    )


def _positions(
    committed: Mapping[str, Positions | Unavailable], carries: Callable[[str], bool]
) -> Iterator[tuple[GroupPartition, Committed]]:
    for group, positions in committed.items():
        if not isinstance(positions, Unavailable):
            for partition, position in positions.items():
                if carries(partition.topic):
                    yield GroupPartition(group, partition), position


def _denied(
    place: GroupPartition,
    committed: Mapping[str, Positions | Unavailable],
    lost: Mapping[str, Group | Unavailable],
    states: Mapping[str, TopicState | Unavailable | None],
) -> bool:
    """Whether the source says that there is no such position: silence says nothing."""
    if place.group in lost:
        group = lost[place.group]
        return isinstance(group, Group) and group.state is GroupState.DEAD
    if isinstance(committed[place.group], Unavailable):
        return False
    # Kafka leaves out positions in topics that this user may not see.
    return not isinstance(states[place.partition.topic], Unavailable)


def _sight_unread(groups: Mapping[str, object]) -> Iterator[Problem]:
    for name, found in groups.items():
        if isinstance(found, Unavailable):
            yield Problem(name, "", -1, found.reason)


def _hidden(
    places: Iterable[GroupPartition], states: Mapping[str, TopicState | Unavailable | None]
) -> Iterator[Problem]:
    for group, partition in places:
        state = states[partition.topic]
        if isinstance(state, Unavailable):
            yield Problem(group, *partition, state.reason)


_ANEW = Unavailable("its topic was made anew while it was read")
_FORBIDDEN = Unavailable("not authorized to read the topic")


class Reading(NamedTuple):
    """The records before a position.

    Attributes:
        trail: the last consumed ones; without steps where none is left.
        milestones: some further back.
    """

    trail: LastConsumed
    milestones: tuple[Milestone, ...] = ()


def read_before(
    source: Cluster,
    sight: SourceOffsets,
    moved: Mapping[GroupPartition, Committed],
    known: Mapping[GroupPartition, Held],
    turn: int,
) -> Mapping[GroupPartition, Reading | Unavailable]:
    """The records before positions that moved, or why they cannot be read.

    Args:
        known: the anchors of positions as they were.
        turn: a number that differs from pass to pass.

    Raises:
        Unreachable: the source did not answer.
        ScanFailed: records could not be read to their end.
    """
    if not moved:
        return {}
    names = {place.partition.topic for place in moved}
    readable = {name for name in names if sight.topics[name].readable}
    wanted: dict[Position, None] = {
        (place.partition, position.offset): None
        for place, position in moved.items()
        if place.partition.topic in readable
    }
    remembered = tuple(_remembered(sight, moved, known))
    found = _readings_read(source, wanted, remembered, turn)
    after = source.reader.topics(sorted(readable)) if readable else {}

    def reading(place: GroupPartition, position: Committed) -> Reading | Unavailable:
        topic = place.partition.topic
        if topic not in readable:
            return _FORBIDDEN
        state = after[topic]
        if not isinstance(state, TopicState) or state.topic_id != sight.topics[topic].topic_id:
            return _ANEW
        return found[place.partition, position.offset]

    return {place: reading(place, position) for place, position in moved.items()}


def _readings_read(
    source: Cluster,
    wanted: Mapping[Position, None],
    remembered: tuple[tuple[TopicPartition, Anchor], ...],
    turn: int,
) -> Mapping[Position, Reading | Unavailable]:
    logs = source.reader.offsets({partition for partition, _ in wanted})
    before = last_consumed(logs, source.records, wanted)
    usable = {at: each for at, each in before.items() if isinstance(each, Before)}
    there = {at: log for at in usable if isinstance(log := logs[at[0]], PartitionOffsets)}
    milestones = milestones_before(source.records, there, known_from(usable, remembered), turn)
    return {
        at: Reading(each.trail, milestones[at]) if isinstance(each, Before) else each
        for at, each in before.items()
    }


def _remembered(
    sight: SourceOffsets,
    moved: Mapping[GroupPartition, Committed],
    known: Mapping[GroupPartition, Held],
) -> Iterator[tuple[TopicPartition, Anchor]]:
    """What the anchors of these positions knew of the logs as they are now."""
    for place in moved:
        held = known.get(place)
        topic_id = sight.topics[place.partition.topic].topic_id
        if held is not None and held.head.topic_id == topic_id:
            try:
                anchor = decode_value(held.value)
            except Undecodable:
                continue
            if anchor is not None:
                yield place.partition, anchor


FORGET_MS = 24 * 3_600_000
"""How long an anchor outlives its position: a source that has lost its groups must not take what
is known of them with it."""

_SKEW_MS = 3_600_000
"""Nobody's clock is as wrong as that: an anchor from further ahead is replaced, not believed."""


class AnchorDecisions:
    """Collects the changes of one look.

    Args:
        seen_ms: when a position was seen last as its anchor says.
        buried: anchors that compaction would lose.

    Attributes:
        notes: anchors to write.
        forgotten: anchors to delete.
        astray: how many anchors are of positions that were not seen.
    """

    def __init__(
        self,
        cluster_id: str,
        now_ms: int,
        seen_ms: Callable[[AnchorKey, AnchorHead], int],
        buried: Collection[AnchorKey],
    ) -> None:
        self._cluster_id = cluster_id
        self._now_ms = now_ms
        self._seen_ms = seen_ms
        self._buried = buried
        self.notes: list[Change] = []
        self.forgotten: list[Change] = []
        self.astray = 0

    def moved(
        self,
        place: GroupPartition,
        held: Held | None,
        position: Committed,
        topic_id: str,
        reading: Reading,
    ) -> None:
        """The position is another one than its anchor says, or has none."""
        trail = reading.trail
        records = tuple(AnchorRecord(step.fingerprint, step.timestamp_ms) for step in trail.steps)
        observed_ms = self._now(held)
        anchor = Anchor(
            position.offset,
            position.leader_epoch,
            topic_id,
            observed_ms,
            records,
            milestones=reading.milestones,
            passed=trail.passed,
            uncommitted=trail.uncommitted,
        )
        self._write(self._key(place), held, anchor)

    def kept(self, place: GroupPartition, held: Held) -> None:
        """The position is what its anchor says."""
        key = self._key(place)
        if held.head.astray or key in self._buried:
            self._rewrite(key, held, self._now(held), astray=False)

    def lost(self, place: GroupPartition, held: Held | None, *, gone: bool) -> None:
        """The position was not seen.

        Args:
            gone: whether the source says that there is none.
        """
        if held is None:
            return
        key = self._key(place)
        seen_ms = self._seen_ms(key, held.head)
        if gone and held.head.astray and self._now_ms - seen_ms >= FORGET_MS:
            self.forgotten.append((encode_key(key), None))
            return
        self.astray += 1
        if not held.head.astray or key in self._buried:
            self._rewrite(key, held, seen_ms, astray=True)

    def _rewrite(self, key: AnchorKey, held: Held, observed_ms: int, *, astray: bool) -> None:
        try:
            anchor = decode_value(held.value)
        except Undecodable:
            anchor = None
        if anchor is None:
            # Nothing can be made of it; the next look notes the position anew.
            self.forgotten.append((encode_key(key), None))
        else:
            self._write(key, held, replace(anchor, observed_ms=observed_ms, astray=astray))

    def _write(self, key: AnchorKey, held: Held | None, anchor: Anchor) -> None:
        name = encode_key(key)
        if held is not None and held.head.observed_ms > anchor.observed_ms:
            # From a clock that was far ahead: only what is deleted first can be replaced.
            self.notes.append((name, None))
        self.notes.append((name, encode_value(anchor)))

    def _now(self, held: Held | None) -> int:
        """Newer than what was known when this look began, whoever's clock that was."""
        if held is None or held.head.observed_ms > self._now_ms + _SKEW_MS:
            return self._now_ms
        return max(self._now_ms, held.head.observed_ms + 1)

    def _key(self, place: GroupPartition) -> AnchorKey:
        return AnchorKey(self._cluster_id, place.group, *place.partition)


Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at a source found.

    Attributes:
        cluster_id: of the source.
        began_ms: milliseconds since 1970 UTC.
        groups: how many the link carries.
        positions: how many they have in its topics.
        moved: positions that are not as they are noted.
        bare: of these, how many have no consumed record left to know them by.
        astray: anchors of positions that could not be seen.
        notes: anchors to write.
        forgotten: anchors to delete.
        own: the record that vouches for all of this, once it is written.
    """

    cluster_id: str
    began_ms: int
    groups: int
    positions: int
    moved: int
    bare: int
    astray: int
    notes: tuple[Change, ...]
    forgotten: tuple[Change, ...]
    own: Change
    problems: tuple[Problem, ...]

    @property
    def noted(self) -> int:
        """How many anchors are to be written."""
        return sum(value is not None for _, value in self.notes)

    @property
    def changes(self) -> tuple[Change, ...]:
        """Everything to write, in this order: what vouches for the rest comes last."""
        return (*self.notes, *self.forgotten, self.own)


@dataclass(frozen=True, slots=True)
class Tracker:
    """Looks at the groups of a link; writes nothing itself.

    Attributes:
        scope: the same link as patterns.
        now_ms: the time.
    """

    link: Carried
    scope: Scope
    source: Cluster
    now_ms: Callable[[], int]

    def look(self, log: AnchorLog, target_id: str, progress: Progress) -> Look:
        """Look once.

        Args:
            log: what was noted until now; read before this look begins, so that all of it is older.
            target_id: of the cluster that keeps the log.

        Raises:
            ConfigError: the source is that cluster.
            Unreachable: the source did not answer.
            ScanFailed: records could not be read to their end.
        """
        progress("looking at the groups")
        began_ms = self.now_ms()
        reader = self.source.reader
        cluster_id = reader.cluster_id()
        if cluster_id == target_id:
            raise ConfigError(
                f"cluster {reader.name} would keep the anchors of its own groups",
                "let `from` and `to` of the link name two clusters",
            )
        known = self._known(log, cluster_id)
        sight = look_around(self.link, reader, self.source.groups, known.keys())
        moved = dict(_moved(sight, known))
        if moved:
            progress("reading the last consumed records")
        readings = read_before(self.source, sight, moved, known, began_ms)
        seen_ms = Confirmations(log.passes(cluster_id), self.scope).seen_ms
        pen = AnchorDecisions(cluster_id, began_ms, seen_ms, log.buried)
        _put_down(pen, sight, known, readings)
        return self._look(cluster_id, began_ms, sight, readings, pen)

    def _look(
        self,
        cluster_id: str,
        began_ms: int,
        sight: SourceOffsets,
        readings: Mapping[GroupPartition, Reading | Unavailable],
        pen: AnchorDecisions,
    ) -> Look:
        key = PassKey(cluster_id, self.scope.digest)
        own = Pass(began_ms, self.scope, sight.groups, len(sight.positions))
        return Look(
            cluster_id=cluster_id,
            began_ms=began_ms,
            groups=sight.groups,
            positions=len(sight.positions),
            moved=len(readings),
            bare=sum(
                isinstance(each, Reading) and not each.trail.steps for each in readings.values()
            ),
            astray=pen.astray,
            notes=tuple(pen.notes),
            forgotten=tuple(pen.forgotten),
            own=(anchor_passes.encode_key(key), anchor_passes.encode_value(own)),
            problems=(*sight.problems, *_unread(readings)),
        )

    def _known(self, log: AnchorLog, cluster_id: str) -> Mapping[GroupPartition, Held]:
        """What is noted of the positions that the link carries."""
        carries, carries_group = cache(self.link.carries), cache(self.link.carries_group)
        return {
            GroupPartition(key.group, TopicPartition(key.topic, key.partition)): held
            for key, held in log.of_cluster(cluster_id)
            if carries_group(key.group) and carries(key.topic)
        }


def _moved(
    sight: SourceOffsets, known: Mapping[GroupPartition, Held]
) -> Iterator[tuple[GroupPartition, Committed]]:
    """Positions that are not as they are noted, also because their topic was made anew."""
    for place, position in sight.positions.items():
        held = known.get(place)
        topic_id = sight.topics[place.partition.topic].topic_id
        if held is None or not _same(held.head, position, topic_id):
            yield place, position


def _same(head: AnchorHead, position: Committed, topic_id: str) -> bool:
    there = (position.offset, position.leader_epoch, topic_id)
    return (head.offset, head.leader_epoch, head.topic_id) == there


def _put_down(
    pen: AnchorDecisions,
    sight: SourceOffsets,
    known: Mapping[GroupPartition, Held],
    readings: Mapping[GroupPartition, Reading | Unavailable],
) -> None:
    for place, position in sight.positions.items():
        held, reading = known.get(place), readings.get(place)
        if isinstance(reading, Unavailable):
            pen.lost(place, held, gone=False)
        elif reading is not None:
            topic_id = sight.topics[place.partition.topic].topic_id
            pen.moved(place, held, position, topic_id, reading)
        elif held is not None:
            pen.kept(place, held)
    for place in sorted(sight.gone | sight.unseen):
        pen.lost(place, known.get(place), gone=place in sight.gone)


def _unread(readings: Mapping[GroupPartition, Reading | Unavailable]) -> Iterator[Problem]:
    for (group, partition), reading in readings.items():
        if isinstance(reading, Unavailable):
            yield Problem(group, *partition, reading.reason)
