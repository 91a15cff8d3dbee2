"""Both failovers by their real steps: what others do while drctl is away, or while it works."""

from collections import Counter
from dataclasses import replace

import pytest

from drctl.engine.entries import What
from drctl.engine.outcome import Status
from drctl.engine.sequences.circumstances import FenceMethod, Mode
from drctl.model.plan import Duty
from tests.engine.crashing import assert_looked_at, ends, points, run
from tests.engine.failovers import case, fence_falls, fence_of, named, plan
from tests.engine.pair import PRIMARY, SECONDARY, Pair

BEHIND = [step.id for step in plan(Mode.PLANNED).steps if step.duty is not Duty.OPTIONAL][3:]


def test_a_fence_that_fell_meanwhile_is_set_again_and_all_behind_it_done_anew() -> None:
    given, begun_anew = replace(case(Mode.PLANNED), meanwhile=fence_falls), 0
    whole = run(given)
    wanted = {**whole.pair.state, "rules": fence_of(whole.pair)}
    for number in ends(given)[:-1]:
        ran = run(given, number)
        assert ran.outcome.status is Status.DONE, number
        assert {**ran.pair.state, "rules": fence_of(ran.pair)} == wanted, number
        assert_looked_at(ran.pair)
        stale = ran.ledger.told(What.STALE)
        assert stale == BEHIND[: len(stale)], "all that was done behind it, in its order"
        if stale:
            begun_anew += 1
            assert ran.pair.state == whole.pair.state, "consumers are fenced again, too"
            assert ran.ledger.told(What.LOOKED)[0] == "fence-producers", number
    assert begun_anew > 25


def written_meanwhile(pair: Pair) -> None:
    """The same; and a client that was not sent on yet writes a record before drctl is back."""
    fence_falls(pair)
    pair.to_write = ["behind the fence"] if pair.endpoints[0].cluster == PRIMARY else []
    pair.tick()


def copied_by_hand(pair: Pair) -> None:
    """A person lets replication run until it is through."""
    pair.workers.connectors["mm2"].wanted = "RUNNING"
    pair.settle()


def test_a_record_that_was_written_while_the_fence_was_gone_is_not_lost_silently() -> None:
    """Where what copies is stopped already, all is put back; once that cannot be, it is owed."""
    given = replace(case(Mode.PLANNED), meanwhile=written_meanwhile, cure=copied_by_hand)
    before, whole, seen = given.pair(), run(given).pair, set()
    for number in ends(given)[:-1]:
        ran = run(given, number)
        done = ran.outcome.status is Status.DONE
        assert fence_of(ran.pair) == fence_of(whole if done else before), number
        if ran.pair.written:
            where = SECONDARY if done else PRIMARY
            assert ran.pair.endpoints[0].cluster == where
            arrived = "behind the fence" in ran.pair.sites[where].logs.all_keys()
            owed = "fence-producers" in ran.ledger.told(What.OWED)
            assert ran.outcome.owes is owed is not arrived, number
            seen.add((ran.first, ran.outcome.status, owed))
    done, refused, stopped = Status.DONE, Status.REFUSED, Status.STOPPED
    assert seen == {
        (done, done, False),
        (refused, refused, False),
        (stopped, done, False),
        (done, done, True),
    }


def test_nobody_waits_for_a_word_on_the_fence_once_the_target_is_open() -> None:
    """A run that goes on where nobody answers sends clients on; that nobody knows is owed."""

    def nobody_is_there(pair: Pair) -> None:
        pair.deeds = {}

    given = replace(case(Mode.PLANNED, FenceMethod.NONE), meanwhile=nobody_is_there)
    (opened,) = (n for n, name in enumerate(points(given)) if name == "before endpoint 1 secondary")
    ran = run(given, opened)
    assert (ran.outcome.status, ran.outcome.owes) == (Status.DONE, True)
    owed = [each["what"] for each in ran.ledger.entries if each["entry"] == What.OWED]
    assert len(owed) == 1
    assert owed[0].startswith("primary may have taken records after secondary was opened: not ans")


def writing(pair: Pair) -> None:
    """A producer writes as fast as it can, wherever it is sent to."""
    pair.to_write = [f"w{number}" for number in range(40)]
    pair.tick()


@pytest.mark.parametrize("method", FenceMethod, ids=named)
def test_no_record_that_was_acknowledged_is_lost_and_never_do_both_take_some(
    method: FenceMethod,
) -> None:
    given = case(Mode.PLANNED, method, writing)
    for number in ends(given)[::3]:
        pair = run(given, number).pair
        clusters = [cluster for _, cluster in pair.written]
        assert clusters == sorted(clusters), "primary, and then secondary"
        assert {*clusters} == {PRIMARY, SECONDARY}
        there = Counter(pair.sites[SECONDARY].logs.all_keys())
        assert {key: there[key] for key, _ in pair.written} == {k: 1 for k, _ in pair.written}


def comes_back(pair: Pair) -> None:
    """The lost source answers again."""
    pair.trace.silent.clear()
    pair.settle()


def test_a_source_that_came_back_meanwhile_keeps_the_target_closed() -> None:
    """Behind the announcement that it is opened nothing is put back; and nothing is opened."""
    given = replace(case(Mode.UNPLANNED), meanwhile=comes_back, cure=lambda pair: None)
    seen = set()
    for number in ends(given):
        ran = run(given, number)
        done = ran.outcome.status is Status.DONE
        assert ran.pair.sang(SECONDARY) is done, number
        assert ran.pair.state["endpoints"] == [SECONDARY if done else PRIMARY] * 2
        if ran.outcome.status is Status.REFUSED:
            assert ran.pair.state["connectors"]["mm2"][0] == "RUNNING"
        seen.add(ran.outcome.status)
    assert seen == {Status.DONE, Status.REFUSED, Status.STOPPED}
