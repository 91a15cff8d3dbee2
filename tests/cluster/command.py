"""`drctl` in this process or one of its own, behind a terminal or not, and what it leaves."""

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
    """Runs drctl with one drctl.yaml; all that it needs is in one folder.

    Attributes:
        first: words that stand before all others.
    """

    folder: Path
    config: Path
    first: tuple[str, ...] = ()

    @property
    def offsets(self) -> "Drctl":
        """The same, for `drctl offsets`."""
        return replace(self, first=("offsets",))

    @property
    def runs(self) -> Path:
        """Where runs leave their journals."""
        return self.folder / ".drctl" / "runs"

    def line(self, *words: str, program: Sequence[str] = PROGRAM) -> list[str]:
        return [*program, "--config", str(self.config), *self.first, *words]

    def __call__(self, *words: str) -> Ran:
        """Run it to its end, through the entry point; most of a process would be its imports."""
        stdout, stderr = StringIO(), StringIO()
        with chdir(self.folder), redirect_stdout(stdout), redirect_stderr(stderr):
            code = run(self.line(*words, program=()))
        return Ran(code, stdout.getvalue(), stderr.getvalue())

    def main(self, *words: str) -> Ran:
        """The same of any command."""
        return replace(self, first=())(*words)

    def json(self, *words: str, code: int = 0) -> dict[str, Any]:
        """The document on stdout, which fits its schema."""
        ran = self(*words, "--output", "json")
        assert ran.code == code, ran.stdout + ran.stderr
        return check(ran.document())

    def process(
        self, *words: str, program: Sequence[str] = PROGRAM, seconds: float = DEADLINE_S
    ) -> Ran:
        """Run it to its end, as a shell does."""
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
        """Run a program in drctl's place that SIGKILL ends."""
        ran = self.process(*words, program=program)
        assert ran.code == -signal.SIGKILL, f"{program}: {ran.stdout}{ran.stderr}"

    @contextmanager
    def running(
        self, *words: str, program: Sequence[str] = PROGRAM, said: IO[bytes] | None = None
    ) -> "Iterator[subprocess.Popen[bytes]]":
        """It, running; killed at the end if it still does.

        Args:
            said: where it prints; else both streams are pipes.
        """
        process = subprocess.Popen(
            self.line(*words, program=program),
            stdin=subprocess.DEVNULL,
            stdout=said or subprocess.PIPE,
            stderr=said or subprocess.PIPE,
            cwd=self.folder,
            env=clean_environment(),
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate(timeout=DEADLINE_S)

    def typed(self, *words: str, name: str, before: Callable[[], object] = lambda: None) -> Ran:
        """Run it behind a terminal and type a name; `before` happens while it waits for that."""
        running = self.on_terminal(*words, name=f"typed-{uuid4().hex}")
        try:
            running.await_said(PROMPT)
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
        """Run `drctl gap` to its end: in this process, where it starts no other one."""
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
            name: of the folder for its result and its output.
            options: global ones.
            terminal: whether stdin and stderr are a terminal of its own.
            under: a command that runs drctl.
        """
        out = out or self.folder / name / "out"
        program = (*under, *PROGRAM)
        words = self.line(*options, "gap", *arguments, "--out", str(out), program=program)
        return self._start(words, name, out, environ or {}, terminal)

    def on_terminal(self, *words: str, name: str) -> Running:
        """Start any command, with a terminal of its own as stdin and stderr.

        Args:
            name: of the folder for its output.
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


def alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
