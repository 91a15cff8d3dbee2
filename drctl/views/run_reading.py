"""From the entries of a journal to the values of a report."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any

from drctl.engine.entries import Entry, What
from drctl.engine.kind import Description, I, Kind, Outcome, Status, StepKind, Trait
from drctl.engine.run_state import ChainVerdict, RunState, damaged, opened, read_run
from drctl.model.document import rounded
from drctl.model.errors import Unknown
from drctl.model.loss import Figure, LossRange, exactly, not_known
from drctl.model.plan import Step
from drctl.steps.commit_offsets import CommitIntent, CommitOffsets
from drctl.steps.fences import FENCE_PRODUCERS
from drctl.steps.prechecks import Preflight, SnapshotState, Unseen
from drctl.steps.records import FindGap, Reconcile
from drctl.steps.registry import KINDS
from drctl.steps.stop_replication import MeasureLoss
from drctl.steps.switch_endpoint import SwitchEndpoint
from drctl.steps.verify_clients import VerifyClients
from drctl.steps.waiting import Drain
from drctl.views.run_data import (
    Attempt,
    Became,
    Doing,
    Ending,
    GroupRow,
    Positions,
    ReportData,
    Rpo,
    Rto,
    Span,
    Standing,
    StepReport,
    Warned,
    Writes,
)
from drctl.views.text import collected

_FORWARD = frozenset(
    {What.DONE, What.FAILED, What.OBSERVED, What.OUTSTANDING, What.SKIPPED, What.APPLIED}
)
_BACKWARD = frozenset({What.UNDOING, What.UNDONE, What.NOT_UNDONE})
_PROVING = (Doing.EFFECT, Doing.WAITING)
_ENDINGS = {
    Standing.DONE: "came to the end",
    Standing.REFUSED: "ended with nothing changed",
    Standing.STOPPED: "stopped",
    Standing.UNKNOWN: "ended without knowing",
    Standing.INTERRUPTED: "was interrupted",
    Standing.NOT_ENDED: "wrote nothing more",
}
_LEFT_BEHIND = "left it behind"
_UNSEEN = " (not checked)"
"""How preflight ends what it noted of a guard that could not look."""
_BEGUN_BACK = "it was begun to take it back, and nothing was written down after that"


@dataclass(slots=True)
class Track:
    """What is known of a step so far.

    Attributes:
        announced: whether its effect stands in the journal.
        proven: when it was first seen to be done, by its present effect.
        failed: it could not be done, whatever was put back afterwards.
    """

    became: Became = Became.NOT_STARTED
    started: datetime | None = None
    announced: datetime | None = None
    proven: datetime | None = None
    failed: bool = False
    words: str = ""
    items: tuple[str, ...] = ()
    complaints: list[str] = field(default_factory=list)
    rolled_back: str = ""


@dataclass(slots=True)
class Course:
    """The whole run.

    Attributes:
        begins: numbers of the entries with which somebody began or went on.
    """

    tracks: dict[str, Track]
    spans: list[Span] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    times: list[datetime] = field(default_factory=list)


def moment_of(entry: Entry) -> datetime:
    """When it was written.

    Raises:
        KeyError, TypeError, ValueError: it does not say.
    """
    at = datetime.fromisoformat(entry["at"])
    if at.tzinfo is None:
        raise ValueError(f"{entry['at']} has no time zone")
    return at


def course_of(state: RunState, kinds: Mapping[str, Kind]) -> Course:
    """Follow the entries.

    Raises:
        Unknown: one of them is not what this drctl writes.
    """
    course = Course({step.id: Track() for step in state.plan.steps})
    changing = {
        step.id
        for step in state.plan.steps
        if step.kind in kinds and Trait.CHANGES in kinds[step.kind].traits
    }
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
            course.spans.append(Span("", Doing.NOBODY, last, at))
    elif step := str(entry.get("step", "")):
        track = course.tracks[step]
        doing = _doing(what, track, step in changing)
        if doing is not None and at > last:
            course.spans.append(Span(step, doing, last, at))
        track.started = track.started or last
        _note(track, what, entry, at)
    course.times.append(at)


def _doing(what: What, track: Track, changes: bool) -> Doing | None:
    """What the time since the last entry was spent on."""
    if what in _BACKWARD:
        return Doing.ROLLING_BACK
    if what is What.INTEND or (what in _FORWARD and track.announced is None):
        return Doing.LOOKING
    if what in _FORWARD or what is What.INTERRUPTED:
        if track.announced is None:
            return None
        return Doing.EFFECT if changes and not track.complaints else Doing.WAITING
    return None


def _note(track: Track, what: What, entry: Entry, at: datetime) -> None:
    match what:
        case What.INTEND:
            track.became, track.announced, track.proven = Became.STARTED, at, None
            track.words, track.items, track.rolled_back = "", (), ""
            track.complaints.clear()
        case What.APPLIED:
            track.complaints += map(str, entry["complaints"])
        case What.DONE:
            track.became, track.failed = Became.DONE, False
            track.proven = track.proven or at
            _say(track, entry)
        case What.FAILED:
            unknown = entry["state"] == "unknown"
            track.became, track.failed = (Became.UNKNOWN if unknown else Became.FAILED), True
            _say(track, entry)
        case What.SKIPPED:
            track.became = Became.SKIPPED
            _say(track, entry)
        case What.OUTSTANDING if track.became is not Became.DONE:
            track.became, track.words = Became.OUTSTANDING, str(entry["what"])
        case What.OBSERVED if entry["state"] != "done":
            track.became, track.proven, track.words = Became.STARTED, None, str(entry["words"])
        case What.STALE:
            track.became, track.announced, track.proven = Became.NOT_STARTED, None, None
            track.words = str(entry["words"])
        case What.UNDOING:
            track.became, track.rolled_back = Became.NOT_ROLLED_BACK, _BEGUN_BACK
        case What.UNDONE:
            track.became = Became.FAILED if track.failed else Became.ROLLED_BACK
            track.rolled_back = str(entry["words"])
        case What.NOT_UNDONE:
            track.rolled_back = str(entry["words"])
            track.items = tuple(map(str, entry["items"]))
        case _:
            pass


def _say(track: Track, entry: Entry) -> None:
    track.words = str(entry["words"])
    track.items = tuple(map(str, entry["items"]))


def attempts(state: RunState, kinds: Mapping[str, Kind], course: Course) -> tuple[Attempt, ...]:
    """Everybody who carried the run out."""
    found = []
    edges = [*course.begins, len(state.entries)]
    for first, after in pairwise(edges):
        who = state.entries[first].get("who", {})
        standing, step = _standing(state, kinds, state.entries[:after], first)
        where = f" at {step}" if step else ""
        left = any(e["entry"] == What.ABANDONED for e in state.entries[first:after])
        found.append(
            Attempt(
                str(who.get("user") or who.get("who") or "somebody"),
                str(who.get("host") or "an unknown host"),
                course.times[first],
                course.times[after - 1],
                f"{_LEFT_BEHIND if left else _ENDINGS[standing]}{where}",
            )
        )
    return tuple(found)


def ending(state: RunState, kinds: Mapping[str, Kind], course: Course) -> Ending:
    """How the run stands after its last entry."""
    standing, step = _standing(state, kinds, state.entries, course.begins[-1])
    words, items = _told(state, standing, step)
    if standing is Standing.NOT_ENDED:
        return Ending(standing, step, words, items, None)
    outcome = Outcome(
        Status(standing.value), outstanding=bool(state.outstanding), abandoned=bool(state.abandoned)
    )
    over = standing is Standing.STOPPED and bool(state.status) and not state.abandoned
    return Ending(standing, step, words, items, outcome.exit_code, over)


def _standing(
    state: RunState, kinds: Mapping[str, Kind], told: Sequence[Entry], first: int
) -> tuple[Standing, str]:
    """After these entries, of which the last attempt begins with the one of this number."""
    last = told[-1]
    match What(last["entry"]):
        case What.ENDED:
            standing = Standing(last["status"])
            return standing, "" if standing is Standing.DONE else _turned_at(told) or _next(state)
        case What.INTERRUPTED:
            return Standing.INTERRUPTED, str(last["step"])
        case What.FAILED:
            return _failed(state, kinds, told)
        case What.OBSERVED if last["state"] == "unknown":
            return Standing.UNKNOWN, str(last["step"])
        case What.UNDONE | What.NOT_UNDONE:
            return _put_back(state, kinds, told, first)
        case _:
            return Standing.NOT_ENDED, str(last.get("step", "")) or _next(state)


def _failed(
    state: RunState, kinds: Mapping[str, Kind], told: Sequence[Entry]
) -> tuple[Standing, str]:
    step = str(told[-1]["step"])
    if told[-1]["state"] == "unknown":
        return Standing.UNKNOWN, step
    intended = {str(entry["step"]) for entry in told if entry["entry"] == What.INTEND}
    if not any(Trait.ENABLES_WRITES in _traits(state, kinds, each) for each in intended):
        # It would have been turned back: whoever wrote this did not come to that.
        return Standing.NOT_ENDED, step
    verifies = Trait.VERIFIES in _traits(state, kinds, step)
    return (Standing.UNKNOWN if verifies else Standing.STOPPED), step


def _put_back(
    state: RunState, kinds: Mapping[str, Kind], told: Sequence[Entry], first: int
) -> tuple[Standing, str]:
    """Stopped where each effect was tried; else the one who did it is gone."""
    undone = {e["effect"] for e in told if e["entry"] == What.UNDONE}
    standing = {
        entry["effect"]
        for entry in told
        if entry["entry"] == What.INTEND
        and entry["effect"] not in undone
        and Trait.CHANGES in _traits(state, kinds, entry["step"])
    }
    tried = [e for e in told[first:] if e["entry"] == What.NOT_UNDONE and e["effect"] in standing]
    if not tried or standing != {entry["effect"] for entry in tried}:
        return Standing.NOT_ENDED, str(told[-1]["step"])
    unknown = any(entry["state"] == "unknown" for entry in tried)
    return (Standing.UNKNOWN if unknown else Standing.STOPPED), str(tried[0]["step"])


def _told(state: RunState, standing: Standing, step: str) -> tuple[str, tuple[str, ...]]:
    """What was seen there, and what is not as wanted, each named."""
    if standing is Standing.DONE:
        return "", ()
    if state.abandoned:
        return state.abandoned, ()
    if standing is Standing.REFUSED or (standing is Standing.STOPPED and state.status):
        failed = (
            entry
            for entry in reversed(state.entries)
            if entry["entry"] == What.FAILED and entry.get("step") == step
        )
        return state.rollback_reason, tuple(map(str, next(failed, {}).get("items", ())))
    for entry in reversed(state.entries):
        if entry.get("step") == step and "words" in entry:
            return str(entry["words"]), tuple(map(str, entry.get("items", ())))
    return "", ()


def _turned_at(told: Sequence[Entry]) -> str:
    return next((str(e["step"]) for e in reversed(told) if e["entry"] == What.ROLLING_BACK), "")


def _next(state: RunState) -> str:
    return next((step.id for step in state.plan.steps if not state.is_done(step.id)), "")


def _traits(state: RunState, kinds: Mapping[str, Kind], step: str) -> Trait:
    kind = kinds.get(state.plan.step(step).kind)
    return Trait.NONE if kind is None else kind.traits


def mode(state: RunState) -> str:
    """Planned or unplanned; empty where the plan does not know it."""
    for step in state.plan.steps:
        if step.kind == Preflight.name:
            return Preflight().read_settings(step.settings).mode
    return ""


def cluster_ids(state: RunState) -> dict[str, str]:
    """What the clusters call themselves."""
    stock = intent_of(state, SnapshotState())
    clusters = stock.clusters.items() if stock else ()
    return {name: seen.cluster_id for name, seen in clusters if seen.cluster_id}


def topics(state: RunState) -> tuple[str, ...]:
    """Those of the source that the run moved, as far as a step has noted them."""
    for noted in (intent_of(state, MeasureLoss()), intent_of(state, FENCE_PRODUCERS)):
        if noted and noted.topics:
            return noted.topics
    stock = intent_of(state, SnapshotState())
    seen = stock.clusters.get(state.plan.source) if stock else None
    return tuple(sorted({place.rpartition("-")[0] for place in seen.ends})) if seen else ()


def set_aside(state: RunState) -> dict[str, int]:
    """Records that only the returned cluster had and that were not copied, by what became of them.

    A comparison allows for them: they are on the returned cluster alone.
    """
    facts = state.facts_by_kind().of(Reconcile())
    done = facts.done if facts else {}
    found = {kind: done.get(kind, 0) for kind in ("quarantine", "export", "discard")}
    return {kind: number for kind, number in found.items() if number}


def warned(state: RunState) -> tuple[Warned, ...]:
    """What guards said that let the run go on."""
    facts = state.facts_by_kind().of(Preflight())
    return tuple(
        Warned(words.removesuffix(_UNSEEN), not words.endswith(_UNSEEN))
        for words in (facts.warnings if facts else ())
    )


def unseen(state: RunState) -> tuple[Unseen, ...]:
    """What the guards could not look at, by cause."""
    facts = state.facts_by_kind().of(Preflight())
    return facts.unseen if facts else ()


def told_shortly(state: RunState) -> RunState:
    """The same run, in which each step refers to a cause that is told once, by its name."""
    causes = unseen(state)
    if not causes:
        return state
    first, *more = state.entries
    return read_run((first, *(_shortly(entry, causes) for entry in more)))


def _shortly(value: Any, causes: Sequence[Unseen]) -> Any:
    if isinstance(value, str):
        for each in causes:
            value = value.replace(each.why, each.what)
        return value
    if isinstance(value, Mapping):
        return {name: _shortly(each, causes) for name, each in value.items()}
    return [_shortly(each, causes) for each in value] if isinstance(value, list | tuple) else value


def positions(state: RunState) -> Positions | None:
    """What was committed for consumers; None where nothing was."""
    facts, intent = state.facts_by_kind().of(CommitOffsets()), intent_of(state, CommitOffsets())
    if facts is None:
        return None
    counted = Counter(each.group for each in intent.lines) if intent else {}
    rows = [_group(name, count, intent) for name, count in counted.items() if intent]
    rows.sort(key=lambda row: (-(row.rereads_at_most or 0), row.name))
    return Positions(
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
    # With the source alive there is no condition: its own word counts.
    if not only_if:
        return GroupRow(name, count, *again)
    return GroupRow(name, count, *again, evidence, rounded(age, 1), only_if)


@collected
def not_checked(state: RunState, course: Course) -> Iterator[str]:
    """What nobody looked at, or nobody could."""
    facts = state.facts_by_kind()
    stock, clients = facts.of(SnapshotState()), facts.of(VerifyClients())
    for name in stock.silent if stock else ():
        yield f"{name} did not answer before anything was changed"
    yield from (each.words for each in warned(state) if not each.checked)
    if clients and clients.not_seen:
        yield clients.not_seen
    for step in state.plan.steps:
        if step.kind != SwitchEndpoint.name or not state.is_done(step.id):
            continue
        switch = SwitchEndpoint().read_settings(step.settings)
        # An endpoint was only asked where it points; a file says all that there is to know.
        if switch.kind != "file" and not switch.asked:
            yield (
                f"whether a client that connects through endpoint {switch.number + 1}"
                f" ({switch.kind}) is on {switch.to}: give it `bootstrap`, and drctl connects"
                " through it, too"
            )
    for name, track in course.tracks.items():
        if track.became in (Became.SKIPPED, Became.UNKNOWN, Became.STARTED):
            yield f"step {name}: {track.words or 'nobody saw whether it was done'}"


def intent_of(state: RunState, kind: StepKind[Any, I, Any]) -> I | None:
    """The intent of the first step of a kind that was not rolled back."""
    for step in state.plan.steps:
        if step.kind == kind.name and (effect := state.effect_of(step.id)):
            return kind.read_intent(effect.intent)
    return None


def steps_with(state: RunState, kinds: Mapping[str, Kind], trait: Trait) -> tuple[str, ...]:
    """The steps of the plan's own direction that have a trait, in their order."""
    traits = {s.id: kinds[s.kind].traits for s in state.plan.steps if s.kind in kinds}
    return tuple(
        step for step, its in traits.items() if trait in its and Trait.OPPOSITE_DIRECTION not in its
    )


