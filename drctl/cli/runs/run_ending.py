"""Says what a run came to, and leaves its page."""

from typing import TYPE_CHECKING

from drctl.cli.console import console
from drctl.cli.runs import plan_wiring, run_journal
from drctl.model.errors import DrctlError, Unknown

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.engine.outcome import Outcome
    from drctl.engine.story import Story
    from drctl.report.run_data import ReportData

PAGE = "report.html"


def show_end(config: "Config", story: "Story", outcome: "Outcome") -> int:
    """Print the run's end; the exit code."""
    from drctl.cli.runs.run_table import run_table
    from drctl.report.run_json import run_document

    data = _data(config, story)
    page = _page(config, story.run, data)
    console().result(lambda: run_table(data, page), run_document(data, page))
    return int(outcome.exit_code)


def show_state(story: "Story") -> int:
    """Print how far a run came that nobody goes on with yet."""
    from drctl.cli.runs.run_table import run_table
    from drctl.report.run_json import run_document
    from drctl.report.run_reading import report_data

    data = report_data(story)
    console().result(lambda: run_table(data, None), run_document(data))
    return 0


def _data(config: "Config", story: "Story") -> "ReportData":
    from drctl.engine import chain
    from drctl.report.run_reading import report_data

    try:
        verdict = chain.verify(story.run, plan_wiring.run_files(config).lines(story.run))
    except DrctlError as error:
        console().warn(f"this machine's copy of the journal: {error.message}")
        verdict = None
    return report_data(story, verdict)


def _page(config: "Config", run: str, data: "ReportData") -> str | None:
    from drctl.report.private_file import write_whole
    from drctl.report.run_page import render

    file = run_journal.folder(config, run) / PAGE
    try:
        write_whole(file, render(data))
    except (OSError, Unknown) as error:
        console().warn(f"the report could not be written: {error}")
        return None
    return str(file)
