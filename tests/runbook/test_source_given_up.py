"""Whether a runbook does without its source is known before anybody looks at it."""

from pathlib import Path

import pytest

from drctl import resources
from drctl.runbook.reading import load

PREFLIGHT = """
name: own
about: Ask the prechecks of a source that is {mode}.
steps:
  - id: asks
    step: preflight
    with: {{mode: {mode}}}
"""


@pytest.mark.parametrize(
    ("name", "given_up"),
    [("unplanned-failover", True), ("planned-switchover", False), ("failback", False)],
)
def test_shipped_ones(name: str, given_up: bool) -> None:
    path = resources.shipped("runbooks") / f"{name}.yaml"
    assert load(path).gives_source_up is given_up


@pytest.mark.parametrize(("mode", "given_up"), [("unplanned", True), ("planned", False)])
def test_a_sites_own_that_asks_the_guards(mode: str, given_up: bool, tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(PREFLIGHT.format(mode=mode), encoding="utf-8")
    assert load(path).gives_source_up is given_up
