"""What is known about a run, what is not, its figures, and what to do now: a sentence each."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from drctl.engine.run_state import AFTER_DAMAGE
from drctl.engine.source_fence import ALIVE, CHANGED_AFTER_FENCE
from drctl.model.document import Name
from drctl.model.text import option, plural, quote
from drctl.plans import failback
from drctl.steps.failback import INTACT
from drctl.steps.records import Reconcile
from drctl.steps.waiting import Drain
from drctl.views.run_data import (
    CommittedOffsets,
    ReportData,
    RunStatus,
    StepReport,
    StepStatus,
    Writes,
)
from drctl.views.run_words import (
    closed,
    lossless,
    lost_in_words,
    rpo_in_brief,
    rto_in_brief,
    writes_now,
    writes_state,
)
from drctl.views.text import collected, length, number, plain, when
from drctl.views.view import Figure


@collected
def known(data: ReportData) -> Iterator[str]:
    """List what the journal proves."""
    if data.writes is not Writes.NOT_TOUCHED and data.writes is not Writes.UNKNOWN:
        if data.writes_since:
            yield f"Since {when(data.writes_since)} UTC, {writes_state(data)}."
        else:
            yield f"{writes_now(data)}."
    if data.abandoned:
        yield f"Abandoned: {closed(data.abandoned)}"
    elif data.rollback_reason and data.ending.status in (RunStatus.REFUSED, RunStatus.STOPPED):
        yield f"Reason: {closed(data.rollback_reason)}"
    elif data.ending.message and data.ending.status is RunStatus.STOPPED:
        yield f"Step {plain(data.ending.step)}: {closed(data.ending.message)}"
    back = data.with_status(StepStatus.ROLLED_BACK)
    if back:
        yield f"Rolled back, and verified: {_names(back)}."
    if data.rto.seconds is not None:
        seconds, how = length(data.rto.seconds), data.rto.how
        if data.rto.since_command:
            yield f"Applications could write again {seconds} after the command: {how}."
        else:
            yield f"Writes were refused for {seconds}: {how}."
    if lossless(data):
        yield f"Every record was replicated: {data.rpo.how}."
    elif data.rpo.exact and data.rpo.records is not None:
        yield f"{lost_in_words(data).capitalize()}: {data.rpo.how}."
    done = data.ending.status is RunStatus.DONE
    if done and failback.is_rebuild(data.plan.steps) and INTACT in data.overrides:
        # The source had lost no records: the rebuild was for their order.
        yield (
            f"{plain(data.plan.target)} now has the records in the order of"
            f" {plain(data.plan.source)}, including those that were appended out of order there."
        )
    if data.committed_offsets is not None:
        yield committed(data.committed_offsets, data.mode)
    if data.overrides:
        given = "; ".join(
            f"{plain(precheck)}: {plain(why)}" for precheck, why in data.overrides.items()
        )
        yield f"{plural(len(data.overrides), 'precheck')} overridden: {closed(given)}"


def committed(found: CommittedOffsets, mode: str) -> str:
    """Say how many offsets were committed, and how many records consumers read again."""
    if not found.offsets and not found.same:
        return "No offsets of consumer groups were committed."
    text = f"Committed {plural(found.offsets, 'offset')} of {plural(len(found.groups), 'group')}"
    if found.same:
        text += f" ({plural(found.same, 'more was', 'more were')} already in place)"
    if found.rereads_at_most is None:
        return f"{text}; the number of records read again is unknown."
    text += f"; at most {plural(found.rereads_at_most, 'record')} read again"
    if found.rereads_likely is not None:
        text += f", likely {number(found.rereads_likely)}"
    # Unplanned, the end of the target's log is the bound, whatever they consumed since.
    fetched = ", plus what members had fetched but could not commit after the fence"
    return f"{text}{'' if mode == 'unplanned' else fetched}."


@collected
def unknown(data: ReportData) -> Iterator[str]:
    """List what the journal does not answer."""
    if data.writes is Writes.UNKNOWN:
        yield f"Where applications can write: {_doubtful(data)}."
    both = failback.is_between_sites(data.plan.steps)
    if data.writes is Writes.TARGET and not (data.fenced or both):
        yield f"Whether {plain(data.plan.source)} also accepts writes: its fence was not verified."
    for step in data.with_status(
        StepStatus.UNKNOWN, StepStatus.STARTED, StepStatus.NOT_ROLLED_BACK
    ):
        message = closed(step.rolled_back or step.message or "the journal has no later entry")
        rolled_back = step.status is StepStatus.NOT_ROLLED_BACK
        verb = "was rolled back" if rolled_back else "took effect"
        yield f"Whether {plain(step.id)} {verb}: {message}"
    if data.ending.status is RunStatus.UNKNOWN:
        late = (step for step in data.with_status(StepStatus.FAILED) if step.id == data.ending.step)
        yield from (f"Whether {plain(s.id)} will succeed: {closed(s.message)}" for s in late)
    if data.rto.seconds is None and data.writes is Writes.TARGET:
        yield f"How long writes were refused: {data.rto.how}."
    if data.writes is Writes.TARGET and not data.rpo.exact:
        yield f"Exactly which records are not replicated: {data.rpo.how}."
    for message in dict.fromkeys(closed(each.message) for each in data.unseen):
        yield f"Not checked: {message}"
    for name in data.not_checked:
        if not any(name.startswith(f"step {step.id}:") for step in data.steps):
            yield f"Not checked: {closed(name)}"
    if data.ending.status is RunStatus.NOT_ENDED:
        yield "Whether the run is still in progress: the process that runs it may be alive."
    if data.chain is None:
        yield "Whether the journal is intact: `drctl report --verify` checks it."


def _doubtful(data: ReportData) -> str:
    if data.partial:
        return "later lines of the journal are damaged"
    found = data.with_status(
        StepStatus.UNKNOWN, StepStatus.STARTED, StepStatus.NOT_ROLLED_BACK, StepStatus.FAILED
    )
    names = _names(tuple(s for s in found if s.changes and (s.waited is not None)))
    return f"it depends on {names}" if names else "the steps do not say"


def _names(steps: tuple[StepReport, ...]) -> str:
    return ", ".join(plain(step.id) for step in steps)


def figures(data: ReportData) -> tuple[Figure, ...]:
    """Return where applications can write, the RTO and the RPO."""
    rto = data.rto
    return (
        Figure("Applications can write to", _writes_to(data), _writes_how(data)),
        Figure(
            "RTO, since the command" if rto.since_command else "RTO, writes refused for",
            "not measured" if rto.seconds is None else length(rto.seconds),
            rto_in_brief(data),
        ),
        Figure("RPO, not replicated", _loss(data), rpo_in_brief(data)),
    )


def _writes_to(data: ReportData) -> str:
    """Return the cluster that applications can write to, or the state in words."""
    match data.writes:
        case Writes.TARGET:
            return plain(data.plan.target)
        case Writes.AS_BEFORE if data.gives_up_source:
            return "unknown"
        case Writes.AS_BEFORE:
            return plain(data.plan.source)
        case _:
            return data.writes.value


def _writes_how(data: ReportData) -> str:
    """Say since when, or why this is unknown."""
    if data.writes is Writes.TARGET and not data.switched:
        done, total = data.endpoints
        return f"{done} of {plural(total, 'endpoint')} switched"
    if data.writes_since is not None:
        return f"since {when(data.writes_since)} UTC"
    match data.writes:
        case Writes.AS_BEFORE if data.gives_up_source:
            return f"{plain(data.plan.source)} is treated as lost"
        case Writes.AS_BEFORE:
            return "as before the run"
        case Writes.UNKNOWN:
            return "check before you act"
        case _:
            return "this plan does not change it"


def _loss(data: ReportData) -> str:
    """Return the lost records, or seconds if their number is unknown."""
    rpo = data.rpo
    if rpo.lost.known:
        return rpo.lost.parts[0]
    if rpo.seconds is not None:
        return f"about {length(rpo.seconds)}"
    return "unknown" if data.writes is Writes.TARGET else "not measured"


@dataclass(frozen=True, slots=True)
class NextStep:
    """An action, or something not to do, and why.

    Attributes:
        command: null if there is none.
    """

    what: Name
    why: str
    command: Name | None = None


@collected
def next_steps(data: ReportData) -> Iterator[NextStep]:
    """List what to do now."""
    if data.chain is not None and data.chain.damage is not None:
        yield NextStep(
            "Do not rely on this report.",
            f"Its journal was changed or damaged: {closed(data.chain.message)} Compare it with its"
            " copies: topic __drctl_journal, and the state_dir of the host that ran it.",
        )
    match data.ending.status:
        case RunStatus.DONE:
            yield from _after_done(data)
        case RunStatus.REFUSED:
            yield _again(data)
        case RunStatus.STOPPED if data.abandoned:
            yield from _after_abandoned(data)
        case RunStatus.STOPPED if data.ending.over:
            if failback.is_failback(data.plan.steps):
                yield NextStep(
                    f"Keep {plain(data.plan.target)} fenced, and its old replication stopped.",
                    "The next run expects both; enabling writes or replication now loses records.",
                )
            yield _again(data)
        case RunStatus.NOT_ENDED if data.partial:
            yield NextStep(
                "Abandon the run: its journal is damaged, so it cannot be resumed.",
                "This lists what it may have changed and what is not known; with --execute it ends"
                " the run, so that a new one can start.",
                f"{_resume(data)} --abandon REASON",
            )
        case RunStatus.NOT_ENDED:
            yield NextStep(
                f"Ask {plain(data.attempts[-1].who)} on {plain(data.attempts[-1].host)} whether "
                "the run is still in progress; if not, resume it.",
                "While its process is alive, resume refuses and changes nothing.",
                f"{_resume(data)} --execute",
            )
        case _:
            yield from _stopped(data)


def _after_abandoned(data: ReportData) -> Iterator[NextStep]:
    for step, what in data.outstanding.items():
        if step == AFTER_DAMAGE:
            yield NextStep("Find out what else the run has changed.", closed(_begun(what, data)))
            continue
        yield NextStep(
            f"Check {plain(step)}, and undo its change by hand if that change is in the way.",
            closed(what[:1].upper() + what[1:]),
        )
    yield NextStep(
        "Then make a new plan.",
        "It starts from the clusters as they are now.",
        _plan_again(data) or None,
    )


def _stopped(data: ReportData) -> Iterator[NextStep]:
    stuck = data.with_status(StepStatus.FAILED, StepStatus.UNKNOWN, StepStatus.NOT_ROLLED_BACK)
    for step in stuck:
        items = f" ({plural(len(step.items), 'item')}, listed under the step)" if step.items else ""
        message = closed(step.rolled_back or step.message)
        of = "the rollback of" if step.status is StepStatus.NOT_ROLLED_BACK else "step"
        yield NextStep(f"Fix what stopped {of} {plain(step.id)}{items}.", message)
    if data.rollback_reason:
        why = "It continues the rollback, newest step first, and starts nothing else."
    elif data.writes is Writes.TARGET:
        why = "It checks that step first, then does what is left; nothing is done twice."
    else:
        why = "It checks the fence first; nothing is repeated without a check."
    yield NextStep(
        "Then resume the run." if stuck else "Resume the run.", why, f"{_resume(data)} --execute"
    )
    yield from _past(data, stuck)
    if data.writes is Writes.NOWHERE:
        yield NextStep(
            "Do not lift the fence by hand.",
            "The journal would not record it; resume continues or rolls everything back.",
        )
    if data.ending.status is not RunStatus.INTERRUPTED:
        yield NextStep(
            "Or abandon the run, if it cannot be finished.",
            "Nothing is rolled back. This lists what would stay in effect; with --execute it ends"
            " the run, so that a new one can start.",
            f"{_resume(data)} --abandon REASON",
        )


def _past(data: ReportData, stuck: tuple[StepReport, ...]) -> Iterator[NextStep]:
    # A drain stops a run only if the fence was removed as writes to the target were enabled.
    stopped = data.ending.status is RunStatus.STOPPED and not data.rollback_reason
    for step in stuck:
        for precheck in (ALIVE, CHANGED_AFTER_FENCE):
            moved = precheck == CHANGED_AFTER_FENCE and step.kind == Drain.name and stopped
            named = step.message.startswith(f"{precheck}: ")
            if (named or moved) and precheck not in data.overrides:
                yield NextStep(
                    f"Or override {precheck}, to treat {plain(data.plan.source)} as lost.",
                    f"Records that it accepted since are not on {plain(data.plan.target)};"
                    " `drctl gap` finds them later.",
                    f"{_resume(data)} --override {quote(precheck)}=REASON",
                )


def _after_done(data: ReportData) -> Iterator[NextStep]:
    for step, what in data.outstanding.items():
        title = next((each.title for each in data.steps if each.id == step), what)
        reason = what.removeprefix(f"{title}: ")
        action, why = (what, "") if reason == what else (title, f"Not done: {closed(reason)} ")
        yield NextStep(
            closed(_begun(action, data)),
            f"{why}Outstanding from step {plain(step)}: {_later(data)}.",
        )
    if data.writes is not Writes.TARGET:
        if not data.outstanding:
            yield NextStep("Nothing to do.", "Every step was verified.")
        return
    if failback.is_failback(data.plan.steps):
        yield from _after_failback(data)
        return
    source, target = plain(data.plan.source), plain(data.plan.target)
    yield NextStep(
        f"Do not start the old replication from {source} to {target}.",
        f"It would append old records after the newer ones on {target}.",
    )
    check_order = NextStep(
        f"Before {source} is used again, keep it fenced and find the records that only it has.",
        f"{target} accepts writes that {source} does not have; this command shows how far the"
        " failback is, and the next step.",
        f"{_command(data, failback.NAME)} --check-order",
    )
    if not data.rpo.exact:
        yield check_order
        yield NextStep(
            f"When {source} is back and fenced, find the records that were not replicated.",
            "Only a comparison of records replaces the estimate with a count.",
            _command(data, "gap"),
        )
        return
    if data.rpo.records:
        yield NextStep(
            f"Decide on the {plural(data.rpo.records, 'record')} that were not replicated.",
            "Copying them late may put them after newer records with the same key. Deleting or"
            f" recreating topics on {source} destroys them.",
        )
    yield check_order


def _begun(what: str, data: ReportData) -> str:
    """Begin with a capital letter, unless the first word is a name."""
    first = what.partition(" ")[0]
    named = first in (data.plan.source, data.plan.target) or not first.isalpha()
    return what if named else what[:1].upper() + what[1:]


def _later(data: ReportData) -> str:
    if data.plan.name.startswith("failover-"):
        command = _command(data, failback.NAME)
        return f"the failback resolves it, or says why not: `{command}` shows its plan"
    return "a later run must resolve it"


def _after_failback(data: ReportData) -> Iterator[NextStep]:
    source, target = plain(data.plan.source), plain(data.plan.target)
    if not failback.is_between_sites(data.plan.steps):
        yield NextStep(
            f"Keep the replication from {source} to {target} stopped.",
            f"Records are replicated from {target} to {source} again; running both directions would"
            " copy them in a loop.",
        )
    if count := data.set_aside.get("quarantine", 0):
        gone = failback.is_rebuild(data.plan.steps)
        originals = "no other copy exists" if gone else f"the originals are only on {target}"
        listed = "" if gone else " This command lists them again."
        yield NextStep(
            f"Decide on the {plural(count, 'record')} in quarantine.",
            f"Topics __drctl_quarantine.* on {source} have copies; {originals}.{listed} See 'After"
            " the failback' on the page 'Fail back'.",
            None if gone else f"{_command(data, 'gap')} --scope full",
        )


def _plan_again(data: ReportData) -> str:
    if data.plan.name.startswith("failover-"):
        return f"{_command(data, 'failover')} --mode {quote(data.mode or 'planned')}"
    if not failback.is_failback(data.plan.steps):
        return ""
    rebuild = _rebuilding(data) if failback.is_rebuild(data.plan.steps) else ""
    return f"{_command(data, failback.NAME)}{rebuild}{_decisions(data)}"


def _rebuilding(data: ReportData) -> str:
    """Return the option to rebuild; a source that lost no records requires a reason."""
    if INTACT not in data.overrides:
        return " --rebuild"
    return f" --rebuild {option('--override', f'{INTACT}={data.overrides[INTACT]}')}"


def _decisions(data: ReportData) -> str:
    """Return the options that decided on the records that only the recovered cluster has."""
    deciding = (step for step in data.plan.steps if step.kind == Reconcile.name)
    given = []
    for step in islice(deciding, 1):
        settings = Reconcile().read_settings(step.settings)
        given += [("--policy", settings.policy)] if settings.policy else []
        given += [("--topic", topic) for topic in settings.topics]
        if settings.conflicting != "refuse":
            given.append(("--conflicting", settings.conflicting))
    return "".join(f" {option(name, value)}" for name, value in given)


def _again(data: ReportData) -> NextStep:
    # The reason already names the failback command to run.
    named = f"drctl {failback.NAME} " in data.rollback_reason
    return NextStep(
        "Fix the reason, then make the plan again.",
        closed(data.rollback_reason) if data.rollback_reason else "The run changed nothing.",
        None if named else _plan_again(data) or None,
    )


def _command(data: ReportData, name: str) -> str:
    return f"drctl {name} {option('--link', data.plan.link)}"


def _resume(data: ReportData) -> str:
    return f"drctl resume {quote(data.run)}"
