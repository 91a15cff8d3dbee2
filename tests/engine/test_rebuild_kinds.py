"""A rebuild whose replicator drctl does not manage: people set start offsets as asked."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from drctl.engine.entries import What
from drctl.engine.failback_state import without_own_filter
from drctl.engine.kind import Status
from drctl.model.plan import Plan
from drctl.plans.failback import rebuild, reverse_inputs
from drctl.steps.stop_replication import RUNNING, STOPPED
from tests.engine.crashing import Case, assert_looked_at, ends, run
from tests.engine.emptied_cluster import ALONE, QUESTION, RebuiltCluster, cut, wiped
from tests.engine.failovers import SEEN
from tests.engine.pair import BACK, ORDERS, PRIMARY, SECONDARY, PersonAction
from tests.engine.test_failback_kinds import (
    KINDS,
    Kind,
    kind_name,
    manual_actions,
    requested_offsets,
    start,
)
from tests.engine.test_rebuild_interruptions import assert_on_primary

MADE = (wiped, cut)
CASES = [(kind, make) for kind in KINDS for make in MADE]


def plan(kind: Kind, make: Callable[[], RebuiltCluster]) -> Plan:
    """Create the plan of the rebuild."""
    connectors = ("mm2",) if kind.known else ()
    old = replace(SEEN, replicator=kind.name, connectors=connectors)
    way = replace(reverse_inputs(old, (BACK,) if kind.known else ()), policy="copy")
    return rebuild(way, nothing_to_empty=make is wiped)


def followed(make: Callable[[], RebuiltCluster], *, begins: int = 0) -> RebuiltCluster:
    """Create clusters with people who do what they are asked to.

    Args:
        begins: how far each partition's start is above the requested offset.
    """
    pair = make()
    back, done = pair.workers.connectors[BACK], []

    def start_reverse() -> None:
        begin = requested_offsets(pair, "start-reverse-replication")
        assert set(begin.values()) == {0}
        # A filter from an earlier failback would exclude the records that drctl copied.
        back.config = without_own_filter(back.config)
        back.kept = {place: at + begins - 1 for place, at in begin.items()}
        start(back)
        done.append(True)

    pair.manual_actions |= manual_actions(pair, cuts=False)

    def filled() -> bool:
        return bool(done and pair.home.logs.get(ORDERS))

    def wants(state: str) -> PersonAction:
        return PersonAction(lambda: setattr(back, "wanted", state), lambda: back.wanted == state)

    pair.manual_actions["start-reverse-replication"] = PersonAction(start_reverse, filled)
    pair.manual_actions |= {
        "start-reverse-replication.undo": wants(STOPPED),
        "stop-replication.undo": wants(RUNNING),
    }
    return pair


def case(kind: Kind, make: Callable[[], RebuiltCluster]) -> Case:
    return Case(plan(kind, make), lambda: followed(make))


def named(value: object) -> str:
    return kind_name(value) if isinstance(value, Kind) else getattr(value, "__name__", str(value))


@pytest.mark.parametrize(("kind", "make"), CASES, ids=named)
def test_a_whole_run(kind: Kind, make: Callable[[], RebuiltCluster]) -> None:
    ran = run(case(kind, make))
    assert ran.outcome.status is Status.DONE, ran.ledger.entries[-1]
    assert_looked_at(ran.pair)
    assert_on_primary(ran.pair, make)
    assert not ran.ledger.steps_with(What.OUTSTANDING)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "make"), CASES, ids=named)
def test_it_fails_back_or_rolls_back_wherever_the_process_ends(
    kind: Kind, make: Callable[[], RebuiltCluster]
) -> None:
    """A source whose fence was partly lifted is treated as written to: it is emptied again.

    The progress of replication that a person started cannot be read. If the plan does not ask
    anyone to empty the cluster because it was empty, the run is rolled back.
    """
    given = case(kind, make)
    whole = run(given)
    rollback_reason = 0
    numbers = ends(given)[::2]
    for number in numbers:
        ran = run(given, number)
        assert_looked_at(ran.pair)
        if ran.outcome.status is Status.DONE:
            assert ran.pair.state == whole.pair.state, number
            continue
        rollback_reason += 1
        assert ran.outcome.status is Status.STOPPED
        assert ran.ledger.steps_with(What.FAILED)[-1] == QUESTION, (number, ran.ledger.entries[-1])
        assert "enable-writes" in ran.ledger.steps_with(What.INTEND)
        assert ran.pair.state["endpoints"] == [SECONDARY, SECONDARY]
        assert ran.pair.active(SECONDARY, "app")
        assert len(set(ran.pair.home.all_keys())) == len(ran.pair.home.all_keys())
    assert rollback_reason <= (len(numbers) // 10 if make is wiped else 0)


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_replication_that_does_not_start_at_the_beginning_moves_no_clients(kind: Kind) -> None:
    """The first record of a partition would never be replicated."""
    ran = run(Case(plan(kind, cut), lambda: followed(cut, begins=1)))
    assert ran.outcome.status is Status.STOPPED
    assert ran.pair.state["endpoints"] == [SECONDARY, SECONDARY]
    (failed,) = [each for each in ran.ledger.entries if each["entry"] == What.FAILED]
    assert failed["step"] == "start-reverse-replication", failed
    assert ALONE in ran.pair.state["records"][SECONDARY], (
        "a record that only the emptied cluster had is lost"
    )
    assert "restart-forward-replication" not in ran.pair.asked
    assert PRIMARY not in [each.cluster for each in ran.pair.endpoints]
