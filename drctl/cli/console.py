"""Prints results to stdout and everything else to stderr."""

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
from drctl.cli.terminal import fitted, is_terminal, red, shown, wants_color, yellow
from drctl.config.secret import is_secret_in, masked_document
from drctl.model.errors import ExitCode, Unknown

if TYPE_CHECKING:
    from drctl.app.notices import Task
    from drctl.model.document import Document
    from drctl.views.view import Drawable

    Result = Document | Mapping[str, Any] | Callable[[], Document]

_ENCODER = json.JSONEncoder(allow_nan=False)


class Console:
    """Prints according to the global options.

    Attributes:
        answered: whether a result was printed.
    """

    def __init__(self, options: GlobalOptions, answered: bool = False) -> None:
        self.options = options
        self.answered = answered
        self._warned: set[str] = set()

    @property
    def verbose(self) -> bool:
        """Whether --verbose was given."""
        return self.options.verbose

    def result(
        self, text: "str | Drawable", document: "Result", code: ExitCode = ExitCode.DONE
    ) -> int:
        """Print the result of a command, as text or as a document; returns the exit code.

        Args:
            document: the document, or a function that creates a large one.
        """
        self.answered = True
        if self.options.output is Output.JSON:
            # Python's encoder with indentation takes seconds for ten thousand partitions.
            indent = 2 if sys.stdout and is_terminal(sys.stdout) else None
            _write(sys.stdout, _hidden(document, indent))
        elif isinstance(text, str):
            _write(sys.stdout, shown(text))
        else:
            from drctl.cli.drawing import draw

            _write(sys.stdout, draw(text, sys.stdout, self.options))
        return int(code)

    def stream(self, *documents: "Result") -> None:
        """Print one line of JSON per document.

        Raises:
            BrokenPipeError: the reader of stdout is gone.
        """
        self.answered = True
        try:
            printed = (_hidden(document) + "\n" for document in documents)
            sys.stdout.write("".join(printed))
            sys.stdout.flush()
        except BrokenPipeError:
            # Otherwise flushing Python's buffer would fail again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise

    def progress(self, message: str) -> None:
        """Print progress."""
        if (screen := live_screen.current()) is not None:
            screen.note(message)
        elif not self.options.quiet:
            _write(sys.stderr, shown(message))

    def detail(self, message: str) -> None:
        """Print a detail with --verbose."""
        if self.options.verbose:
            _write(sys.stderr, shown(message))

    def note(self, message: str) -> None:
        """Print a note."""
        if not self.options.quiet:
            self._labelled("note", message, str)

    def warn(self, message: str) -> None:
        """Print a warning, also with --quiet."""
        self._labelled("warning", message, yellow)

    def warn_once(self, message: str) -> None:
        """Print a warning unless this command line has already printed it."""
        if message not in self._warned:
            self._warned.add(message)
            self.warn(message)

    def error(self, message: str, hint: str = "") -> None:
        """Print why the command failed."""
        self._labelled("error", message, red)
        if hint:
            self._labelled("hint", hint, str)

    def task(self, description: str, total: float | None = None) -> "AbstractContextManager[Task]":
        """Show progress of a longer operation."""
        from drctl.cli.progress import task

        return task(description, total, self.options)

    def _labelled(self, label: str, message: str, paint: Callable[[str], str]) -> None:
        if sys.stderr is None:
            return
        head = f"{label}:"
        text = fitted(f"{head} {shown(message)}", sys.stderr)
        if wants_color(sys.stderr, self.options):
            text = paint(head) + text.removeprefix(head)
        _write(sys.stderr, text)


_current: ContextVar[Console | None] = ContextVar("console", default=None)


def console() -> Console:
    """The console of this command line; call it in the thread that runs the command."""
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
    """JSON in ASCII: no character can control a terminal or break an encoding."""
    if indent is None:
        return _ENCODER.encode(document)
    return json.dumps(document, indent=indent, allow_nan=False)


def _hidden(result: "Result", indent: int | None = None) -> str:
    """The document as JSON, with secrets masked only if there are any: documents are large."""
    from drctl.model import document as documents

    document = documents.as_json(result() if callable(result) else result)
    text = as_json(document, indent)
    return as_json(masked_document(document), indent) if is_secret_in(text) else text


def _write(stream: TextIO | None, text: str) -> None:
    """Raises Unknown if a result cannot be written; failures on stderr are ignored."""
    try:
        if stream is None:
            raise OSError(errno.EBADF, "it is closed")
        stream.write(text if text.endswith("\n") else text + "\n")
        stream.flush()
    except OSError as error:
        if stream is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        # A closed pipe (`| head`) does not change the exit code.
        if stream is sys.stdout and not isinstance(error, BrokenPipeError):
            raise Unknown(f"the result cannot be written to stdout: {error.strerror}") from None
