"""Types drctl's commands, and after a crash or refusal the commands that drctl suggests."""

import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from drctl.model.errors import ExitCode, Stopped
from tests.cli.conftest import DRCTL, clean_environment
from tests.soak.fault_injection import Injector, journal_of

_WAIT_S = 1.0
_LOOK_S = 0.1
_ARRIVED = (ExitCode.DONE, ExitCode.FOUND)
_ALLOWED = (*_ARRIVED, ExitCode.REFUSED, ExitCode.STOPPED, ExitCode.UNKNOWN, -signal.SIGKILL)
"""Exit codes that are correct under any fault: commands are valid, and only SIGKILL interrupts
them."""
_TRACEBACK = "Traceback (most recent call last)"


@dataclass(frozen=True, slots=True)
class Attempt:
    """A command line and its exit code; negative for a signal.

    Attributes:
        wrong: why no command may end like this; empty if it may.
    """

    words: tuple[str, ...]
    code: int
    seconds: float
    wrong: str = ""

    def __str__(self) -> str:
        return f"{self.words[0]} {'killed' if self.code == -signal.SIGKILL else self.code}"


def wrong_ending(code: int, stderr: str) -> str:
    """Return why drctl is at fault regardless of injected faults; empty if it need not be."""
    if _TRACEBACK in stderr:
        last_line = stderr.strip().splitlines()[-1].strip()
        return f"exit code {code} and a traceback: {last_line}"
    return "" if code in _ALLOWED else f"exit code {code}"


@dataclass(slots=True)
class Engineer:
    """Types commands until the applications are where they should be.

    Attributes:
        folder: has drctl.yaml and drctl's output.
        leg_s: time limit of a leg, however often drctl is killed.
        attempts: all commands in order.
    """

    folder: Path
    stopping: threading.Event
    leg_s: float = 600
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def runs(self) -> Path:
        """The folder of all runs."""
        return self.folder / ".drctl" / "runs"

    def lead(
        self, words: tuple[str, ...], injector: Injector, meanwhile: Callable[[], None]
    ) -> tuple[Attempt, ...]:
        """Complete a plan; after a refusal retry once all components are repaired.

        Args:
            meanwhile: called often while drctl runs.

        Raises:
            Stopped: the leg exceeded its time limit.
        """
        until = time.monotonic() + self.leg_s
        first = len(self.attempts)
        while True:
            chosen = ("resume",) if self._unfinished(injector) else words
            line = (*chosen, "--execute", "--yes")
            code, _ = self._written(line, injector, meanwhile, until)
            typed = len(self.attempts) - 1
            injector.mended()
            if code in _ARRIVED or self._ended(injector) == "done":
                return tuple(self.attempts[first:])
            if code == ExitCode.USAGE and (how := self._had_ended(injector, until)):
                self.attempts[typed] = replace(self.attempts[typed], wrong="")
                if how == "done":
                    return tuple(self.attempts[first:])
            if time.monotonic() > until:
                reported = ", ".join(map(str, self.attempts[first:]))
                raise Stopped(
                    f"drctl {words[0]} did not finish within {self.leg_s:.0f} s: {reported}"
                )
            if self.stopping.wait(_WAIT_S):
                raise KeyboardInterrupt

    def type(self, *words: str) -> tuple[int, str]:
        """Run a reading command; return its exit code and stdout."""
        return self._written(words, None, lambda: None, time.monotonic() + self.leg_s)

    def _unfinished(self, injector: Injector) -> bool:
        """Whether a run of this leg is unfinished."""
        run = injector.run()
        return bool(run and journal_of(run)) and not self._ended(injector)

    def _ended(self, injector: Injector) -> str:
        run = injector.run()
        entries = journal_of(run) if run else []
        last: dict[str, Any] = entries[-1] if entries else {}
        return str(last["status"]) if last.get("entry") == "ended" else ""

    def _had_ended(self, injector: Injector, until: float) -> str:
        """Return how the run of this leg ended; empty if it did not.

        A run whose drctl was killed between the last entry and the local copy need not be resumed.
        """
        run = injector.run()
        if run is None:
            return ""
        while (found := self.type("journal"))[0] != ExitCode.DONE:
            if time.monotonic() > until or self.stopping.wait(_WAIT_S):
                return ""
        runs = json.loads(found[1])["runs"]
        status = next((str(each["status"]) for each in runs if each["run"] == run.name), "")
        if status in ("", "not-ended"):
            return ""
        injector.known |= {run.name}
        return status

    def _written(
        self,
        words: tuple[str, ...],
        injector: Injector | None,
        meanwhile: Callable[[], None],
        until: float,
    ) -> tuple[int, str]:
        began = time.monotonic()
        number = len(list(self.folder.glob("drctl-*.json"))) + 1
        out = self.folder / f"drctl-{number:02}-{words[0]}.json"
        line = (str(DRCTL), "--config", str(self.folder / "drctl.yaml"), *words, "-o", "json")
        with out.open("wb") as stdout, out.with_suffix(".stderr").open("wb") as stderr:
            process = subprocess.Popen(
                line,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                cwd=self.folder,
                env=clean_environment(),
                start_new_session=True,  # Ctrl-C must reach only the soak test
            )
        try:
            if injector is not None:
                injector.process = process
            while process.poll() is None and time.monotonic() < until:
                meanwhile()
                if self.stopping.wait(_LOOK_S):
                    raise KeyboardInterrupt
        finally:
            if process.poll() is None:
                process.kill()
            code = process.wait(30)
        errors = out.with_suffix(".stderr").read_text(encoding="utf-8", errors="replace")
        wrong = wrong_ending(code, errors)
        self.attempts.append(Attempt(words, code, time.monotonic() - began, wrong))
        return code, out.read_text(encoding="utf-8")
