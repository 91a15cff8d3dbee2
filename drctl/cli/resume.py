"""`drctl resume`: continues a run that was stopped or interrupted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from drctl.app import run_journal
from drctl.app.failback import HOME
from drctl.app.operation import Operation
from drctl.app.rebuild import REBUILD
from drctl.app.reconcile import RECONCILE
from drctl.app.repairs import FIX
from drctl.app.resume_check import held_kinds, must_be_differences, must_be_permitted, permitted
from drctl.checks.diagnosis import checked_overrides
from drctl.cli.console import console
from drctl.cli.grammar import (
    Answers,
    ClusterAlone,
    Execute,
    LinkName,
    OfWorkers,
    Yes,
    check_confirming,
    takes_request,
)
from drctl.cli.prompts import confirm, people
from drctl.cli.running import OVER_LINK, giving_up, needs_no_source, show_end, show_state, watched
from drctl.cli.settings import configuration
from drctl.cli.stopping import stoppable
from drctl.engine import entries, run_state
from drctl.engine.abandoning import abandon, must_be_describable, standing
from drctl.engine.executing import Execution
from drctl.engine.invariants import violations
from drctl.engine.kind import Outcome, Status, Trait
from drctl.engine.run_state import RunState, read_run
from drctl.engine.source_fence import MOVED
from drctl.model.errors import DamagedJournal, ExitCode, Refused, UsageError
from drctl.model.text import lines as meant
from drctl.model.text import quote
from drctl.offsets.applying import OVERRIDABLE
from drctl.plans.failback import is_failback, rebuilds
from drctl.plans.reconcile import NAME as RECONCILE_PLAN
from drctl.plans.repair import NAME as REPAIR
from drctl.steps.questions import answers
from drctl.steps.registry import KINDS

if TYPE_CHECKING:
    from drctl.app.run_adapters import JournalTopicReader, LocalRuns
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.model.journal import JournalReader
    from drctl.model.plan import Plan


@dataclass(frozen=True, kw_only=True)
class Resume:
    """Arguments and options."""

    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN", help="Run to resume.", show_default="the newest unfinished run"
        ),
    ] = None
    link: LinkName = None
    cluster: ClusterAlone = None
    connect: OfWorkers = None
    execute: Execute = False
    yes: Yes = False
    answer: Answers = ()
    override: Annotated[
        tuple[str, ...],
        typer.Option(
            "--override",
            metavar="PRECHECK=REASON",
            help="Continue although this precheck stopped the run. Repeatable. Recorded in the"
            " journal.",
        ),
    ] = ()
    abandon: Annotated[
        str | None,
        typer.Option(
            "--abandon",
            metavar="REASON",
            help="End the run instead: nothing is rolled back, its changes are listed, the link is"
            " unlocked.",
        ),
    ] = None


@takes_request
def resume(given: Resume) -> int:
    """Resume an interrupted run.

    Reads the journal of the run on the cluster, so it works from any host. Verifies effects that
    may already have happened before it repeats any. Without --execute the progress of the run is
    printed and nothing is changed.

    Examples:
        drctl resume                                       # progress of the newest run
        drctl resume --execute                             # continue it
        drctl resume RUN --abandon "replaced by a new run" --execute

    Exit codes:
        0: done
        1: done with outstanding actions, or abandoned
        3: refused, or rolled back completely
        4: stopped part-way again
        5: unknown; run `drctl resume` again
        130: interrupted
    """
    check_confirming(given.execute, given.yes)
    overrides = _overrides(given)
    config = configuration()
    link = run_journal.scope(config, given.run, given.link, given.cluster, given.connect)
    reader = run_journal.reading(config, link, given.run)
    try:
        with console().task(f"reading the journal on {link.target}"):
            state = _run_state(reader, given.run, link)
    except DamagedJournal as damaged:
        return _leave_damaged(config, link, reader, given, damaged)
    if given.abandon is None:
        _must_be_resumable(config, link, state)
        _must_have_begun_to_open(state, overrides)
    if not given.execute:
        return _show(state, given)
    if given.abandon is not None:
        confirm(_confirmed(link, state), f"leave run {state.run} behind", yes=given.yes)
        return show_end(config, *left_behind(config, link, state.run, given.abandon.strip()))
    what = f"go on with run {state.run}{giving_up(state.plan)}"
    confirm(_confirmed(link, state), what, yes=given.yes)
    return _carry_on(config, link, state, given, overrides)


_BEHIND = "behind the damage"


def leave_damaged(
    config: "Config",
    link: "Link",
    reader: "JournalReader",
    run: str,
    why: str,
    *,
    execute: bool,
    yes: bool,
) -> int:
    """Show what can be read of the run, and with `execute` leave it behind.

    Raises:
        Refused: somebody carries it out, it has ended, or nobody confirmed.
        Unknown: the journal cannot be read or written.
    """
    lines = reader.lines(run)
    sound = reader.sound(run)
    state = _readable_part(lines[:sound])
    stands = {} if state is None else dict(standing(state, KINDS))
    stands[_BEHIND] = (
        f"not known: what run {run} changed behind line {sound} of its journal; look at both"
        " clusters (drctl status, drctl doctor), and at the copies of the journal"
    )
    if not execute:
        console().note(f"left behind, this would stay as it is: {'; '.join(stands.values())}")
        if state is not None:
            return show_state(state)
        _show_abandoned(run, Status.UNKNOWN)
        return int(ExitCode.DONE)
    confirm(link.confirmed, f"leave run {run} behind", yes=yes)
    held, at = run_journal.holder(run), datetime.now(UTC)
    told = [
        entries.resumed(run_journal.who(held), at),
        entries.abandoned(why, stands, at),
        entries.ended(Status.STOPPED.value, at),
    ]
    with run_journal.left(config, link, held) as taken, stoppable():
        taken.append(told)
    if state is None:
        _show_abandoned(run, Status.STOPPED, tuple(stands.values()))
        return int(ExitCode.FOUND)
    state.take(told)
    left = Outcome(Status.STOPPED, words=why, items=tuple(stands.values()), abandoned=True)
    return show_end(config, state, left)


def _readable_part(lines: Sequence[bytes]) -> RunState | None:
    """What the run did as far as its journal is sound; None where not even its plan is."""
    told = [run_state.opened(line).entry for line in lines]
    try:
        return read_run(told) if told else None
    except DamagedJournal:
        return None


def _show_abandoned(run: str, status: Status, outstanding: Sequence[str] = ()) -> None:
    """The contract's document of a run, of which nothing else is known."""
    from drctl.views.run_json import RunDocument, RunRpoDocument

    nothing = RunRpoDocument(records=None, at_least=None, at_most=None, seconds=None, exact=False)
    document = RunDocument(
        run=run,
        status=status.value,
        steps=(),
        rto_seconds=None,
        rpo=nothing,
        outstanding=tuple(outstanding),
    )
    became = "was left behind" if status is Status.STOPPED else "cannot be read"
    console().result(meant((f"run {run} {became}", *outstanding)), document)


