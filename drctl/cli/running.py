"""Shows a plan, or executes it after confirmation."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.app import run_adapters, run_journal
from drctl.app.link_reader import ClusterLinkReader
from drctl.app.operation import Operation, Prepared
from drctl.app.plan_files import require_plan, without_secrets, write_plan
from drctl.app.prechecks import known_overrides, run_prechecks, unfinished_run
from drctl.checks.bounded_query import BoundedQuery
from drctl.checks.causes import network_suspected
from drctl.cli import live_screen
from drctl.cli.console import console
from drctl.cli.grammar import PlanRequest, command_line, option_words
from drctl.cli.prompts import confirm, prompts
from drctl.cli.settings import configuration, neither_responds
from drctl.cli.terminal import one_line
from drctl.config.link import INSIDE
from drctl.engine.kind import Kind
from drctl.host.processes import reduced_gc
from drctl.model.errors import DrctlError, ExitCode, Refused, ResumeRequired, Unknown, Unreachable
from drctl.model.health import AuthenticationFailed
from drctl.model.loss import Mode
from drctl.model.moments import new_name
from drctl.model.plan import Plan
from drctl.model.text import quote

if TYPE_CHECKING:
    from drctl.app.link_writer import ClusterLinkWriter
    from drctl.app.notices import Prompts
    from drctl.app.run_adapters import JournalTopic
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.engine.kind import Outcome
    from drctl.engine.ports import Clock, Watcher
    from drctl.engine.run_state import RunState
    from drctl.model.journal import Entry, HeldJournal
    from drctl.plans.inputs import PlanInputs
    from drctl.views.plan_text import PlanDocument
    from drctl.views.run_data import ReportData
    from drctl.views.view import View

# A source that does not answer costs time from the first request on: imports that are not needed
# for that request come after it.

_BACKGROUND_S = 60.0

_ALL_OF_IT = "run it without --execute for details"

MakePlan = Callable[["Config", "PlanInputs"], Plan]

LookAndPlan = Callable[[ClusterLinkReader, Mapping[str, str]], Plan]
"""Reads the clusters and makes the plan, given the overrides."""


def needs_no_source(plan: Plan) -> bool:
    """Whether a plan, also that of a runbook, is for a lost source."""
    from drctl.views.plan_text import mode_of

    return mode_of(plan) is Mode.UNPLANNED


def _asked_by_preflight(plan: Plan) -> str:
    from drctl.steps.prechecks import Preflight
    from drctl.views.plan_text import mode_of

    return mode_of(plan).value if any(s.kind == Preflight.name for s in plan.steps) else ""


def _reader(config: "Config", link: "Link", asked: "Prompts", lost: bool) -> ClusterLinkReader:
    from drctl.config.reverse_link import reversed_link

    reverse, opposite = link.settings.replicator.reverse, None
    if reverse is not None and reverse.after_failover:
        opposite = ClusterLinkReader(config, reversed_link(link), run_prechecks, asked)
    return ClusterLinkReader(config, link, run_prechecks, asked, lost, opposite)


def _writer(config: "Config", reader: ClusterLinkReader, folder: Path) -> "ClusterLinkWriter":
    from drctl.app.link_writer import ClusterLinkWriter

    back = reader.opposite
    opposite = ClusterLinkWriter(config, back.link, folder, back.commands) if back else None
    given = folder, reader.commands, opposite, reader.elected, reader.committed
    return ClusterLinkWriter(config, reader.link, *given)


OVER_LINK = Operation(_reader, _writer, known_overrides, _asked_by_preflight)
"""From a link's source to its target."""


def plan_over_link(
    given: PlanRequest, words: Sequence[str], make: MakePlan, *, lost: bool = False
) -> int:
    """Make a plan for a link, and execute it with --execute: see `plan_or_execute`.

    Raises:
        Refused: there are blockers, or it was not confirmed.
    """

    def look(reader: ClusterLinkReader, overrides: Mapping[str, str]) -> Plan:
        from drctl.app import plan_inputs

        seen = plan_inputs.look_at(reader.link, reader, overrides)
        policy = reader.config.policy
        return make(reader.config, replace(seen, unproven_offsets=policy.unproven_offsets))

    return plan_or_execute(given, words, look, OVER_LINK, lost=lost)


