"""`drctl report`: a run to hand over."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drctl.cli.console import console
from drctl.cli.journal import reader_of
from drctl.cli.options import Output, options
from drctl.cli.settings import configuration
from drctl.cli.shared_options import LinkName, Local
from drctl.model.errors import ExitCode, UsageError
from drctl.model.runs import folder_of

if TYPE_CHECKING:
    from drctl.model.journal import JournalReader
    from drctl.report.run_data import ReportData


class Format(StrEnum):
    """What a report is written as."""

    HTML = "html"
    MD = "md"
    JSON = "json"
    JUNIT = "junit"


_SUFFIX = {Format.HTML: "html", Format.MD: "md", Format.JSON: "json", Format.JUNIT: "xml"}


def report(
    run: Annotated[str | None, typer.Argument(metavar="[RUN]", help="Else the newest.")] = None,
    link: LinkName = None,
    format: Annotated[Format, typer.Option(help="What to write it as.")] = Format.HTML,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Else report-RUN.html, .md, .json or .xml.")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Write nothing: is the journal as it was written?")
    ] = False,
    local: Local = False,
) -> int:
    """Write what a run did, what it measured and what is owed, from its journal.

    What an unplanned failover lost is exact once drctl gap has compared both clusters again.

    Exit codes: 0 written, or the journal is as it was written; 1 it was changed; 5 the cluster
    does not answer: --local reads the copy of this machine.
    """
    from drctl.report.run_completion import completed
    from drctl.report.run_gaps import gap_results

    config = configuration()
    with console().task("reading the journal"):
        data = _data(reader_of(config, config.link(link), local=local), run)
        data = completed(data, gap_results(config.state_dir, data.until))
    changed = data.chain is not None and data.chain.harm is not None
    if verify:
        _tell(data)
        return int(ExitCode.FOUND if changed else ExitCode.DONE)
    _write(data, format, out)
    return int(ExitCode.FOUND if changed else ExitCode.DONE)


def _data(reader: "JournalReader", run: str | None) -> "ReportData":
    from drctl.engine import chain
    from drctl.engine.story import read_story, understood
    from drctl.report.run_reading import report_data, sound_entries

    if run is None:
        runs = reader.runs()
        if not runs:
            raise UsageError("the link has no runs", "drctl failover begins one")
        run = runs[0]
    lines = reader.lines(run)
    verdict = chain.verify(run, lines)
    with understood(run):
        return report_data(read_story(sound_entries(run, lines, verdict)), verdict)


def _tell(data: "ReportData") -> None:
    from drctl.report.run_json import report_document
    from drctl.report.run_words import journal_in_words

    console().result(journal_in_words(data), report_document(data))


def _write(data: "ReportData", form: Format, out: Path | None) -> None:
    from drctl.report.private_file import write_whole
    from drctl.report.run_json import report_document

    file = out or folder_of(Path(), f"report-{data.run}.{_SUFFIX[form]}")
    try:
        write_whole(file, _text(data, form))
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}", "choose --out") from error
    if options().output is Output.JSON:
        console().result("", report_document(data))
    else:
        console().result(f"Report of run {data.run}: {file}", {})


def _text(data: "ReportData", form: Format) -> str:
    import json

    from drctl.report import run_junit, run_markdown, run_page
    from drctl.report.run_json import report_document

    match form:
        case Format.HTML:
            return run_page.render(data)
        case Format.MD:
            return run_markdown.render(data)
        case Format.JUNIT:
            return run_junit.render(data)
        case Format.JSON:
            return json.dumps(report_document(data), indent=2) + "\n"