def rto(state: RunState, kinds: Mapping[str, Kind], course: Course) -> Rto:
    """From the fence's announcement to the moment from which clients can write on the target.

    Where a source was lost nobody saw when writes began to be refused: then from the command.
    """
    commanded = _commanded(state) if state.plan.name.endswith("unplanned") else None
    start = commanded or next(_fenced(state, kinds), None)
    last = _last(state, kinds)
    if last is None:
        return Rto(None, "not measured: the plan does not open a cluster for writes", start)
    step, opens = last
    end = course.tracks[step].proven
    if end is None:
        why = "the run was turned back" if state.rollback_reason else f"step {step} is not done"
        return Rto(None, f"not measured: {why}", start)
    if start is None:
        return Rto(
            None, "not measured: no fence was set, so nobody saw the first refused write", None, end
        )
    seconds = (end - start).total_seconds()
    if seconds < 0:
        how = "not measured: it began and ended on hosts whose clocks do not agree"
        return Rto(None, how, start, end)
    until = "the target was open" if opens else "the last endpoint was switched"
    since = "command" if commanded else "beginning of the fence"
    how = f"from the {since} until {until} and seen to be (step {step})"
    how += _doubts(state, course, start, end)
    return Rto(seconds, how, start, end, since_command=commanded is not None)


