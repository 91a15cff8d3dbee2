"""`drctl drill`: rehearses a failover on a scratch topic, measures it and cleans up."""

import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drctl.app import adapters, drill_adapters, run_journal
from drctl.app.link_reader import Connectors
from drctl.cli import drill_stage
from drctl.cli.console import console
from drctl.cli.drill_stage import (
    Ending,
    Fault,
    Leftovers,
    Stage,
    Wanted,
    cleaning_up,
    injected,
    take_inventory,
)
from drctl.cli.grammar import (
    Execute,
    ExpectPlan,
    LinkName,
    PlanOut,
    Yes,
    check_confirming,
    command_line,
    seconds,
    takes_request,
    words_of,
)
from drctl.cli.prompts import confirm
from drctl.cli.settings import configuration
from drctl.cli.stopping import StoppableClock, stoppable
from drctl.drill.cleaning import Scratch, began, new_drill
from drctl.drill.planning import Coverage, Rehearsal, comparable, coverage
from drctl.drill.result import Limits, Result, StepTime, measured, read
from drctl.engine.kind import Facts
from drctl.model.errors import DrctlError, ExitCode, Unreachable, UsageError
from drctl.model.loss import Mode
from drctl.model.text import plural
from drctl.model.topology import Unavailable
from drctl.steps.commit_offsets import CommitOffsets
from drctl.views.drill_text import (
    DrillCleanDocument,
    DrillDocument,
    DrillHistoryDocument,
    DrillPlanDocument,
    PastDocument,
    clean_table,
    history_table,
    plan_table,
    result_table,
    scratch_document,
)

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.drill.cleaning import Ports
    from drctl.engine.run_state import RunState

PAGE = "history.html"
_LEAST_RECORDS = 20


@dataclass(frozen=True, kw_only=True)
class Drill:
    """Arguments and options."""

    link: LinkName = None
    records: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Number of records to write before the failover."),
    ] = 2000
    warm_up: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="How long the drill's applications run before the failover."
        ),
    ] = "5s"
    timeout: Annotated[
        str, typer.Option(metavar="TIME", help="Time limit for the drill, excluding cleanup.")
    ] = "15m"
    topic_prefix: Annotated[
        str,
        typer.Option(
            metavar="PREFIX", help="Prefix of the scratch topic and group.", show_default="none"
        ),
    ] = ""
    max_rto: Annotated[
        str | None, typer.Option(metavar="TIME", help="Exit with code 1 if the RTO is longer.")
    ] = None
    inject: Annotated[
        Fault | None, typer.Option(help="Fault to inject before the failover. Only in a lab.")
    ] = None
    lab: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="With --inject: folder of the lab.",
            show_default="the lab in your state directory",
        ),
    ] = None
    junit: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --execute: also write the result as JUnit XML."),
    ] = None
    execute: Execute = False
    yes: Yes = False
    plan_out: PlanOut = None
    expect_plan: ExpectPlan = None

    @property
    def wanted(self) -> Wanted:
        """The size of the drill."""
        work_s = seconds(self.warm_up, "--warm-up", zero=True)
        return Wanted(self.records, work_s, seconds(self.timeout, "--timeout"))

    @property
    def max_rto_s(self) -> float | None:
        """None if there is no limit."""
        return seconds(self.max_rto, "--max-rto", zero=True) if self.max_rto else None


