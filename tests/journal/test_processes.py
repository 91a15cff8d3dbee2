"""Only its own host knows whether a holder's process has ended."""

import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from drctl.host import processes
from drctl.host.processes import has_ended, this_machine
from drctl.model.journal import Holder


def holder(pid: int, machine: str) -> Holder:
    return Holder("A", "anna", "laptop", pid, datetime.now(UTC), machine)


@pytest.fixture(scope="module")
def ended() -> int:
    """Return the id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait(60)
    return process.pid


def test_only_processes_of_this_machine_are_known_to_have_ended(ended: int) -> None:
    here = this_machine()
    assert len(here.split("/")) == 2
    assert has_ended(holder(ended, here))
    assert not has_ended(holder(os.getpid(), here))
    assert not has_ended(holder(1, here)), "a process of another user may be the holder"
    assert not has_ended(holder(ended, f"{here}0")), (
        "a process in another container counts as ended"
    )
    assert not has_ended(holder(ended, "")), "a holder without a machine id counts as ended"


def test_without_a_machine_id_no_process_is_known_to_have_ended(
    ended: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_NAMESPACE", processes._NAMESPACE / "no")
    assert this_machine() == ""
    assert not has_ended(holder(ended, this_machine()))
