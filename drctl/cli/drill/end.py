"""Says what a drill came to, and keeps it: a line of the history, and the page of all."""

from typing import TYPE_CHECKING

from drctl.cli.console import console
from drctl.cli.drill import wiring as drill_wiring
from drctl.drill.history import read
from drctl.drill.result import StepTime
from drctl.model.errors import DrctlError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from drctl.config.configuration import Config
    from drctl.drill.result import Result
    from drctl.engine.story import Story
    from drctl.model.plan import Json

PAGE = "history.html"


def show_end(config: "Config", result: "Result", junit: "Path | None") -> int:
    """Print the end of a drill; the exit code.

    Args:
        junit: where it is written as JUnit XML, too.

    Raises:
        Unknown: the history cannot be kept.
    """
    from drctl.cli.drill.table import result_table
    from drctl.report.drill_document import result_document

    drill_wiring.history(config).append(result.past().line())
    page = write_page(config)
    if junit is not None:
        _write_junit(junit, result)
    document = result_document(result, page)
    console().result(lambda: result_table(result, page), document)
    return int(result.exit_code)


def write_page(config: "Config") -> str | None:
    """The page of all drills; None where it could not be written.

    Raises:
        Unknown: the history cannot be read.
    """
    from drctl.report.drill_page import render
    from drctl.report.private_file import write_whole

    drills, _ = read(drill_wiring.history(config).lines())
    if not drills:
        return None
    file = drill_wiring.folder(config) / PAGE
    try:
        write_whole(file, render(drills))
    except OSError as error:
        console().warn(f"the page could not be written: {error.strerror}")
        return None
    return str(file)


def _write_junit(file: "Path", result: "Result") -> None:
    from drctl.report.drill_junit import render
    from drctl.report.private_file import write_whole

    try:
        write_whole(file, render(result))
    except OSError as error:
        console().warn(f"{file} could not be written: {error.strerror}")


def step_times(story: "Story | None") -> tuple[StepTime, ...]:
    """The engine's steps, as its journal tells them."""
    from drctl.report.run_json import detail
    from drctl.report.run_reading import report_data

    if story is None:
        return ()
    try:
        steps = report_data(story).steps
    except DrctlError as error:
        console().warn(f"the steps are not known: {error.message}")
        return ()
    return tuple(StepTime(s.id, s.title, s.became.value, s.seconds, detail(s)) for s in steps)


def committed(story: "Story | None") -> "Mapping[str, object] | None":
    """What the engine said of the positions that it committed."""
    facts: Json | None = story.facts_by_kind().get("commit-offsets") if story else None
    return facts
