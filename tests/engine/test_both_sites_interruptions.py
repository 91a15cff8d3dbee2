"""A failback between two clusters that both accept writes, interrupted anywhere."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import pytest

from drctl.engine.entries import What
from drctl.engine.kind import Facts, Status
from drctl.engine.ports import LinkReader
from drctl.engine.run_state import read_run
from drctl.model.errors import Refused
from drctl.plans.failback import failback, reverse_inputs
from drctl.steps.registry import KINDS
from drctl.steps.stop_replication import KEEP_REVERSE_STOPPED, RUNNING, STOPPED
from drctl.views.run_data import Writes
from drctl.views.run_lines import next_steps, unknown
from drctl.views.run_reading import report_data
from drctl.views.run_words import lossless, writes_state
from tests.engine.both_sites import (
    EAST,
    LOST,
    NEWER,
    SITE,
    TAIL,
    WEST,
    BothSites,
    both_write,
    by_people,
)
from tests.engine.crashing import Case, Change, assert_looked_at, assert_the_same, ends, run
from tests.engine.failovers import (
    SEEN,
    connect_unanswered,
    endpoint_refused,
    lift_fence,
    named,
    nothing_wrong,
)
from tests.engine.pair import BACK, ORDERS, PRIMARY, SECONDARY, Pair
from tests.engine.processes import Process

SEEN_BOTH = replace(SEEN, origin_header=SITE, replicator="mirrormaker2")
PLAN = failback(replace(reverse_inputs(SEEN_BOTH, (BACK,)), policy="copy"))
OLD = replace(SEEN_BOTH, replicator="none", connectors=())
BY_PEOPLE = Case(failback(replace(reverse_inputs(OLD), policy="copy")), by_people)
EVERYTHING = Counter(("a1", *EAST, *TAIL, *WEST, LOST, NEWER))


def case(prepare: Change) -> Case:
    """A failback with a fault that a person repairs later."""

    def remedy(pair: Pair) -> None:
        pair.trace.heal()

    return Case(PLAN, both_write, prepare, remedy=remedy)


def undecided(pair: Pair) -> None:
    """Nobody has decided on the unreplicated records."""
    assert isinstance(pair, BothSites)
    pair.undecided = ("2 safe ones: say what becomes of them",)


def opening_refused(pair: Pair) -> None:
    """The recovered cluster accepts no record: the fence is lifted, so clients may write."""
    pair.trace.declined.add(f"probe_record on {PRIMARY}")


def restart_refused(pair: Pair) -> None:
    """Connect does not start replication from the recovered cluster."""
    change = pair.trace.change

    def answers(what: str, how: str, do: Callable[[], object]) -> bool:
        return how != f"mm2 {RUNNING}" and change(what, how, do)

    pair.trace.change = answers  # type: ignore[method-assign]


WRONG: dict[Change, tuple[Status, Status]] = {
    nothing_wrong: (Status.DONE, Status.DONE),
    undecided: (Status.STOPPED, Status.STOPPED),
    restart_refused: (Status.STOPPED, Status.STOPPED),
    opening_refused: (Status.STOPPED, Status.DONE),
    endpoint_refused: (Status.STOPPED, Status.DONE),
    connect_unanswered: (Status.UNKNOWN, Status.DONE),
}
"""By fault: the status after the first attempt, and the final one."""


@pytest.mark.parametrize("prepare", WRONG, ids=named)
def test_a_whole_run(prepare: Change) -> None:
    ran = run(case(prepare))
    assert (ran.first, ran.outcome.status) == WRONG[prepare]
    assert_looked_at(ran.pair)
    assert_once(ran.pair)
    if ran.outcome.status is Status.DONE:
        assert_failed_back(ran.pair)


def assert_once(pair: Pair) -> None:
    """Assert that no record is duplicated, and that committed offsets are unchanged."""
    for name in (PRIMARY, SECONDARY):
        assert max(Counter(pair.sites[name].logs.all_keys()).values()) == 1, name


def assert_failed_back(pair: Pair) -> None:
    """Assert that both clusters have each record once, in its origin's order, and replicate."""
    for name in (PRIMARY, SECONDARY):
        keys = pair.sites[name].logs.all_keys()
        assert Counter(keys) == EVERYTHING, name
        east = [key for key in keys if key in (*EAST, *TAIL)]
        assert east == [*EAST, *TAIL], name
    assert pair.state["endpoints"] == [PRIMARY, PRIMARY]
    assert pair.active(PRIMARY, "app")
    assert not pair.active(SECONDARY, "app")
    states = {name: each.state for name, each in pair.workers.connectors.items()}
    assert states == {"mm2": RUNNING, BACK: RUNNING}
    assert not [r for r in pair.sites[PRIMARY].rules.rules if r.permission == "DENY"]


