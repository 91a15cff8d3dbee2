"""Both failovers with real steps; the process may end anywhere.

Before, inside and after each effect, during a read, and around each journal entry.
"""

from collections import Counter
from dataclasses import replace
from itertools import product

import pytest

from drctl.engine.entries import What
from drctl.engine.kind import Status
from drctl.model.loss import Mode
from drctl.plans.inputs import FenceMethod
from tests.depth import some
from tests.engine.connect_workers import CONNECT
from tests.engine.crashing import (
    Case,
    Change,
    Ran,
    assert_looked_at,
    assert_the_same,
    ends,
    points,
    run,
)
from tests.engine.failovers import (
    ABORTING,
    REVERSED,
    SEEN,
    UNDONE,
    WRONG,
    case,
    denials_of,
    endpoint_refused,
    hangs,
    named,
    nothing_wrong,
    opening_refused,
    plan,
    positions_refused,
    precheck_fails,
)
from tests.engine.pair import (
    AUDIT,
    BACK,
    OF_A_PERSON,
    ORDERS,
    PRIMARY,
    SECONDARY,
    Pair,
    PersonAction,
    linked,
)

ALL = tuple(product(Mode, FenceMethod, WRONG))


@pytest.mark.parametrize(("mode", "method", "prepare"), ALL, ids=named)
def test_a_whole_run(mode: Mode, method: FenceMethod, prepare: Change) -> None:
    ran = run(case(mode, method, prepare))
    assert (ran.first, ran.outcome.status) == WRONG[prepare]
    assert_looked_at(ran.pair)
    if ran.outcome.status is Status.DONE:
        assert_failed_over(ran, mode, method)


def assert_failed_over(ran: Ran, mode: Mode, method: FenceMethod) -> None:
    """Assert that the failover achieved what it is for."""
    pair = ran.pair
    assert pair.state["endpoints"] == [SECONDARY, SECONDARY]
    assert pair.active(SECONDARY, "app")
    assert pair.state["connectors"]["mm2"][0] == "STOPPED"
    assert OF_A_PERSON in pair.sites[PRIMARY].rules.rules
    fenced = {
        What.OUTSTANDING: ran.ledger.steps_with(What.OUTSTANDING),
        What.DONE: ran.ledger.steps_with(What.DONE),
    }
    done = mode is Mode.PLANNED
    assert ("fence-producers" in fenced[What.DONE]) is done
    assert ("fence-producers" in fenced[What.OUTSTANDING]) is not done
    if done:
        assert set(pair.state["records"][PRIMARY]) <= set(pair.state["records"][SECONDARY])


@pytest.mark.slow
@pytest.mark.parametrize("prepare", WRONG, ids=named)
@pytest.mark.parametrize("mode", Mode)
def test_the_end_is_the_same_wherever_the_process_ends(mode: Mode, prepare: Change) -> None:
    given = case(mode, prepare=prepare)
    every = range(len(points(given)))
    assert_the_same(given, every if prepare is nothing_wrong else None)


@pytest.mark.parametrize("prepare", [nothing_wrong, opening_refused], ids=named)
@pytest.mark.parametrize("method", [FenceMethod.COMMAND, FenceMethod.NONE])
@pytest.mark.parametrize("mode", Mode)
def test_the_end_is_the_same_with_other_fences(
    mode: Mode, method: FenceMethod, prepare: Change
) -> None:
    given = case(mode, method, prepare)
    assert_the_same(given)


@pytest.mark.parametrize("prepare", [positions_refused, opening_refused], ids=named)
@pytest.mark.parametrize(("mode", "method"), tuple(product(Mode, FenceMethod)), ids=named)
def test_rolled_back_effects_are_as_before(
    mode: Mode, method: FenceMethod, prepare: Change
) -> None:
    given = case(mode, method, prepare)
    before, ran = given.pair(), run(given)
    before.settle()
    assert ran.outcome.status is Status.REFUSED
    for part in before.state.keys() - UNDONE:
        assert ran.pair.state[part] == before.state[part], part
    assert [site.fenced_outside for site in ran.pair.sites.values()] == [False, False]
    assert OF_A_PERSON in ran.pair.sites[PRIMARY].rules.rules
    assert not ran.pair.has_probe_record(SECONDARY)


def test_a_failed_precheck_changes_nothing() -> None:
    given = case(Mode.PLANNED, prepare=precheck_fails)
    ran = run(given)
    assert ran.ledger.steps_with(What.INTEND) == []
    assert not [how for _, how in ran.pair.trace.happened if how]


ANSWERS = (
    *(f"rules of {PRIMARY}", CONNECT, f"groups of {SECONDARY}", f"positions of {SECONDARY}"),
    *(f"ids of {SECONDARY}", f"rules of {SECONDARY}", f"probe_record on {SECONDARY}"),
    *("endpoint 1", "endpoint 2", "commands"),
)