def plan_or_execute(
    given: PlanRequest,
    words: Sequence[str],
    make: LookAndPlan,
    operation: Operation,
    *,
    lost: bool = False,
    draw: "Callable[[Prepared], View] | None" = None,
) -> int:
    """Make a plan, and execute it with --execute.

    Args:
        words: command line that makes the same plan again, without link and overrides.
        lost: whether the source is probably down, and gets little time to answer.

    Raises:
        Refused: there are blockers, or it was not confirmed.
    """
    given.check()
    if given.answer:
        from drctl.steps.questions import check_words

        check_words(given.answer)
    overrides = operation.overrides(given.override)
    config = configuration()
    link = config.link(given.link)
    asked = prompts()
    # Offsets of a thousand groups contain no cycles.
    with (
        _before_a_run(given.execute),
        reduced_gc(),
        operation.reader(config, link, asked, lost) as reader,
    ):
        probe = partial(reader.probe_clusters, abandoned=_gives_up_alive(overrides))
        met = BoundedQuery(probe, _BACKGROUND_S)
        if lost:
            reader.watch_source()
            if given.execute:
                reader.start_snapshot()
        # Meanwhile, read the target.
        journal = run_adapters.journal_topic(link)
        held = (
            BoundedQuery(partial(_refuse_while_held, link, journal), _BACKGROUND_S)
            if given.execute
            else None
        )
        # Imported while waiting for the source.
        from drctl.steps.questions import answers, unanswered

        if lost:
            BoundedQuery(partial(reader.findings, Mode.UNPLANNED.value), _BACKGROUND_S).answer()
        met.value()
        unknown = held.value() if held else None
        plan = without_secrets(make(reader, overrides))
        reader.lost = reader.lost or needs_no_source(plan)
        if given.execute:
            reader.prepare()
        asked.given = answers(plan, given.answer)
        prepared = _prepared(plan, link, reader, words, given.answer, operation)
        if network_suspected(prepared.findings) and (silent := neither_responds(link)):
            raise silent
        plan_files(plan, partial(_document, prepared), given)
        if not given.execute or not plan.steps:
            return _show(_with_facts(prepared, reader), operation, draw)
        _refuse(prepared, {} if asked.terminal else unanswered(plan, asked.given))
        if unknown is not None:
            raise unknown
        if not given.yes:
            _warn(plan, reader)
        confirm(
            plan.target, f"{plan.name} over link {link.name}{discard_warning(plan)}", yes=given.yes
        )
        _refuse_if_changed(plan, without_secrets(make(reader, overrides)))
        state, outcome, _ = execute_plan(config, operation, reader, plan, journal)
    return show_end(config, state, outcome)


def _gives_up_alive(overrides: Mapping[str, str]) -> bool:
    if not overrides:
        return False
    from drctl.checks.source import ALIVE

    return ALIVE in overrides


def _with_facts(prepared: Prepared, reader: ClusterLinkReader) -> Prepared:
    from drctl.app.plan_inputs import estimated, moved_connectors, resuming

    plan = prepared.plan
    return replace(
        prepared,
        loss=estimated(plan, reader),
        groups=resuming(plan, reader),
        source_connectors=moved_connectors(plan, reader),
    )


def _warn(plan: Plan, reader: ClusterLinkReader) -> None:
    from drctl.app.plan_inputs import warn_of_groups, warn_of_loss

    warn_of_loss(plan, reader)
    warn_of_groups(plan, reader)


def _refuse_while_held(link: "Link", journal: "JournalTopic") -> Unreachable | None:
    """Refuse if another run holds the link; return the error if its journal is unreachable.

    That error is raised later, after the blockers of the plan.
    """
    try:
        run_journal.refuse_while_held(link, journal)
        journal.warm_up()
    except AuthenticationFailed:
        raise
    except Unreachable as silent:
        return silent
    return None


def discard_warning(plan: Plan) -> str:
    """What a plan discards, for the prompt; empty if it discards nothing."""
    from drctl.steps.records import discards
    from drctl.views.text import plain

    discarded = discards(plan)
    if not discarded:
        return ""
    return f", and discards permanently: {plain(discarded)} (step find-missing counts them)"


