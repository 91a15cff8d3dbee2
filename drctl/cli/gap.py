"""`drctl gap`: which records of the source are not on the target."""

from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from drctl.cli.durations import seconds
from drctl.cli.settings import configuration

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.config.link import Link


class Scope(StrEnum):
    """How much is read."""

    AUTO = "auto"
    FULL = "full"
    TAIL = "tail"
    ESTIMATE = "estimate"


def gap(
    link: Annotated[
        str | None, typer.Option(metavar="LINK", help="A link of drctl.yaml; else the only one.")
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC", help="Only this topic of the link; may be repeated."),
    ] = None,
    scope: Annotated[
        Scope,
        typer.Option(
            help="full: every record. tail: from where the replicator says it got. estimate: no"
            " record, only offsets. auto: full if --budget allows, else tail."
        ),
    ] = Scope.AUTO,
    ledger: Annotated[
        bool,
        typer.Option("--ledger", help="Keep what was read, and do not read it again next time."),
    ] = False,
    execute: Annotated[
        bool,
        typer.Option("--execute", help="Write the ledger, where it lives on a cluster."),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="With --execute: do not ask for the cluster's name.")
    ] = False,
    every: Annotated[
        str | None, typer.Option(metavar="TIME", help="Again and again, for example 5m.")
    ] = None,
    budget: Annotated[
        str, typer.Option(metavar="TIME", help="How long --scope auto may take to read all.")
    ] = "2m",
    submit: Annotated[
        bool,
        typer.Option("--submit", help="Run on the Spark cluster of drctl.yaml by spark-submit."),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for the result; else one in the state_dir."),
    ] = None,
) -> int:
    """Find every record that is not on the target.

    Reads both sides of a link and joins no group; writes nothing to a cluster but, with
    --execute, a ledger that lives there. Exit codes: 0 nothing is missing, 1 unreplicated records
    were found, 5 not everything could be compared; an estimate is no proof and ends with 5.
    """
    _check(scope, ledger, every, submit, out)
    _check_writing(ledger, execute, yes)
    config = configuration()
    topics = tuple(topic or ())
    if scope is Scope.ESTIMATE:
        from drctl.cli.gap_estimate import estimate

        return estimate(config, link, topics)
    from drctl.cli.gap_ledger import confirm_writing
    from drctl.cli.gap_run import GapOptions, GapRuns, repeat
    from drctl.cli.gap_show import show

    chosen = config.link(link)
    if ledger:
        confirm_writing(config, execute=execute, yes=yes)
    wanted = GapOptions(topics, scope.value, ledger, submit, seconds(budget), execute)
    with GapRuns(config, chosen, wanted) as runs:
        if every:
            repeat(runs, out or config.state_dir / "gap" / chosen.name, seconds(every), _wait)
        result = runs.run(out or _default_folder(config, chosen))
    show(result)
    return int(result.exit_code)


def _check(scope: Scope, ledger: bool, every: str | None, submit: bool, out: Path | None) -> None:
    from drctl.model.errors import UsageError

    if ledger and scope in (Scope.TAIL, Scope.ESTIMATE):
        raise UsageError(
            f"--ledger goes with --scope full or auto, not with {scope.value}",
            "with a ledger, full reads no more than the tail",
        )
    if scope is Scope.ESTIMATE and (every or submit or out):
        raise UsageError("--scope estimate needs no Spark, runs once, and leaves no files")
    if every and submit:
        raise UsageError("--every keeps one Spark session; --submit starts one for each run")


def _check_writing(ledger: bool, execute: bool, yes: bool) -> None:
    from drctl.model.errors import UsageError

    if execute and not ledger:
        raise UsageError("--execute goes with --ledger: nothing else of drctl gap writes")
    if yes and not execute:
        raise UsageError("--yes goes with --execute: nothing is asked otherwise")


def _wait(length: float) -> None:
    Event().wait(length)


def _default_folder(config: "Config", link: "Link") -> Path:
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    return config.state_dir / "gap" / f"{link.name}-{moment}"
