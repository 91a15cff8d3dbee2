"""Both failovers with real steps, while other people change things between or during attempts."""

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import cast

import pytest

from drctl.engine.abandoning import abandon
from drctl.engine.entries import What
from drctl.engine.kind import Status, Trait
from drctl.engine.run_state import read_run
from drctl.engine.source_fence import ALIVE, CHANGED_AFTER_FENCE
from drctl.model.errors import ExitCode, Unknown
from drctl.model.loss import Mode
from drctl.plans.inputs import FenceMethod
from drctl.steps.registry import KINDS
from drctl.views import run_lines, run_words
from drctl.views.run_reading import report_data
from tests.depth import QUICK, some
from tests.engine.crashing import (
    WHO,
    Case,
    Ledger,
    assert_looked_at,
    attempt,
    countdown,
    ends,
    points,
    run,
)
from tests.engine.failovers import case, fence_of, lift_fence, named, plan
from tests.engine.pair import PRIMARY, SECONDARY, Pair
from tests.engine.toggles import Crash, FastClock, World

BEHIND = [step.id for step in plan(Mode.PLANNED).steps][3:]


def test_a_lifted_fence_is_set_again_and_all_later_steps_are_repeated() -> None:
    given, repeated = replace(case(Mode.PLANNED), meanwhile=lift_fence), 0
    whole = run(given)
    wanted = {**whole.pair.state, "rules": fence_of(whole.pair)}
    for number in some(ends(given)[:-1], 2):
        ran = run(given, number)
        assert ran.outcome.status is Status.DONE, number
        assert {**ran.pair.state, "rules": fence_of(ran.pair)} == wanted, number
        assert_looked_at(ran.pair)
        stale = ran.ledger.steps_with(What.STALE)
        assert stale == BEHIND[: len(stale)], (
            "stale entries are not the steps after the fence, in order"
        )
        if stale:
            repeated += 1
            assert ran.pair.state == whole.pair.state, "consumers were not fenced again"
            assert ran.ledger.steps_with(What.OBSERVED)[0] == "fence-producers", number
    assert repeated > (12 if QUICK else 25)


def written_meanwhile(pair: Pair) -> None:
    """The fence is lifted, and a client that has not moved writes before the run resumes."""
    lift_fence(pair)
    pair.to_write = ["behind the fence"] if pair.endpoints[0].cluster == PRIMARY else []
    pair.tick()


def caught_up_by_a_person(pair: Pair) -> None:
    """A person lets replication catch up."""
    pair.workers.connectors["mm2"].wanted = "RUNNING"
    pair.settle()


def test_a_record_written_without_the_fence_is_not_lost_silently() -> None:
    """Once replication is stopped, the run rolls back; later, an outstanding action is reported."""
    given = replace(case(Mode.PLANNED), meanwhile=written_meanwhile, remedy=caught_up_by_a_person)
    before, whole, seen = given.pair(), run(given).pair, set()
    for number in ends(given)[:-1]:
        ran = run(given, number)
        done = ran.outcome.status is Status.DONE
        assert fence_of(ran.pair) == fence_of(whole if done else before), number
        if ran.pair.written:
            where = SECONDARY if done else PRIMARY
            assert ran.pair.endpoints[0].cluster == where
            arrived = "behind the fence" in ran.pair.sites[where].logs.all_keys()
            outstanding = "fence-producers" in ran.ledger.steps_with(What.OUTSTANDING)
            assert ran.outcome.outstanding is outstanding is not arrived, number
            seen.add((ran.first, ran.outcome.status, outstanding))
    done, refused, stopped = Status.DONE, Status.REFUSED, Status.STOPPED
    assert seen == {
        (done, done, False),
        (refused, refused, False),
        (stopped, done, False),
        (done, done, True),
    }


def crashed(point: str) -> tuple[Case, Pair, Ledger]:
    """Run a planned failover until the process ends at this point."""
    given = case(Mode.PLANNED)
    pair = given.pair()
    ledger = Ledger(cast(World, pair.trace), pair=pair, plan=given.plan)
    pair.trace.announced = ledger.announced
    pair.trace.fall = countdown(points(given).index(point))
    with suppress(Crash):
        attempt(given, pair, ledger)
    pair.trace.fall = lambda point: None
    return given, pair, ledger


