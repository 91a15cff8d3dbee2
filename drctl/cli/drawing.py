"""Tables, panels and colors with Rich; imported only when something is drawn."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import StringIO
from typing import TYPE_CHECKING, TextIO

from rich.console import Console as RichConsole
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
from rich.segment import Segment
from rich.text import Text

from drctl.cli.options import GlobalOptions
from drctl.cli.terminal import is_terminal, one_line, wants_color
from drctl.config.secret import masked

if TYPE_CHECKING:
    from rich.console import ConsoleOptions, RenderableType

# Without a terminal, nothing is cut.
_WIDTH_OF_FILES = 200


class SafeConsole(RichConsole):
    """A Rich console that escapes control characters in whatever it draws."""

    def render(
        self, renderable: "RenderableType", options: "ConsoleOptions | None" = None
    ) -> Iterable[Segment]:
        """Escape control characters in what Rich renders, but not those that Rich adds.

        Secrets are masked first: a line break could split one.
        """
        if (
            isinstance(renderable, Text)
            and (hidden := masked(renderable.plain)) != renderable.plain
        ):
            renderable = Text(hidden, renderable.style, justify=renderable.justify)
        elif isinstance(renderable, str):
            renderable = masked(renderable)
        for segment in super().render(renderable, options):
            text, style, control = segment
            if control or text.isprintable() or text == "\n":
                yield segment
            else:
                safe = "\n".join(one_line(line) for line in text.split("\n"))
                yield Segment(safe, style)


def rich_console(stream: TextIO, shown_on: TextIO, options: GlobalOptions) -> RichConsole:
    """A console that writes to `stream`; its text is styled for `shown_on`."""
    terminal = is_terminal(shown_on)
    return SafeConsole(
        file=stream,
        force_terminal=terminal,
        no_color=not wants_color(shown_on, options),
        width=None if terminal else _WIDTH_OF_FILES,
        markup=False,
        highlight=False,
        emoji=False,
        soft_wrap=False,
    )


def draw(renderable: "RenderableType", stream: TextIO, options: GlobalOptions) -> str:
    """The renderable as text for the stream."""
    page = StringIO()
    rich_console(page, stream, options).print(renderable, crop=False)
    return page.getvalue()


class BarTask:
    """A progress bar that disappears when its task ends."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def update(
        self, done: float | None = None, total: float | None = None, description: str | None = None
    ) -> None:
        """Redraw the bar."""
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