def _confirmed(link: "Link", state: RunState) -> str:
    """What has to be typed: of a link the cluster that the run leads to."""
    return link.confirmed if link.is_inside else state.plan.target


def _leave_damaged(
    config: "Config",
    link: "Link",
    reader: "JournalTopicReader | LocalRuns",
    given: Resume,
    damaged: DamagedJournal,
) -> int:
    """Leave a run behind of which not all is known; anything else cannot be done with it.

    Raises:
        DamagedJournal: it is not to be left behind, or nobody named it.
    """
    if given.abandon is None or given.run is None:
        raise damaged
    console().warn(damaged.message)
    why = given.abandon.strip()
    return leave_damaged(config, link, reader, given.run, why, execute=given.execute, yes=given.yes)


def _overrides(given: Resume) -> Mapping[str, str]:
    """What is passed over from here on: also what only a run that was away can meet."""
    if given.abandon is None:
        return checked_overrides(given.override, (*OVERRIDABLE, MOVED))
    if not given.abandon.strip():
        raise UsageError("--abandon needs a reason", "it is kept in the journal and the report")
    if given.override or given.answer:
        raise UsageError(
            "--abandon goes with neither --override nor --answer: nothing is done any more"
        )
    return {}


def _show(state: RunState, given: Resume) -> int:
    code = show_state(state)
    if given.abandon is not None:
        left = list(standing(state, KINDS).values()) or ["nothing"]
        console().note(f"left behind, this would stay as it is: {'; '.join(left)}")
    return code