def _commanded(state: RunState) -> datetime | None:
    """When the command was given; None where its journal does not say it."""
    told = state.entries[0].get("who", {}).get("commanded", "")
    try:
        return datetime.fromisoformat(told)
    except ValueError:
        return None


def _fenced(state: RunState, kinds: Mapping[str, Kind]) -> Iterator[datetime]:
    """When writes may have begun to be refused."""
    fences = steps_with(state, kinds, Trait.FENCES_WRITES)
    for entry in state.entries:
        if entry["entry"] == What.INTEND and entry["step"] in fences:
            yield moment_of(entry)


def _last(state: RunState, kinds: Mapping[str, Kind]) -> tuple[str, bool] | None:
    """The step after which clients can write, and whether it is the one that opens."""
    opening = steps_with(state, kinds, Trait.ENABLES_WRITES)
    if not opening:
        return None
    switching = steps_with(state, kinds, Trait.SWITCHES)
    return (switching[-1], False) if switching else (opening[-1], True)


def _doubts(state: RunState, course: Course, start: datetime, end: datetime) -> str:
    """What the number does not hold."""
    told = []
    hosts = {
        str(state.entries[number].get("who", {}).get("host"))
        for number in course.begins
        if course.times[number] <= end
    }
    if len(hosts) > 1:
        told.append("by the clocks of several hosts")
    if state.plan.name.endswith("unplanned"):
        told.append("without the outage before the run")
    if any(start <= course.times[number] <= end for number in course.begins):
        told.append("with the time in which nobody was at work")
    return f"; {', '.join(told)}" if told else ""