def _prepared(
    plan: Plan,
    link: "Link",
    reader: ClusterLinkReader,
    words: Sequence[str],
    answers: tuple[str, ...],
    operation: Operation,
) -> Prepared:
    from drctl.checks.causes import UNFINISHED, causes_first
    from drctl.checks.diagnosis import blockers_among
    from drctl.engine.invariants import violations
    from drctl.steps.questions import asked_of
    from drctl.steps.registry import KINDS
    from drctl.views.plan_text import mode_of

    mode, asked = mode_of(plan), operation.asked(plan)
    reported = asked_of(plan, reader.findings(asked)) if asked else ()
    if not any(each.check == UNFINISHED for each in reported):
        reported = (*reported, *unfinished_run(link))
    findings = causes_first(reported, plan.overrides)
    failing = blockers_among(findings, plan.overrides, mode)
    passed = tuple(f"{name}={why}" for name, why in plan.overrides.items())
    more = option_words({"--override": passed, "--answer": answers, "--execute": True})
    execute = command_line([*words, "--link", plan.link, *more])
    return Prepared(plan, findings, violations(plan, KINDS), failing, execute)


def _refuse(prepared: Prepared, asked: Mapping[str, str]) -> None:
    if prepared.blockers:
        raise Refused("; ".join(prepared.blockers), "; ".join((*prepared.remedies, _ALL_OF_IT)))
    if asked:
        open_questions = "; ".join(f"{name}: {text}" for name, text in asked.items())
        raise Refused(
            f"unanswered questions: {open_questions}",
            " ".join(f"--answer {quote(name)}=yes" for name in asked),
        )


def _refuse_if_changed(plan: Plan, now: Plan) -> None:
    from drctl.model.plan import changes

    changed = changes(plan, now)
    if changed:
        raise Refused(
            f"the clusters have changed since the plan was made: {'; '.join(changed)}",
            "run the command again",
        )


def _document(prepared: Prepared) -> "PlanDocument":
    from drctl.views.plan_text import plan_document

    given = prepared.plan, prepared.findings, prepared.broken, prepared.execute
    return plan_document(
        *given,
        loss=prepared.loss,
        groups=prepared.groups,
        source_connectors=prepared.source_connectors,
    )


def plan_files(plan: Plan, document: "Callable[[], PlanDocument]", given: PlanRequest) -> None:
    """Write --plan-out, and refuse a plan that differs from --expect-plan."""
    if given.plan_out:
        write_plan(document().to_json(), given.plan_out)
    if given.expect_plan:
        require_plan(plan, given.expect_plan)


def _show(
    prepared: Prepared, operation: Operation, draw: "Callable[[Prepared], View] | None"
) -> int:
    from drctl.views.plan_text import plan_table

    given = prepared.plan, prepared.findings, prepared.broken, prepared.execute
    facts = prepared.loss, prepared.groups, prepared.source_connectors
    shown = draw(prepared) if draw else plan_table(*given, *facts)
    return console().result(shown, _document(prepared), operation.code(prepared))


def execute_plan(
    config: "Config",
    operation: Operation,
    reader: ClusterLinkReader,
    plan: Plan,
    topic: "JournalTopic | None" = None,
) -> "tuple[RunState, Outcome, str]":
    """Execute a plan; returns the run, its outcome and the place of its journal.

    Args:
        topic: the link's journal, if it was read already.
    """
    from drctl.cli.stopping import stoppable
    from drctl.engine.executing import Execution
    from drctl.steps.registry import KINDS

    held = run_journal.holder(new_name())
    with (
        run_journal.begun(config, reader.link, held, topic) as journal,
        stoppable() as clock,
        watched(plan, journal, clock) as seen,
    ):
        writer = operation.writer(config, reader, run_journal.folder(config, held.run))
        engine = Execution(KINDS, reader, writer, seen.journal, clock, seen.watcher)
        with resume_required(held.run, reader.link):
            state, outcome = engine.start(plan, run_journal.with_command_time(held))
    return state, outcome, journal.where


@contextmanager
def resume_required(run: str, link: "Link") -> Iterator[None]:
    """Turn errors with exit code 5 into one that says that the run must be resumed.

    Raises:
        ResumeRequired: the block, which executes a run, did not get an answer.
    """
    try:
        yield
    except Unknown as error:
        if error.exit_code is not ExitCode.UNKNOWN:
            raise
        over: tuple[str, ...] = () if link.is_inside else ("--link", link.name)
        if link.name.startswith(INSIDE):
            over = ("--cluster", link.name.removeprefix(INSIDE))
        resume = command_line(["resume", run, *over, "--execute"])
        raise ResumeRequired(run, error.message, resume) from error


