"""Java processes of the lab: command lines without secrets, marked with the lab's folder."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from drctl.artifacts.java import classes_for, recorded_into
from drctl.lab.settings import LabSettings, private_folder, write_private, write_properties
from drctl.lab.waiting import Patience
from drctl.model.errors import Stopped


def lab_mark(root: Path) -> str:
    """The argument that identifies this lab's processes in the process list."""
    return f"-Ddrctl.lab={root}"


@dataclass(frozen=True, slots=True)
class Jvm:
    """Java and the jars of one kind of component.

    Attributes:
        recording: whether components record the classes that they load, for faster starts.
    """

    java: Path
    jars: tuple[Path, ...]
    root: Path
    settings: LabSettings
    recording: bool = False

    def command(self, part: str, main_class: str, *arguments: str) -> tuple[str, ...]:
        """The command of a long-running component."""
        return (
            *(str(self.java), f"-Xms{min(128, self.settings.heap_mb)}m"),
            *(f"-Xmx{self.settings.heap_mb}m", "-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError"),
            *(() if self.settings.full_speed else ("-XX:TieredStopAtLevel=1",)),
            *self._classes(part),
            *("-Xshare:auto", "-Djava.awt.headless=true", lab_mark(self.root)),
            *(f"-Ddrctl.part={part}", f"-Dlog4j2.configurationFile={logging_file(self.root)}"),
            *("-cp", self._classpath(), main_class, *arguments),
        )

    def command_in_file(self, file: Path, main_class: str, *arguments: str) -> tuple[str, ...]:
        """The command of a tool with secret arguments, which go into a private file."""
        words = ("-cp", self._classpath(), main_class, *arguments)
        write_private(file, "".join(f'"{word}"\n' for word in words))
        quick = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
        ready = classes_for(self._folder)
        return (str(self.java), *quick, *ready, lab_mark(self.root), f"@{file}")

    def _classes(self, part: str) -> tuple[str, ...]:
        if self.recording:
            return recorded_into(recorded_classes(self.root, part))
        return classes_for(self._folder)

    def _classpath(self) -> str:
        return f"{self._folder}/*"

    @property
    def _folder(self) -> Path:
        (folder,) = {jar.parent for jar in self.jars}
        return folder


def recorded_classes(root: Path, part: str) -> Path:
    """The file with the classes that a component recorded."""
    return root / f"{part}.jsa"


def logging_file(root: Path) -> Path:
    """The logging configuration of all components."""
    return root / "log4j2.properties"


def write_logging(root: Path) -> None:
    """Configure logging: INFO and above go to the component's own log."""
    write_properties(
        logging_file(root),
        {
            "status": "error",
            "appender.out.type": "Console",
            "appender.out.name": "out",
            "appender.out.layout.type": "PatternLayout",
            "appender.out.layout.pattern": "%d{ISO8601} %p %m (%c{1})%n",
            "rootLogger.level": "info",
            "rootLogger.appenderRef.out.ref": "out",
        },
    )


_CLOCK_STEP_S = 5
# The shell starts the process in its own session and exits: no terminal, no zombie.
_DETACH = '"$@" >>"$DRCTL_PART_LOG" 2>&1 </dev/null & echo $!'


@dataclass(frozen=True, slots=True)
class Part:
    """One process of a lab.

    Attributes:
        name: `primary-1`, `connect`, ...
        folder: its own folder, which contains its log, its record and its data.
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
        """The process if it is alive; None if another process has its pid now."""
        try:
            record = json.loads(self._record.read_text(encoding="utf-8"))
            found = psutil.Process(record["pid"])
            if abs(found.create_time() - record["started"]) > _CLOCK_STEP_S:
                return None
            if found.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
                # Until its other threads have ended, a killed process still holds its ports.
                return found if found.num_threads() > 1 else None
            words = found.cmdline()  # empty during exec: it has just started
            return found if self.mark in words or not words else None
        except (FileNotFoundError, psutil.NoSuchProcess):
            return None

    def frozen(self) -> bool:
        """Whether it was stopped by a signal."""
        process = self.process()
        return process is not None and process.status() == psutil.STATUS_STOPPED

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal; False if the process is not running."""
        process = self.process()
        if process is None:
            return False
        process.send_signal(number)
        return True

    def end(self, patience: Patience, gently: bool = False) -> None:
        """End the process and wait until it is gone.

        Raises:
            Stopped: it survives SIGKILL.
        """
        process = self.process()
        if process is not None:
            end_processes((process,), patience, gently)

    def log_tail(self, lines: int = 12) -> str:
        """The last lines of its log."""
        try:
            text = self.log.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    @property
    def _record(self) -> Path:
        return self.folder / "process.json"


def marked_processes(mark: str) -> tuple[psutil.Process, ...]:
    """All live processes with this argument in their command line."""
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
    """Stop the processes: cleanly (`gently`), or at once.

    Raises:
        Stopped: one survives SIGKILL.
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
            f"lab processes survive SIGKILL: pids {', '.join(str(p.pid) for p in left)}",
            "they are blocked in the kernel, usually on disk I/O: check with ps, then try again",
        )


def _send(process: psutil.Process, number: signal.Signals) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return