@pytest.mark.parametrize("arrives", [True, False])
@pytest.mark.parametrize("what", ANSWERS)
def test_a_missing_answer_leaves_nothing_half_done(what: str, arrives: bool) -> None:
    """Whether or not the request arrived, the run completes or is rolled back."""
    method = FenceMethod.COMMAND if what == "commands" else FenceMethod.ACL

    def unanswered(pair: Pair) -> None:
        (pair.trace.lost_responses if arrives else pair.trace.lost).add(what)

    clean, given = run(case(Mode.PLANNED, method)), case(Mode.PLANNED, method, unanswered)
    before = given.pair()
    before.settle()
    for number in (None, *some(ends(given)[::5], 2)):
        ran = run(given, *(() if number is None else (number,)))
        assert not ran.pair.trace.lost_responses | ran.pair.trace.lost, (
            "the fault was never triggered"
        )
        wanted = clean.pair if ran.outcome.status is Status.DONE else before
        for part in before.state.keys() - UNDONE - {"rules"}:
            assert ran.pair.state[part] == wanted.state[part], (number, part)
        assert denials_of(ran.pair) == denials_of(wanted), number
        assert_looked_at(ran.pair)


def test_a_running_source_that_is_abandoned_is_fenced_as_far_as_possible() -> None:
    seen = replace(SEEN, overrides={"source-alive": "half of its disks are gone"})
    given = Case(plan(Mode.UNPLANNED, seen=seen), linked)
    assert "fence-producers" in run(given).ledger.steps_with(What.DONE)
    assert_the_same(given)


@pytest.mark.parametrize("prepare", [nothing_wrong, opening_refused, endpoint_refused], ids=named)
def test_the_end_is_the_same_if_the_old_primary_follows(prepare: Change) -> None:
    given = case(Mode.PLANNED, prepare=prepare, seen=REVERSED)
    assert_the_same(given)
    ran = run(given)
    assert ran.outcome.status == WRONG[prepare][1]
    follows = ran.outcome.status is Status.DONE
    back = ran.pair.workers.connectors[BACK]
    assert (back.state, bool(back.kept)) == (("RUNNING", True) if follows else ("STOPPED", False))
    twice = Counter(ran.pair.sites[PRIMARY].logs.all_keys()).most_common(1)
    assert twice[0][1] == 1, "a record was replicated back"


@pytest.mark.parametrize("prepare", [nothing_wrong, opening_refused], ids=named)
def test_hanging_transactions_are_aborted_once_and_no_other(prepare: Change) -> None:
    def prepared(pair: Pair) -> None:
        hangs(pair)
        prepare(pair)

    given = case(Mode.PLANNED, prepare=prepared, seen=ABORTING)
    ran = run(given)
    assert ran.first is (Status.DONE if prepare is nothing_wrong else Status.STOPPED)
    assert ran.pair.state["transactions"][PRIMARY] == [AUDIT], (
        "not only the hanging transaction was aborted"
    )
    done = next(each for each in ran.ledger.entries if each.get("step") == "abort-transactions")
    assert done["intent"]["transactions"][0]["producer_id"] == 4001
    assert_the_same(given)
    for number in some(ends(given)):
        happened = run(given, number).pair.trace.happened
        aborts = [how for what, how in happened if what == f"transactions of {PRIMARY}" and how]
        assert aborts == [f"abort 4001 in {ORDERS}"], number


def test_a_transaction_that_cannot_be_aborted_ends_the_failover() -> None:
    def prepared(pair: Pair) -> None:
        hangs(pair)
        pair.trace.declined.add(f"transactions of {PRIMARY}")

    given = case(Mode.PLANNED, prepare=prepared, seen=ABORTING)
    before, ran = given.pair(), run(given)
    before.settle()
    assert ran.first is Status.REFUSED
    (failure,) = [each for each in ran.ledger.entries if each["entry"] == What.FAILED]
    assert "orders-0 (producer id 4001, epoch 3, open since offset 2" in str(failure)
    assert ran.pair.state["transactions"] == before.state["transactions"]
    assert denials_of(ran.pair) == denials_of(before)


def people_know(pair: Pair) -> None:
    """Only a person can observe the fence; the person changes nothing."""
    site, pair.blind = pair.sites[PRIMARY], True
    seen = {"fence-producers": True, "fence-producers.undo": False}
    pair.manual_actions = {
        name: PersonAction(lambda: None, lambda is_so=is_so: site.fenced_outside is is_so)
        for name, is_so in seen.items()
    }


@pytest.mark.parametrize("mode", Mode)
def test_a_fence_that_only_a_person_can_verify_is_set_once(mode: Mode) -> None:
    unseen = replace(SEEN, fence_verify=())
    given = case(mode, FenceMethod.COMMAND, people_know, unseen)
    assert_the_same(given)
    for number in some(ends(given)):
        happened = run(given, number).pair.trace.happened
        assert happened.count(("commands", "on")) == 1, number


@pytest.mark.slow
@pytest.mark.parametrize("prepare", WRONG, ids=named)
@pytest.mark.parametrize("mode", Mode)
def test_the_end_is_the_same_after_two_crashes(mode: Mode, prepare: Change) -> None:
    given = case(mode, prepare=prepare)
    whole, total = run(given), len(points(given))
    for first, second in product(range(0, total, 47), range(0, total, 53)):
        ran = run(given, first, second)
        assert ran.outcome.status == whole.outcome.status, (first, second)
        assert ran.pair.state == whole.pair.state, (first, second)
        assert_looked_at(ran.pair)
