"""`drctl offsets` in this process or one of its own, and a terminal to type a cluster's name at."""

import os
import pty
import subprocess
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from drctl.cli.main import run
from drctl.lab.waiting import Patience
from tests.cli.conftest import DRCTL, Ran, clean_environment
from tests.cli.documents import check

DEADLINE_S = 120.0
PROMPT = b"Type the cluster's name to go on:"


@dataclass(frozen=True)
class OffsetsCommand:
    """Runs with one drctl.yaml; state_dir is in its folder."""

    config: Path

    @property
    def folder(self) -> Path:
        return self.config.parent

    @property
    def journals(self) -> Path:
        """Where runs leave their journals."""
        return self.folder / ".drctl" / "runs"

    def __call__(self, *words: str) -> Ran:
        """Run it to its end, through the entry point; most of a process would be its imports."""
        return self._run(self._line(words)[1:])

    def main(self, *words: str) -> Ran:
        """The same of any command."""
        return self._run(["--config", str(self.config), *words])

    def _run(self, words: list[str]) -> Ran:
        stdout, stderr = StringIO(), StringIO()
        with chdir(self.folder), redirect_stdout(stdout), redirect_stderr(stderr):
            code = run(words)
        return Ran(code, stdout.getvalue(), stderr.getvalue())

    def process(self, *words: str) -> Ran:
        """Run it to its end, as a shell does."""
        done = subprocess.run(
            self._line(words),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=clean_environment(),
            timeout=DEADLINE_S,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def json(self, *words: str, code: int = 0) -> dict[str, Any]:
        """The document on stdout, which fits its schema."""
        ran = self(*words, "--output", "json")
        assert ran.code == code, ran.stdout + ran.stderr
        return check(ran.document())

    @contextmanager
    def started(self, *words: str) -> Iterator["subprocess.Popen[bytes]"]:
        """It, running; killed at the end if it still does."""
        process = subprocess.Popen(
            self._line(words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.folder,
            env=clean_environment(),
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate(timeout=DEADLINE_S)

    def typed(self, *words: str, name: bytes, before: Callable[[], object] = lambda: None) -> Ran:
        """Run it behind a terminal and type a name; `before` happens while it waits for that."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            ["setsid", "--ctty", *self._line(words)],
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=theirs,
            cwd=self.folder,
            env={**clean_environment(), "TERM": "xterm"},
        )
        os.close(theirs)
        os.set_blocking(ours, False)
        shown = bytearray()

        def asked() -> bool:
            with suppress(BlockingIOError):
                shown.extend(os.read(ours, 65536))
            return PROMPT in shown

        try:
            assert Patience.of(DEADLINE_S).wait_until(asked), shown.decode()
            before()
            os.write(ours, name)
            os.set_blocking(ours, True)
            stdout, _ = process.communicate(timeout=DEADLINE_S)
            with suppress(OSError):  # how Linux says that the other end is closed
                while more := os.read(ours, 65536):
                    shown.extend(more)
        finally:
            process.kill()
            process.wait(DEADLINE_S)
            os.close(ours)
        return Ran(process.returncode, stdout.decode(), shown.decode(errors="replace"))

    def _line(self, words: tuple[str, ...]) -> list[str]:
        return [str(DRCTL), "--config", str(self.config), "offsets", *words]
