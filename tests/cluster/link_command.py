"""drctl on one link, as a shell runs it, and what its newest run wrote down on this machine."""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from tests.cli.conftest import DRCTL, Ran, clean_environment
from tests.cli.documents import check
from tests.cluster.command import Drctl

_DRCTL = (str(DRCTL),)


class LinkCommand:
    """Runs drctl with one configuration, on one link unless told otherwise."""

    drctl: Drctl
    link: str
    deadline_s: float

    def line(self, *words: str, link: str = "", program: Sequence[str] = _DRCTL) -> list[str]:
        head = [*program, "--config", str(self.drctl.config)]
        return [*head, *words, "--link", link or self.link]

    def run(self, *words: str, link: str = "") -> Ran:
        """To its end, as a shell does."""
        done = subprocess.run(
            self.line(*words, link=link),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=self.drctl.folder,
            env=clean_environment(),
            timeout=self.deadline_s,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def json(self, *words: str, code: int) -> dict[str, Any]:
        ran = self.run(*words, "--output", "json")
        assert ran.code == code, ran.stdout + ran.stderr
        return check(ran.document())

    @contextmanager
    def running(
        self, *words: str, program: Sequence[str] = _DRCTL
    ) -> "Iterator[subprocess.Popen[bytes]]":
        """It, running; killed at the end if it still does.

        Args:
            program: that is run in drctl's place, with the same words.
        """
        with (self.drctl.folder / "said").open("wb") as said:
            process = subprocess.Popen(
                self.line(*words, program=program),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                cwd=self.drctl.folder,
                env=clean_environment(),
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait(30)

    @property
    def said(self) -> str:
        """What the newest one that was started so has printed."""
        return (self.drctl.folder / "said").read_text(encoding="utf-8")

    def journaled(self) -> list[Mapping[str, Any]]:
        """The entries of the newest run, from this machine's copy."""
        found = []
        for file in sorted(self.drctl.folder.glob(".drctl/runs/*/journal.jsonl"))[-1:]:
            for line in file.read_bytes().split(b"\n"):
                with suppress(ValueError):
                    found.append(json.loads(line))
        return found

    def move_to_another_machine(self) -> None:
        """One with the configuration, and nothing of what runs keep: no journal, no result."""
        folder = self.drctl.folder
        moves = len([*folder.glob("left-behind-*")])
        (folder / ".drctl").rename(folder / f"left-behind-{moves + 1}")
