"""Derives the values of a report from the entries of a journal."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any

from drctl.engine.entries import Entry, What
from drctl.engine.kind import Description, I, Kind, Outcome, Status, StepKind, Trait
from drctl.engine.run_state import ChainVerdict, RunState, damaged, read_prefix, read_run
from drctl.model.document import rounded
from drctl.model.errors import Unknown
from drctl.model.loss import Figure, LossRange, exactly, not_known
from drctl.model.plan import Step
from drctl.steps.commit_offsets import CommitIntent, CommitOffsets
from drctl.steps.fences import FENCE_PRODUCERS
from drctl.steps.prechecks import Preflight, SnapshotState, Unseen
from drctl.steps.records import FindGap, Reconcile, VerifyCopies
from drctl.steps.registry import KINDS
from drctl.steps.source_connectors import MoveSourcePositions
from drctl.steps.stop_replication import MeasureLoss
from drctl.steps.switch_endpoint import SwitchEndpoint
from drctl.steps.verify_clients import VerifyClients
from drctl.steps.waiting import Drain
from drctl.views.run_data import (
    Attempt,
    CommittedOffsets,
    Doing,
    Ending,
    GroupRow,
    ReportData,
    Rpo,
    Rto,
    RunStatus,
    Span,
    StepReport,
    StepStatus,
    Warned,
    Writes,
)
from drctl.views.text import collected

_FORWARD = frozenset(
    {What.DONE, What.FAILED, What.OBSERVED, What.OUTSTANDING, What.SKIPPED, What.APPLIED}
)
_BACKWARD = frozenset({What.UNDOING, What.UNDONE, What.NOT_UNDONE})
_ANY = tuple(Doing)
_PROVING = (Doing.EFFECT, Doing.WAITING)
_ENDINGS = {
    RunStatus.DONE: "completed",
    RunStatus.REFUSED: "refused",
    RunStatus.STOPPED: "stopped",
    RunStatus.UNKNOWN: "ended with an unknown result",
    RunStatus.INTERRUPTED: "was interrupted",
    RunStatus.NOT_ENDED: "no further journal entry",
}
_ABANDONED = "abandoned"
_UNSEEN = " (not checked)"
"""The suffix of preflight's warning about a precheck that could not run."""
_ROLLBACK_STARTED = "the rollback started; the journal has no later entry"


@dataclass(slots=True)
class Track:
    """The state of a step after the entries read so far.

    Attributes:
        announced: when the journal announced its effect.
        proven: when its current effect was first verified.
        failed: whether it failed, even if it was rolled back afterwards.
    """

    status: StepStatus = StepStatus.NOT_STARTED
    started: datetime | None = None
    announced: datetime | None = None
    proven: datetime | None = None
    failed: bool = False
    message: str = ""
    items: tuple[str, ...] = ()
    errors: list[str] = field(default_factory=list)
    rolled_back: str = ""
    spans: list[Span] = field(default_factory=list)


@dataclass(slots=True)
class Course:
    """The timeline of a run.

    Attributes:
        traits: the traits of each step's kind; none if this version does not know the kind.
        begins: indexes of the entries that start or resume it.
    """

    tracks: dict[str, Track]
    traits: Mapping[str, Trait]
    spans: list[Span] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    times: list[datetime] = field(default_factory=list)


def moment_of(entry: Entry) -> datetime:
    """Return the time of an entry.

    Raises:
        KeyError, TypeError, ValueError: it has no valid time.
    """
    at = datetime.fromisoformat(entry["at"])
    if at.tzinfo is None:
        raise ValueError(f"{entry['at']} has no time zone")
    return at


def course_of(state: RunState, kinds: Mapping[str, Kind]) -> Course:
    """Build the timeline from the entries.

    Raises:
        Unknown: one of them is not in this version's format.
    """
    steps = state.plan.steps
    traits = {s.id: kinds[s.kind].traits if s.kind in kinds else Trait.NONE for s in steps}
    course = Course({step.id: Track() for step in steps}, traits)
    changing = {step for step, its in traits.items() if Trait.CHANGES in its}
    for entry in state.entries:
        try:
            _take(course, entry, changing)
        except (KeyError, TypeError, ValueError) as wrong:
            raise damaged(state.run, wrong) from wrong
    return course


