"""A whole failback with real steps; the process may end anywhere."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from drctl.cli.running import discard_warning
from drctl.engine.entries import What
from drctl.engine.failback_state import drops_copies
from drctl.engine.kind import Status
from drctl.model.errors import Unknown
from drctl.model.fencing import Denied, Topics, denials, sign
from drctl.plans.failback import failback, reverse_inputs
from drctl.steps.records import discards
from drctl.steps.stop_replication import RUNNING, STOPPED
from tests.engine.crashing import Case, Change, assert_looked_at, assert_the_same, ends, run
from tests.engine.failovers import (
    SEEN,
    connect_unanswered,
    endpoint_refused,
    lift_fence,
    named,
    nothing_wrong,
)
from tests.engine.memory_clusters import TOPICS
from tests.engine.pair import BACK, OF_A_PERSON, PRIMARY, SECONDARY, Pair
from tests.engine.recovered_cluster import BOTH, NEWER, TAIL, RecoveredCluster, recovered_pair

OLD = replace(SEEN, replicator="mirrormaker2")
PLAN = failback(replace(reverse_inputs(OLD, (BACK,)), policy="copy"))


def case(prepare: Change) -> Case:
    """A failback with a fault that a person repairs later."""

    def remedy(pair: Pair) -> None:
        pair.trace.heal()

    return Case(PLAN, recovered_pair, prepare, remedy=remedy)


def undecided(pair: Pair) -> None:
    """Nobody has decided on the unreplicated records."""
    assert isinstance(pair, RecoveredCluster)
    pair.undecided = ("2 safe ones: say what becomes of them",)


def positions_refused(pair: Pair) -> None:
    """Offset commits are refused: everything is rolled back except irreversible changes."""
    pair.trace.declined.add(f"positions of {PRIMARY}")


WRONG: dict[Change, tuple[Status, Status]] = {
    nothing_wrong: (Status.DONE, Status.DONE),
    undecided: (Status.STOPPED, Status.STOPPED),
    positions_refused: (Status.STOPPED, Status.STOPPED),
    endpoint_refused: (Status.STOPPED, Status.DONE),
    connect_unanswered: (Status.UNKNOWN, Status.DONE),
}
"""By fault: the status after the first attempt, and the final one."""


@pytest.mark.parametrize("prepare", WRONG, ids=named)
def test_a_whole_run(prepare: Change) -> None:
    ran = run(case(prepare))
    assert (ran.first, ran.outcome.status) == WRONG[prepare]
    assert_looked_at(ran.pair)
    if ran.outcome.status is Status.DONE:
        assert_on_primary(ran.pair)
        assert not ran.ledger.steps_with(What.OUTSTANDING)


def assert_on_primary(pair: Pair) -> None:
    """Assert that clients moved, replication runs, and both clusters have each record once."""
    assert pair.state["records"][PRIMARY] == ["a1", *BOTH, *TAIL, *NEWER]
    assert pair.state["records"][SECONDARY] == ["a1", *BOTH, *NEWER, *TAIL]
    assert pair.state["endpoints"] == [PRIMARY, PRIMARY]
    assert pair.active(PRIMARY, "app")
    assert not pair.active(SECONDARY, "app")
    states = {name: each.state for name, each in pair.workers.connectors.items()}
    assert states == {"mm2": RUNNING, BACK: STOPPED}
    assert OF_A_PERSON in pair.sites[SECONDARY].rules.rules
    assert not [r for r in pair.sites[PRIMARY].rules.rules if r.permission == "DENY"]


def discarding() -> Case:
    """A failback that discards the records that only the recovered cluster has."""

    def begun() -> RecoveredCluster:
        pair = recovered_pair()
        pair.discards = True
        return pair

    way = replace(reverse_inputs(OLD, (BACK,)), topics=("orders=discard",))
    return Case(failback(way), begun, nothing_wrong, remedy=nothing_wrong)


def test_discarded_records_stay_unreplicated_and_are_counted() -> None:
    given = discarding()
    assert discards(given.plan) == "unreplicated records of orders"
    assert discards(PLAN) == ""
    ran = run(given)
    assert ran.outcome.status is Status.DONE
    assert ran.pair.state["records"][PRIMARY] == ["a1", *BOTH, *TAIL, *NEWER]
    assert ran.pair.state["records"][SECONDARY] == ["a1", *BOTH, *NEWER]
    done = {each["step"]: each for each in ran.ledger.entries if each["entry"] == What.DONE}
    assert done["reconcile"]["facts"] == {"given_up": 2, "done": {"discard": 2}}
    assert done["verify-secondary"]["facts"]["missing"] == 2
    assert not ran.ledger.steps_with(What.OUTSTANDING)


@pytest.mark.slow
@pytest.mark.parametrize("prepare", WRONG, ids=named)
def test_the_end_is_the_same_wherever_the_process_ends(prepare: Change) -> None:
    given = case(prepare)
    assert_the_same(given, ends(given)[:: 1 if prepare is nothing_wrong else 2])


def test_permanent_changes_stay_after_a_rollback() -> None:
    ran = run(case(positions_refused))
    pair, before = ran.pair, recovered_pair()
    assert (ran.outcome.over, before.endpoints[0].cluster) == (True, SECONDARY)
    closed = [rule for rule in pair.sites[PRIMARY].rules.rules if rule.permission == "DENY"]
    assert {rule.operation for rule in closed} == {"WRITE"}
    assert pair.state["rules"][SECONDARY] == before.state["rules"][SECONDARY]
    assert pair.state["positions"][PRIMARY] == before.state["positions"][PRIMARY]
    assert pair.active(SECONDARY, "app")
    states = {name: each.state for name, each in pair.workers.connectors.items()}
    assert states == {"mm2": STOPPED, BACK: STOPPED}
    assert drops_copies(pair.workers.connectors[BACK].config), (
        "the filter was removed: copies would be replicated back"
    )
    assert pair.workers.connectors["mm2"].kept == before.workers.connectors["mm2"].kept
    assert pair.state["records"][SECONDARY][-2:] == [*TAIL], "reconciled records are gone"


def test_a_lifted_fence_is_set_again() -> None:
    """The fences of the surviving cluster and of the recovered one."""

    def both_fall(pair: Pair) -> None:
        lift_fence(pair, SECONDARY)
        if not pair.has_probe_record(PRIMARY):
            lift_fence(pair, PRIMARY)

    given = replace(case(nothing_wrong), meanwhile=both_fall)
    started_again = 0
    for number in ends(given)[::3]:
        ran = run(given, number)
        assert ran.outcome.status is Status.DONE, number
        assert_on_primary(ran.pair)
        assert not ran.ledger.steps_with(What.OUTSTANDING)
        started_again += bool(ran.ledger.steps_with(What.STALE))
    assert started_again > 15


@pytest.mark.slow
def test_a_source_fenced_by_an_earlier_run_is_fenced_again_and_released_at_the_end() -> None:
    """The process may end after the ACLs that enable writes and before the probe record."""

    def closed() -> RecoveredCluster:
        pair = recovered_pair()
        rules = denials(["User:app"], [Topics(t) for t in TOPICS], [Denied.WRITE])
        pair.sites[PRIMARY].rules.rules |= {*rules, *(sign(rule, PLAN.link) for rule in rules)}
        pair.sites[PRIMARY].rules.spread()
        return pair

    given = Case(PLAN, closed, nothing_wrong)
    for number in ends(given):
        ran = run(given, number)
        assert ran.outcome.status is Status.DONE, number
        assert_on_primary(ran.pair)


def test_a_rule_that_was_there_before_the_fence_does_not_keep_the_run_from_ending() -> None:
    """Enabling writes removes a user's own rule, and the process may end before the next one."""

    def denied() -> RecoveredCluster:
        pair = recovered_pair()
        pair.sites[PRIMARY].rules.rules |= {OF_A_PERSON}
        pair.sites[PRIMARY].rules.spread()
        return pair

    assert_the_same(Case(PLAN, denied, nothing_wrong))


