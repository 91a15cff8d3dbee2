"""The prechecks of a plan: what blocks it, and what it does not need to know."""

from collections.abc import Sequence
from typing import Any, cast

import pytest

from drctl.engine.kind import Kind
from drctl.engine.ports import LinkReader
from drctl.model.errors import Refused
from drctl.model.finding import Finding, Status
from drctl.model.loss import Mode
from drctl.model.plan import Step
from drctl.plans.failover import failover
from drctl.plans.inputs import PlanInputs
from drctl.steps.prechecks import Preflight
from drctl.steps.questions import with_required_prechecks
from drctl.steps.registry import KINDS

NO_FENCE = Finding("fence-not-possible", Status.FAIL, "fence of cluster a", "the link has none")
LAG = Finding("replication-lag", Status.FAIL, "link main", "it lags", remedy="wait")


class FixedFindings:
    def __init__(self, *found: Finding) -> None:
        self.found = found

        self.compared = 0

    def findings(self, mode: str) -> Sequence[Finding]:
        return self.found

    def compare_ahead(self) -> None:
        self.compared += 1


def asked(*found: Finding, **settings: Any) -> Any:
    given = {"mode": "planned", "overrides": {}, **settings}
    return Kind(Preflight()).check(given, {}, cast(LinkReader, FixedFindings(*found)))


def test_idle_partitions_are_compared_once_nothing_blocks_a_planned_failover() -> None:
    settings = failover(Mode.PLANNED, PlanInputs("main", "a", "b", ("User:app",))).steps[0].settings
    passing, failing = FixedFindings(), FixedFindings(LAG)
    Kind(Preflight()).check(settings, {}, cast(LinkReader, passing))
    with pytest.raises(Refused):
        Kind(Preflight()).check(settings, {}, cast(LinkReader, failing))
    assert (passing.compared, failing.compared) == (1, 0)


def test_a_plan_without_a_fence_needs_no_fence_precheck() -> None:
    bare = (Step("ask", "preflight", {"mode": "planned", "overrides": {}}),)
    (step,) = with_required_prechecks(bare, KINDS)
    assert asked(NO_FENCE, **step.settings).get("warnings", []) == []
    with pytest.raises(Refused, match="replication-lag: link main: it lags"):
        asked(NO_FENCE, LAG, **step.settings)


def test_groups_are_ignored_where_producers_move_without_consumers() -> None:
    inputs = PlanInputs("main", "a", "b", ("User:app",), ("mm2",))
    active = Finding("groups-active-on-target", Status.FAIL, "groups on cluster b", "one is active")
    plan = failover(Mode.PLANNED, inputs)
    alone = [each for each in plan.steps if each.kind != "commit-offsets"]
    first = next(each for each in with_required_prechecks(alone, KINDS) if each.kind == "preflight")
    assert asked(active, **first.settings).get("warnings", []) == []
    with pytest.raises(Refused, match="groups-active-on-target"):
        asked(active, **plan.steps[0].settings)


@pytest.mark.parametrize("mode", Mode)
def test_a_plan_with_a_fence_has_its_precheck(mode: Mode) -> None:
    plan = failover(mode, PlanInputs("main", "a", "b", ("User:app",), ("mm2",)))
    assert with_required_prechecks(plan.steps, KINDS) == plan.steps
    only_readers = (
        Step("ask", "preflight", {"mode": "planned", "overrides": {}}),
        Step("fence", "fence-consumers", {}),
    )
    assert with_required_prechecks(only_readers, KINDS) == only_readers
    with pytest.raises(Refused, match="fence-not-possible"):
        asked(NO_FENCE)
