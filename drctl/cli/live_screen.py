"""The live view of a run on the terminal behind stderr; what others have to say goes through it.

Two who draw on one terminal destroy each other's lines: while this one does, progress becomes a
note inside it, messages stand above it, and it makes room while a person is asked.
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
    """Has the terminal for itself."""

    def note(self, message: str) -> None:
        """Something goes on."""


class LiveScreen:
    """Draws again and again what a function gives, in a thread of its own."""

    def __init__(self, draw: "Callable[[], RenderableType]", note: Callable[[str], object]) -> None:
        self._draw = draw
        self._note = note
        self._live: Live | None = None

    def note(self, message: str) -> None:
        """Something goes on."""
        self._note(message)

    def begin(self) -> None:
        """Draw from now on."""
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
        # A terminal that is gone must not end a run.
        with suppress(OSError):
            self._live.start(refresh=True)

    def end(self, *, erase: bool) -> None:
        """Draw no more, and leave the last picture or nothing.

        Args:
            erase: whether something follows that says the same.
        """
        live, self._live = self._live, None
        if live is not None:
            live.transient = erase
            with suppress(OSError):
                live.stop()


_current: ContextVar[LiveScreen | None] = ContextVar("live_screen", default=None)


def wanted() -> bool:
    """Whether a person looks at stderr, and at nothing but text."""
    given = options()
    return bool(
        not given.quiet
        and given.output is Output.TEXT
        and sys.stderr
        and wants_color(sys.stderr, given)
    )


def current() -> Screen | None:
    """The view that has the terminal now; ask in the thread that runs the command."""
    return _current.get()


@contextmanager
def shown(draw: "Callable[[], RenderableType]", note: Callable[[str], object]) -> Iterator[None]:
    """Show this while the block runs.

    Args:
        draw: makes the picture; called in another thread.
        note: gets what others would have drawn.
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
    """Leave the terminal to a person who is asked something."""
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
