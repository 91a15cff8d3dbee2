"""Servers that tests start: they end with the test; their output is kept for failures."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from drctl.lab.waiting import Patience


class DidNotStart(Exception):
    """A program ended or did not become ready; has its output."""


def found(program: str) -> str:
    """Return the path of a program; Debian keeps system programs out of most users' PATH."""
    path = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    assert path, f"{program} is missing: run scripts/ensure-endpoints"
    return path


def wait_until_stopped(pid: int) -> None:
    """Wait after SIGSTOP: a thread on another core does not stop at once."""
    threads = Path(f"/proc/{pid}/task")

    def all_stopped() -> bool:
        states = ((task / "stat").read_text() for task in threads.iterdir())
        return all(state.rpartition(")")[2].split()[0] == "T" for state in states)

    assert Patience.of(10).wait_until(all_stopped)


@dataclass(frozen=True)
class Program:
    """A running program."""

    process: "subprocess.Popen[bytes]"
    log: Path

    @contextmanager
    def stalled(self) -> Iterator[None]:
        """Suspend it during the block; it handles what was sent afterwards."""
        os.kill(self.process.pid, signal.SIGSTOP)
        wait_until_stopped(self.process.pid)
        try:
            yield
        finally:
            os.kill(self.process.pid, signal.SIGCONT)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def start(
    argv: Sequence[str], log: Path, ready: Callable[[], bool], *, pass_fds: Sequence[int] = ()
) -> Program:
    """Start it, and wait until it is ready.

    Raises:
        DidNotStart: it ended first, or took too long.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv,
            cwd=log.parent,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=pass_fds,
        )
    program = Program(process, log)
    Patience.of(30).wait_until(lambda: ready() or process.poll() is not None)
    if process.poll() is not None or not ready():
        program.end()
        raise DidNotStart(log.read_text(errors="replace")[-2000:])
    return program
