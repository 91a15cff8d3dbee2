"""A progress bar with the estimated end, drawn by Rich on the terminal behind stderr."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from drctl.cli.drawing import rich_console
from drctl.cli.options import GlobalOptions
from drctl.cli.terminal import one_line


class BarTask:
    """One bar; gone when its task is over."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def update(
        self, done: float | None = None, total: float | None = None, description: str | None = None
    ) -> None:
        """Draw it anew."""
        name = None if description is None else one_line(description)
        self._progress.update(self._task, completed=done, total=total, description=name)


@contextmanager
def bar(description: str, total: float | None, options: GlobalOptions) -> Iterator[BarTask]:
    """A bar while the block runs."""
    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=rich_console(sys.stderr, sys.stderr, options),
        transient=True,
    )
    with progress:
        yield BarTask(progress, progress.add_task(description, total=total))