def _take(course: Course, entry: Entry, changing: set[str]) -> None:
    at, what = moment_of(entry), What(entry["entry"])
    last = course.times[-1] if course.times else at
    if what in (What.BEGAN, What.RESUMED):
        course.begins.append(len(course.times))
        if what is What.RESUMED:
            course.spans.append(Span("", Doing.NOT_RUNNING, last, at))
    elif step := str(entry.get("step", "")):
        track = course.tracks[step]
        doing = _doing(what, track, step in changing)
        if doing is not None and at > last:
            span = Span(step, doing, last, at)
            course.spans.append(span)
            track.spans.append(span)
        track.started = track.started or last
        _note(track, what, entry, at)
    course.times.append(at)


def _doing(what: What, track: Track, changes: bool) -> Doing | None:
    """Return what the time since the last entry was spent on."""
    if what in _BACKWARD:
        return Doing.ROLLING_BACK
    if what is What.INTEND or (what in _FORWARD and track.announced is None):
        return Doing.CHECKING
    if what in _FORWARD or what is What.INTERRUPTED:
        if track.announced is None:
            return None
        return Doing.EFFECT if changes and not track.errors else Doing.WAITING
    return None


def _note(track: Track, what: What, entry: Entry, at: datetime) -> None:
    match what:
        case What.INTEND:
            track.status, track.announced, track.proven = StepStatus.STARTED, at, None
            track.message, track.items, track.rolled_back = "", (), ""
            track.errors.clear()
        case What.APPLIED:
            track.errors += map(str, entry["errors"])
        case What.DONE:
            track.status, track.failed = StepStatus.DONE, False
            track.proven = track.proven or at
            _say(track, entry)
        case What.FAILED:
            unknown = entry["state"] == "unknown"
            track.status, track.failed = (
                (StepStatus.UNKNOWN if unknown else StepStatus.FAILED),
                True,
            )
            _say(track, entry)
        case What.SKIPPED:
            track.status = StepStatus.SKIPPED
            _say(track, entry)
        case What.OUTSTANDING if track.status is not StepStatus.DONE:
            track.status, track.message = StepStatus.OUTSTANDING, str(entry["what"])
        case What.OBSERVED if entry["state"] != "done":
            track.status, track.proven, track.message = (
                StepStatus.STARTED,
                None,
                str(entry["message"]),
            )
        case What.STALE:
            track.status, track.announced, track.proven = StepStatus.NOT_STARTED, None, None
            track.message = str(entry["message"])
        case What.UNDOING:
            track.status, track.rolled_back = StepStatus.NOT_ROLLED_BACK, _ROLLBACK_STARTED
        case What.UNDONE:
            track.status = StepStatus.FAILED if track.failed else StepStatus.ROLLED_BACK
            track.rolled_back = str(entry["message"])
        case What.NOT_UNDONE:
            track.rolled_back = str(entry["message"])
            track.items = tuple(map(str, entry["items"]))
        case _:
            pass


def _say(track: Track, entry: Entry) -> None:
    track.message = str(entry["message"])
    track.items = tuple(map(str, entry["items"]))


def attempts(state: RunState, course: Course) -> tuple[Attempt, ...]:
    """List every start and resume of the run."""
    found = []
    edges = [*course.begins, len(state.entries)]
    for first, after in pairwise(edges):
        who = state.entries[first].get("who", {})
        status, step = _status_after(state, course, state.entries[:after], first)
        where = f" at {step}" if step else ""
        left = any(e["entry"] == What.ABANDONED for e in state.entries[first:after])
        ending = f"{_ABANDONED if left else _ENDINGS[status]}{where}"
        refused = status is RunStatus.REFUSED
        if refused and any(e["entry"] in _BACKWARD for e in state.entries[:after]):
            ending = f"failed{where}, everything was rolled back"
        found.append(
            Attempt(
                str(who.get("user") or who.get("who") or "unknown"),
                str(who.get("host") or "unknown"),
                course.times[first],
                course.times[after - 1],
                ending,
            )
        )
    return tuple(found)