@takes_request
def drill(given: Drill) -> int:
    """Rehearse a failover on a scratch topic and measure it.

    Runs the steps of a real failover for a topic and a group that only the drill uses, and
    measures RTO and RPO. Then deletes the topic and the group, and checks that nothing else
    changed. Without --execute nothing is created: the plan is printed.

    Examples:
        drctl drill
        drctl drill --execute --yes --max-rto 60s --junit drill.xml
        drctl drill --inject kill-source --execute       # in a lab

    Exit codes:
        0: within policy; everything was cleaned up
        1: a measurement violates the policy, something else changed, or the drill did not complete
        3: refused
        4: scratch topics or groups remain; run `drctl drill clean`
        5: no verdict: evidence is missing, or a cluster did not answer
        130: interrupted
    """
    check_confirming(given.execute, given.yes)
    wanted = _checked(given)
    config = configuration()
    link = config.link(given.link)
    scratch = Scratch(new_drill(datetime.now(UTC), secrets.token_hex(3)), given.topic_prefix)
    fault = injected(given.inject, link, given.lab) if given.inject else None
    if given.execute:
        drill_stage.revert_faults(config)
    run_journal.refuse_while_held(link, rehearsal=True)
    covered = _coverage(link)
    covered.require(scratch)
    with (
        drill_adapters.ports(link.source, link.source_config) as source,
        drill_adapters.ports(link.target, link.target_config) as target,
    ):
        principals, clock = _principals(link, scratch, source), StoppableClock()
        stage = Stage(config, link, scratch, wanted, principals, clock, source, target, fault)
        if fault is not None and fault.fault.hits_connectors:
            drill_adapters.source_connectors(link).require_running()
        left = drill_stage.leftovers(config, source, target, everything=False)
        for line in drill_stage.kept_lines(left.spared):
            console().note(line)
        if not given.execute:
            return _show(stage, _planned(stage, given), covered, left, given)
        if given.plan_out or given.expect_plan:
            _planned(stage, given)
        what = f"drill {scratch.drill} over link {link.name}, and cluster {link.source}"
        confirm(link.target, what, yes=given.yes)
        # From here on, Ctrl-C stops the drill instead of drctl.
        with stoppable() as stage.clock:
            return _execute(stage, left, given)


def _checked(given: Drill) -> Wanted:
    """Check the options; returns the size of the drill."""
    wanted, _ = given.wanted, given.max_rto_s
    if given.expect_plan:
        from drctl.app.plan_files import check_plan_file

        check_plan_file(given.expect_plan)
    if not re.fullmatch(r"[a-zA-Z0-9._-]{0,150}", given.topic_prefix):
        raise UsageError("--topic-prefix must be at most 150 letters, digits, '.', '_' or '-'")
    if wanted.records < _LEAST_RECORDS:
        raise UsageError(f"--records must be at least {_LEAST_RECORDS}")
    if wanted.budget_s > drill_stage.LONGEST.total_seconds() / 2:
        raise UsageError("--timeout must be at most 3h")
    if given.lab and not given.inject:
        raise UsageError("--lab requires --inject")
    return wanted


def _coverage(link: "Link") -> Coverage:
    """The topics that the source connector replicates; all topics if there is no connector.

    Raises:
        Unreachable: no worker answered.
    """
    name, connect = link.settings.replicator.connectors.source, adapters.connect_of(link)
    if connect is None or not name:
        return Coverage()
    return coverage(name, Connectors(connect).config(name))


def _principals(link: "Link", scratch: Scratch, source: "Ports") -> tuple[str, ...]:
    """The principals that the drill fences; none if the link has no ACL fence.

    Raises:
        Unreachable: the source did not answer.
    """
    rules = source.acls.acls()
    if link.settings.fence.method != "acl" or isinstance(rules, Unavailable) or not rules.enforced:
        return ()
    return (scratch.principal, *drill_adapters.own_principals(link))


def _planned(stage: Stage, given: Drill) -> Rehearsal:
    """Make the plan from the current state, and write or compare the plan files.

    Raises:
        Refused: the plan differs from --expect-plan.
        Unreachable: a cluster did not answer.
    """
    from drctl.app.plan_files import require_plan, write_plan
    from drctl.views.plan_text import plan_document

    with stage.reader() as reader:
        planned = stage.plan(reader)
    plan = comparable(planned.plan, stage.scratch)
    if given.plan_out:
        write_plan(plan_document(plan, (), (), _executing(stage, given)).to_json(), given.plan_out)
    if given.expect_plan:
        require_plan(plan, given.expect_plan)
    return planned


