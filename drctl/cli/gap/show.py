"""Shows a gap analysis, once or again and again."""

import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from drctl.cli.console import console
from drctl.cli.error_document import error_document
from drctl.cli.options import Output, options
from drctl.cli.settings import without_secrets

if TYPE_CHECKING:
    from rich.console import RenderableType

    from drctl.cli.gap.run import GapRuns
    from drctl.model.errors import DrctlError
    from drctl.model.gap import GapResult


def show(result: "GapResult", *, stream: bool = False) -> None:
    """The table, or the document; one line of it in a stream."""

    def table() -> "RenderableType":
        if result.truncation is not None:
            from drctl.cli.gap.truncation_table import truncation_table

            return truncation_table(result, result.truncation)
        from drctl.cli.gap.table import gap_table

        return gap_table(result)

    if stream and options().output is Output.JSON:
        console().stream(result.to_json())
    else:
        console().result(table, result.to_json())


def show_failure(error: "DrctlError") -> None:
    """A run that came to nothing, where others follow."""
    if options().output is Output.JSON:
        console().stream(error_document(error))
    else:
        console().error(without_secrets(error.message), without_secrets(error.hint))


def repeat(runs: "GapRuns", out: Path, seconds: float, wait: Callable[[float], object]) -> NoReturn:
    """Run again and again, until interrupted; a run that fails is reported and does not end it.

    Each run gets a folder of its own in `out`. Those of runs that found nothing do not stay.
    """
    from drctl.model.errors import DrctlError, ExitCode

    dull: Path | None = None
    while True:
        began = time.monotonic()
        folder = out / datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        try:
            result = runs.run(folder)
        except DrctlError as error:
            show_failure(error)
        else:
            show(result, stream=True)
            if dull:
                shutil.rmtree(dull, ignore_errors=True)
            dull = folder if result.exit_code is ExitCode.DONE else None
        wait(max(0.0, seconds - (time.monotonic() - began)))
