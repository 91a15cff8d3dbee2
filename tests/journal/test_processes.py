"""Whether a holder's process is gone: certain on its own machine alone."""

import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from drctl.host import processes
from drctl.host.processes import gone, this_machine
from drctl.model.journal import Holder


def holder(pid: int, machine: str) -> Holder:
    return Holder("A", "anna", "laptop", pid, datetime.now(UTC), machine)


@pytest.fixture(scope="module")
def ended() -> int:
    """The id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait(60)
    return process.pid


def test_only_a_process_of_this_machine_is_known_to_be_gone(ended: int) -> None:
    here = this_machine()
    assert len(here.split("/")) == 2
    assert gone(holder(ended, here))
    assert not gone(holder(os.getpid(), here))
    assert not gone(holder(1, here)), "somebody else's, perhaps"
    assert not gone(holder(ended, f"{here}0")), "a container beside this one"
    assert not gone(holder(ended, "")), "an earlier version's"


def test_where_the_system_does_not_tell_nobody_is_known_to_be_gone(
    ended: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_NAMESPACE", processes._NAMESPACE / "no")
    assert this_machine() == ""
    assert not gone(holder(ended, this_machine()))
