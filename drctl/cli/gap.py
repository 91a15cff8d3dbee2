"""`drctl gap`: which records of the source are not on the target."""

from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drctl.cli import wiring
from drctl.cli.console import console
from drctl.cli.options import options
from drctl.cli.settings import configuration

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from rich.console import RenderableType

    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.gap.comparison import RecordComparer
    from drctl.model.gap import GapResult


class Scope(StrEnum):
    """How much is read."""

    AUTO = "auto"
    FULL = "full"


def gap(
    link: Annotated[
        str | None, typer.Option(metavar="LINK", help="A link of drctl.yaml; else the only one.")
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC", help="Only this topic of the link; may be repeated."),
    ] = None,
    scope: Annotated[
        Scope, typer.Option(help="How much is read: full, every record of both sides.")
    ] = Scope.AUTO,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for the result; else one in the state_dir."),
    ] = None,
) -> int:
    """Find every record that is not on the target.

    Reads both sides of a link, writes to neither, and joins no group. Exit codes: 0 nothing is
    missing, 1 unreplicated records were found, 5 not everything could be compared.
    """
    from drctl.report.gap_files import prepared, publish

    config = configuration()
    chosen = config.link(link)
    folder = out or _default_folder(config, chosen)
    with prepared(folder) as work:
        result = _analyse(config, chosen, tuple(topic or ()), folder, work)
        publish(result, work, folder)
    _show(result)
    return int(result.exit_code)


def _analyse(
    config: "Config", link: "Link", topics: tuple[str, ...], out: Path, work: Path
) -> "GapResult":
    from drctl.gap.analysis import GapAnalysis

    log = None if options().verbose else work / "spark.log"
    with (
        wiring.both_readers(link) as (source, target),
        console().task("looking at both clusters") as task,
    ):

        def progress(phase: str, done: int = 0, total: int = 0) -> None:
            task.update(done=done, total=total or None, description=phase)

        def open_comparer(offsets: int) -> "AbstractContextManager[RecordComparer]":
            return wiring.spark_comparer(config, link, work, log, progress, offsets)

        analysis = GapAnalysis(
            link, source, target, open_comparer, progress, lambda: datetime.now(UTC), str(out)
        )
        return analysis.run(topics)


def _default_folder(config: "Config", link: "Link") -> Path:
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    return config.state_dir / "gap" / f"{link.name}-{moment}"


def _show(result: "GapResult") -> None:
    def table() -> "RenderableType":
        from drctl.cli.gap_table import gap_table

        return gap_table(result)

    console().result(table, result.to_json())
