"""The entry point: runs a command line and turns whatever ends it into output and an exit code."""

import contextlib
import io
import os
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
from drctl.cli.settings import error_document, placed, without_secrets
from drctl.config.secret import forget
from drctl.host import connections
from drctl.host.files import private_files
from drctl.model.errors import DrctlError, ExitCode, Interrupted, Unreachable, UsageError
from drctl.model.text import lines

COMPLETION_VARIABLE = "_DRCTL_COMPLETE"
_CONNECTION = "drctl.kafka.connection"
_SOON_S = 0.02
_NOT_WHOLE = "Input should be a valid integer, unable to parse string as an integer"
_NETWORK = "clusters {}: neither answers: look at this machine's own network first"
_CONTEXT = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(name="drctl", add_completion=False, rich_markup_mode=None)


@app.callback(cls=RootGroup, context_settings=_CONTEXT)
def drctl() -> None:
    """Kafka disaster recovery: checks, failover, failback, lost records.

    Without --execute no command changes a cluster: it prints the plan. `drctl help COMMAND`
    shows the options of a command.

    Examples:
        drctl init broker-a:9092 broker-b:9092   # create drctl.yaml
        drctl doctor                             # would a failover work?
        drctl failover                           # print the plan

    Exit codes:
        0: done, or nothing was found
        1: finished, but there is something to look at
        2: usage or configuration error
        3: refused; nothing was changed
        4: stopped part-way; `drctl resume` continues
        5: unknown; a cluster did not answer, or evidence is missing
        70: a bug in drctl
        130: interrupted
    """


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code of the contract."""
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
    """What a terminal has no character for is shown as an escape; nothing ends because of it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _swallowed(error: Exception) -> bool:
    """Whether a call into C lost its exception: confluent-kafka's, while it logs at Ctrl-C."""
    return isinstance(error, SystemError) and "NULL without setting an exc" in str(error)


def _interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C is the stated cause: Python itself wraps it in errors while it imports.

    What goes wrong after an interrupt, while things are closed, is a bug like any other.
    """
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__
    return error is not None


def program() -> NoReturn:
    """`drctl` as a process: it ends at once, whoever a cluster still keeps waiting.

    A thread that is left behind, by an interrupt or because its cluster does not answer, may be
    inside librdkafka: were the interpreter taken down under it, the process could crash.
    """
    # While a thread computes, one that has an answer from a cluster would wait 5 ms for its turn.
    sys.setswitchinterval(0.0005)
    code = run()
    if threading.active_count() == 1:
        sys.exit(code)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # nobody reads it any more
            stream.flush()
    os._exit(code)


def _called(words: list[str]) -> int:
    if COMPLETION_VARIABLE in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
    command = typer.main.get_command(app)
    code = command.main(words, "drctl", COMPLETION_VARIABLE, standalone_mode=False)
    if code == ExitCode.INTERRUPTED:
        raise Interrupted("interrupted")  # Typer makes Exit(130) of KeyboardInterrupt
    return int(code or 0)


def _usage(error: typer.TyperException) -> UsageError:
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "drctl"
    message = " ".join(error.format_message().split()).replace(_NOT_WHOLE, "must be a whole number")
    return UsageError(message, f"see `{path} --help`")


def _ended(error: DrctlError) -> int:
    """The error where the reader of the output looks for it: stdout in JSON, else stderr."""
    error.message = placed(error)
    if isinstance(error, Unreachable) and (mute := connections.silent_clusters()):
        error.message = f"{_NETWORK.format(' and '.join(mute))}; {error.message}"
    if given.options().output is given.Output.JSON and not console().answered:
        console().result("", error_document(error))
    else:
        console().error(without_secrets(error.message), without_secrets(error.hint))
    return int(error.exit_code)


class Bug(DrctlError):
    """drctl itself is wrong."""

    exit_code = ExitCode.BUG


def _bug(error: Exception) -> int:
    text = "".join(traceback.format_exception(error))
    console().error(lines(("a bug in drctl", *without_secrets(text).rstrip().split("\n"))))
    said = f"{type(error).__name__}: {error}"
    return _ended(Bug(said, "please report it with the lines above"))


def _logs(frame: FrameType | None) -> bool:
    """Whether somebody is in the middle of a line for the log."""
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if module == "logging" or (module == _CONNECTION and frame.f_code.co_name == "log"):
            return True
        frame = frame.f_back
    return False


@contextlib.contextmanager
def _signals() -> Iterator[list[int]]:
    """Being told to end is like Ctrl-C, losing the terminal too; what nohup ignores stays so.

    Yields:
        The signals that came.
    """
    received: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        if _logs(frame):
            # A client of Kafka may be what logs: called from C, it would lose the interrupt.
            threading.Timer(_SOON_S, again, (number,)).start()
            return
        received.append(number)
        raise KeyboardInterrupt

    def again(number: int) -> None:
        if signal.getsignal(number) is interrupt:  # else the command is over
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
