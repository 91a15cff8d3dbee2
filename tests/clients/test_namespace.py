"""Namespaces of tests that ended without cleanup are removed by the next test."""

import subprocess
import sys

import pytest

from drctl.lab.waiting import Patience
from tests.clients import namespace
from tests.docs.pages import ROOT

pytestmark = pytest.mark.endpoints

_KILLED = """
import os, signal, subprocess
from tests.clients import namespace
made = namespace.create(3)
left = subprocess.Popen(made.inside(["sleep", "600"]), stdout=subprocess.DEVNULL)
while not subprocess.run(["grep", "-aq", "^sleep", f"/proc/{left.pid}/cmdline"]).returncode == 0:
    pass
print(made.name, left.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_leftovers_of_a_killed_test_are_removed() -> None:
    if reason := namespace.obstacle():
        pytest.skip(reason)
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED], cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=60
    )
    name, pid = killed.stdout.split()
    left = (namespace.NAMED / name, namespace.CONFIGURED / name)
    assert all(path.exists() for path in left)
    assert _sleeps(pid)
    made = namespace.create(3)
    try:
        assert not any(path.exists() for path in left)
        assert Patience.of(10).wait_until(lambda: not _sleeps(pid))
    finally:
        made.remove()
    assert not (namespace.NAMED / made.name).exists()


def _sleeps(pid: str) -> bool:
    found = subprocess.run(["ps", "-o", "stat=,args=", "-p", pid], capture_output=True, text=True)
    return "sleep 600" in found.stdout
