"""Who types drctl's commands, and after a crash or a refusal what drctl says is to be typed."""

import json
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drctl.model.errors import ExitCode, Stopped
from tests.cli.conftest import DRCTL, clean_environment
from tests.soak.striking import Striker, journal_of

_WAIT_S = 1.0
_ARRIVED = (ExitCode.DONE, ExitCode.FOUND)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A command line and how it ended; below 0 it was killed."""

    words: tuple[str, ...]
    code: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.words[0]} {'killed' if self.code < 0 else self.code}"


@dataclass(slots=True)
class Engineer:
    """Types commands until the applications are where they are wanted.

    Attributes:
        folder: with drctl.yaml; what drctl prints is kept there, too.
        leg_s: a leg has to be over by then, however often drctl is killed.
        attempts: all of them, in order.
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
        self, words: tuple[str, ...], striker: Striker, meanwhile: Callable[[], None]
    ) -> tuple[Attempt, ...]:
        """Carry a plan out to its end; what is refused is tried again once all parts are mended.

        Args:
            meanwhile: called often while drctl runs.

        Raises:
            Stopped: the leg is not over in time.
        """
        until = time.monotonic() + self.leg_s
        first = len(self.attempts)
        while True:
            chosen = ("resume",) if self._goes_on(striker) else words
            code = self._type((*chosen, "--execute", "--yes"), striker, meanwhile, until)
            striker.mended()
            if code in _ARRIVED or self._ended(striker) == "done":
                return tuple(self.attempts[first:])
            if code == ExitCode.USAGE and self._was_done(striker):
                return tuple(self.attempts[first:])
            if time.monotonic() > until:
                told = ", ".join(map(str, self.attempts[first:]))
                raise Stopped(f"drctl {words[0]} did not get there in {self.leg_s:.0f} s: {told}")
            if self.stopping.wait(_WAIT_S):
                raise KeyboardInterrupt

    def type(self, *words: str) -> tuple[int, str]:
        """A command that only looks; its exit code, and what is on stdout."""
        return self._written(words, None, lambda: None, time.monotonic() + self.leg_s)

    def _goes_on(self, striker: Striker) -> bool:
        """Whether a run of this leg has begun, and not ended."""
        run = striker.run()
        return bool(run and journal_of(run)) and not self._ended(striker)

    def _ended(self, striker: Striker) -> str:
        run = striker.run()
        entries = journal_of(run) if run else []
        last: dict[str, Any] = entries[-1] if entries else {}
        return str(last["status"]) if last.get("entry") == "ended" else ""

    def _was_done(self, striker: Striker) -> bool:
        """Nothing is to be gone on with: killed behind the last entry, before its copy here."""
        run = striker.run()
        found = json.loads(self.type("journal")[1])["runs"]
        status = next((each["status"] for each in found if run and each["run"] == run.name), "")
        if run:
            striker.known |= {run.name}
        return bool(status == "done")

    def _type(
        self,
        words: tuple[str, ...],
        striker: Striker,
        meanwhile: Callable[[], None],
        until: float,
    ) -> int:
        began = time.monotonic()
        code, _ = self._written(words, striker, meanwhile, until)
        self.attempts.append(Attempt(words, code, time.monotonic() - began))
        return code

    def _written(
        self,
        words: tuple[str, ...],
        striker: Striker | None,
        meanwhile: Callable[[], None],
        until: float,
    ) -> tuple[int, str]:
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
                start_new_session=True,  # Ctrl-C is for the soak, which ends it then
            )
        try:
            if striker is not None:
                striker.process = process
            while process.poll() is None and time.monotonic() < until:
                meanwhile()
                if self.stopping.wait(0.1):
                    raise KeyboardInterrupt
        finally:
            if process.poll() is None:
                process.kill()
            code = process.wait(30)
        return code, out.read_text(encoding="utf-8")
