"""A run without a terminal: how often it reports that it waits."""

import pytest

from drctl.cli import running
from drctl.cli.running import Lines
from drctl.steps.registry import KINDS
from tests.report import runs


def test_a_wait_is_reported_every_five_seconds_at_most(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 1000.0
    monkeypatch.setattr(running.time, "monotonic", lambda: now)
    lines = Lines(runs.planned(), KINDS)
    lines.step("snapshot-state", 2, 12)
    for _ in range(20):
        now += 1
        lines.waiting("snapshot-state", "it is looked at", 60)
    assert capsys.readouterr().err.count("it is looked at") == 4