def ending(state: RunState, course: Course) -> Ending:
    """Derive how the run ended from its last entry."""
    status, step = _status_after(state, course, state.entries, course.begins[-1])
    message, items = _last_observation(state, status, step)
    if status is RunStatus.NOT_ENDED:
        return Ending(status, step, message, items, None)
    outcome = Outcome(
        Status(status.value), outstanding=bool(state.outstanding), abandoned=bool(state.abandoned)
    )
    over = status is RunStatus.STOPPED and bool(state.status) and not state.abandoned
    return Ending(status, step, message, items, outcome.exit_code, over)


def _status_after(
    state: RunState, course: Course, entries: Sequence[Entry], first: int
) -> tuple[RunStatus, str]:
    """Return the status and step after these entries; `first` is where the last attempt starts."""
    last = entries[-1]
    match What(last["entry"]):
        case What.ENDED:
            status = RunStatus(last["status"])
            return status, "" if status is RunStatus.DONE else _rolled_back_from(entries) or _next(
                state
            )
        case What.INTERRUPTED:
            return RunStatus.INTERRUPTED, str(last["step"])
        case What.FAILED:
            return _failed(course, entries)
        case What.OBSERVED if last["state"] == "unknown":
            return RunStatus.UNKNOWN, str(last["step"])
        case What.UNDONE | What.NOT_UNDONE:
            return _rolled_back(course, entries, first)
        case _:
            return RunStatus.NOT_ENDED, str(last.get("step", "")) or _next(state)


def _failed(course: Course, entries: Sequence[Entry]) -> tuple[RunStatus, str]:
    step = str(entries[-1]["step"])
    if entries[-1]["state"] == "unknown":
        return RunStatus.UNKNOWN, step
    intended = {str(entry["step"]) for entry in entries if entry["entry"] == What.INTEND}
    if not any(Trait.ENABLES_WRITES in course.traits[each] for each in intended):
        # A live process would have rolled it back: this one died before it could.
        return RunStatus.NOT_ENDED, step
    verifies = Trait.VERIFIES in course.traits[step]
    return (RunStatus.UNKNOWN if verifies else RunStatus.STOPPED), step


def _rolled_back(course: Course, entries: Sequence[Entry], first: int) -> tuple[RunStatus, str]:
    """Return `stopped` or `unknown` if every rollback was tried, else `not-ended`; and the step."""
    undone = {e["effect"] for e in entries if e["entry"] == What.UNDONE}
    in_effect = {
        entry["effect"]
        for entry in entries
        if entry["entry"] == What.INTEND
        and entry["effect"] not in undone
        and Trait.CHANGES in course.traits[entry["step"]]
    }
    tried = [
        e for e in entries[first:] if e["entry"] == What.NOT_UNDONE and e["effect"] in in_effect
    ]
    if not tried or in_effect != {entry["effect"] for entry in tried}:
        return RunStatus.NOT_ENDED, str(entries[-1]["step"])
    unknown = any(entry["state"] == "unknown" for entry in tried)
    return (RunStatus.UNKNOWN if unknown else RunStatus.STOPPED), str(tried[0]["step"])


def _last_observation(state: RunState, status: RunStatus, step: str) -> tuple[str, tuple[str, ...]]:
    """Return the last observation at a step, and its problems, each named."""
    if status is RunStatus.DONE:
        return "", ()
    if state.abandoned:
        return state.abandoned, ()
    if status is RunStatus.REFUSED or (status is RunStatus.STOPPED and state.status):
        failed = (
            entry
            for entry in reversed(state.entries)
            if entry["entry"] == What.FAILED and entry.get("step") == step
        )
        return state.rollback_reason, tuple(map(str, next(failed, {}).get("items", ())))
    for entry in reversed(state.entries):
        if entry.get("step") == step and "message" in entry:
            return str(entry["message"]), tuple(map(str, entry.get("items", ())))
    return "", ()