@contextmanager
def _before_a_run(execute: bool) -> Iterator[None]:
    """Add to errors with exit code 5 that no run was started."""
    try:
        yield
    except Unknown as error:
        if not execute or isinstance(error, ResumeRequired) or error.exit_code is ExitCode.USAGE:
            raise
        silent = neither_responds() if type(error) is Unreachable else None
        found = silent or error
        found.hint = "; ".join(filter(None, ("no run was started", found.hint)))
        raise found from error


PAGE = "report.html"


def show_end(config: "Config", state: "RunState", outcome: "Outcome") -> int:
    """Print the result of a run; returns the exit code."""
    from drctl.views.run_json import RunDocument
    from drctl.views.run_report import run_table

    data = _data(config, state)
    page = _page(config, state.run, data)
    document = RunDocument.of(data, report=page)
    return console().result(run_table(data, page), document, outcome.exit_code)


def show_state(state: "RunState") -> int:
    """Print the progress of an unfinished run."""
    from drctl.views.run_json import RunDocument
    from drctl.views.run_reading import report_data
    from drctl.views.run_report import run_table

    data = report_data(state)
    return console().result(run_table(data, None), RunDocument.of(data))


def _data(config: "Config", state: "RunState") -> "ReportData":
    from drctl.engine import run_state
    from drctl.views.run_reading import report_data

    try:
        verdict = run_state.verify(state.run, run_adapters.run_files(config).lines(state.run))
    except DrctlError as error:
        console().warn(f"this host's copy of the journal: {error.message}")
        verdict = None
    return report_data(state, verdict)


def _page(config: "Config", run: str, data: "ReportData") -> str | None:
    from drctl.views.files import write_whole
    from drctl.views.run_page import render

    file = run_journal.folder(config, run) / PAGE
    try:
        write_whole(file, render(data))
    except (OSError, Unknown) as error:
        console().warn(f"the report could not be written: {error}")
        return None
    return str(file)


_EVERY_S = 5.0


@dataclass(slots=True)
class Lines:
    """Implements `drctl.engine.ports.Watcher`."""

    plan: Plan
    kinds: Mapping[str, Kind]
    _printed: float = field(default=0.0, init=False)

    def step(self, identity: str, number: int, total: int) -> None:
        """Print the start of a step."""
        self._printed = time.monotonic()
        step = self.plan.step(identity)
        title = self.kinds[step.kind].describe(step.settings).title
        console().progress(f"[{number}/{total}] {one_line(title)}")

    def waiting(self, identity: str, words: str, left_s: float) -> None:
        """Print what a step waits for, every few seconds."""
        if time.monotonic() - self._printed >= _EVERY_S:
            self._printed = time.monotonic()
            console().progress(f"      {one_line(words)} ({left_s:.0f} s left)")

    def ended(self, identity: str, words: str, figures: Mapping[str, float]) -> None:
        """Print the end of a step."""
        console().progress(f"      {one_line(words)} ({figures['seconds']:.1f} s)")


@dataclass(frozen=True, slots=True)
class Watched:
    """The watcher and the journal for the engine."""

    watcher: "Watcher"
    journal: "HeldJournal"


@contextmanager
def watched(
    plan: Plan, journal: "HeldJournal", clock: "Clock", entries: "Sequence[Entry]" = ()
) -> Iterator[Watched]:
    """Show a run while the block executes it.

    Args:
        entries: existing entries of its journal, if it is resumed.
    """
    from drctl.steps.registry import KINDS

    if not live_screen.wanted():
        yield Watched(Lines(plan, KINDS), journal)
        return
    from drctl.app.run_timeline import LiveTimeline, ObservedJournal
    from drctl.cli.run_picture import Picture

    timeline = LiveTimeline(plan, KINDS, journal.run, clock.monotonic, entries)

    def draw() -> Picture:
        return Picture(timeline.snapshot, clock.monotonic(), stopping=clock.stopping)

    with live_screen.shown(draw, timeline.progressed):
        yield Watched(timeline, ObservedJournal(journal, timeline.appended))