def attempt_until(point: str, given: Case, pair: Pair, ledger: Ledger) -> None:
    """Resume the run in a process that ends at this point."""

    def fall(reached: str) -> None:
        if reached == point:
            raise Crash(point)

    pair.trace.fall = fall
    with pytest.raises(Crash):
        attempt(given, pair, ledger)
    pair.trace.fall = lambda point: None


def test_a_fence_that_one_attempt_could_not_verify_is_verified_by_the_next() -> None:
    """Its end offsets still count: what was written since must not pass as fenced."""
    given, pair, ledger = crashed("before journal intend enable-writes")
    pair.trace.silent.add(f"rules of {PRIMARY}")
    with pytest.raises(Unknown, match="fence-producers was done, but cannot be verified now"):
        attempt(given, pair, ledger)
    pair.trace.heal()
    written_meanwhile(pair)
    before = len(ledger.entries)
    attempt(given, pair, ledger)
    checked = [each for each in ledger.entries[before:] if each["entry"] == What.OBSERVED]
    assert checked[0]["step"] == "fence-producers"
    (stale, *_) = [each for each in ledger.entries[before:] if each["entry"] == What.STALE]
    assert stale["step"] == "drain"


@pytest.mark.parametrize("entry", ["observed", "done"])
def test_records_written_before_a_fence_was_restored_stay_reported(entry: str) -> None:
    """The process that restores it after writes were enabled may end, too."""
    given, pair, ledger = crashed("before endpoint 1 secondary")
    written_meanwhile(pair)
    attempt_until(f"after journal {entry} fence-producers", given, pair, ledger)
    outcome = attempt(given, pair, ledger)
    assert (outcome.status, outcome.outstanding) == (Status.DONE, True)
    assert "fence-producers" in ledger.steps_with(What.OUTSTANDING)


def test_records_stay_reported_if_the_fence_is_lost_once_more() -> None:
    given, pair, ledger = crashed("before endpoint 1 secondary")
    written_meanwhile(pair)
    attempt_until("after journal done fence-producers", given, pair, ledger)
    lift_fence(pair)
    outcome = attempt(given, pair, ledger)
    assert (outcome.status, outcome.outstanding) == (Status.DONE, True)
    assert ledger.steps_with(What.OUTSTANDING) == ["fence-producers"] * 2


@pytest.mark.parametrize(
    "entry", ["observed fence-producers", "stale drain", "stale prepare-groups"]
)
def test_every_effect_after_a_lost_fence_is_repeated_although_a_process_ends_in_between(
    entry: str,
) -> None:
    """Effects that it has not marked as stale yet look as they should, each by itself."""
    given, pair, ledger = crashed("before journal intend enable-writes")
    written_meanwhile(pair)
    attempt_until(f"after journal {entry}", given, pair, ledger)
    caught_up_by_a_person(pair)
    attempt(given, pair, ledger)
    assert ledger.steps_with(What.STALE) == BEHIND[: BEHIND.index("enable-writes")]


def test_no_confirmation_of_the_fence_is_awaited_after_writes_are_enabled() -> None:
    """A run resumed without a terminal moves clients; the confirmation is outstanding."""

    def nobody_is_there(pair: Pair) -> None:
        pair.manual_actions = {}

    given = replace(case(Mode.PLANNED, FenceMethod.NONE), meanwhile=nobody_is_there)
    (opened,) = (n for n, name in enumerate(points(given)) if name == "before endpoint 1 secondary")
    ran = run(given, opened)
    assert (ran.outcome.status, ran.outcome.outstanding) == (Status.DONE, True)
    outstanding = [each["what"] for each in ran.ledger.entries if each["entry"] == What.OUTSTANDING]
    assert len(outstanding) == 1
    assert outstanding[0].startswith(
        "after the fence, primary may have accepted writes that secondary does not have: not ans"
    )


def writing(pair: Pair) -> None:
    """A producer writes as fast as it can, to whichever cluster the endpoint names."""
    pair.to_write = [f"w{number}" for number in range(40)]
    pair.tick()


@pytest.mark.parametrize("method", FenceMethod, ids=named)
def test_no_acknowledged_record_is_lost_and_only_one_cluster_accepts_writes(
    method: FenceMethod,
) -> None:
    given = case(Mode.PLANNED, method, writing)
    for number in ends(given)[::3]:
        pair = run(given, number).pair
        clusters = [cluster for _, cluster in pair.written]
        assert clusters == sorted(clusters), (
            "a record was accepted by the primary after one by the secondary"
        )
        assert {*clusters} == {PRIMARY, SECONDARY}
        there = Counter(pair.sites[SECONDARY].logs.all_keys())
        assert {key: there[key] for key, _ in pair.written} == {k: 1 for k, _ in pair.written}


