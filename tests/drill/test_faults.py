"""Faults are for labs: a link between any other clusters is refused before anything happens."""

from pathlib import Path

import pytest

from drctl.cli.drill.inject import Fault, Injected, injected
from drctl.config.loading import read
from drctl.model.errors import Refused

YAML = """
clusters: {a: {bootstrap: "127.0.0.1:1"}, b: {bootstrap: "127.0.0.1:2"}}
links: {main: {from: a, to: b, topics: [".*"]}}
"""


def test_what_is_no_lab_is_left_alone(tmp_path: Path) -> None:
    link = read(YAML, tmp_path / "drctl.yaml").link("main")
    with pytest.raises(Refused, match="not between the clusters of a lab") as refused:
        injected(Fault.KILL_SOURCE, link, tmp_path / "none")
    assert "drctl lab up" in refused.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_fault_is_known_again_after_a_crash() -> None:
    fault = Injected(Fault.KILL_SOURCE, "primary", "/somewhere")
    assert Injected.from_json(fault.to_json()) == fault
    assert fault.fault.loses_source
    assert not Fault.STOP_CONNECT.loses_source
