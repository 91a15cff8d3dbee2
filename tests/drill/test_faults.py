"""Faults are for labs only: on any other link they are refused before anything happens."""

from pathlib import Path

import pytest

from drctl.cli.drill_stage import Fault, Injected, injected
from drctl.config.loading import read
from drctl.model.errors import Refused, Stopped

YAML = """
clusters: {a: {bootstrap: "127.0.0.1:1"}, b: {bootstrap: "127.0.0.1:2"}}
links: {main: {from: a, to: b, topics: [".*"]}}
"""


def test_other_links_than_labs_are_refused(tmp_path: Path) -> None:
    link = read(YAML, tmp_path / "drctl.yaml").link("main")
    with pytest.raises(Refused, match="not between the clusters of a lab") as refused:
        injected(Fault.KILL_SOURCE, link, tmp_path / "none")
    assert "drctl lab up" in refused.value.hint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("fault", [each for each in Fault if each is not Fault.RESTART_TASKS])
def test_a_fault_of_a_deleted_lab_is_over(fault: Fault, tmp_path: Path) -> None:
    """Otherwise every later drill would stop at a fault that nobody can remove."""
    gone = Injected(fault, "primary", str(tmp_path / "none"))
    gone.undo()
    with pytest.raises(Stopped, match=r"failed \(exit code 3\): there is no lab"):
        gone.strike()
    assert list(tmp_path.iterdir()) == []


def test_a_fault_is_recognized_after_a_crash() -> None:
    fault = Injected(Fault.KILL_SOURCE, "primary", "/somewhere")
    assert Injected.from_json(fault.to_json()) == fault
    assert fault.fault.loses_source
    planned = {Fault.STOP_CONNECT, Fault.RESTART_TASKS, Fault.KILL_WORKER}
    assert {each for each in Fault if not each.loses_source} == planned
