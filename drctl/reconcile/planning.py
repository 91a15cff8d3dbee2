"""Plans what becomes of unreplicated records: by gap result, policies, and both clusters' state.

Nothing here asks or writes: the same input gives the same plan. The records of one order verdict of
one partition are decided together; what another gap result had decided on them is taken over.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, groupby, islice
from types import MappingProxyType
from typing import NamedTuple

from drctl.model.gap import OrderVerdict
from drctl.model.topology import PartitionOffsets, TopicPartition, TopicState
from drctl.reconcile.cluster_state import ClusterState, ClusterStates
from drctl.reconcile.gap_result import FoundGap, FoundPartition, Tally, WantedRow, WantedRows
from drctl.reconcile.guards import Changes, Guard, Objection, growth_objections, objections
from drctl.reconcile.policy import LEFT_MISSING, RECORDED, Action, Policies, destination
from drctl.reconcile.progress import Kept, Key, LeftBuilder, Progress, RecordSet, Segment


class Other(NamedTuple):
    """The progress of another result in the same partition, where it left records missing."""

    result: str
    progress: Progress


Others = Mapping[TopicPartition, list[Other]]


_Decision = tuple[Action, str]
"""What became of records, and the topic that they went to; taken over as it is."""


def others(gap: FoundGap, source: ClusterState, kept: Kept) -> Others:
    """By partition, what other results have left missing of the same topic."""
    found: dict[TopicPartition, list[Other]] = {}
    for key, progress in kept.items():
        place = key.lane.place
        other = key.source_id == gap.source_id and key.result != gap.id
        same_topic = progress.source_topic_id == source.topic_id(place.topic)
        if other and same_topic and any(s.action in LEFT_MISSING for s in progress.segments):
            found.setdefault(place, []).append(Other(key.result, progress))
    return found


def taken_over(lane: RecordSet, own: Progress, rows: WantedRows, others: Others) -> Progress:
    """The progress of a record set, continued by records that other results have decided on.

    That is up to the first record that still has to be decided on.
    """
    decided = _decided(lane, own, rows, others.get(lane.place, []))
    for (action, to), of_it in groupby(decided, key=lambda each: each[1]):
        through, records, size, left = -1, 0, 0, LeftBuilder()
        for (offset, timestamp_ms, _, of_record, _), _ in of_it:
            through, records, size = offset, records + 1, size + of_record
            left.add(offset, timestamp_ms)
        own = own.after(Segment(action, through, records, size, to=to, left=left.left))
    return own


def decided_before(
    gap: FoundGap, lines: "Iterable[Line]", rows: WantedRows, others: Others
) -> Iterator[Objection]:
    """Where records that are about to be acted on may have been decided on by another result.

    Where only the last offset of a result's records is kept, all records before it count as its.
    """
    by_place: dict[TopicPartition, list[Line]] = {}
    for line in lines:
        if line.acts and line.action in RECORDED and line.lane.place in others:
            by_place.setdefault(line.lane.place, []).append(line)
    for place, acting in by_place.items():
        through = {line.lane.order: line.through for line in acting}
        counts: Counter[str] = Counter()
        for offset in rows.offsets_after(place, through):
            results = (other.result for other in others[place] if _is_left(other.progress, offset))
            counts.update(islice(results, 1))
        for result, records in sorted(counts.items()):
            reason = (
                f"{records:,} of the records lie where gap result {result} had records quarantined"
                " or discarded, which would be decided on twice: go on with that result, or pass"
                " this over in `drctl reconcile`"
            )
            yield Objection(Guard.DECIDED_BEFORE, place, reason)


def _decided(
    lane: RecordSet, own: Progress, rows: WantedRows, known: Iterable[Other]
) -> Iterator[tuple[WantedRow, _Decision]]:
    """The next records of the record set, up to the first that no other result has decided on."""
    parts = [
        (segment.left, (segment.action, segment.to))
        for other in known
        for segment in other.progress.segments
        if segment.action in LEFT_MISSING and segment.left is not None
    ]
    if not parts:
        return
    for row in rows.after(lane.place, {lane.order: own.through}):
        found = next((what for left, what in parts if left.holds(*row[:2])), None)
        if found is None:
            return
        yield row, found


def _is_left(progress: Progress, offset: int) -> bool:
    at = bisect_left(progress.segments, offset, key=lambda segment: segment.through)
    if at == len(progress.segments):
        return False
    segment = progress.segments[at]
    among = segment.action in LEFT_MISSING
    return among and (segment.left is None or segment.left.among(offset))


@dataclass(frozen=True, slots=True)
class Line:
    """What happens to the records of one record set.

    Attributes:
        all: of its records.
        due: those that are not done yet.
        done: what earlier runs did, in order.
        to: the topic they go to; empty where to none.
        behind: whether the gap analysis found something newer of their keys on the target.
        guard: why they are refused; None where they are not.
    """

    lane: RecordSet
    target_topic: str
    all: Tally
    due: Tally
    done: tuple[Segment, ...]
    action: Action
    to: str
    behind: bool = False
    guard: Guard | None = None
    reason: str = ""

    @property
    def acts(self) -> bool:
        """Whether anything is left to be done, and may be."""
        return self.action is not Action.REFUSE and self.due.records > 0

    @property
    def through(self) -> int:
        """The source offset up to which it is done; -1 where nothing is."""
        return self.done[-1].through if self.done else -1


@dataclass(frozen=True)
class ReconcilePlan:
    """What would be done with the records of a gap result.

    Attributes:
        kept: progress of this gap result, with what is taken over.
        taken: what other results have decided on these records, to be kept with this one, too.
        left_out: records of topics that no policy names.
        grown: what was appended to the target since, as far as it was read.
    """

    gap: FoundGap
    lines: tuple[Line, ...]
    objections: tuple[Objection, ...]
    overrides: Mapping[Guard, str]
    notes: tuple[str, ...]
    kept: Mapping[RecordSet, Progress]
    taken: Mapping[RecordSet, Progress] = field(default_factory=dict)
    left_out: int = 0
    grown: Changes = field(default_factory=Changes)

    @cached_property
    def blocked(self) -> tuple[Objection, ...]:
        """What is not overridden: nothing may be done at all."""
        return tuple(o for o in self.objections if not o.passed)

    @cached_property
    def refused(self) -> tuple[Line, ...]:
        """Lines that are left to be decided."""
        return tuple(line for line in self.lines if line.guard is not None)

    @cached_property
    def acting(self) -> tuple[Line, ...]:
        """Lines that do something."""
        return () if self.blocked else tuple(line for line in self.lines if line.acts)

    @cached_property
    def noted(self) -> Mapping[RecordSet, Progress]:
        """What is taken over and no line of the plan writes down."""
        written = {line.lane for line in self.recorded}
        untold = {lane: p for lane, p in self.taken.items() if lane not in written}
        return {} if self.blocked else untold

    @property
    def writes(self) -> bool:
        """Whether carrying it out does anything."""
        return bool(self.acting or self.noted)

    @cached_property
    def recorded(self) -> tuple[Line, ...]:
        """Those of them that write to the target."""
        return tuple(line for line in self.acting if line.action in RECORDED)


def build_plan(
    gap: FoundGap,
    policies: Policies,
    rows: WantedRows,
    clusters: ClusterStates,
    kept: Kept,
    overrides: Mapping[Guard, str] = MappingProxyType({}),
) -> ReconcilePlan:
    """One line for each record set of the chosen topics that holds records."""
    chosen = [p for p in gap.partitions if policies.chooses(p.place.topic)]
    passed = overrides.keys()
    own = {
        key.lane: progress
        for key, progress in kept.items()
        if (key.result, key.source_id) == (gap.id, gap.source_id)
    }
    planner = _Planner(chosen, policies, rows, rows.tallies(), clusters)
    before = others(gap, clusters.source, kept)
    taken: dict[RecordSet, Progress] = {}
    if Guard.DECIDED_BEFORE not in passed:
        taken = dict(planner.taken(own, before))
    known = own | taken
    lines = tuple(planner.lines(known))
    twice = decided_before(gap, lines, rows, before)
    found = chain(objections(gap, chosen, clusters, kept), twice)
    blockers = tuple(replace(o, passed=o.guard in passed) for o in found)
    places = {p.place for p in chosen}
    left = sum(t.records for lane, t in planner.tallies.items() if lane.place not in places)
    notes = (*_taken_notes(taken, own), *_notes(lines, clusters))
    return ReconcilePlan(gap, lines, blockers, overrides, notes, known, taken, left)


def with_growth(
    plan: ReconcilePlan, grown: Changes, kept_from: Collection[TopicPartition] = ()
) -> ReconcilePlan:
    """The plan, with what was appended to the target since its gap result.

    Args:
        kept_from: partitions of which `target-moved` cannot be overridden.
    """
    passed = plan.overrides.keys()
    more = []
    for each in growth_objections(grown):
        final = each.guard is Guard.TARGET_MOVED and each.place in kept_from
        more.append(replace(each, passed=each.guard in passed and not final))
    notes = (*plan.notes, *_growth_notes(grown))
    return replace(plan, objections=(*plan.objections, *more), notes=notes, grown=grown)


def compacted(gap: FoundGap, clusters: ClusterStates) -> frozenset[TopicPartition]:
    """The partitions of the source whose copies are compacted.

    There, an old record that is appended after a newer one of its key is the only one that stays.
    """
    states = ((p.place, clusters.target.state(p.target_topic)) for p in gap.partitions)
    return frozenset(p for p, state in states if isinstance(state, TopicState) and state.compacted)


def keys(gap: FoundGap, lane: RecordSet) -> Key:
    """What the progress of a record set is kept by."""
    return Key(gap.id, gap.source_id, lane)


@dataclass(frozen=True, slots=True)
class _Planner:
    """The input of a plan.

    Attributes:
        chosen: the partitions of the chosen topics.
    """

    chosen: Sequence[FoundPartition]
    policies: Policies
    rows: WantedRows
    tallies: Mapping[RecordSet, Tally]
    clusters: ClusterStates

    def lines(self, own: Mapping[RecordSet, Progress]) -> Iterator[Line]:
        """One for each record set.

        Args:
            own: the progress of this gap result.
        """
        for partition, lane, behind, action in self._record_sets():
            tally, progress = self.tallies[lane], own.get(lane)
            done = self.rows.done(lane, progress.through) if progress else Tally()
            line = Line(
                lane,
                partition.target_topic,
                tally,
                tally.without(done),
                progress.segments if progress else (),
                action,
                destination(action, partition.target_topic),
                behind,
            )
            yield self._checked(line, partition)

    def taken(
        self, own: Mapping[RecordSet, Progress], before: Others
    ) -> Iterator[tuple[RecordSet, Progress]]:
        """What other results have decided on the next records; an export may hold them again."""
        source, target = self.clusters.source, self.clusters.target
        for partition, lane, _, action in self._record_sets():
            if action is Action.EXPORT or lane.place not in before:
                continue
            topic_id = source.topic_id(lane.place.topic)
            if not topic_id:
                continue  # a topic without an id may be another one by now
            known = own.get(lane) or Progress(topic_id, target.topic_id(partition.target_topic))
            progress = taken_over(lane, known, self.rows, before)
            if progress != known:
                yield lane, progress

    def _record_sets(self) -> Iterator[tuple[FoundPartition, RecordSet, bool, Action]]:
        """Those that hold records, whether something newer is on the target, and what to do."""
        for partition in self.chosen:
            for order in OrderVerdict:
                lane = RecordSet(partition.place, order)
                if lane in self.tallies and self.tallies[lane].records:
                    behind = self.policies.behind(order, partition.newer_on_target)
                    action = self.policies.of(partition.place.topic, behind)
                    yield partition, lane, behind, action

    def _checked(self, line: Line, partition: FoundPartition) -> Line:
        """The line, refused where it must be."""
        if not line.due.records:
            return line
        if line.action is Action.REFUSE:
            reason = "the target holds something newer: say with --conflicting what becomes of them"
            return replace(line, guard=Guard.CONFLICTING, reason=reason)
        if line.action is not Action.COPY:
            return line
        target, here = self.clusters.target, partition.there
        if not isinstance(target.log(here), PartitionOffsets):
            reason = f"{here} is not on the target, or cannot be seen: make it first"
            return _refused(line, Guard.NOT_THERE, reason)
        state = target.state(here.topic)
        own_time = isinstance(state, TopicState) and state.log_append_time
        if line.due.untimed and not own_time:
            reason = (
                f"{line.due.untimed} of the records have no timestamp, or 0, which librdkafka"
                " cannot write: quarantine keeps it in the header, export in the file"
            )
            return _refused(line, Guard.NO_TIMESTAMP, reason)
        return line


def _refused(line: Line, guard: Guard, reason: str) -> Line:
    return replace(line, action=Action.REFUSE, to="", guard=guard, reason=reason)


def _notes(lines: Iterable[Line], clusters: ClusterStates) -> Iterator[str]:
    copied = sorted({ln.to for ln in lines if ln.acts and ln.action is Action.COPY})
    for topic in copied:
        state = clusters.target.state(topic)
        if not isinstance(state, TopicState):
            continue
        if state.log_append_time:
            yield f"{topic} of the target keeps its own time: copies get the time of copying"
        if state.compacted:
            yield f"{topic} of the target is compacted: of each key only the last record stays"
        retention = int(state.config.get("retention.ms", -1))
        if retention >= 0 and not state.compacted:
            days = retention / 86_400_000
            yield f"{topic} of the target deletes what is older than {days:g} days, copies too"


def _taken_notes(
    taken: Mapping[RecordSet, Progress], own: Mapping[RecordSet, Progress]
) -> Iterator[str]:
    before = sum(own[lane].records for lane in taken if lane in own)
    records = sum(progress.records for progress in taken.values()) - before
    if records:
        yield (
            f"{records:,} of the records were quarantined or discarded by way of another gap"
            " result: that holds for this one, too (--override decided-before=REASON decides anew)"
        )


def _growth_notes(grown: Changes) -> Iterator[str]:
    if grown.offsets:
        yield (
            f"{grown.offsets:,} offsets were appended to the target since, drctl's own included:"
            " they were looked through for these records, and for newer ones of their keys"
        )
    if grown.waiting:
        yield (
            f"{grown.waiting:,} of these lie behind open transactions: they are looked at before"
            " anything is written"
        )
