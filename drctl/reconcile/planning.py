"""Builds a reconcile plan from a gap result, policies, and the state of both clusters.

Pure: the same input gives the same plan. All records of a partition with the same order verdict
form a record set, which is processed together. Decisions made for other gap results are taken over.
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
from drctl.model.text import plural
from drctl.model.topology import PartitionOffsets, TopicPartition, TopicState
from drctl.reconcile.cluster_state import ClusterState, ClusterStates
from drctl.reconcile.gap_result import FoundGap, FoundPartition, Tally, WantedRow, WantedRows
from drctl.reconcile.policy import LEFT_MISSING, RECORDED, Action, Policies, destination
from drctl.reconcile.prechecks import Blocker, Changes, Precheck, appended_blockers, blockers
from drctl.reconcile.progress import Kept, Key, LeftMissingBuilder, Progress, RecordSet, Segment


class Other(NamedTuple):
    """The progress of another gap result that left records of the same partition missing."""

    result: str
    progress: Progress


Others = Mapping[TopicPartition, list[Other]]


_Decision = tuple[Action, str]
"""The action for records, and the topic that they were appended to."""


def others(gap: FoundGap, source: ClusterState, kept: Kept) -> Others:
    """Return, by partition, what other gap results left missing in the same topic."""
    found: dict[TopicPartition, list[Other]] = {}
    for key, progress in kept.items():
        place = key.record_set.place
        other = key.source_id == gap.source_id and key.result != gap.id
        same_topic = progress.source_topic_id == source.topic_id(place.topic)
        if other and same_topic and any(s.action in LEFT_MISSING for s in progress.segments):
            found.setdefault(place, []).append(Other(key.result, progress))
    return found


def taken_over(record_set: RecordSet, own: Progress, rows: WantedRows, others: Others) -> Progress:
    """Extend the progress of a record set by the decisions of other gap results.

    Stops at the first record without a decision.
    """
    decided = _decided(record_set, own, rows, others.get(record_set.place, []))
    for (action, to), of_it in groupby(decided, key=lambda each: each[1]):
        through, records, size, left = -1, 0, 0, LeftMissingBuilder()
        for (offset, timestamp_ms, _, of_record, _), _ in of_it:
            through, records, size = offset, records + 1, size + of_record
            left.add(offset, timestamp_ms)
        own = own.after(Segment(action, through, records, size, to=to, left=left.left))
    return own


def decided_before(
    gap: FoundGap, lines: "Iterable[Line]", rows: WantedRows, others: Others
) -> Iterator[Blocker]:
    """Yield blockers for records that another gap result has already decided on.

    If only the last offset of that decision is known, all records before it are included.
    """
    by_place: dict[TopicPartition, list[Line]] = {}
    for line in lines:
        if line.acts and line.action in RECORDED and line.record_set.place in others:
            by_place.setdefault(line.record_set.place, []).append(line)
    for place, acting in by_place.items():
        through = {line.record_set.order: line.through for line in acting}
        counts: Counter[str] = Counter()
        for offset in rows.offsets_after(place, through):
            results = (other.result for other in others[place] if _is_left(other.progress, offset))
            counts.update(islice(results, 1))
        for result, records in sorted(counts.items()):
            reason = (
                f"{records:,} of the records may have been quarantined or discarded with gap result"
                f" {result}: continue with that result, or use --override decided-before=REASON"
            )
            yield Blocker(Precheck.DECIDED_BEFORE, place, reason)


def _decided(
    record_set: RecordSet, own: Progress, rows: WantedRows, known: Iterable[Other]
) -> Iterator[tuple[WantedRow, _Decision]]:
    """Yield the next records of the record set, up to the first without a decision."""
    parts = [
        (segment.left, (segment.action, segment.to))
        for other in known
        for segment in other.progress.segments
        if segment.action in LEFT_MISSING and segment.left is not None
    ]
    if not parts:
        return
    for row in rows.after(record_set.place, {record_set.order: own.through}):
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
    """The plan for one record set.

    Attributes:
        all: all of its records.
        due: records that are not processed yet.
        done: what earlier runs did, in order.
        to: the topic that records are appended to; empty if none.
        out_of_order: whether the target holds newer records with their keys.
        precheck: why they are refused; None if they are not.
    """

    record_set: RecordSet
    target_topic: str
    all: Tally
    due: Tally
    done: tuple[Segment, ...]
    action: Action
    to: str
    out_of_order: bool = False
    precheck: Precheck | None = None
    reason: str = ""

    @property
    def acts(self) -> bool:
        """Whether the line has records left to process and is not refused."""
        return self.action is not Action.REFUSE and self.due.records > 0

    @property
    def through(self) -> int:
        """The source offset up to which the line is done; -1 if nothing is done."""
        return self.done[-1].through if self.done else -1


@dataclass(frozen=True)
class ReconcilePlan:
    """The plan for the records of a gap result.

    Attributes:
        kept: stored progress of this gap result, including what is taken over.
        taken: decisions of other gap results about these records, to be stored for this one, too.
        left_out: records of topics that no policy selects.
        appended: what was appended to the target since the gap analysis.
    """

    gap: FoundGap
    lines: tuple[Line, ...]
    blockers: tuple[Blocker, ...]
    overrides: Mapping[Precheck, str]
    notes: tuple[str, ...]
    kept: Mapping[RecordSet, Progress]
    taken: Mapping[RecordSet, Progress] = field(default_factory=dict)
    left_out: int = 0
    appended: Changes = field(default_factory=Changes)

    @cached_property
    def blocked(self) -> tuple[Blocker, ...]:
        """Blockers that are not overridden; with any of them, nothing is done."""
        return tuple(o for o in self.blockers if not o.overridden)

    @cached_property
    def refused(self) -> tuple[Line, ...]:
        """Lines that are refused."""
        return tuple(line for line in self.lines if line.precheck is not None)

    @cached_property
    def acting(self) -> tuple[Line, ...]:
        """Lines with something to do."""
        return () if self.blocked else tuple(line for line in self.lines if line.acts)

    @cached_property
    def noted(self) -> Mapping[RecordSet, Progress]:
        """Decisions to take over that no line of the plan stores."""
        written = {line.record_set for line in self.recorded}
        unreported = {
            record_set: p for record_set, p in self.taken.items() if record_set not in written
        }
        return {} if self.blocked else unreported

    @property
    def writes(self) -> bool:
        """Whether executing the plan changes anything."""
        return bool(self.acting or self.noted)

    @cached_property
    def recorded(self) -> tuple[Line, ...]:
        """Lines that write to the target."""
        return tuple(line for line in self.acting if line.action in RECORDED)


def build_plan(
    gap: FoundGap,
    policies: Policies,
    rows: WantedRows,
    clusters: ClusterStates,
    kept: Kept,
    overrides: Mapping[Precheck, str] = MappingProxyType({}),
) -> ReconcilePlan:
    """Build the plan: one line for each record set of the selected topics."""
    chosen = [p for p in gap.partitions if policies.chooses(p.place.topic)]
    overridden = overrides.keys()
    own = {
        key.record_set: progress
        for key, progress in kept.items()
        if (key.result, key.source_id) == (gap.id, gap.source_id)
    }
    planner = _Planner(chosen, policies, rows, rows.tallies(), clusters)
    before = others(gap, clusters.source, kept)
    taken: dict[RecordSet, Progress] = {}
    if Precheck.DECIDED_BEFORE not in overridden:
        taken = dict(planner.taken(own, before))
    known = own | taken
    lines = tuple(planner.lines(known))
    twice = decided_before(gap, lines, rows, before)
    found = chain(blockers(gap, chosen, clusters, kept), twice)
    every = tuple(replace(o, overridden=o.precheck in overridden) for o in found)
    places = {p.place for p in chosen}
    left = sum(
        t.records for record_set, t in planner.tallies.items() if record_set.place not in places
    )
    notes = (*_taken_notes(taken, own), *_notes(lines, clusters))
    return ReconcilePlan(gap, lines, every, overrides, notes, known, taken, left)


def with_appended(
    plan: ReconcilePlan, appended: Changes, kept_from: Collection[TopicPartition] = ()
) -> ReconcilePlan:
    """Add to the plan what was appended to the target since the gap analysis.

    Args:
        kept_from: partitions for which `target-moved` cannot be overridden.
    """
    overridden = plan.overrides.keys()
    more = []
    for each in appended_blockers(appended):
        final = each.precheck is Precheck.TARGET_MOVED and each.place in kept_from
        more.append(replace(each, overridden=each.precheck in overridden and not final))
    notes = (*plan.notes, *_appended_notes(appended))
    return replace(plan, blockers=(*plan.blockers, *more), notes=notes, appended=appended)


def compacted(gap: FoundGap, clusters: ClusterStates) -> frozenset[TopicPartition]:
    """Return the source partitions whose target topic is compacted.

    There, compaction keeps an old record appended after a newer one with the same key, and removes
    the newer one.
    """
    states = ((p.place, clusters.target.state(p.target_topic)) for p in gap.partitions)
    return frozenset(p for p, state in states if isinstance(state, TopicState) and state.compacted)


def keys(gap: FoundGap, record_set: RecordSet) -> Key:
    """Return the key under which the progress of a record set is stored."""
    return Key(gap.id, gap.source_id, record_set)


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
        """Yield one line per record set.

        Args:
            own: the progress of this gap result.
        """
        for partition, record_set, out_of_order, action in self._record_sets():
            tally, progress = self.tallies[record_set], own.get(record_set)
            done = self.rows.done(record_set, progress.through) if progress else Tally()
            line = Line(
                record_set,
                partition.target_topic,
                tally,
                tally.without(done),
                progress.segments if progress else (),
                action,
                destination(action, partition.target_topic),
                out_of_order,
            )
            yield self._checked(line, partition)

    def taken(
        self, own: Mapping[RecordSet, Progress], before: Others
    ) -> Iterator[tuple[RecordSet, Progress]]:
        """Yield decisions of other gap results; records may be exported more than once."""
        source, target = self.clusters.source, self.clusters.target
        for partition, record_set, _, action in self._record_sets():
            if action is Action.EXPORT or record_set.place not in before:
                continue
            topic_id = source.topic_id(record_set.place.topic)
            if not topic_id:
                continue  # a topic without an id may have been recreated
            known = own.get(record_set) or Progress(
                topic_id, target.topic_id(partition.target_topic)
            )
            progress = taken_over(record_set, known, self.rows, before)
            if progress != known:
                yield record_set, progress

    def _record_sets(self) -> Iterator[tuple[FoundPartition, RecordSet, bool, Action]]:
        """Yield non-empty record sets, whether the target holds newer records, and the action."""
        for partition in self.chosen:
            for order in OrderVerdict:
                record_set = RecordSet(partition.place, order)
                if record_set in self.tallies and self.tallies[record_set].records:
                    out_of_order = self.policies.out_of_order(order, partition.newer_on_target)
                    action = self.policies.of(partition.place.topic, out_of_order)
                    yield partition, record_set, out_of_order, action

    def _checked(self, line: Line, partition: FoundPartition) -> Line:
        """Return the line, refused if it must be."""
        if not line.due.records:
            return line
        if line.action is Action.REFUSE:
            reason = "the target holds newer records: choose an action with --conflicting"
            return replace(line, precheck=Precheck.CONFLICTING, reason=reason)
        if line.action is not Action.COPY:
            return line
        target, here = self.clusters.target, partition.there
        if not isinstance(target.log(here), PartitionOffsets):
            reason = f"{here} does not exist on the target or is not visible: create it first"
            return _refused(line, Precheck.NOT_THERE, reason)
        state = target.state(here.topic)
        own_time = isinstance(state, TopicState) and state.log_append_time
        if line.due.untimed and not own_time:
            reason = (
                f"{plural(line.due.untimed, 'record has', 'records have')} no timestamp or"
                " timestamp 0, which librdkafka cannot write: choose quarantine or export"
            )
            return _refused(line, Precheck.NO_TIMESTAMP, reason)
        return line


def _refused(line: Line, precheck: Precheck, reason: str) -> Line:
    return replace(line, action=Action.REFUSE, to="", precheck=precheck, reason=reason)


def _notes(lines: Iterable[Line], clusters: ClusterStates) -> Iterator[str]:
    copied = sorted({ln.to for ln in lines if ln.acts and ln.action is Action.COPY})
    for topic in copied:
        state = clusters.target.state(topic)
        if not isinstance(state, TopicState):
            continue
        if state.log_append_time:
            yield f"{topic} on the target uses LogAppendTime: copies get the time of copying"
        if state.compacted:
            yield f"{topic} on the target is compacted: only the last record of each key remains"
        retention = int(state.config.get("retention.ms", -1))
        if retention >= 0 and not state.compacted:
            yield f"{topic} on the target has retention.ms={retention}, also for the copies"


def _taken_notes(
    taken: Mapping[RecordSet, Progress], own: Mapping[RecordSet, Progress]
) -> Iterator[str]:
    before = sum(own[record_set].records for record_set in taken if record_set in own)
    records = sum(progress.records for progress in taken.values()) - before
    if records:
        yield (
            f"{plural(records, 'record was', 'records were')} quarantined or discarded with"
            " another gap result: those decisions are kept (--override decided-before=REASON to"
            " decide again)"
        )


def _appended_notes(appended: Changes) -> Iterator[str]:
    if appended.offsets:
        yield (
            f"{plural(appended.offsets, 'offset was', 'offsets were')} appended to the"
            " target since the gap analysis"
            " (including drctl's own): drctl checks whether they hold these records, or newer ones"
            " with the same keys"
        )
    if appended.waiting:
        yield (
            f"{plural(appended.waiting, 'of these offsets follows', 'of these offsets follow')}"
            " an open transaction: drctl checks what they hold before it writes anything"
        )