def rpo(state: RunState, kinds: Mapping[str, Kind], course: Course) -> Rpo:
    """What the target lacks: nothing, proven by content; an estimate; or not known."""
    if not any(
        course.tracks[step].announced for step in steps_with(state, kinds, Trait.ENABLES_WRITES)
    ):
        return _not_measured("not measured: the target was not opened")
    facts = state.facts_by_kind()
    fell = [
        step for step in steps_with(state, kinds, Trait.FENCES_WRITES) if step in state.outstanding
    ]
    drained, loss, gap = facts.of(Drain()), facts.of(MeasureLoss()), facts.of(FindGap())
    if fell and drained:
        return _not_measured(state.outstanding[fell[0]])
    if drained and drained.missing == 0:
        how = "a comparison by content found no missing record behind the fence"
        return Rpo(exactly(0, how), 0.0, True, how)
    if loss:
        return Rpo(
            loss.range,
            loss.seconds,
            False,
            "estimated from what survived; drctl gap makes it exact once the source answers",
            loss.evidence,
        )
    if gap:
        found = gap.unreplicated
        how = "a comparison by content, while the source may still have taken writes"
        lost = LossRange(Figure(found, how), Figure(found, how), Figure(None, how))
        return Rpo(lost, None, False, how)
    return _not_measured("not measured: no step of this run has looked for it")


