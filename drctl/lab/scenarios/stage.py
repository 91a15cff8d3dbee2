"""What a story plays on: a lab of its own, a narrator, and drctl as an engineer would call it."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from drctl.connect.client import ConnectWriter
from drctl.lab.lab import Lab
from drctl.lab.mirrors import Direction
from drctl.model.errors import Stopped, Unknown

NAME = "mm2-source-reverse"


def configuration(lab: Lab) -> dict[str, str]:
    """Of the connector; as administrator, for the lab's replicator may not write to the primary."""
    ends = lab.cluster("secondary"), lab.cluster("primary")
    known = dict(Direction(lab.parts.settings, *ends).configurations())
    config = known[NAME]
    for cluster in ends:
        user, admin = (cluster.password_file(each).name for each in ("replicator", "admin"))
        config = {key: value.replace(f":{user}}}", f":{admin}}}") for key, value in config.items()}
    mine = 'username="replicator"', 'username="admin"'
    config = {key: value.replace(*mine) for key, value in config.items()}
    return {**config, "sync.topic.configs.enabled": "false"}


def deploy(lab: Lab, topic: str, name: str = NAME) -> None:
    """Put it on the worker, STOPPED; it has copied nothing, and knows nowhere to begin.

    Raises:
        ConnectRejected: there is one of this name.
        Unreachable: the worker does not answer.
    """
    client: ConnectWriter = lab.parts.worker.client()
    try:
        client.create_stopped(name, {**configuration(lab), "topics": topic})
    finally:
        client.close()


def remove(lab: Lab, name: str = NAME) -> None:
    """Take it away, and what it keeps of how far it got.

    Raises:
        Unreachable: the worker does not answer.
    """
    client = lab.parts.worker.client()
    try:
        if name in client.connectors():
            client.delete(name)
    finally:
        client.close()


DEADLINE_S = 300
_END_S = 30


@dataclass(frozen=True, slots=True)
class Ending:
    """How a story ended.

    Attributes:
        true: whether everything that was held against the truth was so, record by record.
        summary: in a few sentences.
        page: the HTML page of the missing records.
        report: the HTML page of the failover.
        home: that of the failback.
    """

    true: bool
    summary: str
    page: Path
    report: Path
    home: Path


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a story plays.

    Attributes:
        folder: for the configuration and results.
        tell: says what happens, a line each.
        options: global options of drctl, for how it prints.
        shown: where its results appear; None is this process's own stdout.
    """

    lab: Lab
    folder: Path
    tell: Callable[[str], None]
    options: tuple[str, ...] = ()
    shown: TextIO | None = None

    @property
    def config(self) -> Path:
        """The lab's drctl.yaml."""
        return self.folder / "drctl.yaml"

    def act(self, number: int, title: str) -> None:
        """Say what comes now."""
        for line in ("", f"--- {number}. {title}", ""):
            self.tell(line)

    def drctl(self, *words: str) -> int:
        """Run a command of drctl to its end, its result on this terminal; the exit code.

        Raises:
            Unknown: it did not end in time.
        """
        self.tell(f"$ drctl {' '.join(words)}")
        try:
            done = subprocess.run(
                self._command(*words),
                stdin=subprocess.DEVNULL,
                stdout=self.shown,
                timeout=DEADLINE_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Unknown(f"drctl {words[0]} did not end in {DEADLINE_S} s") from None
        return done.returncode

    @contextmanager
    def running(self, *words: str) -> Iterator["Running"]:
        """A command of drctl that runs while the story goes on; ended where that does not.

        Raises:
            Unknown: it did not end in time.
        """
        self.tell(f"$ drctl {' '.join(words)}")
        process = subprocess.Popen(
            self._command(*words), stdin=subprocess.DEVNULL, stdout=self.shown
        )
        try:
            yield Running(process, self.folder / ".drctl" / "runs")
        finally:
            if process.poll() is None:
                process.kill()
                process.wait(_END_S)

    def answer(self, out: Path) -> dict[str, Any]:
        """What `drctl gap --out` left there.

        Raises:
            Unknown: nothing.
        """
        document = out / "gap.json"
        if not document.is_file():
            raise Unknown(f"drctl gap left no answer in {out}")
        found: dict[str, Any] = json.loads(document.read_text(encoding="utf-8"))
        return found

    def reports(self) -> tuple[Path, ...]:
        """The pages of all runs so far, the oldest first."""
        return tuple(sorted((self.folder / ".drctl" / "runs").glob("*/report.html")))

    @contextmanager
    def tracked(self) -> Iterator["Tracker"]:
        """Let `drctl offsets track` note every second where groups stand."""
        words = ("offsets", "track", "--every", "1s", "--execute", "--yes", "--output", "json")
        self.tell("$ drctl offsets track --every 1s --execute --yes    (in the background)")
        log = self.folder / "track.jsonl"
        with log.open("wb") as said, (self.folder / "track.log").open("wb") as complaints:
            process = subprocess.Popen(
                self._command(*words), stdin=subprocess.DEVNULL, stdout=said, stderr=complaints
            )
        try:
            yield Tracker(process, log)
        finally:
            process.terminate()
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()

    def _command(self, *words: str) -> list[str]:
        drctl = [sys.executable, "-m", "drctl", "--config", str(self.config), *self.options]
        return [*drctl, *words]


@dataclass(frozen=True, slots=True)
class Tracker:
    """`drctl offsets track`, running.

    Attributes:
        log: a line of JSON for each pass.
    """

    process: subprocess.Popen[bytes]
    log: Path

    def passes(self) -> int:
        """How many of its passes saw everything.

        Raises:
            Stopped: it does not run any more.
        """
        if self.process.poll() is not None:
            raise Stopped(f"drctl offsets track ended with exit code {self.process.returncode}")
        lines = self.log.read_bytes().split(b"\n")[:-1]
        return sum(bool(json.loads(line)["complete"]) for line in lines)


@dataclass(frozen=True, slots=True)
class Running:
    """A command of drctl that carries a plan out.

    Attributes:
        runs: the folder of all runs.
    """

    process: subprocess.Popen[bytes]
    runs: Path

    def has_done(self, step: str) -> bool:
        """Whether its journal says that a step is done.

        Raises:
            Stopped: it ended before that.
        """
        for line in self._journal():
            if b'"entry":"done"' in line and f'"step":"{step}"'.encode() in line:
                return True
        if self.process.poll() is not None:
            raise Stopped(f"drctl ended with exit code {self.process.returncode} before {step}")
        return False

    def ended(self) -> int:
        """Its exit code, once it has ended.

        Raises:
            Unknown: it did not in time.
        """
        try:
            return self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            raise Unknown(f"drctl did not end in {DEADLINE_S} s") from None

    def _journal(self) -> list[bytes]:
        newest = sorted(self.runs.glob("*/journal.jsonl"))[-1:]
        return newest[0].read_bytes().split(b"\n") if newest else []