def _rolled_back_from(entries: Sequence[Entry]) -> str:
    return next((str(e["step"]) for e in reversed(entries) if e["entry"] == What.ROLLING_BACK), "")


def _next(state: RunState) -> str:
    return next((step.id for step in state.plan.steps if not state.is_done(step.id)), "")


def mode(state: RunState) -> str:
    """Return `planned` or `unplanned`; empty if the plan has no mode."""
    for step in state.plan.steps:
        if step.kind == Preflight.name:
            return Preflight().read_settings(step.settings).mode
    return ""


def cluster_ids(state: RunState) -> dict[str, str]:
    """Return the ids of the Kafka clusters by name."""
    snapshot = intent_of(state, SnapshotState())
    clusters = snapshot.clusters.items() if snapshot else ()
    return {name: seen.cluster_id for name, seen in clusters if seen.cluster_id}


def topics(state: RunState) -> tuple[str, ...]:
    """Return the source's topics that the run moved, if a step recorded them."""
    for noted in (intent_of(state, MeasureLoss()), intent_of(state, FENCE_PRODUCERS)):
        if noted and noted.topics:
            return noted.topics
    snapshot = intent_of(state, SnapshotState())
    seen = snapshot.clusters.get(state.plan.source) if snapshot else None
    return tuple(sorted({place.rpartition("-")[0] for place in seen.ends})) if seen else ()


def set_aside(state: RunState) -> dict[str, int]:
    """Count, by decision, the records of the recovered cluster that were not copied.

    Comparisons allow for them: they are only on the recovered cluster.
    """
    facts = state.facts_by_kind().of(Reconcile())
    done = facts.done if facts else {}
    found = {kind: done.get(kind, 0) for kind in ("quarantine", "export", "discard")}
    return {kind: number for kind, number in found.items() if number}


def warned(state: RunState) -> tuple[Warned, ...]:
    """Return the findings of prechecks that did not block the run."""
    facts = state.facts_by_kind().of(Preflight())
    return tuple(
        Warned(message.removesuffix(_UNSEEN), not message.endswith(_UNSEEN))
        for message in (facts.warnings if facts else ())
    )


def unseen(state: RunState) -> tuple[Unseen, ...]:
    """Return what prechecks could not check, by cause."""
    facts = state.facts_by_kind().of(Preflight())
    return facts.not_run if facts else ()


def with_short_causes(state: RunState) -> RunState:
    """Replace each shared cause in the texts of steps by its short name."""
    causes = unseen(state)
    if not causes:
        return state
    first, *more = state.entries
    found = read_run((first, *(_shortly(entry, causes) for entry in more)))
    found.partial, found.abandoned, found.status = state.partial, state.abandoned, state.status
    return found


def _shortly(value: Any, causes: Sequence[Unseen]) -> Any:
    if isinstance(value, str):
        for each in causes:
            value = value.replace(each.why, each.what)
        return value
    if isinstance(value, Mapping):
        return {name: _shortly(each, causes) for name, each in value.items()}
    return [_shortly(each, causes) for each in value] if isinstance(value, list | tuple) else value


def positions(state: RunState) -> CommittedOffsets | None:
    """Return the offsets committed for consumers; None if there are none."""
    facts, intent = state.facts_by_kind().of(CommitOffsets()), intent_of(state, CommitOffsets())
    if facts is None:
        return None
    counted = Counter(each.group for each in intent.lines) if intent else {}
    rows = [_group(name, count, intent) for name, count in counted.items() if intent]
    rows.sort(key=lambda row: (-(row.rereads_at_most or 0), row.name))
    return CommittedOffsets(
        facts.positions,
        facts.same,
        facts.rereads_at_most,
        facts.rereads_likely,
        facts.left_out,
        facts.without_offset,
        tuple(rows),
    )


