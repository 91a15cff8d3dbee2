"""Faults, each injected after a step that the run's journal announces."""

import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import ElectionType, KafkaException

from drctl.lab.lab import Lab
from drctl.lab.waiting import Patience
from drctl.model.errors import DrctlError, Refused
from tests.soak.round_plan import (
    CONNECT,
    DISKS,
    DRCTL,
    ONE_BROKER,
    PRIMARY,
    ROLLS,
    SECONDARY,
    Fault,
    Injection,
)
from tests.soak.sandbox import Sandbox

_LOOK_S = 0.2
_MENDED_S = 120
_PARTS = {
    Fault.PRIMARY: PRIMARY,
    Fault.PAUSE: PRIMARY,
    Fault.PRIMARY_BROKER: PRIMARY,
    Fault.ROLL_PRIMARY: PRIMARY,
    Fault.PRIMARY_CLOCK: PRIMARY,
    Fault.PRIMARY_DISK: PRIMARY,
    Fault.SECONDARY: SECONDARY,
    Fault.SECONDARY_BROKER: SECONDARY,
    Fault.ROLL_SECONDARY: SECONDARY,
    Fault.SECONDARY_CLOCK: SECONDARY,
    Fault.SECONDARY_DISK: SECONDARY,
    Fault.CONNECT: CONNECT,
    Fault.FREEZE_CONNECT: CONNECT,
    Fault.WAKE: PRIMARY,
}
_KILLS = frozenset({Fault.PRIMARY, Fault.SECONDARY, Fault.CONNECT, *ONE_BROKER})
_RESTARTS = frozenset({*_KILLS, *ROLLS, *DISKS, Fault.PAUSE, Fault.FREEZE_CONNECT})
"""Faults after which a component is started; there is one of them at a time per component."""


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
        return f"{self.injection} {self.injection.after_s:.1f} s after {self.step}"


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs in the folders of all hosts; a host that only resumed one has a copy, too."""

    folders: tuple[Path, ...]

    def names(self) -> list[str]:
        """Return the names of all runs, by the time of their last entry.

        The names have a time, too, but that is of drctl's clock, which may be wrong.
        """
        last: dict[str, float] = {}
        for journal in (each for folder in self.folders for each in folder.glob("*/journal.jsonl")):
            name = journal.parent.name
            last[name] = max(last.get(name, 0.0), journal.stat().st_mtime)
        return sorted(last, key=last.__getitem__)

    def entries(self, name: str) -> list[dict[str, Any]]:
        """Return the journal of a run: the longest copy."""
        return max((journal_of(folder / name) for folder in self.folders), key=len)


@dataclass(slots=True)
class Injector:
    """Waits for the times of a leg's injections, each in a thread of its own.

    Attributes:
        known: names of earlier runs.
        sandbox: None if namespaces cannot be used here.
        second: runs a command on another host; returns once it has ended.
        process: drctl, while it runs.
    """

    lab: Lab
    runs: Runs
    known: frozenset[str]
    sandbox: Sandbox | None = None
    second: Callable[[], None] = lambda: None
    process: subprocess.Popen[bytes] | None = None
    injected: list[Injected] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    _done: threading.Event = field(default_factory=threading.Event)
    _active: set[Fault] = field(default_factory=set)
    _locks: dict[str, threading.Lock] = field(
        # Connect needs the secondary: starting it while the secondary is down would block.
        default_factory=lambda: {PRIMARY: threading.Lock(), SECONDARY: threading.Lock()}
    )

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

    def run(self) -> str:
        """Return the name of the newest run of this leg; empty if there is none."""
        return next((name for name in reversed(self.runs.names()) if name not in self.known), "")

    def entries(self) -> list[dict[str, Any]]:
        """Return the journal of the newest run of this leg."""
        run = self.run()
        return self.runs.entries(run) if run else []

    def _wait(self, injection: Injection) -> None:
        while not self._done.wait(_LOOK_S):
            step = self._announced(injection)
            if step:
                break
        else:
            return
        if self._done.wait(injection.after_s):
            return
        part = _PARTS.get(injection.fault, "")
        lock = self._locks[PRIMARY if part == PRIMARY else SECONDARY]
        try:
            with lock if injection.fault in _RESTARTS else nullcontext():
                if self._done.is_set():
                    return
                self._active.add(injection.fault)
                self._inject(injection, step)
        except (DrctlError, KafkaException, OSError) as error:
            self.failures.append(f"after {injection.fault}: {error}")
        finally:
            self._active.discard(injection.fault)

    def _announced(self, injection: Injection) -> str:
        """Return the step before it, once the journal has it."""
        entries = self.entries()
        if not entries or "plan" not in entries[0]:
            return ""
        steps = tuple(step["id"] for step in entries[0]["plan"]["steps"])
        wanted = injection.step_of(steps)
        there = any(e["entry"] == "intend" and e["step"] == wanted for e in entries)
        return wanted if there else ""

    def _inject(self, injection: Injection, step: str) -> None:
        injected = Injected(injection, step, time.monotonic() - self.began)
        part = _PARTS.get(injection.fault, "")
        hit = f"{part}-{injection.node}" if injection.node else part
        try:
            match injection.fault:
                case Fault.DRCTL | Fault.FREEZE_DRCTL:
                    self._interrupt_drctl(injection, injected)
                case Fault.SECOND:
                    self.injected.append(injected)
                    self.second()
                case Fault.WAKE:
                    self.lab.signal(hit, signal.SIGCONT)
                    self.injected.append(injected)
                case Fault.PAUSE | Fault.FREEZE_CONNECT:
                    self.lab.signal(hit, signal.SIGSTOP)
                    self._last(injected)
                    with suppress(Refused):
                        self.lab.signal(hit, signal.SIGCONT)
                case Fault.ROLL_PRIMARY | Fault.ROLL_SECONDARY:
                    self.injected.append(injected)
                    self._roll(part)
                case fault if fault in _KILLS:
                    self.lab.signal(hit, signal.SIGKILL)
                    self._last(injected)
                    self._start(part)
                case _ if self.sandbox is not None:
                    self._inject_in(self.sandbox, injected, hit)
        except Refused:
            return  # the component is down: another injection came first

    def _last(self, injected: Injected) -> None:
        self.injected.append(injected)
        self._done.wait(injected.injection.lasts_s)

    def _interrupt_drctl(self, injection: Injection, injected: Injected) -> None:
        process = self.process
        if process is None or process.poll() is not None:
            return
        if injection.fault is Fault.DRCTL:
            process.kill()
            self.injected.append(injected)
            return
        process.send_signal(signal.SIGSTOP)
        try:
            self.injected.append(injected)
            threading.Event().wait(injection.lasts_s)
        finally:
            process.send_signal(signal.SIGCONT)

    def _inject_in(self, sandbox: Sandbox, injected: Injected, hit: str) -> None:
        injection = injected.injection
        match injection.fault:
            case Fault.DRCTL_CLOCK | Fault.PRIMARY_CLOCK | Fault.SECONDARY_CLOCK:
                sandbox.shift(hit or DRCTL, injection.amount)
                self._last(injected)
                sandbox.shift(hit or DRCTL, 0)
            case Fault.PRIMARY_DISK | Fault.SECONDARY_DISK:
                with sandbox.full_disk(hit):
                    self._last(injected)
                with suppress(Refused):
                    # It may have stopped by itself; if not, its disk stays offline.
                    self.lab.signal(hit, signal.SIGKILL)
                self._start(_PARTS[injection.fault])
            case _:
                if injection.fault is Fault.SLOW:
                    number = sandbox.narrow(*injection.line, injection.amount)
                else:
                    share = injection.amount / 100 or 1.0
                    number = sandbox.lose(*injection.line, injection.way, share)
                try:
                    self._last(injected)
                finally:
                    sandbox.restore(number)

    def _roll(self, cluster: str) -> None:
        """Restart each broker cleanly; then let the preferred replicas lead again."""
        brokers = self.lab.cluster(cluster).brokers
        for broker in brokers:
            if self._done.is_set():
                return
            self.lab.signal(broker.name, signal.SIGTERM)
            broker.part.end(Patience.of(_MENDED_S), gently=True)
            self._start(cluster)
        if len(brokers) > 1:
            admin = self.lab.cluster(cluster).admin()
            with suppress(KafkaException):  # another fault may prevent it
                admin.elect_leaders(ElectionType.PREFERRED).result(_MENDED_S)

    def _start(self, part: str) -> None:
        """Start a component and what depends on it.

        Start the whole cluster: if another injection killed the other brokers, one has no quorum.
        Connect exits if its cluster is unreachable for a minute; a supervisor would restart it.
        """
        for each in (PRIMARY,) if part == PRIMARY else (SECONDARY, CONNECT):
            self._start_alone(each)

    def _start_alone(self, part: str) -> None:
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