def source_recovers(pair: Pair) -> None:
    """The lost source responds again."""
    pair.trace.silent.clear()
    pair.settle()


def test_a_recovered_source_prevents_enabling_writes() -> None:
    """After the journal announces that writes are enabled nothing is rolled back or enabled."""
    given = replace(case(Mode.UNPLANNED), meanwhile=source_recovers, remedy=lambda pair: None)
    seen = set()
    for number in ends(given):
        ran = run(given, number)
        done = ran.outcome.status is Status.DONE
        assert ran.pair.has_probe_record(SECONDARY) is done, number
        assert ran.pair.state["endpoints"] == [SECONDARY if done else PRIMARY] * 2
        if ran.outcome.status is Status.REFUSED:
            assert ran.pair.state["connectors"]["mm2"][0] == "RUNNING"
        seen.add(ran.outcome.status)
    assert seen == {Status.DONE, Status.REFUSED, Status.STOPPED}


def test_a_recovered_source_is_abandoned_by_an_override() -> None:
    """The blocker is overridden with a reason; then the run completes wherever it had ended."""
    given_up = {ALIVE: "it comes and goes"}
    given = replace(
        case(Mode.UNPLANNED),
        meanwhile=source_recovers,
        remedy=lambda pair: None,
        overrides=given_up,
    )
    passed = 0
    for number in ends(given):
        ran = run(given, number)
        if ran.first is Status.STOPPED:
            passed += 1
            assert ran.outcome.status is Status.DONE, number
            assert ran.pair.state["endpoints"] == [SECONDARY] * 2
            assert read_run(ran.ledger.entries).overrides == given_up
    assert passed > 0


def test_records_that_passed_an_overridden_fence_are_outstanding() -> None:
    reason = "nobody can copy it now"
    given = replace(
        case(Mode.PLANNED),
        meanwhile=written_meanwhile,
        remedy=lambda pair: None,
        overrides={CHANGED_AFTER_FENCE: reason},
    )
    passed = 0
    for number in ends(given)[:-1]:
        ran = run(given, number)
        if ran.first is not Status.STOPPED:
            continue
        passed += 1
        assert (ran.outcome.status, ran.outcome.outstanding) == (Status.DONE, True), number
        outstanding = read_run(ran.ledger.entries).outstanding
        why = f"{CHANGED_AFTER_FENCE} is overridden: {reason}; run drctl gap"
        assert outstanding["fence-producers"].endswith(why)
        assert "behind the fence" not in ran.pair.sites[SECONDARY].logs.all_keys()
    assert passed > 0


def test_an_abandoned_run_names_its_changes() -> None:
    """Wherever its process ended; it cannot be resumed, and its report names what it left."""
    given = case(Mode.PLANNED)
    for number in some(ends(given)[:-1], 2):
        pair = given.pair()
        ledger = Ledger(cast(World, pair.trace), pair=pair, plan=given.plan)
        pair.trace.fall = countdown(number)
        with suppress(Crash):
            attempt(given, pair, ledger)
        if not ledger.entries or read_run(ledger.entries).status:
            continue
        before, state = pair.state, read_run(ledger.entries)
        announced = {
            effect.step
            for effect in state.effects
            if Trait.CHANGES in KINDS[given.plan.step(effect.step).kind].traits
        }
        outcome = abandon(state, "the primary was scrapped", WHO, ledger, KINDS, FastClock())
        assert outcome.exit_code is ExitCode.FOUND
        assert pair.state == before, "abandoning the run changed something"
        read = read_run(ledger.entries)
        assert (read.status, read.abandoned) == ("stopped", "the primary was scrapped")
        assert {*read.left_changed} == announced, number
        data = report_data(read)
        assert data.ending.exit_code is ExitCode.FOUND
        assert run_words.verdict(data).startswith("Abandoned at ")
        reasons = " ".join(step.why for step in run_lines.next_steps(data))
        assert all(what[1:] in reasons for what in read.left_changed.values())
        assert "Leave secondary closed" not in reasons