def _group(name: str, count: int, intent: CommitIntent) -> GroupRow:
    evidence, age, only_if = intent.based_on.get(name) or (None, None, None)
    again = intent.rereads.get(name), intent.likely.get(name)
    # If the source answered, skips do not depend on a condition.
    if not only_if:
        return GroupRow(name, count, *again)
    return GroupRow(name, count, *again, evidence, rounded(age, 1), only_if)


@collected
def not_checked(state: RunState, course: Course) -> Iterator[str]:
    """List what was not or could not be checked."""
    facts = state.facts_by_kind()
    snapshot, clients = facts.of(SnapshotState()), facts.of(VerifyClients())
    for name in snapshot.silent if snapshot else ():
        yield f"{name} did not answer before the first change"
    yield from (each.message for each in warned(state) if not each.checked)
    if clients and clients.unknown:
        yield clients.unknown
    for step in state.plan.steps:
        if step.kind != SwitchEndpoint.name or not state.is_done(step.id):
            continue
        switch = SwitchEndpoint().read_settings(step.settings)
        # Only the endpoint's own setting was read; a file has nothing else to check.
        if switch.kind != "file" and not switch.probed:
            yield (
                f"whether a client that connects through endpoint {switch.number + 1}"
                f" ({switch.kind}) reaches {switch.to}: set its `bootstrap`, so drctl can connect"
                " through it"
            )
    for name, track in course.tracks.items():
        if track.status in (StepStatus.SKIPPED, StepStatus.UNKNOWN, StepStatus.STARTED):
            yield f"step {name}: {track.message or 'its result was not verified'}"


def intent_of(state: RunState, kind: StepKind[Any, I, Any]) -> I | None:
    """Return the intent of the first step of a kind that was not rolled back."""
    for step in state.plan.steps:
        if step.kind == kind.name and (effect := state.effect_of(step.id)):
            return kind.read_intent(effect.intent)
    return None


def steps_with(course: Course, trait: Trait) -> tuple[str, ...]:
    """Return the steps of the plan's own direction that have a trait, in order.

    Writes are enabled on the plan's target in either direction.
    """
    either = trait is Trait.ENABLES_WRITES
    return tuple(
        step
        for step, its in course.traits.items()
        if trait in its and (either or Trait.OPPOSITE_DIRECTION not in its)
    )


def rto(state: RunState, course: Course) -> Rto:
    """Measure from the start of the fence until clients can write to the target.

    If the source is lost, the first refused write is unknown: measure from the command.
    """
    commanded = _command_time(state) if state.plan.name.endswith("unplanned") else None
    start = commanded or next(_fenced(state, course), None)
    last = _last(course)
    if last is None:
        return Rto(None, "not measured: the plan does not enable writes", start)
    step, opens = last
    end = course.tracks[step].proven
    if end is None:
        why = "the run did not complete" if state.rollback_reason else f"step {step} is not done"
        return Rto(None, f"not measured: {why}", start)
    if start is None:
        return Rto(
            None, "not measured: without a fence the first refused write is unknown", None, end
        )
    seconds = (end - start).total_seconds()
    if seconds < 0:
        how = "not measured: the clocks of the hosts that ran it disagree"
        return Rto(None, how, start, end)
    until = "writes were enabled" if opens else "the last endpoint was switched"
    since = "command" if commanded else "start of the fence"
    how = f"from the {since} until {until} and verified (step {step})"
    how += _doubts(state, course, start, end)
    return Rto(seconds, how, start, end, since_command=commanded is not None)


def _command_time(state: RunState) -> datetime | None:
    """Return the time of the command; None if the journal does not have it."""
    try:
        return datetime.fromisoformat(state.entries[0].get("who", {}).get("commanded", ""))
    except ValueError:
        return None


def _fenced(state: RunState, course: Course) -> Iterator[datetime]:
    """Yield the times from which writes may have been refused."""
    fences = steps_with(course, Trait.FENCES_WRITES)
    for entry in state.entries:
        if entry["entry"] == What.INTEND and entry["step"] in fences:
            yield moment_of(entry)


