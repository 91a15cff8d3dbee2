"""Detached processes: started, found again by a later drctl, signalled, ended for certain."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from drctl.lab.files import private_folder, write_private
from drctl.lab.waiting import Patience
from drctl.model.errors import Stopped

_CLOCK_STEP_S = 5
# The shell starts it in a session of its own and goes: no terminal, no zombie of ours.
_DETACH = '"$@" >>"$DRCTL_PART_LOG" 2>&1 </dev/null & echo $!'


@dataclass(frozen=True, slots=True)
class Part:
    """One process of a lab.

    Attributes:
        name: `primary-1`, `connect`, ...
        folder: of its own: its log, its record and its data.
        mark: a word of its command line that no other process has.
    """

    name: str
    folder: Path
    mark: str

    @property
    def log(self) -> Path:
        """What the process prints."""
        return self.folder / "log"

    def start(self, command: Sequence[str]) -> None:
        """Start it so that it survives this process and its terminal."""
        private_folder(self.folder)
        self.log.touch(mode=0o600)
        started = subprocess.run(
            ["/bin/sh", "-c", _DETACH, "sh", *command],
            env={**os.environ, "DRCTL_PART_LOG": str(self.log)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
            cwd=self.folder,
            text=True,
            check=True,
        )
        pid = int(started.stdout)
        try:
            born = psutil.Process(pid).create_time()
        except psutil.NoSuchProcess:
            born = time.time()
        write_private(self._record, json.dumps({"pid": pid, "started": born}) + "\n")

    def process(self) -> psutil.Process | None:
        """The process if it lives; a recycled pid is not taken for it."""
        try:
            record = json.loads(self._record.read_text(encoding="utf-8"))
            found = psutil.Process(record["pid"])
            if abs(found.create_time() - record["started"]) > _CLOCK_STEP_S:
                return None
            if found.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
                return None
            words = found.cmdline()  # none while it becomes another program: it has just begun
            return found if self.mark in words or not words else None
        except (FileNotFoundError, psutil.NoSuchProcess):
            return None

    def frozen(self) -> bool:
        """Whether it was stopped by a signal."""
        process = self.process()
        return process is not None and process.status() == psutil.STATUS_STOPPED

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal; False where there is no such process."""
        process = self.process()
        if process is None:
            return False
        process.send_signal(number)
        return True

    def end(self, patience: Patience, gently: bool = False) -> None:
        """End the process and see it gone.

        Raises:
            Stopped: it outlived even SIGKILL.
        """
        process = self.process()
        if process is not None:
            end_processes((process,), patience, gently)

    def last_words(self, lines: int = 12) -> str:
        """The end of its log."""
        try:
            text = self.log.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    @property
    def _record(self) -> Path:
        return self.folder / "process.json"


def marked_processes(mark: str) -> tuple[psutil.Process, ...]:
    """All living processes that have this word in their command line."""
    found = []
    for process in psutil.process_iter():
        try:
            if mark in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return tuple(found)


def end_processes(
    processes: Sequence[psutil.Process], patience: Patience, gently: bool = False
) -> None:
    """End them all: with time to finish, or at once.

    Raises:
        Stopped: one outlived even SIGKILL.
    """
    alive = list(processes)
    if gently:
        for process in alive:
            _send(process, signal.SIGTERM)
            _send(process, signal.SIGCONT)
        alive = psutil.wait_procs(alive, timeout=patience.remaining)[1]
    for process in alive:
        _send(process, signal.SIGKILL)
    alive = psutil.wait_procs(alive, timeout=10)[1]
    if left := [p for p in alive if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]:
        raise Stopped(
            f"process {', '.join(str(p.pid) for p in left)} of the lab does not end",
            "It waits in the kernel, usually for a disk; look at it with ps, and try again.",
        )


def _send(process: psutil.Process, number: signal.Signals) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return
