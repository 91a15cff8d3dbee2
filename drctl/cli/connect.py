"""`drctl connect`: diagnoses and restarts connectors, and moves their source offsets."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drctl.app import connect_adapters, run_journal
from drctl.app.link_reader import ClusterLinkReader
from drctl.app.notices import NoPrompts
from drctl.app.plan_files import without_secrets
from drctl.cli.console import console
from drctl.cli.grammar import LinkName, PlanRequest, command_line, seconds, takes_request, words_of
from drctl.cli.prompts import confirm
from drctl.cli.running import OVER_LINK, execute_plan, plan_files
from drctl.cli.settings import configuration, configuration_if_any
from drctl.connectors import applying, recovery_plan
from drctl.connectors.applying import Export, Kept, OffsetsPlan, kept
from drctl.connectors.diagnosis import ConnectorHealth, chosen, status_document
from drctl.connectors.documents import (
    OffsetsPlanDocument,
    RecoverDocument,
    RecoverPlanDocument,
    RestartedDocument,
    offsets_result_document,
)
from drctl.connectors.recovery_plan import Backoff, RecoverPlan
from drctl.connectors.remedies import Remedy
from drctl.connectors.results import OffsetsResult, results_of
from drctl.connectors.retries import retry_settings
from drctl.engine.kind import Outcome, Status
from drctl.engine.run_state import RunState
from drctl.model.document import as_json
from drctl.model.errors import (
    ConfigError,
    DrctlError,
    ExitCode,
    Interrupted,
    Unknown,
    Unreachable,
    UsageError,
)
from drctl.model.plan import Plan, parse_overrides
from drctl.model.replication import Connector
from drctl.model.strict_json import read_json
from drctl.model.text import plural
from drctl.plans import connectors as plans
from drctl.steps.connectors import BEFORE
from drctl.views.connectors import (
    export_table,
    offsets_plan_table,
    offsets_result_table,
    recover_plan_table,
    recover_table,
    status_table,
)
from drctl.views.files import write_whole

if TYPE_CHECKING:
    from drctl.app.connect_adapters import ConnectCluster
    from drctl.connectors.results import RemedyResult, Restarted
    from drctl.model.replication import Workers

app = typer.Typer(
    help="""Diagnose, restart and migrate Kafka Connect connectors.

    Examples:
        drctl connect status
        drctl connect recover --execute
        drctl connect offsets export --output-file offsets.json
    """
)
offsets = typer.Typer(
    help="""Export, translate and apply the offsets of connectors.

    Examples:
        drctl connect offsets export --connect http://old:8083 --output-file offsets.json
        drctl connect offsets translate --from offsets.json --connect http://new:8083
        drctl connect offsets apply --from offsets.json --connect http://new:8083 --execute
    """
)
app.add_typer(offsets, name="offsets")

Urls = Annotated[
    list[str] | None,
    typer.Option(
        "--connect",
        metavar="URL",
        help="Worker URLs of one Connect cluster, separated by commas. Repeat for each Connect"
        " cluster.",
        show_default="all workers in drctl.yaml",
    ),
]
Url = Annotated[
    str | None,
    typer.Option(
        "--connect",
        metavar="URL",
        help="Worker URLs of the Connect cluster, separated by commas.",
        show_default="the workers of the link",
    ),
]
Names = Annotated[
    tuple[str, ...],
    typer.Option(
        "--connector",
        metavar="NAME",
        help="Only this connector. Repeatable.",
        show_default="all connectors",
    ),
]


@app.command()
def status(connect: Urls = None, link: LinkName = None) -> int:
    """Show all connectors, and why failed tasks failed.

    Also shows each connector's own settings for retries and backoff. Read-only.

    Examples:
        drctl connect status
        drctl connect status --connect http://connect-1:8083,http://connect-2:8083

    Exit codes:
        0: nothing failed
        1: a connector or task failed
        5: some workers did not answer
    """
    if connect:
        config = configuration_if_any()
        known = tuple(connect_adapters.typed_workers(text, config) for text in connect)
    else:
        known = connect_adapters.known_workers(configuration(), link)
    with console().task("reading the connectors"):
        clusters = [_health(cluster, retries=True) for cluster in known]
    found = any(each.findings or each.unassigned for each in clusters)
    code = ExitCode.FOUND if found else ExitCode.DONE
    if any(each.silent for each in clusters):
        code = ExitCode.UNKNOWN
    return console().result(status_table(clusters), status_document(clusters), code)


def _health(cluster: "ConnectCluster", *, retries: bool = False) -> ConnectorHealth:
    """The connectors of one Connect cluster, or why they could not be read."""
    where = cluster.place
    try:
        with connect_adapters.connect_reader(cluster) as workers:
            found = ConnectorHealth(where, tuple(workers.all().values()))
            settings = retry_settings(found.connectors, workers.plugin_defaults) if retries else {}
            return replace(found, retries=settings)
    except DrctlError as silent:
        return ConnectorHealth(where, (), silent.message)


@dataclass(frozen=True, kw_only=True)
class Recover(PlanRequest):
    """Arguments and options."""

    connect: Url = None
    link: LinkName = None
    connector: Names = ()
    remedy: Annotated[
        str | None,
        typer.Option(
            metavar="reset|recreate",
            help="For a source connector whose stored offsets point to data that no longer exists."
            " reset: delete its offsets. recreate: replace it with a new connector.",
        ),
    ] = None
    new_name: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="NAME",
            help="With --remedy recreate: name of the new connector.",
            show_default="NAME-2",
        ),
    ] = None
    initial_backoff: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="Wait before the second restart; doubles after each restart."
        ),
    ] = "1s"
    max_backoff: Annotated[
        str, typer.Option(metavar="TIME", help="Maximum wait between restarts.")
    ] = "120s"
    attempts: Annotated[int, typer.Option(metavar="N", help="Maximum number of restarts.")] = 16
    min_uptime: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="How long a restarted connector must stay RUNNING to count as recovered.",
        ),
    ] = "10s"


@app.command()
@takes_request
def recover(given: Recover) -> int:
    """Restart failed connectors and tasks, with exponential backoff.

    Refuses connectors whose stack trace shows that a restart does not help; once the cause is
    fixed, add --override cause=REASON. Without --execute nothing is restarted: the plan is printed.

    Examples:
        drctl connect recover
        drctl connect recover --connector shop-sink --execute
        drctl connect recover --connector shop-source --remedy reset --execute

    Exit codes:
        0: all connectors are running, or the plan has no blockers
        1: some connectors are not running
        3: refused, or rolled back completely
        4: the rollback is incomplete
        5: unknown: no answer; the message says whether a run must be resumed
        130: interrupted
    """
    initial = seconds(given.initial_backoff, "--initial-backoff")
    longest = seconds(given.max_backoff, "--max-backoff")
    backoff = Backoff(initial, longest, given.attempts)
    min_uptime_s = seconds(given.min_uptime, "--min-uptime", zero=True)
    given.check()
    overrides = parse_overrides(given.override, [recovery_plan.PRECHECK])
    wanted = _remedy(given)
    config = configuration()
    cluster = connect_adapters.only_workers(config, given.connect, given.link)
    over = connect_adapters.link_of(config, cluster)
    execute = _command(("connect", "recover"), given)
    with OVER_LINK.reader(config, over, NoPrompts(), False) as reader:
        with console().task("reading the connectors"):
            found = _recover_plan(given, wanted, cluster, overrides)
        steps = plans.recover(found, backoff, min_uptime_s, over.name, over.target)
        plan = _held(steps, execute, given)
        if not given.execute:
            return _show_recovery(found, backoff, execute)
        if not plan.steps:
            return _recovered(found, "", ExitCode.REFUSED if found.refused else ExitCode.DONE)
        confirm(found.workers, _recovery_in_words(found), yes=given.yes)
        state, outcome, where = execute_plan(config, OVER_LINK, reader, plan)
        if outcome.status is Status.INTERRUPTED:
            raise _interrupted(state, where, given.connect)
        return _ended(found, state, outcome, reader, str(run_journal.folder(config, state.run)))


def _command(words: tuple[str, ...], given: "Recover | Positions", **instead: object) -> str:
    """The command line that executes the plan."""
    connect = connect_adapters.retyped(given.connect) if given.connect else None
    return command_line([*words, *words_of(given, connect=connect, **instead), "--execute"])


def _held(plan: Plan, execute: str, given: PlanRequest) -> Plan:
    """Write --plan-out and check --expect-plan; returns the plan without secrets.

    Raises:
        Refused: the plan differs.
    """
    from drctl.views.plan_text import plan_document

    plan = without_secrets(plan)
    plan_files(plan, partial(plan_document, plan, (), (), execute), given)
    return plan


def _interrupted(state: RunState, where: str, connect: str | None) -> Interrupted:
    typed = ["--connect", connect_adapters.retyped(connect)] if connect else []
    resume = command_line(["resume", state.run, *typed])
    return Interrupted(f"interrupted: see {where} for what was done", resume)


def _remedy(given: Recover) -> Remedy | None:
    if given.remedy is None:
        if given.new_name:
            raise UsageError("--as requires --remedy recreate")
        return None
    if given.remedy not in list(Remedy):
        raise UsageError(
            f"--remedy: unknown remedy {given.remedy!r}", f"remedies: {', '.join(Remedy)}"
        )
    if len(given.connector) != 1:
        raise UsageError("--remedy requires exactly one connector", "add --connector NAME")
    if given.new_name and given.remedy == Remedy.RESET:
        raise UsageError("--as requires --remedy recreate")
    return Remedy(given.remedy)


def _recover_plan(
    given: Recover, remedy: Remedy | None, cluster: "ConnectCluster", overrides: dict[str, str]
) -> RecoverPlan:
    health = _health(cluster)
    if health.silent:
        raise Unreachable(health.silent)
    connectors = chosen(health, given.connector)
    if remedy is None:
        return recovery_plan.restart_plan(health, connectors, overrides)
    name = given.new_name or f"{connectors[0].name}-2"
    return recovery_plan.remedy_plan(health, connectors[0], remedy, name, overrides)


def _show_recovery(plan: RecoverPlan, backoff: Backoff, execute: str) -> int:
    return console().result(
        recover_plan_table(plan, backoff, execute),
        RecoverPlanDocument.of(plan, backoff=tuple(backoff.rows()), execute=execute),
        ExitCode.REFUSED if plan.refused else ExitCode.DONE,
    )


def _ended(
    found: RecoverPlan, state: RunState, outcome: Outcome, reader: ClusterLinkReader, folder: str
) -> int:
    """Print the result, from the journal and the workers."""
    from drctl.connectors.results import Ending

    if found.remedy is not None:
        remedy_result = connect_adapters.remedy_result(state, outcome, folder)
        return _recovered(found, state.run, remedy_result.code, (), remedy_result)
    try:
        endings = connect_adapters.restarted(found.restarted, state, reader)
    except Unreachable as silent:
        raise Unreachable(f"run {state.run} has ended; {silent.message}", silent.hint) from None
    runs = {each.ending for each in endings} == {Ending.RUNNING}
    code = ExitCode.DONE if runs and not found.refused else ExitCode.FOUND
    return _recovered(found, state.run, outcome.exit_code if not state.status else code, endings)


def _recovered(
    plan: RecoverPlan,
    run: str,
    code: ExitCode,
    attempts: "tuple[Restarted, ...]" = (),
    remedy_result: "RemedyResult | None" = None,
) -> int:
    connectors = RestartedDocument.each(attempts)
    given = {
        "run": run,
        "code": int(code),
        "connectors": connectors,
        "remedy_result": remedy_result,
    }
    document = RecoverDocument.of(plan, **given)
    return console().result(recover_table(plan, attempts, remedy_result), document, code)


def _recovery_in_words(plan: RecoverPlan) -> str:
    if plan.remedy is None:
        return f"restarts {', '.join(plan.restarted)}"
    (line,) = plan.lines
    return f"{'; '.join(line.steps)}. {line.consequence}"


@dataclass(frozen=True, kw_only=True)
class Exporting:
    """Arguments and options."""

    connect: Url = None
    link: LinkName = None
    connector: Names = ()
    output_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File to write.", show_default="a file in state_dir"),
    ] = None


@offsets.command()
@takes_request
def export(given: Exporting) -> int:
    """Save the offsets of connectors to a file.

    `drctl connect offsets apply --from FILE` writes them to another Connect cluster. Read-only.

    Examples:
        drctl connect offsets export
        drctl connect offsets export --connector shop-source --output-file shop.json

    Exit codes:
        0: saved
        5: not all offsets could be read
    """
    config = configuration()
    cluster = connect_adapters.only_workers(config, given.connect, given.link)
    now = datetime.now(UTC)
    with (
        connect_adapters.connect_reader(cluster) as workers,
        console().task("reading the connectors"),
    ):
        health = ConnectorHealth(cluster.place, tuple(workers.all().values()))
        named = chosen(health, given.connector) if given.connector else health.connectors
        connectors = tuple(_kept(each, workers) for each in named)
        head = cluster.place, workers.kafka_cluster_id(), now.isoformat(), connectors
    file = (
        given.output_file or config.state_dir / "connect" / f"offsets-{now:%Y%m%dT%H%M%S.%fZ}.json"
    )
    found = Export(*head, str(file))
    document = as_json(found)
    try:
        write_whole(file, json.dumps(document, indent=2) + "\n")
    except OSError as error:
        raise Unknown(
            f"{file} cannot be written: {error.strerror}", "choose --output-file"
        ) from None
    code = ExitCode.UNKNOWN if any(each.unread for each in connectors) else ExitCode.DONE
    return console().result(export_table(found, str(file)), document, code)


def _kept(connector: Connector, workers: "Workers") -> Kept:
    try:
        return kept(connector, workers.positions(connector.name))
    except DrctlError as silent:
        return kept(connector, (), silent.message)


@dataclass(frozen=True, kw_only=True)
class Positions(PlanRequest):
    """Arguments and options of `translate` and `apply`."""

    source: Annotated[
        Path,
        typer.Option(
            "--from",
            metavar="FILE",
            help="File of `drctl connect offsets export`, or a backup that `apply` saved.",
        ),
    ]
    connect: Url = None
    link: LinkName = None
    connector: Names = ()
    rename: Annotated[
        tuple[str, ...],
        typer.Option(
            "--rename",
            metavar="OLD=NEW",
            help="Connector OLD is named NEW on the new workers. Repeatable.",
        ),
    ] = ()


@dataclass(frozen=True, kw_only=True)
class Shown(PlanRequest):
    """The overrides of a command that writes no journal."""

    override: Annotated[
        tuple[str, ...],
        typer.Option(
            "--override",
            metavar="PRECHECK=REASON",
            help="Show the result as if this precheck were overridden. Repeatable.",
        ),
    ] = ()


@dataclass(frozen=True, kw_only=True)
class Translating(Positions, Shown):
    """Arguments and options of `translate`, which has no options for writing."""

    execute: bool = False
    yes: bool = False
    plan_out: Path | None = None
    expect_plan: Path | None = None


@offsets.command()
@takes_request
def translate(given: Translating) -> int:
    """Translate exported offsets for another Connect cluster, and show them.

    Read-only.

    Examples:
        drctl connect offsets translate --from offsets.json
        drctl connect offsets translate --from offsets.json --rename shop=shop-dr

    Exit codes:
        0: the offsets can be applied
        3: there are blockers
    """
    return _apply_offsets(given)


@offsets.command()
@takes_request
def apply(given: Positions) -> int:
    """Write exported offsets to stopped connectors.

    Saves the previous offsets to a backup file for `apply --from`. Without --execute nothing is
    written: the plan is printed.

    Examples:
        drctl connect offsets apply --from offsets.json
        drctl connect offsets apply --from offsets.json --rename shop=shop-dr --execute

    Exit codes:
        0: all offsets are written
        3: a precheck failed, or everything was rolled back
        4: some offsets were written
        5: a worker did not answer; `drctl resume` checks what was done
        130: interrupted
    """
    return _apply_offsets(given)


def _apply_offsets(given: Positions) -> int:
    """Make the plan, and execute it with --execute."""
    given.check()
    overrides = parse_overrides(given.override, applying.OVERRIDABLE)
    renamed = _renamed(given.rename)
    words = ("connect", "offsets", "apply")
    execute = _command(words, given)
    exported = _read(given.source)
    config = configuration()
    cluster = connect_adapters.only_workers(config, given.connect, given.link)
    over = connect_adapters.link_of(config, cluster)
    with OVER_LINK.reader(config, over, NoPrompts(), False) as reader:
        with console().task("reading the connectors"):
            found = applying.build_plan(
                exported, given.connector, renamed, reader.workers(), cluster.place, overrides
            )
        steps = plans.set_positions(found, over.name, over.target)
        plan = _held(steps, execute, given)
        if not given.execute:
            return _show_offsets(found, execute)
        if not plan.steps:
            return _show_result(OffsetsResult(found, results_of(found, {}, "")), "")
        names = {line.connector for line in found.writes}
        written = plural(len(found.writes), "position")
        confirm(found.workers, f"{written} of {plural(len(names), 'connector')}", yes=given.yes)
        state, outcome, where = execute_plan(config, OVER_LINK, reader, plan)
        if outcome.status is Status.INTERRUPTED:
            raise _interrupted(state, where, given.connect)
        before = str(run_journal.folder(config, state.run) / BEFORE)
        return _show_result(
            connect_adapters.written(found, state, outcome, reader, before),
            _command(words, given, source=before, connector=(), rename=()),
        )


def _read(file: Path) -> Export:
    try:
        return applying.read_export(read_json(file.read_text(encoding="utf-8")), str(file))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(
            f"{file}: {error}", "use a file of `drctl connect offsets export`"
        ) from None


def _renamed(given: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in given:
        old, _, new = (part.strip() for part in text.partition("="))
        if not old or not new:
            raise UsageError(f"--rename {text!r}: must be OLD=NEW")
        found[old] = new
    return found


def _show_offsets(plan: OffsetsPlan, execute: str) -> int:
    document = OffsetsPlanDocument.of(plan, execute=execute)
    code = ExitCode.REFUSED if plan.refused else ExitCode.DONE
    return console().result(offsets_plan_table(plan, execute), document, code)


def _show_result(result: OffsetsResult, undo: str) -> int:
    document = offsets_result_document(result, undo)
    return console().result(offsets_result_table(result, undo), document, result.exit_code)
