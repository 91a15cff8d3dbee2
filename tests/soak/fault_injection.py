"""Faults, each injected after a step that the run's journal announces."""

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
from tests.soak.round_plan import PRIMARY, SECONDARY, Fault, Injection

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
class Injected:
    """An injection that was made.

    Attributes:
        at_s: seconds since the leg began.
    """

    injection: Injection
    step: str
    at_s: float

    def __str__(self) -> str:
        one = f"-{self.injection.node}" if self.injection.node else ""
        return f"{self.injection.fault}{one} {self.injection.after_s:.1f} s after {self.step}"


@dataclass(slots=True)
class Injector:
    """Waits for the times of a leg's injections, each in a thread of its own.

    Attributes:
        runs: the folder of all runs.
        process: drctl, while it runs.
    """

    lab: Lab
    runs: Path
    known: frozenset[str]
    process: subprocess.Popen[bytes] | None = None
    injected: list[Injected] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    _done: threading.Event = field(default_factory=threading.Event)
    _active: set[Fault] = field(default_factory=set)
    _worker: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def waiting_for(self, injections: Sequence[Injection]) -> Iterator["Injector"]:
        """Inject during the block; at its end every component responds again."""
        threads = [
            threading.Thread(target=self._wait, args=(each,), name=each.fault, daemon=True)
            for each in injections
        ]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._done.set()
            for thread in threads:
                thread.join(_MENDED_S)

    def mended(self) -> None:
        """Wait until no fault is active."""
        Patience.of(_MENDED_S).wait_until(lambda: not self._active)

    def run(self) -> Path | None:
        """Return the newest run of this leg."""
        found = sorted(each for each in self.runs.glob("*") if each.name not in self.known)
        return found[-1] if found else None

    def _wait(self, injection: Injection) -> None:
        while not self._done.wait(_LOOK_S):
            step = self._announced(injection)
            if step:
                break
        else:
            return
        if self._done.wait(injection.after_s):
            return
        self._active.add(injection.fault)
        # The lab starts one component at a time: starting a worker whose cluster was killed
        # meanwhile would block the start of that cluster.
        alone = (
            self._worker if _PARTS.get(injection.fault) in ("connect", SECONDARY) else nullcontext()
        )
        try:
            with alone:
                self._inject(injection, step)
        except DrctlError as error:
            self.failures.append(f"after {injection.fault}: {error.message}")
        finally:
            self._active.discard(injection.fault)

    def _announced(self, injection: Injection) -> str:
        """Return the step before it, once the journal has it."""
        run = self.run()
        entries = journal_of(run) if run else []
        if not entries or "plan" not in entries[0]:
            return ""
        steps = tuple(step["id"] for step in entries[0]["plan"]["steps"])
        wanted = injection.step_of(steps)
        there = any(e["entry"] == "intend" and e["step"] == wanted for e in entries)
        return wanted if there else ""

    def _inject(self, injection: Injection, step: str) -> None:
        injected = Injected(injection, step, time.monotonic() - self.began)
        if injection.fault is Fault.DRCTL:
            if self.process is not None and self.process.poll() is None:
                self.process.kill()
                self.injected.append(injected)
            return
        part, number = _PARTS[injection.fault], _SIGNALS.get(injection.fault, signal.SIGKILL)
        try:
            self.lab.signal(f"{part}-{injection.node}" if injection.node else part, number)
        except Refused:
            return  # the component is down: another injection came first
        self.injected.append(injected)
        threading.Event().wait(injection.lasts_s)
        if injection.fault is Fault.PAUSE:
            with suppress(Refused):
                self.lab.signal(part, signal.SIGCONT)
        elif number is signal.SIGKILL:
            # Start the whole cluster: if another injection killed the other brokers, one has no
            # quorum. Connect exits if its cluster is unreachable for a minute; a supervisor would
            # restart it.
            if part == "connect":
                self._start(SECONDARY)
            self._start(part)
            if part == SECONDARY:
                self._start("connect")

    def _start(self, part: str) -> None:
        """Start a component, repeatedly: its ports may still be in use for a moment."""
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
    """Return the entries of a run in this host's copy, without an incomplete line."""
    try:
        lines = (run / "journal.jsonl").read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    found = []
    for line in lines:
        with suppress(ValueError):
            found.append(json.loads(line))
    return found
