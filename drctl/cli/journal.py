"""`drctl journal` and `drctl report`: the entries of runs, and their reports."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drctl.app import run_adapters, run_journal
from drctl.cli.console import console
from drctl.cli.grammar import ClusterAlone, LinkName, Local, OfWorkers
from drctl.cli.options import Output, options
from drctl.cli.settings import configuration
from drctl.model.errors import ExitCode, UsageError
from drctl.model.journal import folder_of
from drctl.model.text import lines as meant

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.model.journal import JournalReader
    from drctl.views.run_data import ReportData

RunName = Annotated[
    str | None, typer.Argument(metavar="RUN", help="Run to show.", show_default="list all runs")
]


def journal(
    run: RunName = None,
    link: LinkName = None,
    cluster: ClusterAlone = None,
    connect: OfWorkers = None,
    local: Local = False,
) -> int:
    """List the runs of a link, or the entries of one run.

    Read-only.

    Examples:
        drctl journal
        drctl journal RUN
        drctl journal --local                  # the cluster is down

    Exit codes:
        0: shown
        5: the cluster does not answer; --local reads this host's copy
    """
    from drctl.views.journal_text import entry_lines, journal_document, run_lines

    config = configuration()
    chosen = run_journal.scope(config, run, link, cluster, connect)
    reader = _reader(config, chosen, run, local=local)
    with console().task("reading the journal"):
        document = journal_document(chosen.name, reader, run)
    lines = run_lines(document) if run is None else entry_lines(document)
    return console().result(meant(lines), document)


def _reader(config: "Config", link: "Link", run: str | None, *, local: bool) -> "JournalReader":
    """The reader of journals: of the cluster, or of this host's copy."""
    if local:
        return run_adapters.run_files(config)
    return run_journal.reading(config, link, run)


class Format(StrEnum):
    """Formats of reports."""

    HTML = "html"
    MD = "md"
    JSON = "json"
    JUNIT = "junit"


_SUFFIX = {Format.HTML: "html", Format.MD: "md", Format.JSON: "json", Format.JUNIT: "xml"}


def report(
    run: Annotated[
        str | None,
        typer.Argument(metavar="RUN", help="Run to report.", show_default="the newest run"),
    ] = None,
    link: LinkName = None,
    cluster: ClusterAlone = None,
    connect: OfWorkers = None,
    format: Annotated[Format, typer.Option(help="Format of the report.")] = Format.HTML,
    output_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File to write.",
            show_default="report-RUN.html, .md, .json or .xml",
        ),
    ] = None,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", help="Only check that the journal was not altered; write no report."
        ),
    ] = False,
    local: Local = False,
) -> int:
    """Write the report of a run.

    Reports the steps, the measured RTO and RPO, and outstanding actions. After an unplanned
    failover the number of unreplicated records is an estimate until `drctl gap` has compared the
    clusters.

    Examples:
        drctl report                              # report-RUN.html of the newest run
        drctl report RUN --format md --output-file incident.md
        drctl report RUN --verify                 # was the journal altered?

    Exit codes:
        0: written, or the journal is unaltered
        1: the journal was altered
        5: the cluster does not answer; --local reads this host's copy
    """
    from drctl.views.run_completion import completed, gap_results
    from drctl.views.run_json import ReportDocument
    from drctl.views.run_words import journal_in_words

    config = configuration()
    with console().task("reading the journal"):
        chosen = run_journal.scope(config, run, link, cluster, connect)
        data = _data(_reader(config, chosen, run, local=local), run)
        data = completed(data, gap_results(config.state_dir, data.until))
    changed = data.chain is not None and data.chain.damage is not None
    if verify:
        console().result(journal_in_words(data), ReportDocument.of(data))
    else:
        _write(data, format, output_file)
    return int(ExitCode.FOUND if changed else ExitCode.DONE)


def _data(reader: "JournalReader", run: str | None) -> "ReportData":
    from drctl.engine import run_state
    from drctl.views.run_reading import readable_run, report_data

    if run is None:
        runs = reader.runs()
        if not runs:
            raise UsageError(
                "there are no runs to report",
                "for the runs of another link, add --link; for runs on a single cluster, --cluster",
            )
        run = runs[0]
    lines = reader.lines(run)
    verdict = run_state.verify(run, lines)
    state = readable_run(run, lines, verdict)
    if state.partial and reader.is_abandoned(run):
        run_state.take_abandonment(state, lines)
    with run_state.decoding(run):
        return report_data(state, verdict)


def _write(data: "ReportData", form: Format, out: Path | None) -> None:
    from drctl.views.files import write_whole
    from drctl.views.run_json import ReportDocument

    file = out or folder_of(Path(), f"report-{data.run}.{_SUFFIX[form]}")
    try:
        write_whole(file, _text(data, form))
    except OSError as error:
        raise UsageError(
            f"{file} cannot be written: {error.strerror}", "choose --output-file"
        ) from error
    if options().output is Output.JSON:
        console().result("", ReportDocument.of(data))
    else:
        console().result(f"Report of run {data.run}: {file}", {})


def _text(data: "ReportData", form: Format) -> str:
    import json

    from drctl.views import junit, run_markdown, run_page
    from drctl.views.run_json import ReportDocument

    match form:
        case Format.HTML:
            return run_page.render(data)
        case Format.MD:
            return run_markdown.render(data)
        case Format.JUNIT:
            return junit.run_to_junit(data)
        case Format.JSON:
            return json.dumps(ReportDocument.of(data).to_json(), indent=2) + "\n"
