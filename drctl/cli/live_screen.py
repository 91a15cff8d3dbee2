"""The live view of a run on the terminal of stderr.

Only one view may draw on a terminal. While a view is shown, progress becomes a note inside it,
messages are printed above it, and prompts hide it.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

from drctl.cli.options import Output, options
from drctl.cli.terminal import is_terminal, wants_color

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

_PER_SECOND = 5


class Screen(Protocol):
    """A view that owns the terminal."""

    def note(self, message: str) -> None:
        """Show a note."""


class LiveScreen:
    """Redraws the result of a function regularly, in a thread."""

    def __init__(self, draw: "Callable[[], RenderableType]", note: Callable[[str], object]) -> None:
        self._draw = draw
        self._note = note
        self._live: Live | None = None

    def note(self, message: str) -> None:
        """Show a note."""
        self._note(message)

    def begin(self) -> None:
        """Start drawing."""
        from rich.live import Live

        from drctl.cli.drawing import rich_console

        terminal = rich_console(sys.stderr, sys.stderr, options())
        self._live = Live(
            get_renderable=self._draw,
            console=terminal,
            refresh_per_second=_PER_SECOND,
            redirect_stdout=False,
            vertical_overflow="crop",
        )
        # A lost terminal must not end a run.
        with suppress(OSError):
            self._live.start(refresh=True)

    def end(self, *, erase: bool) -> None:
        """Stop drawing.

        Args:
            erase: whether to remove the last picture.
        """
        live, self._live = self._live, None
        if live is not None:
            live.transient = erase
            with suppress(OSError):
                live.stop()


_current: ContextVar[LiveScreen | None] = ContextVar("live_screen", default=None)


def wanted() -> bool:
    """Whether stderr is an interactive terminal for text output."""
    given = options()
    return bool(
        not given.quiet
        and given.output is Output.TEXT
        and sys.stderr
        and wants_color(sys.stderr, given)
    )


def current() -> Screen | None:
    """The current view; call it in the thread that runs the command."""
    return _current.get()


@contextmanager
def shown(draw: "Callable[[], RenderableType]", note: Callable[[str], object]) -> Iterator[None]:
    """Show a view while the block runs.

    Args:
        draw: creates the picture; called in another thread.
        note: receives progress messages.
    """
    screen = LiveScreen(draw, note)
    token = _current.set(screen)
    screen.begin()
    try:
        yield
    finally:
        _current.reset(token)
        screen.end(erase=bool(sys.stdout and is_terminal(sys.stdout)))


@contextmanager
def paused() -> Iterator[None]:
    """Hide the view while a question is asked."""
    screen = _current.get()
    if screen is None:
        yield
        return
    screen.end(erase=False)
    token = _current.set(None)
    try:
        yield
    finally:
        _current.reset(token)
        screen.begin()
