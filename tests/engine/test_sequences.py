"""Both failovers keep every rule of order, whatever the link has or lacks."""

from itertools import product

import pytest

from drctl.engine.invariants import violations
from drctl.engine.registry import KINDS
from drctl.engine.sequences.circumstances import Circumstances, Mode
from drctl.engine.sequences.failover import failover
from drctl.model.plan import Duty, Plan


def circumstances(
    endpoints: tuple[str, ...] = (), connectors: tuple[str, ...] = ("mm2",)
) -> Circumstances:
    return Circumstances(
        "main", "primary", "secondary", ("User:app",), connectors, endpoints, {"a": "b"}
    )


@pytest.mark.parametrize(
    ("mode", "endpoints", "connectors"),
    tuple(product(Mode, ((), ("dns",), ("dns", "file")), ((), ("mm2-source", "mm2-checkpoint")))),
)
def test_the_rules_are_kept(
    mode: Mode, endpoints: tuple[str, ...], connectors: tuple[str, ...]
) -> None:
    plan = failover(mode, circumstances(endpoints, connectors))
    assert violations(plan, KINDS) == ()
    assert len({step.id for step in plan.steps}) == len(plan.steps)
    assert Plan.from_json(plan.to_json()) == plan


def test_every_step_can_be_described() -> None:
    for mode in Mode:
        for step in failover(mode, circumstances(("dns",))).steps:
            told = KINDS[step.kind].describe(step.settings)
            assert told.title and told.proof


def test_a_planned_one_loses_nothing_and_an_unplanned_one_waits_for_no_dead_cluster() -> None:
    planned = failover(Mode.PLANNED, circumstances())
    unplanned = failover(Mode.UNPLANNED, circumstances())
    assert [s.duty for s in planned.steps if s.kind == "fence-producers"] == [Duty.REQUIRED]
    assert [s.duty for s in unplanned.steps if s.kind == "fence-producers"] == [Duty.BEST_EFFORT]
    assert "drain" in {s.kind for s in planned.steps}
    assert not {"drain", "quiesce-consumers", "fence-consumers"} & {s.kind for s in unplanned.steps}


def test_a_group_without_evidence_keeps_a_planned_one_closed_unless_that_is_overridden() -> None:
    def leaves_out(plan: Plan) -> bool:
        return bool(plan.step("commit-offsets").settings["leave_out"])

    assert not leaves_out(failover(Mode.PLANNED, circumstances()))
    assert leaves_out(failover(Mode.UNPLANNED, circumstances()))
    passed = Circumstances("main", "a", "b", overrides={"groups-left-out": "they start anew"})
    assert leaves_out(failover(Mode.PLANNED, passed))
