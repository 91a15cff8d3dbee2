"""drctl on one link, as a shell runs it, and the journal of its newest run on this host."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from drctl.lab.waiting import Patience
from tests.cli.conftest import Ran
from tests.cluster.command import PROGRAM, Drctl

GO = ("--execute", "--yes")
NOTHING_LOST = {"records": 0, "at_least": 0, "at_most": 0, "seconds": 0, "exact": True}
Process = subprocess.Popen[bytes]


def soon(seen: Callable[[], object], message: object = "", seconds: float = 60) -> None:
    """Wait until it is so; fail after the time limit."""
    assert Patience.of(seconds).wait_until(lambda: bool(seen())), message


def steps_of(result: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {step["id"]: step[name] for step in result["steps"]}


def yes(*questions: str) -> list[str]:
    """Return the answers of a person."""
    return [word for each in questions for word in ("--answer", f"{each}=yes")]


class LinkCommand:
    """Runs drctl with one configuration, on one link by default."""

    drctl: Drctl
    link: str
    deadline_s: float = 240.0

    def run(self, *words: str, link: str = "") -> Ran:
        """Run it to completion, as a shell does."""
        return self.drctl.process(*words, "--link", link or self.link, seconds=self.deadline_s)

    def json(self, *words: str, code: int) -> dict[str, Any]:
        """Run it to completion in this process; return its document."""
        return self.drctl.json(*words, "--link", self.link, code=code)

    def refused(self, *words: str, code: int = 3) -> str:
        """Run it in this process; return the refusal in one line."""
        ran = self.drctl(*words, "--link", self.link)
        assert ran.code == code, ran.stdout + ran.stderr
        return " ".join(f"{ran.stdout} {ran.stderr}".split())

    @contextmanager
    def running(self, *words: str, program: Sequence[str] = PROGRAM) -> Iterator[Process]:
        """Start it; it is killed at the end of the block if it still runs.

        Args:
            program: a program to run in place of drctl, with the same arguments.
        """
        with (
            (self.drctl.folder / "output").open("wb") as output,
            self.drctl.running(
                *words, "--link", self.link, program=program, output=output
            ) as process,
        ):
            yield process

    def ends(self, process: Process, code: int = 0) -> None:
        """Assert that it ends with this code, in time."""
        assert process.wait(self.deadline_s) == code, self.output

    def until(self, process: Process, seen: Callable[[], bool]) -> None:
        """Wait until this is seen; fail if the run ends before."""

        def there() -> bool:
            assert process.poll() is None or seen(), self.output
            return seen()

        soon(there, self.output, self.deadline_s)

    def says(self, process: Process, words: str) -> None:
        self.until(process, lambda: words in self.output)

    def kill_at(self, step: str, *words: str) -> None:
        """Run it, and kill it as soon as its journal announces a step."""
        with self.running(*words) as process:
            # An open transaction of a process that was killed before may delay this.
            self.until(process, lambda: self.has("intend", step))
            assert process.poll() is None, self.output
            os.kill(process.pid, signal.SIGKILL)

    @property
    def output(self) -> str:
        """Return what the newest started command has printed."""
        return (self.drctl.folder / "output").read_text(encoding="utf-8")

    def journaled(self) -> list[Mapping[str, Any]]:
        """Return the entries of the newest run in this host's copy."""
        found = []
        for file in sorted(self.drctl.runs.glob("*/journal.jsonl"))[-1:]:
            for line in file.read_bytes().split(b"\n"):
                with suppress(ValueError):
                    found.append(json.loads(line))
        return found

    @property
    def newest_run(self) -> str:
        return next((str(each["run"]) for each in self.journaled()), "")

    def entries(self, what: str, step: str | None = None) -> list[Mapping[str, Any]]:
        """Return entries of the newest run, of one step or of all."""
        found = [each for each in self.journaled() if each["entry"] == what]
        return [each for each in found if step in (None, each.get("step"))]

    def has(self, what: str, step: str | None = None) -> bool:
        return bool(self.entries(what, step))

    def move_to_another_machine(self) -> None:
        """Return a command on a host with the configuration only: no journal and no result."""
        folder = self.drctl.folder
        moves = len([*folder.glob("moved-aside-*")])
        (folder / ".drctl").rename(folder / f"moved-aside-{moves + 1}")
