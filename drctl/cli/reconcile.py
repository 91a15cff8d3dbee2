"""`drctl reconcile`: handles the unreplicated records of a gap result."""

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drctl.app.plan_files import without_secrets
from drctl.app.reconcile import (
    RECONCILE,
    ReconcileOptions,
    checked,
    document_of,
    reader_of,
    settings_of,
)
from drctl.cli.console import console
from drctl.cli.grammar import LinkName, PlanRequest, command_line, takes_request, words_of
from drctl.cli.prompts import confirm
from drctl.cli.running import execute_plan, plan_files
from drctl.cli.settings import configuration
from drctl.engine.kind import Status
from drctl.model.errors import Interrupted, Refused, ResumeRequired, Unknown, UsageError
from drctl.model.plan import parse_overrides
from drctl.model.text import option, plural
from drctl.plans.single_step import reconcile_plan
from drctl.reconcile.documents import document
from drctl.reconcile.policy import Action
from drctl.reconcile.prechecks import OVERRIDABLE
from drctl.views.plan_text import plan_document
from drctl.views.reconcile import reconcile_table
from drctl.views.text import plain

if TYPE_CHECKING:
    from drctl.app.reconcile import ResultReader
    from drctl.model.plan import Plan
    from drctl.reconcile.planning import ReconcilePlan
    from drctl.reconcile.results import ReconcileResult


@dataclass(frozen=True, kw_only=True)
class Reconcile(PlanRequest):
    """Arguments and options."""

    directory: Annotated[
        Path | None,
        typer.Argument(
            metavar="DIR",
            help="Result folder of `drctl gap`.",
            show_default="the newest result of the link",
        ),
    ] = None
    link: LinkName = None
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="copy|quarantine|export|discard",
            help="What to do with unreplicated records of all topics, or of those given with"
            " --topic. Required, unless each --topic has a POLICY. discard requires --topic.",
        ),
    ] = None
    topic: Annotated[
        tuple[str, ...],
        typer.Option(
            metavar="TOPIC[=POLICY]",
            help="Only this topic, by its exact name; POLICY overrides --policy. Repeatable.",
            show_default="all topics",
        ),
    ] = ()
    conflicting: Annotated[
        Action,
        typer.Option(help="What to do with records whose key has a newer record on the target."),
    ] = Action.REFUSE
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder for exported records.", show_default="a folder in state_dir"
        ),
    ] = None


@takes_request
def reconcile(given: Reconcile) -> int:
    """Copy, quarantine, export or discard unreplicated records.

    copy appends the records to their topics on the target. quarantine appends them to
    __drctl_quarantine.TOPIC there, which applications do not read. export writes them to files.
    discard leaves them on the source and records the decision; it requires --topic. Each record is
    written exactly once and in source order, even if interrupted and resumed. Without --execute
    nothing is written: the plan is printed.

    Examples:
        drctl reconcile --policy copy                        # print the plan
        drctl reconcile --policy copy --conflicting quarantine --execute
        drctl reconcile --policy export --out lost-records --execute

    Exit codes:
        0: done
        1: done, but some records no longer exist on the source
        3: refused; nothing was written
        4: stopped part-way, or some records were refused
        5: unknown: no answer; the message says whether a run must be resumed
        130: interrupted
    """
    from drctl.reconcile.results import ReconcileResult, planned

    folder = folder_of(given.directory, given.link)
    given.check()
    overrides = parse_overrides(given.override, OVERRIDABLE)
    words = ["reconcile", str(folder), *words_of(given, link=None), "--execute"]
    wanted = given.policy, given.topic, given.conflicting, given.out, overrides
    asked = ReconcileOptions(folder, *wanted)
    of_link, again = checked(asked), command_line(words)
    config = configuration()
    with reader_of(config, config.link(of_link)) as reader:
        found = reader.found(asked)
        plan = without_secrets(reconcile_plan(reader.link, found.plan, settings_of(found)))
        plan_files(plan, partial(plan_document, plan, (), (), again), given)
        if not given.execute or not plan.steps:
            result = ReconcileResult(found.plan, results=planned(found.plan))
        else:
            confirm_plan(found.plan, yes=given.yes)
            result, again = _execute(reader, plan, again)
    return _show(result, folder, again)


def _execute(reader: "ResultReader", plan: "Plan", again: str) -> "tuple[ReconcileResult, str]":
    """Execute the plan; returns the result and the command line that continues.

    Raises:
        Refused: the clusters changed since the plan was made, or another run holds the link.
        Unknown: a cluster did not answer before anything was written.
        Interrupted: Ctrl-C; `drctl resume` continues.
    """
    state, outcome, where = execute_plan(reader.config, RECONCILE, reader, plan)
    resume = command_line(["resume", state.run, "--link", plan.link])
    if outcome.status is Status.INTERRUPTED:
        raise Interrupted(f"interrupted: committed records are kept; see {where}", resume)
    if reader.result is None:
        if outcome.status is Status.UNKNOWN and not state.status:
            raise ResumeRequired(state.run, outcome.message, resume)
        kind = Unknown if outcome.status is Status.UNKNOWN else Refused
        raise kind(outcome.message, "" if state.status else resume)
    return replace(reader.result, run=state.run), again if state.status else resume


def _show(result: "ReconcileResult", folder: Path, execute: str) -> int:
    found = document(result, str(folder), execute)
    return console().result(reconcile_table(result, execute), found, result.exit_code)


def confirm_plan(plan: "ReconcilePlan", *, yes: bool) -> None:
    """Ask for confirmation; an export alone writes to no cluster and needs none.

    Raises:
        Refused: it was not confirmed.
    """
    if plan.recorded:
        confirm(plan.gap.target, in_words(plan), yes=yes)


def in_words(plan: "ReconcilePlan") -> str:
    """`copies 12 records to orders, discards 3 records of audit permanently`."""
    counts: Counter[tuple[str, str]] = Counter()
    for line in plan.recorded:
        named = f"to {line.to}" if line.to else f"of {line.record_set.place.topic} permanently"
        counts[line.action.value, plain(named)] += line.due.records
    return ", ".join(
        f"{_VERBS[action]} {plural(count, 'record')} {named}"
        for (action, named), count in counts.items()
    )


_VERBS = {"copy": "copies", "quarantine": "copies", "discard": "discards"}


def folder_of(given: Path | None, link: str | None) -> Path:
    """The folder of the result: the given one, or the newest of the link.

    Raises:
        UsageError: the link has no result on this host, or the result is of another link.
    """
    from drctl.app import reconcile_adapters
    from drctl.reconcile.gap_result import read_gap

    if given is not None:
        if link is not None and (found := read_gap(document_of(given), str(given)).link) != link:
            raise UsageError(f"{given} is a result of link {found}, not of link {link}")
        return given
    config = configuration()
    name = config.link(link).name
    newest = reconcile_adapters.newest(config.state_dir, name)
    if newest is None:
        raise UsageError(
            f"link {name} has no result of `drctl gap` in {config.state_dir}",
            f"run `drctl gap {option('--link', name)}`, or give the result folder as DIR",
        )
    return newest