def _executing(stage: Stage, given: Drill) -> str:
    """The command line that executes this drill."""
    words = words_of(given, "records", "warm_up", "timeout", link=None)
    return command_line(["drill", *words, "--link", stage.link.name, "--execute"])


def _show(
    stage: Stage, planned: Rehearsal, covered: Coverage, left: Leftovers, given: Drill
) -> int:
    document = DrillPlanDocument.of(
        planned,
        inject=stage.fault.fault.value if stage.fault else None,
        scratch=scratch_document(planned, stage.scratch, stage.link.target_topic),
        seen_within_seconds=covered.refresh_s,
        leftovers=left.resources,
        execute=_executing(stage, given),
    )
    return console().result(plan_table(document), document)


def _execute(stage: Stage, left: Leftovers, given: Drill) -> int:
    if left.dead:
        console().progress(f"cleaning up after {plural(len(left.dead), 'interrupted drill')}")
        drill_stage.clean_up(stage.source, stage.target, left.dead, stage.clock.wait)
    before, ending = take_inventory(stage), Ending()
    place = drill_adapters.folder(stage.config) / stage.scratch.drill
    with drill_adapters.alive(place / drill_stage.ALIVE):
        fault = stage.fault.to_json() if stage.fault else None
        drill_stage.note(stage.config, stage.scratch.drill, stage.link, fault)
        start = stage.clock.monotonic()
        with cleaning_up(stage, before, ending):
            logs = stage.run()
            if logs is not None:
                facts = stage.state.facts_by_kind() if stage.state else Facts()
                ending.measures = measured(logs, facts.of(CommitOffsets()))
        result = _result(stage, ending, given, stage.clock.monotonic() - start)
        return _show_end(stage.config, result, given.junit)


def _result(stage: Stage, ending: Ending, given: Drill, seconds: float) -> Result:
    link, mode = stage.link, stage.mode
    rpo_s = stage.config.policy.max_rpo_seconds
    return Result(
        stage.scratch,
        link.name,
        link.source,
        link.target,
        link.target_topic(stage.scratch.topic),
        mode.value,
        stage.fault.fault.value if stage.fault else "",
        began(stage.scratch.drill),
        seconds,
        Limits(rpo_s, given.max_rto_s, planned=mode is Mode.PLANNED),
        ending.broke_off or stage.not_done,
        ending.unanswered or stage.outcome_unknown,
        ending.interrupted,
        ending.measures,
        _step_times(stage.state),
        stage.left_out,
        stage.takeovers,
        tuple(ending.deleted),
        tuple(ending.left),
        ending.compared,
        ending.not_compared,
        stage.journal,
    )


def _step_times(state: "RunState | None") -> tuple[StepTime, ...]:
    """The steps of the run, from its journal."""
    from drctl.views.run_json import detail
    from drctl.views.run_reading import report_data

    if state is None:
        return ()
    try:
        steps = report_data(state).steps
    except DrctlError as error:
        console().warn(f"the steps are unknown: {error.message}")
        return ()
    return tuple(StepTime(s.id, s.title, s.status.value, s.seconds, detail(s)) for s in steps)


def _show_end(config: "Config", result: "Result", junit: "Path | None") -> int:
    """Print the result of a drill; returns the exit code.

    Args:
        junit: file for the result as JUnit XML.

    Raises:
        Unknown: the history cannot be written.
    """
    drill_adapters.history(config).append(result.past().line())
    page = _write_page(config)
    if junit is not None:
        _write_junit(junit, result)
    document = DrillDocument.of(result, history=page)
    return console().result(result_table(result, page), document, result.exit_code)


def _write_junit(file: "Path", result: "Result") -> None:
    from drctl.views.files import write_whole
    from drctl.views.junit import drill_to_junit

    try:
        write_whole(file, drill_to_junit(result))
    except OSError as error:
        console().warn(f"{file} could not be written: {error.strerror}")


