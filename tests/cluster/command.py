"""`drctl` in this process or its own, with or without a terminal, and its results."""

import json
import os
import pty
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

import psutil

from drctl.cli.main import run
from drctl.lab.waiting import Patience
from tests.cli.conftest import DRCTL, Ran, clean_environment
from tests.cli.documents import check

DEADLINE_S = 280.0
PROMPT = "Type the cluster's name"
PROGRAM = (str(DRCTL),)


@dataclass(frozen=True)
class Ended:
    """A command that ended.

    Attributes:
        out: the folder given as `--out`.
        stderr: stderr, or what was drawn on the terminal.
    """

    code: int
    stdout: str
    stderr: str
    out: Path

    def document(self) -> dict[str, Any]:
        """Return the one JSON document on stdout."""
        found = json.loads(self.stdout)
        assert isinstance(found, dict)
        return found

    def gap(self) -> dict[str, Any]:
        """Return the gap document that it wrote."""
        found = json.loads((self.out / "gap.json").read_text(encoding="utf-8"))
        assert isinstance(found, dict)
        return found


@dataclass
class Running:
    """A running drctl."""

    process: subprocess.Popen[bytes]
    stdout: Path
    stderr: Path
    out: Path
    terminal: int | None = None
    seen: list[psutil.Process] = field(default_factory=list)

    def stderr_text(self) -> str:
        """Return stderr so far."""
        return self.stderr.read_text(encoding="utf-8", errors="replace")

    def await_stderr(self, words: str, seconds: float = 90, times: int = 1) -> None:
        """Wait until this was printed that often; a progress bar prints ten times a second."""

        def printed() -> bool:
            ended = self.process.poll() is not None
            assert not ended, self.stdout.read_text("utf-8") + without_frames(self.stderr_text())
            return self.stderr_text().count(words) >= times

        assert Patience.of(seconds).wait_until(printed), without_frames(self.stderr_text())

    def ended_within(self, seconds: float) -> bool:
        """Whether it ends in this time."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        return self.process.returncode is not None

    def family(self) -> list[psutil.Process]:
        """Return its child processes, and remember them."""
        self.seen += psutil.Process(self.process.pid).children(recursive=True)
        return self.seen

    def press_ctrl_c(self) -> None:
        """Press Ctrl-C: the terminal interrupts all foreground processes."""
        assert self.terminal is not None
        os.write(self.terminal, b"\x03")

    def type(self, line: str) -> None:
        """Type a line and Enter."""
        assert self.terminal is not None
        os.write(self.terminal, f"{line}\n".encode())

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to drctl alone, as `kill` and service managers do."""
        self.process.send_signal(number)

    def wait(self, seconds: float = DEADLINE_S) -> Ended:
        """Wait until it ends."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        finally:
            self.close()
        stdout = self.stdout.read_text(encoding="utf-8")
        return Ended(code, stdout, without_frames(self.stderr_text()), self.out)

    def kill(self) -> None:
        """Kill it and its children."""
        if self.process.poll() is None:
            self.family()
            self.process.kill()
            self.process.wait(20)
        for child in self.seen:
            with suppress(psutil.NoSuchProcess):
                child.kill()

    def close(self) -> None:
        """Close the terminal."""
        if self.terminal is not None:
            os.close(self.terminal)
            self.terminal = None


@dataclass(frozen=True)
class Drctl:
    """Runs drctl with one drctl.yaml in a folder of its own.

    Attributes:
        first: words before all others.
    """

    folder: Path
    config: Path
    first: tuple[str, ...] = ()

    @property
    def offsets(self) -> "Drctl":
        """Run `drctl offsets`."""
        return replace(self, first=("offsets",))

    @property
    def runs(self) -> Path:
        """The folder with the journals of runs."""
        return self.folder / ".drctl" / "runs"

    def line(self, *words: str, program: Sequence[str] = PROGRAM) -> list[str]:
        return [*program, "--config", str(self.config), *self.first, *words]

    def __call__(self, *words: str) -> Ran:
        """Run it to completion in this process: imports would take most of the time of another."""
        stdout, stderr = StringIO(), StringIO()
        with chdir(self.folder), redirect_stdout(stdout), redirect_stderr(stderr):
            code = run(self.line(*words, program=()))
        return Ran(code, stdout.getvalue(), stderr.getvalue())

    def main(self, *words: str) -> Ran:
        """Run any command in this process."""
        return replace(self, first=())(*words)

    def json(self, *words: str, code: int = 0) -> dict[str, Any]:
        """Return the document on stdout, validated against its schema."""
        ran = self(*words, "--output", "json")
        assert ran.code == code, ran.stdout + ran.stderr
        return check(ran.document())

    def process(
        self, *words: str, program: Sequence[str] = PROGRAM, seconds: float = DEADLINE_S
    ) -> Ran:
        """Run it to completion in its own process, as a shell does."""
        done = subprocess.run(
            self.line(*words, program=program),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=clean_environment(),
            timeout=seconds,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def killed(self, program: Sequence[str], *words: str) -> None:
        """Run a program in place of drctl that SIGKILL ends."""
        ran = self.process(*words, program=program)
        assert ran.code == -signal.SIGKILL, f"{program}: {ran.stdout}{ran.stderr}"

    @contextmanager
    def running(
        self, *words: str, program: Sequence[str] = PROGRAM, output: IO[bytes] | None = None
    ) -> "Iterator[subprocess.Popen[bytes]]":
        """Start it; it is killed at the end of the block if it still runs.

        Args:
            output: file for its output; by default both streams are pipes.
        """
        process = subprocess.Popen(
            self.line(*words, program=program),
            stdin=subprocess.DEVNULL,
            stdout=output or subprocess.PIPE,
            stderr=output or subprocess.PIPE,
            cwd=self.folder,
            env=clean_environment(),
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate(timeout=DEADLINE_S)

    def typed(self, *words: str, name: str, before: Callable[[], object] = lambda: None) -> Ran:
        """Run it on a terminal and type a name; `before` runs while it waits for the name."""
        running = self.on_terminal(*words, name=f"typed-{uuid4().hex}")
        try:
            running.await_stderr(PROMPT)
            before()
            running.type(name)
            ended = running.wait(120)
        finally:
            running.kill()
        return Ran(ended.code, ended.stdout, ended.stderr)

    def gap(
        self,
        *arguments: str,
        name: str = "gap",
        options: Sequence[str] = ("--output", "json"),
        out: Path | None = None,
        **settings: Any,
    ) -> Ended:
        """Run `drctl gap` to completion, in this process if it starts no other."""
        if settings or (self.config.exists() and "\nspark:" in self.config.read_text("utf-8")):
            return self.start(*arguments, name=name, options=options, out=out, **settings).wait()
        out = out or self.folder / name / "out"
        ran = self(*options, "gap", *arguments, "--out", str(out))
        return Ended(ran.code, ran.stdout, ran.stderr, out)

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
        """Start `drctl gap`.

        Args:
            name: name of the folder for its result and output.
            options: global options.
            terminal: whether stdin and stderr are a terminal of its own.
            under: a command that runs drctl.
        """
        out = out or self.folder / name / "out"
        program = (*under, *PROGRAM)
        words = self.line(*options, "gap", *arguments, "--out", str(out), program=program)
        return self._start(words, name, out, environ or {}, terminal)

    def on_terminal(self, *words: str, name: str) -> Running:
        """Start any command with a terminal of its own as stdin and stderr.

        Args:
            name: name of the folder for its output.
        """
        return self._start(self.line(*words), name, self.folder / name / "out", {}, True)

    def _start(
        self, words: list[str], name: str, out: Path, environ: Mapping[str, str], terminal: bool
    ) -> Running:
        work = self.folder / name
        work.mkdir(parents=True)
        files = work / "stdout", work / "stderr"
        environment = {**clean_environment(), "TERM": "xterm", **environ}
        with files[0].open("wb") as stdout, files[1].open("wb") as stderr:
            if terminal:
                return _behind_terminal(words, stdout, files, out, self.folder, environment)
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                cwd=self.folder,
                env=environment,
                start_new_session=True,
            )
        return Running(process, *files, out)


def _behind_terminal(
    words: list[str],
    stdout: IO[bytes],
    files: tuple[Path, Path],
    out: Path,
    folder: Path,
    environment: Mapping[str, str],
) -> Running:
    master, slave = pty.openpty()
    try:
        process = subprocess.Popen(
            ["setsid", "--ctty", *words],
            stdin=slave,
            stdout=stdout,
            stderr=slave,
            cwd=folder,
            env=environment,
        )
    finally:
        os.close(slave)
    threading.Thread(target=_copy, args=(os.dup(master), files[1]), daemon=True).start()
    return Running(process, *files, out, terminal=master)


def _copy(terminal: int, file: Path) -> None:
    """Save what is drawn until no process has the terminal open."""
    with (
        os.fdopen(terminal, "rb", buffering=0) as drawn,
        file.open("ab", buffering=0) as kept,
        suppress(OSError),  # how Linux says that the other end is closed
    ):
        while data := drawn.read(4096):
            kept.write(data)


def without_frames(drawn: str) -> str:
    """Return the lines of a terminal without the frames of progress bars."""
    lines = re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", drawn))
    distinct = {re.sub(r"[^a-zA-Z]", "", line): line for line in lines}
    return "\n".join(distinct.values())


def command_lines() -> str:
    """Return the command lines of all processes of this host."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            found.append((process / "cmdline").read_bytes())
    return b"\n".join(found).decode(errors="replace")


def alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