def _last(course: Course) -> tuple[str, bool] | None:
    """Return the step after which clients can write, and whether this step enables writes."""
    opening = steps_with(course, Trait.ENABLES_WRITES)
    if not opening:
        return None
    switching = steps_with(course, Trait.SWITCHES)
    return (switching[-1], False) if switching else (opening[-1], True)


def _doubts(state: RunState, course: Course, start: datetime, end: datetime) -> str:
    """Say what limits the measurement."""
    limits = []
    hosts = {
        str(state.entries[number].get("who", {}).get("host"))
        for number in course.begins
        if course.times[number] <= end
    }
    if len(hosts) > 1:
        limits.append("by the clocks of several hosts")
    if state.plan.name.endswith("unplanned"):
        limits.append("without the outage before the run")
    if any(start <= course.times[number] <= end for number in course.begins):
        limits.append("including time between attempts")
    return f"; {', '.join(limits)}" if limits else ""


def rpo(state: RunState, course: Course) -> Rpo:
    """Return what was not replicated: nothing, proven by content; an estimate; or unknown."""
    if not any(course.tracks[step].announced for step in steps_with(course, Trait.ENABLES_WRITES)):
        return _not_measured("not measured: writes were not enabled on the target")
    facts = state.facts_by_kind()
    unfenced = [
        step for step in steps_with(course, Trait.FENCES_WRITES) if step in state.outstanding
    ]
    drained, loss, gap = facts.of(Drain()), facts.of(MeasureLoss()), facts.of(FindGap())
    if unfenced and drained:
        return _not_measured(state.outstanding[unfenced[0]])
    if drained and drained.missing == 0:
        how = "confirmed by a comparison of content after the fence"
        return Rpo(exactly(0, how), 0.0, True, how)
    if loss:
        return Rpo(
            loss.range,
            loss.seconds,
            False,
            "estimated from surviving evidence; `drctl gap` counts them when the source is back",
            loss.evidence,
        )
    if gap:
        found = gap.unreplicated
        how = "a comparison by content, while the source may still have taken writes"
        lost = LossRange(Figure(found, how), Figure(found, how), Figure(None, how))
        return Rpo(lost, None, False, how)
    if (verified := facts.of(VerifyCopies())) is not None:
        how = "confirmed by a comparison of content at the end of the run"
        return Rpo(exactly(verified.missing, how), None, True, how)
    return _not_measured("not measured: no step of this run measures it")


def _not_measured(why: str) -> Rpo:
    return Rpo(not_known(why), None, False, why)


def writes(state: RunState, course: Course) -> tuple[Writes, datetime | None]:
    """Return where applications can write now, and since when."""
    fences = steps_with(course, Trait.FENCES_WRITES)
    opening = steps_with(course, Trait.ENABLES_WRITES)
    if not fences and not opening:
        return Writes.NOT_TOUCHED, None
    opened = [course.tracks[step] for step in opening]
    if any(track.status is StepStatus.DONE for track in opened):
        return Writes.TARGET, next(t.proven for t in opened if t.status is StepStatus.DONE)
    if any(track.announced for track in opened):
        return Writes.UNKNOWN, None
    found = [course.tracks[step] for step in fences if _in_effect(state, step)]
    if not found:
        return Writes.AS_BEFORE, None
    if all(track.status is StepStatus.DONE for track in found):
        return Writes.NOWHERE, next(_fenced(state, course), None)
    return Writes.UNKNOWN, None


def _in_effect(state: RunState, step: str) -> bool:
    """Return whether an effect of a step may still be in place."""
    return any(effect.step == step and not effect.undone for effect in state.effects)


