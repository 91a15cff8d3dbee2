"""Whether a runbook abandons its source is known before any cluster is contacted."""

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
    ("name", "abandoned"),
    [("unplanned-failover", True), ("planned-switchover", False), ("failback", False)],
)
def test_shipped_runbooks(name: str, abandoned: bool) -> None:
    path = resources.shipped("runbooks") / f"{name}.yaml"
    assert load(path).abandons_source is abandoned


@pytest.mark.parametrize(("mode", "abandoned"), [("unplanned", True), ("planned", False)])
def test_user_supplied_runbooks_with_preflight(mode: str, abandoned: bool, tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(PREFLIGHT.format(mode=mode), encoding="utf-8")
    assert load(path).abandons_source is abandoned
