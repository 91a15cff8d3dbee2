"""`drctl resume`: continues a run that was stopped or interrupted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from drctl.app import run_journal
from drctl.app.failback import FAILBACK
from drctl.app.operation import Operation
from drctl.app.rebuild import REBUILD
from drctl.app.reconcile import RECONCILE
from drctl.app.repairs import FIX
from drctl.app.resume_check import permitted_kinds, require_differences, require_permitted
from drctl.checks.diagnosis import checked_overrides
from drctl.cli.console import console
from drctl.cli.grammar import (
    Answers,
    ClusterAlone,
    LinkName,
    OfWorkers,
    Yes,
    check_confirming,
    takes_request,
)
from drctl.cli.prompts import confirm, prompts
from drctl.cli.running import (
    OVER_LINK,
    discard_warning,
    needs_no_source,
    resume_required,
    show_end,
    show_state,
    watched,
)
from drctl.cli.settings import configuration
from drctl.cli.stopping import stoppable
from drctl.engine import entries, run_state
from drctl.engine.abandoning import abandon, check_settings, remaining_changes, unknown_changes
from drctl.engine.executing import Execution
from drctl.engine.invariants import violations
from drctl.engine.kind import Outcome, Status, Trait
from drctl.engine.run_state import RunState, read_run
from drctl.engine.source_fence import CHANGED_AFTER_FENCE
from drctl.model.errors import DamagedJournal, ExitCode, Refused, UsageError
from drctl.model.plan import PLACEHOLDER
from drctl.model.text import lines as meant
from drctl.model.text import quote
from drctl.offsets.applying import OVERRIDABLE
from drctl.plans.failback import is_failback, is_rebuild
from drctl.plans.repair import NAME as REPAIR
from drctl.plans.single_step import RECONCILE as RECONCILE_PLAN
from drctl.steps.questions import answers
from drctl.steps.registry import KINDS

if TYPE_CHECKING:
    from drctl.app.resume_check import Permitted
    from drctl.app.run_adapters import JournalTopicReader, LocalRuns
    from drctl.config.configuration import Config
    from drctl.config.link import Link
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
    execute: Annotated[
        bool,
        typer.Option(
            "--execute",
            help="Continue the run (with --abandon: end it). Without --execute, only its progress"
            " is printed.",
        ),
    ] = False
    yes: Yes = False
    answer: Answers = ()
    override: Annotated[
        tuple[str, ...],
        typer.Option(
            "--override",
            metavar="PRECHECK=REASON",
            help="Continue even though this precheck stopped the run. The reason is recorded in"
            " the journal. Repeatable.",
        ),
    ] = ()
    abandon: Annotated[
        str | None,
        typer.Option(
            "--abandon",
            metavar="REASON",
            help="End the run instead: nothing is rolled back, its changes are listed, and the link"
            " is unlocked.",
        ),
    ] = None


@takes_request
def resume(given: Resume) -> int:
    """Resume an interrupted run.

    Reads the journal of the run on the cluster, so it works from any host. Checks which
    changes were already made before it repeats any. Without --execute nothing is changed: the
    progress of the run is printed.

    Examples:
        drctl resume               # progress of the newest run
        drctl resume --execute     # continue it
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
        return _abandon_damaged(config, link, reader, given, damaged)
    if given.abandon is None:
        allowed = _must_be_resumable(config, link, state)
        _must_have_enabled_writes(state, overrides)
    if not given.execute:
        return _show(state, given)
    if given.abandon is not None:
        confirm(_confirmed(link, state), f"abandon run {state.run}", yes=given.yes)
        return show_end(config, *abandon_run(config, link, state.run, given.abandon.strip()))
    what = f"resume run {state.run}{discard_warning(state.plan)}"
    confirm(_confirmed(link, state), what, yes=given.yes)
    return _resume_run(config, link, state, given, overrides, allowed)


_WOULD_REMAIN = "if abandoned, these changes remain: {}; to abandon the run, add --execute"