def clean(
    link: LinkName = None,
    execute: Annotated[
        bool,
        typer.Option(
            "--execute", help="Delete the leftovers. Without --execute, they are only listed."
        ),
    ] = False,
    yes: Yes = False,
) -> int:
    """Delete the leftovers of interrupted drills.

    Deletes scratch topics, groups and ACLs of drills that are no longer running, and reverts their
    faults. Without --execute they are only listed.

    Examples:
        drctl drill clean
        drctl drill clean --execute

    Exit codes:
        0: no leftovers, or all were deleted
        1: leftovers were found
        4: some leftovers could not be deleted
        5: a cluster did not answer
    """
    check_confirming(execute, yes)
    config = configuration()
    chosen = config.link(link)
    if execute:
        drill_stage.revert_faults(config)
    elif faults := drill_stage.active_faults(config):
        try:
            return _clean(config, chosen, faults, execute=False, yes=False)
        except Unreachable as silent:
            console().note(
                f"{silent.message}: other leftovers are listed once the fault is reverted"
            )
            return _show_cleaned(chosen.name, (), faults, done=False)
    return _clean(config, chosen, (), execute=execute, yes=yes)


def _clean(
    config: "Config", link: "Link", faults: Sequence[str], *, execute: bool, yes: bool
) -> int:
    with (
        drill_adapters.ports(link.source, link.source_config) as source,
        drill_adapters.ports(link.target, link.target_config) as target,
    ):
        found = drill_stage.leftovers(config, source, target, everything=True)
        for line in drill_stage.kept_lines(found.spared):
            console().note(line)
        if not execute or not found.dead:
            return _show_cleaned(link.name, (), (*faults, *found.resources), done=execute)
        left = plural(len(found.resources), "leftover")
        what = f"delete {left} of interrupted drills, also on cluster {link.source}"
        confirm(link.target, what, yes=yes)
        done = drill_stage.clean_up(source, target, found.dead, time.sleep)
        return _show_cleaned(link.name, done.gone, done.left, done=True)


def _show_cleaned(link: str, deleted: Sequence[str], left: Sequence[str], *, done: bool) -> int:
    execute = command_line(["drill", "clean", "--link", link, "--execute"])
    document = DrillCleanDocument(
        link=link, executed=done, deleted=tuple(deleted), left=tuple(left), execute=execute
    )
    code = ExitCode.STOPPED if done else ExitCode.FOUND
    return console().result(clean_table(document), document, code if left else ExitCode.DONE)


def show_history(link: LinkName = None) -> int:
    """List past drills.

    Shows the measured RTO and RPO of each drill on this host, oldest first.

    Examples:
        drctl drill history
        drctl drill history --link main --output json

    Exit codes:
        0: shown
        5: the history cannot be read
    """
    config = configuration()
    drills, damaged = read(drill_adapters.history(config).lines())
    if link is not None:
        name = config.link(link).name
        drills = tuple(past for past in drills if past.link == name)
    if damaged:
        console().warn(f"{plural(damaged, 'line')} of the history cannot be read and are skipped")
    page = _write_page(config)
    document = DrillHistoryDocument(
        drills=PastDocument.each(drills), damaged_lines=damaged, page=page
    )
    return console().result(history_table(drills, page), document)


def _write_page(config: "Config") -> str | None:
    """Write the page of all drills; None if that fails.

    Raises:
        Unknown: the history cannot be read.
    """
    from drctl.views.drill_page import render
    from drctl.views.files import write_whole

    drills, _ = read(drill_adapters.history(config).lines())
    if not drills:
        return None
    file = drill_adapters.folder(config) / PAGE
    try:
        write_whole(file, render(drills))
    except OSError as error:
        console().warn(f"the history page could not be written: {error.strerror}")
        return None
    return str(file)