def left_behind(config: "Config", link: "Link", run: str, why: str) -> tuple[RunState, Outcome]:
    """End a run as it stands; nothing but its journal is changed."""
    held = run_journal.holder(run)
    with run_journal.gone_on(config, link, held) as (journal, entries), stoppable() as clock:
        state = read_run(entries)
        return state, abandon(state, why, run_journal.who(held), journal, KINDS, clock)


def _run_state(reader: "JournalTopicReader | LocalRuns", run: str | None, link: "Link") -> RunState:
    if run is not None:
        state = _readable(reader, run)
        if state.status:
            raise Refused(f"run {run} has ended: {state.status}", f"drctl report {quote(run)}")
        return state
    for name in [name for name in reader.runs() if not reader.set_aside(name)][:1]:
        newest = _readable(reader, name)
        if not newest.status:
            return newest
    raise UsageError(f"link {link.name} has no run to go on with", "drctl journal lists all")


def _readable(reader: "JournalTopicReader | LocalRuns", run: str) -> RunState:
    state = read_run(reader.entries(run))
    if not state.status:
        reader.must_be_signed(run)
    must_be_describable(state, KINDS)
    return state


def _must_be_of(state: RunState, link: "Link") -> None:
    plan = state.plan
    home = is_failback(plan.steps)
    ends = (link.target, link.source) if home else (link.source, link.target)
    if (plan.source, plan.target) != ends:
        raise Refused(
            f"run {state.run} goes from {plan.source} to {plan.target}, and link {link.name} of"
            f" this drctl.yaml from {link.source} to {link.target}",
            "use the drctl.yaml that the run began with; if that is this one, somebody else wrote"
            f" to the journal: `drctl resume {quote(state.run)} --abandon REASON`",
        )


def _must_be_resumable(config: "Config", link: "Link", state: RunState) -> None:
    _must_be_of(state, link)
    _must_go_on(state)
    must_be_permitted(config, link, state)


def _must_go_on(state: RunState) -> None:
    plan = state.plan
    unknown = sorted({step.kind for step in plan.steps} - set(KINDS))
    if unknown:
        raise Refused(
            f"run {state.run} has steps that this drctl does not know: {', '.join(unknown)}",
            "use the version of drctl that it began with; or leave it behind: --abandon REASON",
        )
    if broken := violations(plan, KINDS):
        raise Refused(
            f"the plan of run {state.run} breaks a rule: {'; '.join(broken)}",
            "use the version of drctl that it began with; if that is this one, somebody else wrote"
            " to the journal: drctl report --verify; --abandon REASON leaves the run behind",
        )


def _must_have_begun_to_open(state: RunState, overrides: Mapping[str, str]) -> None:
    """Before that, replication still brings what came through the fence, or all is put back."""
    opens = {
        step.id for step in state.plan.steps if Trait.ENABLES_WRITES in KINDS[step.kind].traits
    }
    if MOVED in overrides and not opens & {effect.step for effect in state.effects}:
        raise Refused(
            f"{MOVED}: run {state.run} has not begun to open {state.plan.target}: nothing is lost"
            " by letting it look, or turn back",
            f"drctl resume {quote(state.run)} without it",
        )


def _way(plan: "Plan") -> Operation:
    if plan.name in (REPAIR, RECONCILE_PLAN):
        return FIX if plan.name == REPAIR else RECONCILE
    if rebuilds(plan.steps):
        return REBUILD
    return HOME if is_failback(plan.steps) else OVER_LINK


def _carry_on(
    config: "Config", link: "Link", found: RunState, given: Resume, overrides: Mapping[str, str]
) -> int:
    run = found.run
    held = run_journal.holder(run)
    asked = people()
    asked.given = answers(found.plan, given.answer)
    operation = _way(found.plan)
    with (
        operation.reader(config, link, asked, needs_no_source(found.plan)) as reader,
        run_journal.gone_on(config, link, held) as (journal, entries),
        stoppable() as clock,
    ):
        state = read_run(entries)
        # Somebody may have written to it since it was first read.
        _must_be_resumable(config, link, state)
        allowed = permitted(config, link, state)
        must_be_differences(state, allowed, reader)
        writer = operation.writer(config, reader, run_journal.folder(config, run))
        with watched(state.plan, journal, clock, entries) as seen:
            kinds = held_kinds(state, allowed)
            engine = Execution(kinds, reader, writer, seen.journal, clock, seen.watcher)
            outcome = engine.go_on(state, run_journal.who(held), overrides)
    return show_end(config, state, outcome)