def test_discards_of_a_plan_are_named() -> None:
    way = reverse_inputs(OLD, (BACK,))
    named_ones = replace(way, policy="discard", topics=("a", "b=copy"), conflicting="discard")
    discarded = "unreplicated records of a, conflicting records of a, conflicting records of b"
    assert discards(failback(named_ones)) == discarded
    assert discard_warning(failback(named_ones)).startswith(
        f", and discards permanently: {discarded} ("
    )
    assert discard_warning(PLAN) == ""
    copied = replace(way, policy="copy", topics=("a", "b=copy"), conflicting="quarantine")
    assert discards(failback(copied)) == ""


def test_a_connector_that_cannot_be_stopped_copies_no_records_back() -> None:
    """Connect accepts its configuration and does not answer the stop request."""

    def does_not_answer(pair: Pair) -> None:
        back, change = pair.workers.connectors[BACK], pair.trace.change

        def takes_too_long() -> None:
            back.state = back.wanted
            if not drops_copies(back.config):
                copy()

        def answers(what: str, how: str, do: Callable[[], object]) -> bool:
            if how == f"{BACK} {STOPPED}":
                raise Unknown("no answer from Connect")
            return change(what, how, do)

        copy = back.copy
        back.copy = takes_too_long  # type: ignore[method-assign]
        pair.trace.change = answers  # type: ignore[method-assign]

    ran = run(case(does_not_answer))
    assert f"{BACK} is RUNNING" in " ".join(ran.outcome.items)
    assert ran.pair.state["records"][PRIMARY] == ["a1", *BOTH, *TAIL]
