"""The soak's own machines: who reaches whom, whose clock is wrong, and which disk is full."""

import errno
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from drctl.lab.settings import LabSettings
from tests.soak import sandbox
from tests.soak.round_plan import CONNECT, DRCTL, PRIMARY, SECONDARY, Way
from tests.soak.sandbox import Sandbox, alone, bytecode

SETTINGS = LabSettings(port_base=20000, brokers=3)
ASKING = """
import json, socket, sys, time
asked = socket.socket()
asked.settimeout(float(sys.argv[2]))
try:
    asked.connect(("127.0.0.1", int(sys.argv[1])))
    asked.sendall(b"?")
    answered = asked.recv(1) == b"!"
except TimeoutError:
    answered = False
print(json.dumps([answered, time.time()]))
"""
WAITING = """
import threading
from confluent_kafka import Consumer
consumer = Consumer({"group.id": "x", "bootstrap.servers": "127.0.0.1:1", "log_level": 0})
for _ in range(3):
    consumer.poll(0.2)
threading.Event().wait(0.2)
"""
"""Waits of librdkafka and of Python, which end although the clock is an hour ahead."""
MISSING_S = 1.5
"""How long a connection is tried that must not come about."""
HOUR_S = 3600


class Served:
    """A port of a broker, which remembers the addresses and the requests that reach it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.came: list[str] = []
        self._listening = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            made, (address, _) = self._listening.accept()
            threading.Thread(target=self._answer, args=(made, address), daemon=True).start()

    def _answer(self, made: socket.socket, address: str) -> None:
        while made.recv(1):
            self.came.append(address)
            made.sendall(b"!")

    def asked_by(self, host: str, seconds: float = 30) -> tuple[bool, float]:
        """Return whether a process on a machine got an answer, and how far its clock is ahead."""
        done = subprocess.run(
            [sys.executable, "-c", ASKING, str(self.port), str(seconds)],
            env={**os.environ, "SOAK_HOST": host},
            capture_output=True,
            text=True,
            check=True,
        )
        answered, clock = json.loads(done.stdout)
        return answered, clock - time.time()


@contextmanager
def lost(box: Sandbox, host: str, there: str, way: Way) -> Iterator[None]:
    number = box.lose(host, there, way)
    try:
        yield
    finally:
        box.restore(number)


def observe(folder: Path) -> dict[str, Any]:
    """Run inside the namespaces: what happens with each fault."""
    seen: dict[str, Any] = {}
    with Sandbox(folder / "hosts", folder / "lab", SETTINGS).opened() as box:
        primary = Served(SETTINGS.broker_port(PRIMARY, 3))
        secondary = Served(SETTINGS.broker_port(SECONDARY, 1))
        seen["before"] = primary.asked_by(DRCTL)[0]
        for way in Way:
            with lost(box, DRCTL, PRIMARY, way):
                seen[way] = [
                    primary.asked_by(DRCTL, MISSING_S)[0],
                    primary.asked_by(CONNECT)[0],
                    secondary.asked_by(DRCTL)[0],
                ]
            seen[f"after {way}"] = primary.asked_by(DRCTL)[0]
        slow = box.narrow(DRCTL, PRIMARY, 64)
        few = box.lose(DRCTL, PRIMARY, Way.BOTH, 0.2)
        seen["slow"] = primary.asked_by(DRCTL)[0]
        box.restore(slow)
        box.restore(few)
        seen["came"] = sorted(set(primary.came))
        box.shift(DRCTL, HOUR_S)
        seen["ahead"] = [round(primary.asked_by(each)[1] / HOUR_S) for each in (DRCTL, CONNECT)]
        subprocess.run(
            [sys.executable, "-c", WAITING],
            env={**os.environ, "SOAK_HOST": DRCTL},
            capture_output=True,
            check=True,
            timeout=60,
        )
        box.shift(DRCTL, 0)
        disk = folder / "lab" / "primary" / "2" / "data"
        with box.full_disk("primary-2"):
            seen["full"] = wrote(disk / "one")
            seen["other"] = wrote(disk.parents[1] / "1" / "data" / "one")
        seen["free"] = wrote(disk / "two")
    seen["left"] = [str(each) for each in disk.iterdir()]
    return seen


def wrote(file: Path) -> str:
    """Write a block; return the name of the error."""
    try:
        file.write_bytes(b"x" * 8192)
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return ""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("sandbox")
    program = [*alone(), sys.executable, "-m", "tests.soak.test_sandbox", str(folder)]
    tried = subprocess.run([*alone(), "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"namespaces are not permitted here: {tried.stderr.strip()}")
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_partition_is_between_two_machines_only(seen: dict[str, Any]) -> None:
    assert seen["before"]
    for way in Way:
        assert seen[way] == [False, True, True], way
        assert seen[f"after {way}"], way
    assert seen["came"] == ["127.0.0.2", "127.0.0.3"], "the requests had other addresses"


def test_a_slow_line_with_loss_answers_late(seen: dict[str, Any]) -> None:
    assert seen["slow"]


def test_only_one_clock_is_ahead(seen: dict[str, Any]) -> None:
    assert seen["ahead"] == [1, 0]


def test_only_one_disk_is_full(seen: dict[str, Any]) -> None:
    assert (seen["full"], seen["other"], seen["free"]) == ("ENOSPC", "", "")
    assert seen["left"] == [], "the disk is still mounted"


def test_without_tools_the_soak_runs_here_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_found", lambda tool: None if tool in ("tc", "cc") else tool)
    assert sandbox.enter() == "missing commands: tc, cc"


def test_without_namespaces_the_soak_runs_here_and_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sandbox, "alone", lambda: ("sh", "-c", "echo not permitted >&2; exit 1"))
    assert sandbox.enter() == "no network of its own: not permitted"


def test_all_ports_are_compared() -> None:
    """Each comparison jumps to the line that draws a random number, the last one to the end."""
    lines = bytecode(1, (10, 20, 30), Way.TO, 1.0).split(",")
    assert lines[0] == str(len(lines) - 1)
    assert lines[6:9] == ["21 2 0 10", "21 1 0 20", "21 0 3 30"]
    assert lines[9:] == ["32 0 0 4294963256", "37 1 0 4294967295", "6 0 0 4294967295", "6 0 0 0"]


if __name__ == "__main__":
    print(json.dumps(observe(Path(sys.argv[1]))))