def _not_measured(why: str) -> Rpo:
    return Rpo(not_known(why), None, False, why)


def writes(
    state: RunState, kinds: Mapping[str, Kind], course: Course
) -> tuple[Writes, datetime | None]:
    """Where applications can write now, and since when."""
    fences = steps_with(state, kinds, Trait.FENCES_WRITES)
    opening = steps_with(state, kinds, Trait.ENABLES_WRITES)
    if not fences and not opening:
        return Writes.NOT_TOUCHED, None
    opened = [course.tracks[step] for step in opening]
    if any(track.became is Became.DONE for track in opened):
        return Writes.TARGET, next(t.proven for t in opened if t.became is Became.DONE)
    if any(track.announced for track in opened):
        return Writes.UNKNOWN, None
    found = [course.tracks[step] for step in fences if _stands(state, step)]
    if not found:
        return Writes.AS_BEFORE, None
    if all(track.became is Became.DONE for track in found):
        return Writes.NOWHERE, next(_fenced(state, kinds), None)
    return Writes.UNKNOWN, None


def _stands(state: RunState, step: str) -> bool:
    """Whether an effect of it may be there; also one whose successor was announced since."""
    return any(effect.step == step and not effect.undone for effect in state.effects)


def report_data(
    state: RunState, chain: ChainVerdict | None = None, kinds: Mapping[str, Kind] = KINDS
) -> ReportData:
    """What the run came to.

    Args:
        chain: whether its journal is as it was written; None where nobody looked.

    Raises:
        Unknown: an entry is not what this drctl writes.
    """
    not_seen = unseen(state)
    state = told_shortly(state)
    course = course_of(state, kinds)
    end = ending(state, kinds, course)
    last_writes, since = writes(state, kinds, course)
    fences = steps_with(state, kinds, Trait.FENCES_WRITES)
    switches = steps_with(state, kinds, Trait.SWITCHES)
    return ReportData(
        run=state.run,
        plan=state.plan,
        mode=mode(state),
        ids=cluster_ids(state),
        attempts=attempts(state, kinds, course),
        steps=tuple(
            _step(number, step, state, kinds, course)
            for number, step in enumerate(state.plan.steps, 1)
        ),
        spans=tuple(course.spans),
        ending=end,
        rollback_reason=state.rollback_reason,
        abandoned=state.abandoned,
        writes=last_writes,
        rto=rto(state, kinds, course),
        rpo=rpo(state, kinds, course),
        warned=warned(state),
        # What was put back owes nothing any more.
        outstanding={} if end.standing is Standing.REFUSED else _outstanding(state),
        positions=positions(state),
        not_checked=not_checked(state, course),
        began=course.times[0],
        until=course.times[-1],
        fenced=any(_is_done(course, step) for step in fences),
        endpoints=(sum(_is_done(course, step) for step in switches), len(switches)),
        chain=chain,
        writes_since=since,
        overrides={**state.plan.overrides, **state.overrides},
        topics=topics(state),
        set_aside=set_aside(state),
        unseen=not_seen,
    )


