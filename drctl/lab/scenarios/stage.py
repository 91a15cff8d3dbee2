"""What a scenario runs with: its own lab, progress output, and drctl as a subprocess."""

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
from drctl.model.errors import Stopped, Unknown, UsageError

NAME = "mm2-source-reverse"


def configuration(lab: Lab) -> dict[str, str]:
    """The connector's settings; its user is admin: `replicator` may not write to the primary."""
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
    """Create the reverse connector in state STOPPED and without source offsets.

    Raises:
        ConnectRejected: a connector of this name exists.
        Unreachable: the worker does not answer.
    """
    client: ConnectWriter = lab.parts.worker.client()
    try:
        client.create_stopped(name, {**configuration(lab), "topics": topic})
    finally:
        client.close()


def prepare_failback(lab: Lab, endpoint: Path) -> None:
    """Create the reverse connector and the endpoint file, unless they exist.

    Args:
        endpoint: file from which clients read their bootstrap servers.

    Raises:
        Unreachable: the worker does not answer.
        UsageError: the file cannot be written.
    """
    client = lab.parts.worker.client()
    try:
        present = NAME in client.connectors()
    finally:
        client.close()
    if not present:
        deploy(lab, f"{lab.parts.settings.mirrored}.*")
    try:
        if not endpoint.exists():
            endpoint.write_text(f"{lab.cluster('primary').bootstrap}\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{endpoint} cannot be written: {error.strerror}") from error


def remove(lab: Lab, name: str = NAME) -> None:
    """Delete the connector and its source offsets.

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
class ScenarioResult:
    """The outcome of a scenario.

    Attributes:
        correct: whether every record matches ground truth.
        summary: headline and facts.
        page: HTML page of the unreplicated records.
        report: HTML report of the failover.
        failback: HTML report of the failback.
    """

    correct: bool
    summary: str
    page: Path
    report: Path
    failback: Path


@dataclass(frozen=True, slots=True)
class Stage:
    """Runs drctl commands for a scenario and prints its progress.

    Attributes:
        folder: for the configuration and results.
        say: prints a line.
        options: drctl's global output options.
        shown: where the results of drctl go; None is this process's stdout.
    """

    lab: Lab
    folder: Path
    say: Callable[[str], None]
    options: tuple[str, ...] = ()
    shown: TextIO | None = None

    @property
    def config(self) -> Path:
        """The lab's drctl.yaml."""
        return self.folder / "drctl.yaml"

    def heading(self, number: int, title: str) -> None:
        """Print a numbered heading."""
        for line in ("", f"--- {number}. {title}", ""):
            self.say(line)

    def drctl(self, *words: str) -> int:
        """Run a drctl command, print its result, and return its exit code.

        Raises:
            Unknown: the command timed out.
        """
        self.say(f"$ drctl {' '.join(words)}")
        try:
            done = subprocess.run(
                self._command(*words),
                stdin=subprocess.DEVNULL,
                stdout=self.shown,
                timeout=DEADLINE_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Unknown(f"drctl {words[0]} did not finish within {DEADLINE_S} s") from None
        return done.returncode

    @contextmanager
    def running(self, *words: str) -> Iterator["RunningCommand"]:
        """Run a drctl command in the background; it is killed if the scenario fails.

        Raises:
            Unknown: the command timed out.
        """
        self.say(f"$ drctl {' '.join(words)}")
        process = subprocess.Popen(
            self._command(*words), stdin=subprocess.DEVNULL, stdout=self.shown
        )
        try:
            yield RunningCommand(process, self.folder / ".drctl" / "runs")
        finally:
            if process.poll() is None:
                process.kill()
                process.wait(_END_S)

    def answer(self, out: Path) -> dict[str, Any]:
        """Read the document that `drctl gap --out` wrote.

        Raises:
            Unknown: there is none.
        """
        document = out / "gap.json"
        if not document.is_file():
            raise Unknown(f"drctl gap wrote no gap.json to {out}")
        found: dict[str, Any] = json.loads(document.read_text(encoding="utf-8"))
        return found

    def reports(self) -> tuple[Path, ...]:
        """HTML reports of all runs so far, oldest first."""
        return tuple(sorted((self.folder / ".drctl" / "runs").glob("*/report.html")))

    @contextmanager
    def tracked(self) -> Iterator["Tracker"]:
        """Run `drctl offsets track` in the background, one pass a second."""
        words = ("offsets", "track", "--every", "1s", "--execute", "--yes", "--output", "json")
        self.say("$ drctl offsets track --every 1s --execute --yes    (in the background)")
        log = self.folder / "track.jsonl"
        with log.open("wb") as output, (self.folder / "track.log").open("wb") as errors:
            process = subprocess.Popen(
                self._command(*words), stdin=subprocess.DEVNULL, stdout=output, stderr=errors
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
        """Count the complete passes so far.

        Raises:
            Stopped: the process has exited.
        """
        if self.process.poll() is not None:
            raise Stopped(f"drctl offsets track exited with code {self.process.returncode}")
        lines = self.log.read_bytes().split(b"\n")[:-1]
        return sum(bool(json.loads(line)["complete"]) for line in lines)


@dataclass(frozen=True, slots=True)
class RunningCommand:
    """A running drctl command that executes a plan.

    Attributes:
        runs: the folder of all runs.
    """

    process: subprocess.Popen[bytes]
    runs: Path

    def has_done(self, step: str) -> bool:
        """Whether the run's journal records the step as done.

        Raises:
            Stopped: the command exited first.
        """
        for line in self._journal():
            if b'"entry":"done"' in line and f'"step":"{step}"'.encode() in line:
                return True
        if self.process.poll() is not None:
            raise Stopped(f"drctl exited with code {self.process.returncode} before step {step}")
        return False

    def ended(self) -> int:
        """Wait for the command and return its exit code.

        Raises:
            Unknown: it did not finish in time.
        """
        try:
            return self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            raise Unknown(f"drctl did not finish within {DEADLINE_S} s") from None

    def _journal(self) -> list[bytes]:
        newest = sorted(self.runs.glob("*/journal.jsonl"))[-1:]
        return newest[0].read_bytes().split(b"\n") if newest else []
