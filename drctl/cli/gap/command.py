"""`drctl gap`: which records of the source are not on the target."""

from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from drctl.cli.durations import seconds
from drctl.cli.settings import configuration
from drctl.model.gap import Engine

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.config.link import Link


class Scope(StrEnum):
    """How much is read."""

    AUTO = "auto"
    FULL = "full"
    TAIL = "tail"
    ESTIMATE = "estimate"


class Identity(StrEnum):
    """Who gave events an identity of their own."""

    DEBEZIUM = "debezium"


class View(StrEnum):
    """What is shown of the answer."""

    RECORDS = "records"
    TRUNCATION = "truncation"


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
    order: Annotated[
        bool,
        typer.Option(
            "--order", help="Look also whether replicated records kept their order; reads twice."
        ),
    ] = False,
    view: Annotated[
        View,
        typer.Option(
            help="truncation: what would be destroyed if the source were cut back or made anew."
        ),
    ] = View.RECORDS,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="With --view truncation: write these records to files first."
        ),
    ] = None,
    others: Annotated[
        bool,
        typer.Option("--others", help="With --export: superseded and expired records, too."),
    ] = False,
    identity: Annotated[
        Identity | None,
        typer.Option(
            help="Look for change events that are in a topic twice, by the place in the database's"
            " log; in one cluster, of topics named with --topic."
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With --identity: that cluster; else the link's source."),
    ] = None,
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
    settle: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="How long records may be on their way, for example 30s; else none."
        ),
    ] = None,
    engine: Annotated[
        Engine,
        typer.Option(
            help="What compares the records. auto: Spark from spark.from_offsets offsets on, drctl"
            " itself below. direct: drctl itself, without Java."
        ),
    ] = Engine.AUTO,
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
    from drctl.cli.gap.checks import Given, check

    topics, truncation = tuple(topic or ()), view is View.TRUNCATION
    events = None if identity is None else identity.value
    check(
        Given(
            topics,
            scope.value,
            ledger,
            execute,
            yes,
            every,
            submit,
            out,
            order,
            truncation,
            export,
            events,
            cluster,
            others,
            settle,
            engine,
        )
    )
    budget_s = seconds(budget, "--budget", zero=True)
    settle_s = seconds(settle, "--settle", zero=True) if settle else 0.0
    every_s = seconds(every, "--every") if every else 0.0
    config = configuration()
    if events:
        from drctl.cli.gap.identity import find_repeated
        from drctl.model.event_duplicates import EventFormat

        return find_repeated(config, link, cluster, topics, EventFormat(events))
    if scope is Scope.ESTIMATE:
        from drctl.cli.gap.estimate import estimate

        return estimate(config, link, topics)
    from drctl.cli.gap.ledger import confirm_writing
    from drctl.cli.gap.run import GapOptions, GapRuns
    from drctl.cli.gap.show import repeat, show

    chosen = config.link(link)
    if ledger:
        confirm_writing(config, execute=execute, yes=yes)
    wanted = GapOptions(
        topics,
        scope.value,
        ledger,
        submit,
        budget_s,
        execute,
        order=order,
        truncation=truncation,
        settle_s=settle_s,
        engine=engine,
    )
    folder = out or _default_folder(config, chosen)
    with GapRuns(config, chosen, wanted) as runs:
        if every:
            repeat(runs, out or config.state_dir / "gap" / chosen.name, every_s, _wait)
        result = runs.run(folder)
    if export:
        from drctl.cli.gap.export import exported

        result = exported(result, config, chosen, folder, export, others=others)
    show(result)
    return int(result.exit_code)


def _wait(length: float) -> None:
    Event().wait(length)


def _default_folder(config: "Config", link: "Link") -> Path:
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    return config.state_dir / "gap" / f"{link.name}-{moment}"
