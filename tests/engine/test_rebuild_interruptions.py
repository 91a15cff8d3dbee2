"""A failback to a cluster that is rebuilt, with real steps; the process may end anywhere."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from drctl.engine.entries import What
from drctl.engine.failback_state import drops_copies
from drctl.engine.kind import Status
from drctl.model.plan import Plan
from drctl.plans.failback import rebuild, reverse_inputs
from drctl.steps.stop_replication import RUNNING, STOPPED
from tests.engine.connect_workers import CONNECT
from tests.engine.crashing import Case, Change, assert_looked_at, assert_the_same, ends, run
from tests.engine.emptied_cluster import ALONE, EVERYTHING, QUESTION, RebuiltCluster, cut, wiped
from tests.engine.failovers import SEEN, connect_unanswered, lift_fence, named, nothing_wrong
from tests.engine.memory_clusters import record
from tests.engine.pair import BACK, ORDERS, PRIMARY, SECONDARY, Pair, PersonAction

WAY = replace(reverse_inputs(replace(SEEN, replicator="mirrormaker2"), (BACK,)), policy="copy")
PLANS: dict[Callable[[], RebuiltCluster], Plan] = {
    wiped: rebuild(WAY, nothing_to_empty=True),
    cut: rebuild(WAY, nothing_to_empty=False),
}


def case(prepare: Change, make: Callable[[], RebuiltCluster]) -> Case:
    """A rebuild with a fault that a person repairs later."""

    def remedy(pair: Pair) -> None:
        pair.trace.heal()

    return Case(PLANS[make], make, prepare, remedy=remedy)


def wrongly_confirmed(pair: Pair) -> None:
    """A person confirms that the cluster is empty, but it is not."""
    pair.manual_actions[QUESTION] = PersonAction(lambda: None, lambda: True)


def positions_refused(pair: Pair) -> None:
    """Offset commits are refused: everything is rolled back except irreversible changes."""
    pair.trace.declined.add(f"positions of {PRIMARY}")


def offsets_refused(pair: Pair) -> None:
    """Connect refuses to set offsets."""
    pair.trace.declined.add(CONNECT)


WRONG: dict[Change, tuple[Status, Status]] = {
    nothing_wrong: (Status.DONE, Status.DONE),
    wrongly_confirmed: (Status.STOPPED, Status.STOPPED),
    positions_refused: (Status.STOPPED, Status.STOPPED),
    offsets_refused: (Status.STOPPED, Status.STOPPED),
    connect_unanswered: (Status.UNKNOWN, Status.DONE),
}
"""By fault: the status after the first attempt, and the final one."""

CASES = [
    (prepare, make)
    for prepare in WRONG
    for make in PLANS
    if (prepare, make) != (wrongly_confirmed, wiped)
]


@pytest.mark.parametrize(("prepare", "make"), CASES, ids=named)
def test_a_whole_run(prepare: Change, make: Callable[[], RebuiltCluster]) -> None:
    ran = run(case(prepare, make))
    assert (ran.first, ran.outcome.status) == WRONG[prepare]
    assert_looked_at(ran.pair)
    if ran.outcome.status is Status.DONE:
        assert_on_primary(ran.pair, make)
        assert not ran.ledger.steps_with(What.OUTSTANDING)


def assert_on_primary(pair: Pair, make: Callable[[], RebuiltCluster]) -> None:
    """Assert that clients moved, replication runs, and both clusters have each record once."""
    there = ["a1", *EVERYTHING, *([ALONE] if make is cut else [])]
    assert pair.state["records"] == {PRIMARY: there, SECONDARY: there}
    assert pair.state["endpoints"] == [PRIMARY, PRIMARY]
    assert pair.active(PRIMARY, "app")
    assert not pair.active(SECONDARY, "app")
    states = {name: each.state for name, each in pair.workers.connectors.items()}
    assert states == {"mm2": RUNNING, BACK: STOPPED}
    end = len(pair.sites[PRIMARY].logs.logs[ORDERS])
    assert pair.workers.connectors["mm2"].kept[ORDERS] == end - 1, (
        "forward replication did not start at the end"
    )
    assert not [r for r in pair.sites[PRIMARY].rules.rules if r.permission == "DENY"]


@pytest.mark.slow
@pytest.mark.parametrize(("prepare", "make"), CASES, ids=named)
def test_the_end_is_the_same_wherever_the_process_ends(
    prepare: Change, make: Callable[[], RebuiltCluster]
) -> None:
    given = case(prepare, make)
    assert_the_same(given, ends(given)[:: 1 if prepare is nothing_wrong else 2])


def test_a_cluster_that_is_not_empty_is_never_filled() -> None:
    """Records that it already has would be duplicated."""
    pair = run(case(wrongly_confirmed, cut)).pair
    assert pair.state["records"][PRIMARY] == ["o1", "o2", ALONE]
    assert pair.workers.connectors[BACK].state == STOPPED
    assert pair.state["endpoints"] == [SECONDARY, SECONDARY]


def test_records_only_on_the_cluster_are_copied_before_it_is_emptied() -> None:
    pair = run(case(wrongly_confirmed, cut)).pair
    assert pair.state["records"][SECONDARY][-1] == ALONE


def test_undecided_records_prevent_emptying() -> None:
    def undecided(pair: Pair) -> None:
        assert isinstance(pair, RebuiltCluster)
        pair.undecided = ("1 safe one: say what becomes of it",)

    ran = run(case(undecided, cut))
    assert (ran.outcome.status, ran.ledger.steps_with(What.FAILED)) == (
        Status.STOPPED,
        ["classify-records"],
    )
    assert ran.pair.state["records"][PRIMARY] == ["o1", "o2", ALONE]


def test_permanent_changes_stay_after_a_rollback() -> None:
    """Applications stay where they are; the cluster keeps its records and stays fenced."""
    pair, before = run(case(positions_refused, wiped)).pair, wiped()
    assert pair.state["endpoints"] == [SECONDARY, SECONDARY]
    assert pair.active(SECONDARY, "app")
    assert pair.state["rules"][SECONDARY] == before.state["rules"][SECONDARY]
    closed = [rule for rule in pair.sites[PRIMARY].rules.rules if rule.permission == "DENY"]
    assert {rule.operation for rule in closed} == {"WRITE"}
    states = {name: each.state for name, each in pair.workers.connectors.items()}
    assert states == {"mm2": STOPPED, BACK: STOPPED}
    assert pair.workers.connectors["mm2"].kept == before.workers.connectors["mm2"].kept
    assert not drops_copies(pair.workers.connectors[BACK].config), (
        "reconciled records would be excluded, which the cluster still needs"
    )


@pytest.mark.slow
def test_a_lifted_fence_is_set_again_and_copied_records_are_kept() -> None:
    def both_fall(pair: Pair) -> None:
        lift_fence(pair, SECONDARY)
        if not pair.has_probe_record(PRIMARY):
            lift_fence(pair, PRIMARY)

    for make in PLANS:
        given = replace(case(nothing_wrong, make), meanwhile=both_fall)
        started_again = 0
        for number in ends(given)[::3]:
            ran = run(given, number)
            assert ran.outcome.status is Status.DONE, (number, ran.ledger.entries[-1])
            assert_on_primary(ran.pair, make)
            assert not ran.ledger.steps_with(What.OUTSTANDING)
            started_again += bool(ran.ledger.steps_with(What.STALE))
        assert started_again > 15


def test_records_written_without_the_fence_are_not_kept() -> None:
    """The surviving cluster has them first, so the rebuilt cluster has to be emptied again."""

    def somebody_writes(pair: Pair) -> None:
        assert isinstance(pair, RebuiltCluster)
        if pair.home.logs.get(ORDERS) and not pair.has_probe_record(PRIMARY):
            lift_fence(pair, PRIMARY)
            if ALONE not in pair.home.all_keys():
                pair.home.append(ORDERS, record(ALONE))

    given = replace(case(nothing_wrong, wiped), meanwhile=somebody_writes)
    stopped_at = set()
    for number in ends(given)[::3]:
        ran = run(given, number)
        if ALONE not in ran.pair.home.all_keys():
            continue
        assert ran.outcome.status is Status.STOPPED, number
        stopped_at.add(ran.ledger.steps_with(What.FAILED)[-1])
        assert ALONE in ran.pair.away.all_keys()
        assert ran.pair.state["endpoints"] == [SECONDARY, SECONDARY]
        assert ran.pair.active(SECONDARY, "app")
    assert QUESTION in stopped_at
