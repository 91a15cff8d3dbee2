"""Faults at their moments: each follows a step that the journal of the run announces."""

import json
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drctl.lab.lab import Lab
from drctl.lab.waiting import Patience
from drctl.model.errors import DrctlError, Refused
from tests.soak.course import PRIMARY, SECONDARY, Fault, Strike

_LOOK_S = 0.1
_MENDED_S = 120
_PARTS = {
    Fault.PRIMARY: PRIMARY,
    Fault.PAUSE: PRIMARY,
    Fault.PRIMARY_BROKER: PRIMARY,
    Fault.SECONDARY: SECONDARY,
    Fault.SECONDARY_BROKER: SECONDARY,
    Fault.CONNECT: "connect",
    Fault.WAKE: PRIMARY,
}
_SIGNALS = {Fault.PAUSE: signal.SIGSTOP, Fault.WAKE: signal.SIGCONT}


@dataclass(frozen=True, slots=True)
class Struck:
    """A strike that was carried out.

    Attributes:
        at_s: seconds since the leg began.
    """

    strike: Strike
    step: str
    at_s: float

    def __str__(self) -> str:
        one = f"-{self.strike.node}" if self.strike.node else ""
        return f"{self.strike.fault}{one} {self.strike.after_s:.1f} s behind {self.step}"


@dataclass(slots=True)
class Striker:
    """Waits for the moments of a leg, each in a thread of its own.

    Attributes:
        runs: the folder of all runs of drctl.
        process: drctl, while it runs.
    """

    lab: Lab
    runs: Path
    known: frozenset[str]
    process: subprocess.Popen[bytes] | None = None
    struck: list[Struck] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    _over: threading.Event = field(default_factory=threading.Event)
    _active: set[Fault] = field(default_factory=set)
    _worker: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def waiting_for(self, strikes: Sequence[Strike]) -> Iterator["Striker"]:
        """While this lasts, the strikes come; at its end every part answers again."""
        threads = [
            threading.Thread(target=self._wait, args=(each,), name=each.fault, daemon=True)
            for each in strikes
        ]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._over.set()
            for thread in threads:
                thread.join(_MENDED_S)

    def mended(self) -> None:
        """Wait until nothing is being done to the lab."""
        Patience.of(_MENDED_S).wait_until(lambda: not self._active)

    def run(self) -> Path | None:
        """The newest run of this leg."""
        found = sorted(each for each in self.runs.glob("*") if each.name not in self.known)
        return found[-1] if found else None

    def _wait(self, strike: Strike) -> None:
        while not self._over.wait(_LOOK_S):
            step = self._announced(strike)
            if step:
                break
        else:
            return
        if self._over.wait(strike.after_s):
            return
        self._active.add(strike.fault)
        # The lab starts one part at a time: a worker that waits for its cluster, which was killed
        # meanwhile, would keep it from being started.
        alone = (
            self._worker if _PARTS.get(strike.fault) in ("connect", SECONDARY) else nullcontext()
        )
        try:
            with alone:
                self._carry_out(strike, step)
        except DrctlError as error:
            self.failures.append(f"after {strike.fault}: {error.message}")
        finally:
            self._active.discard(strike.fault)

    def _announced(self, strike: Strike) -> str:
        """The step that it follows, once the journal has it."""
        run = self.run()
        entries = journal_of(run) if run else []
        if not entries or "plan" not in entries[0]:
            return ""
        steps = tuple(step["id"] for step in entries[0]["plan"]["steps"])
        wanted = strike.step_of(steps)
        there = any(e["entry"] == "intend" and e["step"] == wanted for e in entries)
        return wanted if there else ""

    def _carry_out(self, strike: Strike, step: str) -> None:
        struck = Struck(strike, step, time.monotonic() - self.began)
        if strike.fault is Fault.DRCTL:
            if self.process is not None and self.process.poll() is None:
                self.process.kill()
                self.struck.append(struck)
            return
        part, number = _PARTS[strike.fault], _SIGNALS.get(strike.fault, signal.SIGKILL)
        try:
            self.lab.signal(f"{part}-{strike.node}" if strike.node else part, number)
        except Refused:
            return  # it does not run: another strike came first
        self.struck.append(struck)
        threading.Event().wait(strike.lasts_s)
        if strike.fault is Fault.PAUSE:
            with suppress(Refused):
                self.lab.signal(part, signal.SIGCONT)
        elif number is signal.SIGKILL:
            # All of its cluster: where another strike killed the rest, one alone has no quorum.
            # Connect ends where its own cluster is away for a minute, and a supervisor starts it.
            if part == "connect":
                self._start(SECONDARY)
            self._start(part)
            if part == SECONDARY:
                self._start("connect")

    def _start(self, part: str) -> None:
        """Again and again: a port of the dead may be taken for a moment."""
        patience = Patience.of(_MENDED_S)
        while True:
            try:
                self.lab.start(part)
            except DrctlError:
                if not patience.remaining:
                    raise
                threading.Event().wait(1)
            else:
                return


def journal_of(run: Path) -> list[dict[str, Any]]:
    """The entries of a run, from this machine's copy; a line that is not whole is left out."""
    try:
        lines = (run / "journal.jsonl").read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    found = []
    for line in lines:
        with suppress(ValueError):
            found.append(json.loads(line))
    return found
