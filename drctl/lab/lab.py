"""`Lab`: two real clusters and a Connect worker with MirrorMaker 2, in one folder."""

import fcntl
import os
import shutil
import signal
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from drctl.lab.cluster import LabCluster, runs_broker
from drctl.lab.mirrors import await_state
from drctl.lab.parts import Parts
from drctl.lab.processes import end_processes, lab_mark, marked_processes
from drctl.lab.settings import (
    LabSettings,
    keep_settings,
    private_folder,
    require_same,
    stored_settings,
)
from drctl.lab.starting import Startup, prepare_startup
from drctl.lab.waiting import Patience
from drctl.model.errors import Refused, Stopped

Progress = Callable[[str], None]
GENTLE_S = 30
_LOCK = ".lock"
_OWN = ("lab.json", "log4j2.properties", "secrets", "primary", "secondary", "connect", "load")


def silent(_message: str) -> None:
    """Discard a progress line."""


@dataclass(frozen=True, slots=True)
class Lab:
    """A lab in a folder; any process can open it.

    Attributes:
        root: absolute path of the lab's folder, which also holds its passwords.
        progress: called with one line per event.
        ivy_settings: Ivy settings for your own Maven repository.
        recording: whether components record the classes that they load (class data sharing).
    """

    root: Path
    progress: Progress = silent
    ivy_settings: Path | None = None
    recording: bool = False

    @property
    def parts(self) -> Parts:
        """The components of the lab.

        Raises:
            Refused: there is no lab in the folder.
        """
        stored = stored_settings(self.root)
        if stored is None:
            raise Refused(f"there is no lab in {self.root}", "start one: drctl lab up")
        return Parts(self.root, stored)

    def cluster(self, name: str) -> LabCluster:
        """`primary` or `secondary`."""
        return self.parts.cluster(name)

    def up(self, settings: LabSettings | None = None) -> None:
        """Start the components that are not running, and wait until all of them answer.

        Args:
            settings: for a new lab; an existing lab keeps its own.

        Raises:
            Refused: Java, memory or a port is missing, or the lab has other settings.
            Unknown: the jars could not be fetched, or are corrupt.
            Stopped: a component did not start.
        """
        with self._alone():
            stored = stored_settings(self.root)
            if stored is None:
                self._require_empty()
            wanted = settings or stored or LabSettings()
            if stored is not None:
                require_same(self.root, stored, wanted)
            names = Parts(self.root, wanted).names
            startup = self._startup(wanted, names)
            keep_settings(self.root, wanted)
            startup.run()

    def start(self, name: str) -> None:
        """Start `primary`, `secondary`, `connect` or a node (`primary-2`) again, with its data.

        Raises:
            Stopped: a component does not answer.
        """
        with self._alone():
            parts = self.parts
            names = parts.named(name)
            try:
                self._startup(parts.settings, names).run()
            except Stopped as stopped:
                # Rarely, a broker that was killed starts and never answers.
                self.progress(f"{stopped.message}\nRestarting {name}")
                running = [p for n in names if (p := parts.part(n).process()) is not None]
                end_processes(running, Patience.of(GENTLE_S), gently=False)
                self._startup(parts.settings, names).run()

    def down(self, keep: bool = False) -> int:
        """Stop every process of the lab; return how many were running.

        Args:
            keep: shut down cleanly and keep the data for the next `up`.

        Raises:
            Stopped: a process does not stop.
        """
        if not self.root.exists():
            return 0
        with self._alone():
            found = marked_processes(lab_mark(self.root))
            if keep:
                # Connect cannot leave its group once the brokers are gone.
                others = [process for process in found if not runs_broker(process)]
                end_processes(others, Patience.of(GENTLE_S), gently=True)
            end_processes(found, Patience.of(GENTLE_S), gently=keep)
            if left := marked_processes(lab_mark(self.root)):
                pids = ", ".join(str(process.pid) for process in left)
                raise Stopped(f"lab processes still run: pids {pids}", "run drctl lab down again")
            if not keep:
                self._remove()
        return len(found)

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send SIGKILL, SIGSTOP or SIGCONT to a component.

        Raises:
            Refused: it is not running.
            Stopped: it survives SIGKILL.
        """
        parts = self.parts
        running = [part for part in map(parts.part, parts.named(name)) if part.process()]
        if not running:
            raise Refused(f"{name} is not running", f"start it: drctl lab start {name}")
        for part in running:
            part.signal(number)
        if number is signal.SIGKILL:
            for part in running:
                part.end(Patience.of(0))

    def replicate(self, running: bool) -> None:
        """Resume or stop MirrorMaker 2; stopping keeps its source offsets.

        Raises:
            Unreachable: the Connect worker does not answer.
            Stopped: a connector did not reach the state.
        """
        parts = self.parts
        client = parts.worker.client()
        try:
            for direction in parts.directions:
                for name in direction.names.values():
                    (client.resume if running else client.stop)(name)
            state = "RUNNING" if running else "STOPPED"
            await_state(client, parts.directions, (state,), Patience.of(60))
        finally:
            client.close()

    def _startup(self, settings: LabSettings, names: Collection[str]) -> Startup:
        return prepare_startup(
            self.root, settings, names, self.ivy_settings, self.progress, self.recording
        )

    def _require_empty(self) -> None:
        others = [entry.name for entry in self.root.iterdir() if entry.name != _LOCK]
        if others:
            raise Refused(
                f"{self.root} is not a lab: it contains other files ({sorted(others)[0]})",
                "use an empty folder: --dir DIR",
            )

    def _remove(self) -> None:
        for name in _OWN:
            path = self.root / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        (self.root / _LOCK).unlink(missing_ok=True)
        if not any(self.root.iterdir()):
            self.root.rmdir()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Lock the lab against other drctl processes."""
        lock = self._lock()
        try:
            yield
        finally:
            os.close(lock)

    def _lock(self) -> int:
        while True:
            private_folder(self.root)
            path = self.root / _LOCK
            lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.progress(f"waiting for another drctl process that uses the lab in {self.root}")
                fcntl.flock(lock, fcntl.LOCK_EX)
            if path.exists() and path.stat().st_ino == os.fstat(lock).st_ino:
                return lock
            os.close(lock)  # the other process removed the lab