def _outstanding(state: RunState) -> Mapping[str, str]:
    """By step; of one that is owed and stands as well, both."""
    told = (state.outstanding, state.left_changed)
    names = dict.fromkeys((*state.outstanding, *state.left_changed))
    return {name: "; ".join(each[name] for each in told if name in each) for name in names}


def _is_done(course: Course, step: str) -> bool:
    return course.tracks[step].became is Became.DONE


def sound_entries(run: str, lines: Sequence[bytes], chain: ChainVerdict) -> tuple[Entry, ...]:
    """What a journal tells up to the first line that is not as it was written.

    Raises:
        Unknown: not even its first line is.
    """
    if not chain.lines:
        raise Unknown(
            f"nothing of the journal of run {run} is as it was written: {chain.words}",
            "compare it with its copies: the topic __drctl_journal and the state_dir of whoever"
            " carried it out",
        )
    return tuple(opened(line).entry for line in lines[: chain.lines])


def described(step: Step, kinds: Mapping[str, Kind] = KINDS) -> Description:
    """A step in words; also one that this drctl does not know."""
    kind = kinds.get(step.kind)
    if kind is None:
        return Description(f"{step.id}: a step of a kind that this drctl does not know", "")
    return kind.describe(step.settings)


def _step(
    number: int, step: Step, state: RunState, kinds: Mapping[str, Kind], course: Course
) -> StepReport:
    track, words = course.tracks[step.id], described(step, kinds)
    return StepReport(
        number=number,
        id=step.id,
        kind=step.kind,
        title=words.title,
        proof=words.proof,
        rollback=words.rollback,
        duty=step.duty,
        changes=step.kind in kinds and Trait.CHANGES in kinds[step.kind].traits,
        became=track.became,
        started=track.started,
        seconds=_spent(step.id, track, course, tuple(Doing)),
        waited=_spent(step.id, track, course, _PROVING) if track.announced else None,
        words=track.words,
        items=track.items,
        complaints=tuple(track.complaints),
        outstanding=state.outstanding.get(step.id, ""),
        rolled_back=track.rolled_back,
    )


def _spent(step: str, track: Track, course: Course, doings: tuple[Doing, ...]) -> float | None:
    if track.started is None:
        return None
    spans = (span for span in course.spans if span.step == step and span.doing in doings)
    return round(sum(span.seconds for span in spans), 3)