def test_groups_resume_where_they_were_when_the_cluster_was_lost() -> None:
    ran = run(case(nothing_wrong))
    kept = {each["step"]: each for each in ran.ledger.entries if each["entry"] == What.DONE}
    assert kept["keep-group-offsets"]["facts"] == {"kept": 1, "without": ["old"]}
    assert "keep-group-offsets" in ran.ledger.steps_with(What.OUTSTANDING)
    before = both_write().sites[PRIMARY].positions.positions["app"]
    assert before[ORDERS].offset < ran.pair.sites[PRIMARY].positions.positions["app"][ORDERS].offset


def test_the_report_says_where_applications_can_write() -> None:
    whole = report_data(read_run(run(case(nothing_wrong)).ledger.entries))
    assert (whole.writes, writes_state(whole)) == (Writes.TARGET, f"{PRIMARY} accepts writes")
    assert lossless(whole)
    assert "accepts writes" not in " ".join(unknown(whole))
    assert "stopped" not in " ".join(step.what for step in next_steps(whole))
    early = report_data(read_run(run(case(restart_refused)).ledger.entries))
    assert writes_state(early) == f"applications can write to {SECONDARY} as before"


def test_source_connectors_return_with_the_clients() -> None:
    """Their position is read once they have stopped on the surviving cluster."""
    seen = replace(SEEN_BOTH, source_connectors={"shop": "shop"})
    plan = failback(replace(reverse_inputs(seen, (BACK,)), policy="copy"))
    given = Case(plan, both_write)
    for number in ends(given)[::7]:
        pair = run(given, number).pair
        states = [pair.sources[name].connectors["shop"].state for name in (PRIMARY, SECONDARY)]
        assert states == [RUNNING, STOPPED], number
        assert pair.sources[PRIMARY].kept["shop"].offset == {"lsn": 7}, number
        assert_failed_back(pair)


def test_people_start_replication_where_the_comparisons_ended() -> None:
    ran = run(BY_PEOPLE)
    assert ran.outcome.status is Status.DONE
    assert_looked_at(ran.pair)
    assert_failed_back(ran.pair)
    question = ran.pair.asked["start-reverse-replication"]
    assert "the end offsets that secondary had when its records were compared" in question


@pytest.mark.slow
def test_people_are_asked_again_wherever_the_process_ends() -> None:
    assert_the_same(BY_PEOPLE, ends(BY_PEOPLE)[::2])


@pytest.mark.slow
@pytest.mark.parametrize("prepare", WRONG, ids=named)
def test_the_end_is_the_same_wherever_the_process_ends(prepare: Change) -> None:
    given = case(prepare)
    assert_the_same(given, ends(given)[:: 1 if prepare is nothing_wrong else 2])


def test_nothing_is_compared_while_replication_runs() -> None:
    """Records in flight would be reconciled, too, and be duplicated."""
    pair = both_write()
    reader = cast(LinkReader, Process(pair).reader)
    boundary = {BACK: [*pair.workers.offsets(BACK)]}
    stopped = Facts({KEEP_REVERSE_STOPPED: {"boundary": boundary, "tasks_of": [BACK]}})
    for name in ("find-missing-reverse", "reconcile-reverse"):
        settings = PLAN.step(name).settings
        with pytest.raises(Refused, match=f"{BACK} is RUNNING: it has to stay stopped"):
            KINDS[name].check(settings, stopped, reader)


def test_a_rollback_leaves_nothing_running_and_the_next_run_completes() -> None:
    ran = run(case(restart_refused))
    pair = ran.pair
    assert ran.outcome.over
    states = {name: each.state for name, each in pair.workers.connectors.items()}
    assert states == {"mm2": STOPPED, BACK: STOPPED}
    assert pair.active(SECONDARY, "app"), "clients left the surviving cluster"
    denied = {r.operation for r in pair.sites[PRIMARY].rules.rules if r.permission == "DENY"}
    assert denied == {"WRITE"}, "the recovered cluster is not fenced for writes only"
    del pair.trace.change
    again = run(Case(PLAN, lambda: pair))
    assert again.outcome.status is Status.DONE
    assert_failed_back(again.pair)


def test_records_are_never_copied_twice_if_the_fence_was_lifted_meanwhile() -> None:
    """A comparison during running replication would count records in flight as missing."""

    def falls(pair: Pair) -> None:
        if not pair.has_probe_record(PRIMARY):
            lift_fence(pair, PRIMARY)

    given = replace(case(nothing_wrong), meanwhile=falls)
    statuses = Counter[Status]()
    for number in ends(given)[::3]:
        ran = run(given, number)
        statuses[ran.outcome.status] += 1
        assert_once(ran.pair)
        if ran.outcome.status is Status.DONE:
            assert_failed_back(ran.pair)
            continue
        again = run(Case(PLAN, lambda: ran.pair))  # noqa: B023
        assert again.outcome.status is Status.DONE, number
        assert_failed_back(again.pair)
    assert statuses.keys() == {Status.DONE, Status.STOPPED}