def report_data(
    state: RunState, chain: ChainVerdict | None = None, kinds: Mapping[str, Kind] = KINDS
) -> ReportData:
    """Derive the values of the report.

    Args:
        chain: whether its journal is intact; None if that was not checked.

    Raises:
        Unknown: an entry is not in this version's format.
    """
    not_run = unseen(state)
    state = with_short_causes(state)
    course = course_of(state, kinds)
    end = ending(state, course)
    last_writes, since = writes(state, course)
    if state.partial and last_writes is not Writes.NOT_TOUCHED:
        last_writes, since = Writes.UNKNOWN, None
    fences = steps_with(course, Trait.FENCES_WRITES)
    switches = steps_with(course, Trait.SWITCHES)
    moved = intent_of(state, MoveSourcePositions())
    return ReportData(
        run=state.run,
        plan=state.plan,
        mode=mode(state),
        ids=cluster_ids(state),
        attempts=attempts(state, course),
        steps=tuple(
            _step(number, step, state, kinds, course)
            for number, step in enumerate(state.plan.steps, 1)
        ),
        spans=tuple(course.spans),
        ending=end,
        rollback_reason=state.rollback_reason,
        abandoned=state.abandoned,
        writes=last_writes,
        rto=rto(state, course),
        rpo=rpo(state, course),
        warned=warned(state),
        # After a complete rollback nothing is outstanding.
        outstanding={} if end.status is RunStatus.REFUSED else _outstanding(state),
        committed_offsets=positions(state),
        not_checked=not_checked(state, course),
        began=course.times[0],
        until=course.times[-1],
        fenced=not state.partial and any(_is_done(course, step) for step in fences),
        endpoints=(sum(_is_done(course, step) for step in switches), len(switches)),
        chain=chain,
        partial=state.partial,
        writes_since=since,
        overrides={**state.plan.overrides, **state.overrides},
        topics=topics(state),
        set_aside=set_aside(state),
        unseen=not_run,
        source_connectors=moved.expected if moved else (),
    )


def _outstanding(state: RunState) -> Mapping[str, str]:
    """Return, for each step, what the step could not do and what it left changed."""
    parts = (state.outstanding, state.left_changed)
    names = dict.fromkeys((*state.outstanding, *state.left_changed))
    return {name: "; ".join(each[name] for each in parts if name in each) for name in names}


def _is_done(course: Course, step: str) -> bool:
    return course.tracks[step].status is StepStatus.DONE


def readable_run(run: str, lines: Sequence[bytes], chain: ChainVerdict) -> RunState:
    """Replay a journal up to its first damaged line, or entry that drctl does not write.

    Raises:
        Unknown: that is the first line.
    """
    state, _ = read_prefix(lines, chain.lines)
    if state is None:
        why = chain.message or "it is not the first entry of a run"
        raise Unknown(
            f"the journal of run {run} is damaged from its first line: {why}",
            "compare it with its copies: topic __drctl_journal, and the state_dir of the host"
            " that ran it",
        )
    return state


def described(step: Step, kinds: Mapping[str, Kind] = KINDS) -> Description:
    """Describe a step, even of a kind that this version does not know."""
    kind = kinds.get(step.kind)
    if kind is None:
        return Description(
            f"{step.id}: a kind of step that this version of drctl does not know", ""
        )
    return kind.describe(step.settings)


def _step(
    number: int, step: Step, state: RunState, kinds: Mapping[str, Kind], course: Course
) -> StepReport:
    track, message = course.tracks[step.id], described(step, kinds)
    return StepReport(
        number=number,
        id=step.id,
        kind=step.kind,
        title=message.title,
        proof=message.proof,
        rollback=message.rollback,
        duty=step.duty,
        changes=Trait.CHANGES in course.traits[step.id],
        status=track.status,
        started=track.started,
        seconds=_spent(track, _ANY),
        waited=_spent(track, _PROVING) if track.announced else None,
        message=track.message,
        items=track.items,
        errors=tuple(track.errors),
        outstanding=state.outstanding.get(step.id, ""),
        rolled_back=track.rolled_back,
    )


def _spent(track: Track, doings: tuple[Doing, ...]) -> float | None:
    if track.started is None:
        return None
    return round(sum(span.seconds for span in track.spans if span.doing in doings), 3)
