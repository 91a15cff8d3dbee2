"""The entry point: runs a command line and turns any error into output and an exit code."""

import contextlib
import io
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import NoReturn

import typer

from drctl.cli import console as consoles
from drctl.cli import options as given
from drctl.cli.commands import RootGroup
from drctl.cli.console import console
from drctl.cli.settings import error_document, neither_responds, placed, without_secrets
from drctl.config.secret import forget
from drctl.host import connections
from drctl.host.files import private_files
from drctl.model.errors import DrctlError, ExitCode, Interrupted, Unreachable, UsageError
from drctl.model.text import lines

COMPLETION_VARIABLE = "_DRCTL_COMPLETE"
_CONNECTION = "drctl.kafka.connection"
_SOON_S = 0.02
_PLAINLY = (
    ("Value error, ", ""),
    (
        "Input should be a valid integer, unable to parse string as an integer",
        "must be a whole number",
    ),
    ("Input should be a valid number, unable to parse string as a number", "must be a number"),
    (r"Input should be greater than or equal to (\S+)", r"must be \1 or more"),
    (r"('.*') does not match the formats .*", r"\1 is not a UTC time such as 2026-11-24T18:30:00"),
)
"""Patterns in messages of Typer about wrong values, and what is printed instead."""

_CONTEXT = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(name="drctl", add_completion=False, rich_markup_mode=None)


@app.callback(cls=RootGroup, context_settings=_CONTEXT)
def drctl() -> None:
    """Kafka disaster recovery: checks, failover, failback, lost records.

    Without --execute, a command changes nothing on your clusters: it prints its plan. For the
    options of a command, run `drctl help COMMAND`.

    Examples:
        drctl init broker-a:9092 broker-b:9092   # create drctl.yaml
        drctl doctor                             # would a failover work?
        drctl failover                           # print the plan

    Exit codes:
        0: success, or nothing was found
        1: finished, but something needs attention
        2: usage or configuration error
        3: refused, or rolled back completely
        4: stopped part-way; `drctl report` says how to continue
        5: unknown: a cluster did not answer, or evidence is missing
        70: a bug in drctl
        130: interrupted
    """


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    _show_everything()
    with _signals() as received, private_files():
        try:
            given.begin(words)
            consoles.begin()
            forget()
            return _called(words)
        except DrctlError as error:
            return _ended(error)
        except typer.TyperException as error:
            return _ended(_usage(error))
        except (typer.Abort, KeyboardInterrupt, BrokenPipeError):
            return _ended(Interrupted("interrupted"))
        except Exception as error:
            hidden = _interrupted(error) or (received and _swallowed(error))
            return _ended(Interrupted("interrupted")) if hidden else _bug(error)
        finally:
            connections.end()


def _show_everything() -> None:
    """Escape characters that the terminal's encoding does not support, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _swallowed(error: Exception) -> bool:
    """Whether a C extension lost an exception, as confluent-kafka does if it logs during Ctrl-C."""
    return isinstance(error, SystemError) and "NULL without setting an exc" in str(error)


def _interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C is the cause of an error: Python wraps it in errors during imports.

    An error during cleanup after an interrupt is a bug like any other.
    """
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__
    return error is not None


def program() -> NoReturn:
    """Run `drctl` as a process; it exits without waiting for threads.

    A remaining thread, after an interrupt or because its cluster does not answer, may be inside
    librdkafka: shutting down the interpreter under it could crash the process.
    """
    # By default, a thread with an answer waits 5 ms for a busy thread.
    sys.setswitchinterval(0.0005)
    code = run()
    if threading.active_count() == 1:
        sys.exit(code)
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with contextlib.suppress(OSError):  # the reader is gone
            stream.flush()
    os._exit(code)


def _called(words: list[str]) -> int:
    if COMPLETION_VARIABLE in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
    command = typer.main.get_command(app)
    code = command.main(words, "drctl", COMPLETION_VARIABLE, standalone_mode=False)
    if code == ExitCode.INTERRUPTED:
        raise Interrupted("interrupted")  # Typer turns KeyboardInterrupt into Exit(130)
    return int(code or 0)


def _usage(error: typer.TyperException) -> UsageError:
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "drctl"
    message = " ".join(error.format_message().split())
    for pattern, plain in _PLAINLY:
        message = re.sub(pattern, plain, message)
    return UsageError(message, f"see `{path} --help`")


def _ended(error: DrctlError) -> int:
    """Print an error: to stdout with --output json, otherwise to stderr."""
    error.message = placed(error)
    if type(error) is Unreachable:
        error = neither_responds() or error
    if given.options().output is given.Output.JSON and not console().answered:
        console().result("", error_document(error))
    else:
        console().error(without_secrets(error.message), without_secrets(error.hint))
    return int(error.exit_code)


class Bug(DrctlError):
    """A bug in drctl."""

    exit_code = ExitCode.BUG


def _bug(error: Exception) -> int:
    text = "".join(traceback.format_exception(error))
    console().error(lines(("a bug in drctl", *without_secrets(text).rstrip().split("\n"))))
    message = f"{type(error).__name__}: {error}"
    return _ended(Bug(message, "report this bug, including the lines above"))


def _logs(frame: FrameType | None) -> bool:
    """Whether this thread is writing a log line."""
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if module == "logging" or (module == _CONNECTION and frame.f_code.co_name == "log"):
            return True
        frame = frame.f_back
    return False


@contextlib.contextmanager
def _signals() -> Iterator[list[int]]:
    """Treat SIGTERM and SIGHUP like Ctrl-C; signals that nohup ignores stay ignored.

    Yields:
        The received signals.
    """
    received: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        if _logs(frame):
            # A Kafka client may be logging: called from C, it would lose the interrupt.
            threading.Timer(_SOON_S, again, (number,)).start()
            return
        received.append(number)
        raise KeyboardInterrupt

    def again(number: int) -> None:
        if signal.getsignal(number) is interrupt:  # otherwise the command has ended
            os.kill(os.getpid(), number)

    names = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    ends = (signal.SIG_DFL, signal.default_int_handler)
    before = {s: signal.getsignal(s) for s in names if signal.getsignal(s) in ends}
    for name in before:
        signal.signal(name, interrupt)
    try:
        yield received
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
