"""A running `spark-submit` and everything it starts here: followed, and ended without a trace."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

GENTLE_S = 20.0
"""How long an application may take to end by itself."""

_FAULT = re.compile(
    r"^(?:.*? ERROR .*?|Exception in thread \"[^\"]*\" |Caused by: |: |Error: )?"
    r"(?P<fault>(?:[a-z_$][\w$]*\.)+[A-Z]\w*(?:Exception|Error|Failure)\b.*)$"
    r"|^Error: (?!Could not create the Java|A fatal exception)(?P<said>.+)$|^(?P<heap>Invalid .+)$"
)
_PACKAGE = re.compile(r"^(?:[a-z_$][\w$]*\.)+(?=[A-Z])")
_LENGTH = 400
_TAIL = 200_000


class Application:
    """One submission.

    Args:
        process: leads a process group of its own.
        log: where it prints; None for stderr.
        begins: what the log held before.
    """

    def __init__(self, process: subprocess.Popen[bytes], log: Path | None, begins: int) -> None:
        self._process = process
        self._log = log
        self._begins = begins

    def ended_within(self, seconds: float) -> bool:
        """Whether it has ended, or does so by then."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self._process.returncode is not None

    @property
    def fault(self) -> str:
        """Why it ended, as far as what it printed says."""
        said = ""
        if self._log is not None:
            with self._log.open("rb") as file:
                file.seek(max(self._begins, file.seek(0, os.SEEK_END) - _TAIL))
                said = fault_in(file.read().decode("utf-8", "replace"))
        return said or f"spark-submit ended with code {self._process.returncode}"

    def end(self, patience: float) -> None:
        """Wait for its end; then make its whole group end."""
        try:
            if not self.ended_within(patience):
                self._signal(signal.SIGTERM)
                self.ended_within(GENTLE_S)
        finally:  # also when Ctrl-C is pressed again
            self._signal(signal.SIGKILL)
            self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # all of the group have ended
            os.killpg(self._process.pid, number)


@contextmanager
def started(
    words: Sequence[str], *, environ: Mapping[str, str], log: Path | None, folder: Path, umask: int
) -> Iterator[Application]:
    """The application while the block runs; nothing of it is left on this machine afterwards.

    It is asked to end by whoever started it; here it is only waited for, and not at all when the
    block ends in an error.

    Args:
        folder: where it starts and may leave what it likes.
        umask: for the files that it makes.
    """
    with open(log or os.devnull, "ab") as file:  # noqa: PTH123 (one of two kinds of place)
        begins = file.tell()
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=file if log else 2,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=environ,
            umask=umask,
            # Ctrl-C on the terminal is for drctl alone, which then ends all of it in order.
            start_new_session=True,
        )
    application = Application(process, log, begins)
    patience = 0.0
    try:
        yield application
        patience = GENTLE_S
    finally:
        application.end(patience)


def fault_in(text: str) -> str:
    """The innermost cause that a log names last; empty where it names none."""
    faults = [m for line in text.splitlines() if (m := _FAULT.match(line.rstrip()))]
    if not faults:
        return ""
    said = faults[-1][faults[-1].lastgroup or 0]
    return _PACKAGE.sub("", said)[:_LENGTH]
