"""Detached processes: found again, never confused with others, and ended reliably."""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from drctl.lab.processes import Part, marked_processes
from drctl.lab.waiting import Patience, together
from drctl.model.errors import Stopped

SLEEPER = "import time, sys; print('started', flush=True); time.sleep(600)"
HEADLESS = """
import ctypes, threading, time
def stay():
    time.sleep(0.5)
    print("started", flush=True)
    time.sleep(600)
threading.Thread(target=stay).start()
ctypes.CDLL(None).pthread_exit(None)
"""
"""The main thread ends, and another thread continues."""
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPER}"


@pytest.fixture
def part(tmp_path: Path) -> Iterator[Part]:
    made = Part("sleeper", tmp_path / "sleeper", f"-Dtest.lab={tmp_path}")
    yield made
    for process in marked_processes(made.mark):
        process.kill()


def start(part: Part, program: str = SLEEPER) -> psutil.Process:
    part.start([sys.executable, "-c", program, part.mark])
    assert Patience.of(20).wait_until(lambda: part.log_tail() == "started")
    process = part.process()
    assert process is not None
    return process


def test_it_has_its_own_session_and_no_parent(part: Part) -> None:
    process = start(part)
    assert os.getsid(process.pid) != os.getsid(0)
    assert process.terminal() is None
    assert process.ppid() != os.getpid()
    assert (part.log.stat().st_mode & 0o777, part.folder.stat().st_mode & 0o777) == (0o600, 0o700)


def test_it_is_found_by_another_drctl(part: Part) -> None:
    process = start(part)
    assert Part(part.name, part.folder, part.mark).process() == process


@pytest.mark.slow
def test_it_ends_without_a_zombie(part: Part) -> None:
    pid = start(part).pid
    part.end(Patience.of(20), gently=True)
    assert part.process() is None
    assert not psutil.pid_exists(pid) or psutil.Process(pid).ppid() != os.getpid()
    part.end(Patience.of(20))


@pytest.mark.slow
def test_it_ends_even_if_frozen(part: Part) -> None:
    start(part, STUBBORN)
    part.signal(signal.SIGSTOP)
    assert Patience.of(10).wait_until(part.frozen)
    part.end(Patience.of(0.3), gently=True)
    assert marked_processes(part.mark) == ()


@pytest.mark.slow
def test_it_lives_until_its_last_thread_has_ended(part: Part) -> None:
    """A killed broker on a busy host is such a process, and still has its ports."""
    process = start(part, HEADLESS)
    assert process.status() == psutil.STATUS_ZOMBIE
    part.end(Patience.of(0))
    assert part.process() is None


def test_it_runs_during_exec(part: Part, monkeypatch: pytest.MonkeyPatch) -> None:
    """During exec a process has no command line for a moment, too short to hit on purpose."""
    process = start(part)
    monkeypatch.setattr(psutil.Process, "cmdline", lambda _process: [])
    assert part.process() == process


def test_a_reused_pid_is_not_confused_with_it(part: Part) -> None:
    process = start(part)
    record = {"pid": process.pid, "started": process.create_time() - 60}
    (part.folder / "process.json").write_text(json.dumps(record), encoding="utf-8")
    assert part.process() is None
    mine = {"pid": os.getpid(), "started": psutil.Process().create_time()}
    (part.folder / "process.json").write_text(json.dumps(mine), encoding="utf-8")
    assert part.process() is None, "a process without the mark was accepted"
    assert not part.signal(signal.SIGKILL)
    assert marked_processes(part.mark) == (process,), "the process was not found without its record"


def test_waiting_ends_with_the_first_failure() -> None:
    patience = Patience.of(60)
    began = time.monotonic()

    def fails() -> None:
        raise Stopped("the cause")

    with pytest.raises(Stopped, match="the cause"):
        together(patience, lambda: patience.wait_until(lambda: False), fails)
    assert time.monotonic() - began < 20


def test_waiting_has_a_deadline() -> None:
    asked: list[bool] = []

    def never() -> bool:
        asked.append(True)
        return False

    assert not Patience.of(0.1).wait_until(never)
    assert asked