def _abandon_damaged(
    config: "Config",
    link: "Link",
    reader: "JournalTopicReader | LocalRuns",
    given: Resume,
    damaged: DamagedJournal,
) -> int:
    """Show the readable part of a damaged run, and abandon it with --execute.

    Raises:
        DamagedJournal: without --abandon, or if the run was not named.
        Refused: it is in progress, another run is unfinished, or it was not confirmed.
        Unknown: the journal cannot be read or written.
    """
    run = given.run
    if given.abandon is None or run is None:
        raise damaged
    console().warn(damaged.message)
    lines, why = reader.lines(run), given.abandon.strip()
    state, read = run_state.read_prefix(lines, reader.intact_lines(run))
    remaining = {} if state is None else dict(remaining_changes(state, KINDS))
    if state is None or read < len(lines):
        remaining |= unknown_changes(state, read, lines[read:], KINDS)
        remaining[run_state.AFTER_DAMAGE] = _not_known(link, run, state, read)
    if not given.execute:
        console().note(_WOULD_REMAIN.format("; ".join(remaining.values())))
        if state is not None:
            return show_state(state)
        _show_abandoned(run, Status.UNKNOWN)
        return int(ExitCode.DONE)
    confirm(link.confirmed, f"abandon run {run}", yes=given.yes)
    held, at = run_journal.holder(run), datetime.now(UTC)
    closing = [
        entries.resumed(run_journal.who(held), at),
        entries.abandoned(why, remaining, at),
        entries.ended(Status.STOPPED.value, at),
    ]
    with run_journal.abandoned(config, link, held) as taken, stoppable():
        taken.append(closing)
    if state is None:
        _show_abandoned(run, Status.STOPPED, tuple(remaining.values()))
        return int(ExitCode.FOUND)
    state.take(closing)
    left = Outcome(Status.STOPPED, message=why, items=tuple(remaining.values()), abandoned=True)
    return show_end(config, state, left)


def _not_known(link: "Link", run: str, state: RunState | None, read: int) -> str:
    """What a damaged journal does not say, and how to find out."""
    if state is None:
        what = (
            f"not known: what run {run} changed, because its plan cannot be read; later commands"
            " ignore this run"
        )
        host = "the host that executed it"
    else:
        ended = f", where it ended ({state.status})" if state.status else ""
        what = (
            f"not known: what run {run} did after line {read} of its journal{ended}; it may also"
            " have rolled back a change that is listed here. Later commands of drctl use only the"
            " lines up to that one: they do not know whether it has moved clients since"
        )
        host = f"host {state.who.get('host', '?')}"
    checked = "the cluster" if link.is_inside else "both clusters"
    return (
        f"{what}. Check {checked} for ACLs that deny writes or reads (kafka-acls.sh --list),"
        " connectors that are stopped, committed offsets, and where clients are; compare with"
        f" `drctl journal {quote(run)} --local` on {host}"
    )


def _show_abandoned(run: str, status: Status, outstanding: Sequence[str] = ()) -> None:
    """Print the id and status of a run whose journal shows nothing else."""
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
    became = "was abandoned" if status is Status.STOPPED else "cannot be read"
    console().result(meant((f"run {run} {became}", *outstanding)), document)


def _confirmed(link: "Link", state: RunState) -> str:
    """The name to type for confirmation; for a run between two clusters, its target."""
    return link.confirmed if link.is_inside else state.plan.target


def _overrides(given: Resume) -> Mapping[str, str]:
    """The overrides, including those that only a resumed run needs."""
    if given.abandon is None:
        return checked_overrides(given.override, (*OVERRIDABLE, CHANGED_AFTER_FENCE))
    if (reason := given.abandon.strip()) in ("", PLACEHOLDER):
        raise UsageError(
            "--abandon needs a reason" + f", not the word {reason}" * bool(reason),
            'for example: --abandon "replaced by a new run"; the journal and the report keep it',
        )
    if given.override or given.answer:
        raise UsageError(
            "--abandon cannot be combined with --override or --answer: no further steps run"
        )
    return {}


def _show(state: RunState, given: Resume) -> int:
    code = show_state(state)
    if given.abandon is not None:
        left = list(remaining_changes(state, KINDS).values()) or ["nothing"]
        console().note(_WOULD_REMAIN.format("; ".join(left)))
    return code


def abandon_run(config: "Config", link: "Link", run: str, why: str) -> tuple[RunState, Outcome]:
    """Abandon a run: only its journal is changed."""
    held = run_journal.holder(run)
    with run_journal.resumed(config, link, held) as (journal, entries), stoppable() as clock:
        state = read_run(entries)
        return state, abandon(state, why, run_journal.who(held), journal, KINDS, clock)


