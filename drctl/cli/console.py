"""The only place that prints: results on stdout, everything else on stderr."""

import errno
import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TextIO

from drctl.app import notices
from drctl.cli import live_screen
from drctl.cli.options import GlobalOptions, Output, options
from drctl.cli.terminal import is_terminal, red, shown, wants_color, yellow
from drctl.config.secret import is_secret_in, masked_document
from drctl.model.errors import ExitCode, Unknown

if TYPE_CHECKING:
    from drctl.app.notices import Task
    from drctl.model.document import Document
    from drctl.views.view import Drawable

    Result = Document | Mapping[str, Any] | Callable[[], Document]

_ENCODER = json.JSONEncoder(allow_nan=False)


class Console:
    """Prints as the global options say.

    Attributes:
        answered: whether a result is on stdout already.
    """

    def __init__(self, options: GlobalOptions, answered: bool = False) -> None:
        self.options = options
        self.answered = answered

    @property
    def verbose(self) -> bool:
        """Whether details are shown."""
        return self.options.verbose

    def result(
        self, text: "str | Drawable", document: "Result", code: ExitCode = ExitCode.DONE
    ) -> int:
        """What the command found, as text or as a view; returns the exit code.

        Args:
            document: or a function that makes it, where it is large.
        """
        self.answered = True
        if self.options.output is Output.JSON:
            # Indenting takes Python's slow encoder: seconds for ten thousand partitions.
            indent = 2 if sys.stdout and is_terminal(sys.stdout) else None
            _write(sys.stdout, _hidden(document, indent))
        elif isinstance(text, str):
            _write(sys.stdout, shown(text))
        else:
            from drctl.cli.drawing import draw

            _write(sys.stdout, draw(text, sys.stdout, self.options))
        return int(code)

    def stream(self, *documents: "Result") -> None:
        """A line of JSON for each.

        Raises:
            BrokenPipeError: nobody reads any more.
        """
        self.answered = True
        try:
            told = (_hidden(document) + "\n" for document in documents)
            sys.stdout.write("".join(told))
            sys.stdout.flush()
        except BrokenPipeError:
            # What is left in Python's buffer would fail again when the process ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise

    def progress(self, message: str) -> None:
        """What is going on."""
        if (screen := live_screen.current()) is not None:
            screen.note(message)
        elif not self.options.quiet:
            _write(sys.stderr, shown(message))

    def detail(self, message: str) -> None:
        """What only --verbose shows."""
        if self.options.verbose:
            _write(sys.stderr, shown(message))

    def note(self, message: str) -> None:
        """What is good to know."""
        if not self.options.quiet:
            self._labelled("note", message, str)

    def warn(self, message: str) -> None:
        """What should be looked at; shown even with --quiet."""
        self._labelled("warning", message, yellow)

    def error(self, message: str, hint: str = "") -> None:
        """Why the command ends."""
        self._labelled("error", message, red)
        if hint:
            self._labelled("hint", hint, str)

    def task(self, description: str, total: float | None = None) -> "AbstractContextManager[Task]":
        """Progress of something that takes a while, with its estimated end."""
        from drctl.cli.progress import task

        return task(description, total, self.options)

    def _labelled(self, label: str, message: str, paint: Callable[[str], str]) -> None:
        head = f"{label}:"
        if wants_color(sys.stderr, self.options):
            head = paint(head)
        _write(sys.stderr, f"{head} {shown(message)}")


_current: ContextVar[Console | None] = ContextVar("console", default=None)


def console() -> Console:
    """The console of this command line; ask in the thread that runs the command."""
    current = _current.get()
    if current is None or current.options != options():
        current = Console(options(), answered=bool(current and current.answered))
        _current.set(current)
    return current


notices.provide(console)


def begin() -> None:
    """Forget the console of an earlier command line."""
    _current.set(None)


def as_json(document: Any, indent: int | None = None) -> str:
    """ASCII only: no character of a name can act on a terminal or break an encoding."""
    if indent is None:
        return _ENCODER.encode(document)
    return json.dumps(document, indent=indent, allow_nan=False)


def _hidden(result: "Result", indent: int | None = None) -> str:
    """The document without secrets; mostly there are none, and it is large."""
    from drctl.model import document as documents

    document = documents.as_json(result() if callable(result) else result)
    text = as_json(document, indent)
    return as_json(masked_document(document), indent) if is_secret_in(text) else text


def _write(stream: TextIO | None, text: str) -> None:
    """Raises Unknown where a result could not be written; lost messages are only lost."""
    try:
        if stream is None:
            raise OSError(errno.EBADF, "it is closed")
        stream.write(text if text.endswith("\n") else text + "\n")
        stream.flush()
    except OSError as error:
        if stream is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        # A reader that has seen enough (`| head`) does not change how the command ends.
        if stream is sys.stdout and not isinstance(error, BrokenPipeError):
            raise Unknown(f"the result cannot be written to stdout: {error.strerror}") from None
