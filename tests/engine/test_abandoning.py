"""An abandoned run names the changes it leaves, even if its journal has unknown entries."""

from dataclasses import replace
from typing import Any

from drctl.engine.abandoning import remaining_changes
from drctl.engine.run_state import RunState, read_run
from drctl.steps.registry import KINDS
from tests.report import runs


def died() -> RunState:
    """A run whose process died after producers were fenced."""
    dies = {**runs.GOOD, "stop-replication": replace(runs.GOOD["stop-replication"], dies=True)}
    return read_run(runs.Run(runs.planned()).play(dies).entries)


def test_every_change_is_named_with_its_rollback() -> None:
    found = remaining_changes(died(), KINDS)
    assert {"fence-producers", "stop-replication"} <= found.keys()
    assert "; rollback: " in found["fence-producers"]


def test_a_step_of_an_unknown_kind_may_have_changed_something() -> None:
    run = died()
    kinds = {name: kind for name, kind in KINDS.items() if name != run.plan.step("drain").kind}
    assert "drain" not in remaining_changes(run, KINDS)
    assert remaining_changes(run, kinds)["drain"] == (
        "may still be in effect: step drain (its kind is unknown to this version of drctl)"
    )
    not_begun = run.plan.step("enable-writes").kind
    kinds = {name: kind for name, kind in KINDS.items() if name != not_begun}
    assert "enable-writes" not in remaining_changes(run, kinds)


def test_settings_that_drctl_did_not_write() -> None:
    run = died()
    step = run.plan.step("fence-producers")
    known = KINDS[step.kind]

    class Malformed:
        traits = known.traits

        def describe(self, _settings: object) -> Any:
            raise KeyError("cluster")

    found = remaining_changes(run, {**KINDS, step.kind: Malformed()})  # type: ignore[dict-item]
    assert found["fence-producers"].endswith(": step fence-producers, which drctl did not write")