def _run_state(reader: "JournalTopicReader | LocalRuns", run: str | None, link: "Link") -> RunState:
    if run is not None:
        state = _readable(reader, run)
        if state.status:
            raise Refused(
                f"run {run} has already ended: {state.status}", f"drctl report {quote(run)}"
            )
        return state
    runs = reader.runs()
    for name in [name for name in runs if not reader.is_abandoned(name)][:1]:
        newest = _readable(reader, name)
        if not newest.status:
            return newest
    hint = "`drctl journal` lists all runs"
    if runs:
        hint = f"`drctl report {quote(runs[0])}` says what to do after the newest run; {hint}"
    raise UsageError(f"link {link.name} has no unfinished run", hint)


def _readable(reader: "JournalTopicReader | LocalRuns", run: str) -> RunState:
    state = read_run(reader.entries(run))
    if not state.status:
        reader.must_be_signed(run)
    check_settings(state, KINDS)
    return state


def _must_be_of(state: RunState, link: "Link") -> None:
    plan = state.plan
    ends = (link.source, link.target)
    if is_failback(plan.steps):
        ends = (link.target, link.source)
    if (plan.source, plan.target) != ends:
        raise Refused(
            f"run {state.run} is from {plan.source} to {plan.target}, but link {link.name} in"
            f" drctl.yaml is from {link.source} to {link.target}",
            "use the drctl.yaml that started the run; if it is this one, the journal was altered:"
            f" abandon the run with `drctl resume {quote(state.run)} --abandon REASON`",
        )


def _must_be_resumable(config: "Config", link: "Link", state: RunState) -> "Permitted":
    _must_be_of(state, link)
    _must_be_known(state)
    return require_permitted(config, link, state)


def _must_be_known(state: RunState) -> None:
    plan = state.plan
    unknown = sorted({step.kind for step in plan.steps} - set(KINDS))
    if unknown:
        raise Refused(
            f"run {state.run} has steps that this drctl version does not support:"
            f" {', '.join(unknown)}",
            "use the version of drctl that started it, or abandon the run: --abandon REASON",
        )
    if broken := violations(plan, KINDS):
        raise Refused(
            f"the plan of run {state.run} is invalid: {'; '.join(broken)}",
            "use the version of drctl that started it; if it is this one, the journal was altered:"
            " check it with drctl report --verify, and abandon the run with --abandon REASON",
        )


def _must_have_enabled_writes(state: RunState, overrides: Mapping[str, str]) -> None:
    """Refuse this override before writes are enabled: until then, the run does not need it."""
    opens = {
        step.id for step in state.plan.steps if Trait.ENABLES_WRITES in KINDS[step.kind].traits
    }
    if CHANGED_AFTER_FENCE in overrides and not opens & {effect.step for effect in state.effects}:
        raise Refused(
            f"{CHANGED_AFTER_FENCE}: no override needed: run {state.run} has not enabled writes on"
            f" {state.plan.target} yet, and continues or rolls back without loss",
            f"drctl resume {quote(state.run)} --execute",
        )


def _operation_of(plan: "Plan") -> Operation:
    if plan.name in (REPAIR, RECONCILE_PLAN):
        return FIX if plan.name == REPAIR else RECONCILE
    if is_rebuild(plan.steps):
        return REBUILD
    return FAILBACK if is_failback(plan.steps) else OVER_LINK


def _resume_run(
    config: "Config",
    link: "Link",
    found: RunState,
    given: Resume,
    overrides: Mapping[str, str],
    allowed: "Permitted",
) -> int:
    run = found.run
    held = run_journal.holder(run)
    asked = prompts()
    asked.given = answers(found.plan, given.answer)
    operation = _operation_of(found.plan)
    with (
        operation.reader(config, link, asked, needs_no_source(found.plan)) as reader,
        run_journal.resumed(config, link, held) as (journal, entries),
        stoppable() as clock,
    ):
        state = found
        if list(entries) != found.entries:
            # The journal has changed since it was first read.
            state = read_run(entries)
            allowed = _must_be_resumable(config, link, state)
        require_differences(state, allowed, reader)
        writer = operation.writer(config, reader, run_journal.folder(config, run))
        with watched(state.plan, journal, clock, entries) as seen:
            kinds = permitted_kinds(state, allowed)
            engine = Execution(kinds, reader, writer, seen.journal, clock, seen.watcher)
            with resume_required(run, link):
                outcome = engine.resume(state, run_journal.who(held), overrides)
    return show_end(config, state, outcome)
