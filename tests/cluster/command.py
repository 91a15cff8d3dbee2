"""`drctl` as a process of its own, with pipes or behind a terminal, and what it leaves."""

import json
import os
import pty
import re
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import psutil

from drctl.lab.waiting import Patience
from tests.cli.conftest import DRCTL, clean_environment

DEADLINE_S = 280.0


@dataclass(frozen=True)
class Ended:
    """How a command line ended.

    Attributes:
        out: the folder given as `--out`.
        stderr: what was said, or drawn on the terminal.
    """

    code: int
    stdout: str
    stderr: str
    out: Path

    def document(self) -> dict[str, Any]:
        """The one JSON document on stdout."""
        found = json.loads(self.stdout)
        assert isinstance(found, dict)
        return found

    def gap(self) -> dict[str, Any]:
        """The answer that it left."""
        found = json.loads((self.out / "gap.json").read_text(encoding="utf-8"))
        assert isinstance(found, dict)
        return found


@dataclass
class Running:
    """A drctl that has not ended yet."""

    process: subprocess.Popen[bytes]
    stdout: Path
    stderr: Path
    out: Path
    terminal: int | None = None
    seen: list[psutil.Process] = field(default_factory=list)

    def said(self) -> str:
        """What is on stderr so far."""
        return self.stderr.read_text(encoding="utf-8", errors="replace")

    def await_said(self, words: str, seconds: float = 90, times: int = 1) -> None:
        """Wait until it has said this so often; a progress bar says it ten times a second."""

        def heard() -> bool:
            assert self.process.poll() is None, without_frames(self.said())
            return self.said().count(words) >= times

        assert Patience.of(seconds).wait_until(heard), without_frames(self.said())

    def ended_within(self, seconds: float) -> bool:
        """Whether it ends by then."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        return self.process.returncode is not None

    def family(self) -> list[psutil.Process]:
        """Its child processes, remembered."""
        self.seen += psutil.Process(self.process.pid).children(recursive=True)
        return self.seen

    def press_ctrl_c(self) -> None:
        """What a person does: the terminal then interrupts everybody in the foreground."""
        assert self.terminal is not None
        os.write(self.terminal, b"\x03")

    def type(self, line: str) -> None:
        """Type a line, and end it."""
        assert self.terminal is not None
        os.write(self.terminal, f"{line}\n".encode())

    def signal(self, number: signal.Signals) -> None:
        """Signal drctl alone, as `kill` and service managers do."""
        self.process.send_signal(number)

    def wait(self, seconds: float = DEADLINE_S) -> Ended:
        """How it ended."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        finally:
            self.close()
        stdout = self.stdout.read_text(encoding="utf-8")
        return Ended(code, stdout, without_frames(self.said()), self.out)

    def kill(self) -> None:
        """End it and its children, whatever they do."""
        if self.process.poll() is None:
            self.family()
            self.process.kill()
            self.process.wait(20)
        for child in self.seen:
            with suppress(psutil.NoSuchProcess):
                child.kill()

    def close(self) -> None:
        """Let go of the terminal."""
        if self.terminal is not None:
            os.close(self.terminal)
            self.terminal = None


@dataclass(frozen=True)
class Drctl:
    """Runs drctl with one drctl.yaml, `drctl gap` above all; all that it needs is in one folder."""

    folder: Path
    config: Path

    def gap(self, *arguments: str, **settings: Any) -> Ended:
        """Run it to its end."""
        return self.start(*arguments, **settings).wait()

    def start(
        self,
        *arguments: str,
        name: str = "gap",
        options: Sequence[str] = ("--output", "json"),
        environ: Mapping[str, str] | None = None,
        out: Path | None = None,
        terminal: bool = False,
        under: Sequence[str] = (),
    ) -> Running:
        """Start it.

        Args:
            name: of the folder for its result and its output.
            options: global ones.
            terminal: whether stdin and stderr are a terminal of its own.
            under: a command that runs drctl.
        """
        work = self.folder / name
        work.mkdir(parents=True)
        out = out or work / "out"
        words = [
            *under,
            str(DRCTL),
            "--config",
            str(self.config),
            *options,
            "gap",
            "--out",
            str(out),
        ]
        files = work / "stdout", work / "stderr"
        environment = {**clean_environment(), "TERM": "xterm", **(environ or {})}
        with files[0].open("wb") as stdout, files[1].open("wb") as stderr:
            if terminal:
                return _behind_terminal([*words, *arguments], stdout, files, out, environment)
            process = subprocess.Popen(
                [*words, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                cwd=self.folder,
                env=environment,
                start_new_session=True,
            )
        return Running(process, *files, out)

    def on_terminal(self, *words: str, name: str) -> Running:
        """Start any command, with a terminal of its own as stdin and stderr.

        Args:
            name: of the folder for its output.
        """
        work = self.folder / name
        work.mkdir(parents=True)
        files = work / "stdout", work / "stderr"
        files[1].touch()
        environment = {**clean_environment(), "TERM": "xterm"}
        line = [str(DRCTL), "--config", str(self.config), *words]
        with files[0].open("wb") as stdout:
            return _behind_terminal(line, stdout, files, work / "out", environment)


def _behind_terminal(
    words: list[str],
    stdout: IO[bytes],
    files: tuple[Path, Path],
    out: Path,
    environment: Mapping[str, str],
) -> Running:
    master, slave = pty.openpty()
    try:
        process = subprocess.Popen(
            ["setsid", "--ctty", *words],
            stdin=slave,
            stdout=stdout,
            stderr=slave,
            env=environment,
        )
    finally:
        os.close(slave)
    threading.Thread(target=_copy, args=(os.dup(master), files[1]), daemon=True).start()
    return Running(process, *files, out, terminal=master)


def _copy(terminal: int, file: Path) -> None:
    """Keep what is drawn, until nobody has the terminal open any more."""
    with (
        os.fdopen(terminal, "rb", buffering=0) as drawn,
        file.open("ab", buffering=0) as kept,
        suppress(OSError),  # how Linux says that the other end is closed
    ):
        while data := drawn.read(4096):
            kept.write(data)


def without_frames(drawn: str) -> str:
    """The lines of a terminal, without the many frames of a progress bar."""
    lines = re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", drawn))
    distinct = {re.sub(r"[^a-zA-Z]", "", line): line for line in lines}
    return "\n".join(distinct.values())


def command_lines() -> str:
    """Of every process of this machine."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            found.append((process / "cmdline").read_bytes())
    return b"\n".join(found).decode(errors="replace")
