"""Records that another gap result has put aside or given up are not decided on a second time."""

import pytest

from drctl.model.gap import OrderVerdict
from drctl.model.topology import TopicPartition
from drctl.reconcile.guards import Guard, parse_overrides
from drctl.reconcile.planning import ReconcilePlan, build_plan
from drctl.reconcile.policy import Action, Policies
from drctl.reconcile.progress import Key, Lane, Progress, Segment
from tests.reconcile.world import T, World, row

PLACE = TopicPartition(T, 0)
SAFE, CONFLICTING = OrderVerdict.SAFE, OrderVerdict.CONFLICTING
QUARANTINE = Policies(everywhere=Action.QUARANTINE, conflicting=Action.REFUSE)


def aside(through: int, action: Action = Action.QUARANTINE) -> Segment:
    return Segment(action, through, 1, 1)


def planned(
    *before: Segment,
    policies: Policies = QUARANTINE,
    result: str = "g0",
    source: str = "A",
    topic: str = "s",
    order: OrderVerdict = SAFE,
    passed: tuple[str, ...] = (),
) -> ReconcilePlan:
    """Safe records at 0 to 3, a conflicting one at 4; what was done with them before."""
    rows = [row(offset) for offset in range(5)]
    verdicts = {(PLACE, n): CONFLICTING if n == 4 else SAFE for n in range(5)}
    world = World({PLACE: rows}, verdicts, {PLACE: rows}, overrides=passed)
    kept = {Key(result, source, Lane(PLACE, order)): Progress(topic, "t", before)}
    overrides = parse_overrides(passed)
    return build_plan(world.gap, policies, world.rows(), world.sight(), kept, overrides)


def reasons(plan: ReconcilePlan) -> list[str]:
    return [o.reason.partition(" of ")[0] for o in plan.blocked if o.guard is Guard.DECIDED_BEFORE]


@pytest.mark.parametrize("action", [Action.QUARANTINE, Action.DISCARD])
@pytest.mark.parametrize("order", [SAFE, CONFLICTING])
def test_what_another_result_left_missing_is_not_decided_on_twice(
    action: Action, order: OrderVerdict
) -> None:
    """Also where it was of another verdict then: applications have written since."""
    plan = planned(aside(2, action), order=order)
    assert (reasons(plan), plan.acting) == (["3"], ())
    (told,) = plan.blocked
    assert told.place == PLACE
    assert "gap result g0" in told.reason


def test_only_records_among_those_count() -> None:
    copied = Segment(Action.COPY, 1, 2, 2, 0, T, 1)
    assert reasons(planned(copied, aside(2))) == ["1"]
    assert reasons(planned(aside(0), copied)) == ["1"]
    assert reasons(planned(copied)) == []


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"result": "g1"}, id="this-result"),
        pytest.param({"source": "C"}, id="another-cluster"),
        pytest.param({"topic": "old"}, id="a-topic-of-before"),
        pytest.param({"policies": Policies(everywhere=Action.EXPORT)}, id="an-export"),
        pytest.param({"policies": Policies(everywhere=Action.REFUSE)}, id="nothing-is-done"),
    ],
)
def test_what_is_about_something_else_stands_against_nothing(other: dict[str, object]) -> None:
    plan = planned(aside(2), **other)  # type: ignore[arg-type]
    assert reasons(plan) == []
    assert not plan.blocked


def test_somebody_may_decide_again() -> None:
    plan = planned(aside(2), passed=("decided-before=it was for the incident of last year",))
    assert (not plan.blocked, [line.due.records for line in plan.acting]) == (True, [4])
