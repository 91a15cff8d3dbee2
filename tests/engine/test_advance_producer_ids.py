"""The target skips the producer ids that the source uses, or the step reports an outstanding
action.
"""

from typing import Any, cast

import pytest

from drctl.engine.entries import What
from drctl.engine.kind import Kind, Readback, State, Status
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.plan import Duty, Json
from drctl.model.topology import TopicPartition, Unavailable
from drctl.plans.failover import advance_producer_ids
from drctl.plans.inputs import PlanInputs
from drctl.steps.producer_ids import BATCH, NAMED, AdvanceProducerIds
from tests.engine.client_state import ENDS, SOURCE, STEP, TARGET, Arrivals
from tests.engine.toggles import Blind, MemoryJournal, World, execution, plan

WHO = {"user": "ada", "host": "laptop"}
KIND = Kind(AdvanceProducerIds())
AWAY = Unavailable("its leader did not answer for it")
RESTART = "restart idempotent producers when they move, so that they get new ids"
NAMED_LATER = "once primary is back, drctl doctor names the ids still in use (producer-ids-collide)"


def settings(at_most_s: float = 30) -> Json:
    return {**ENDS, "at_most_seconds": at_most_s}


def checked(world: Arrivals, at_most_s: float = 30) -> Json:
    return KIND.check(settings(at_most_s), {}, cast(LinkReader, world))


def applied(world: Arrivals, at_most_s: float = 30) -> Json:
    intent = checked(world, at_most_s)
    assert KIND.apply(intent, cast(LinkWriter, world)) == ()
    return intent


def seen(intent: Json, world: Arrivals) -> Readback:
    return KIND.verify(intent, cast(LinkReader, world))


def calls(world: Arrivals) -> list[str]:
    """Record every point that is passed from now on."""
    points: list[str] = []
    world.fall = points.append
    return points


def remembered(highest: Any, count: int = 1) -> dict[TopicPartition, Any]:
    return {TopicPartition(f"t{n % 500}", n // 500): highest for n in range(count)}


def test_every_broker_issues_higher_ids_and_the_cost_is_reported() -> None:
    world = Arrivals()
    intent = applied(world)
    readback = seen(intent, world)
    assert (readback.state, readback.outstanding, readback.items) == (State.DONE, "", ())
    assert readback.message == (
        "every broker (2) of secondary assigns producer ids above 2,500, the highest in use on"
        " primary; used 1,462 of 2^63 ids"
    )
    assert world.given == {1: 2502, 2: 2503}
    again = seen(intent, world)
    assert world.given == {1: 2503, 2: 2504}, "a read does not use exactly one id per broker"
    assert again.facts == readback.facts, "the facts changed, which a resumed run compares"


def test_ids_that_are_already_higher_cost_one_read() -> None:
    world = Arrivals(given={1: 9000})
    assert seen(applied(world), world).state is State.DONE
    assert world.given == {1: 9003}


def test_a_broker_cannot_verify_itself() -> None:
    world = Arrivals()
    intent = applied(world)
    world.given[2] = 1100
    readback = seen(intent, world)
    assert readback.state is State.FAILED
    assert readback.items == ("broker 2 advanced by 60 and is at 1,101, 1,399 below the highest",)


def test_without_producer_ids_nothing_is_advanced() -> None:
    world = Arrivals(remembered=remembered(-1))
    intent = checked(world)
    assert KIND.apply(intent, cast(LinkWriter, Blind())) == ()
    readback = seen(intent, world)
    assert (readback.state, readback.outstanding) == (State.DONE, "")
    assert readback.message == "no producer id is known to be in use on primary: nothing to do"
    assert world.given == {1: 40, 2: 1040}


def test_ten_thousand_partitions_are_read_in_batches_and_journaled_as_one_number() -> None:
    world = Arrivals(remembered=remembered(77, 10_000))
    intent = applied(world)
    assert world.batches == [BATCH] * 5
    assert (intent["beyond"], intent["unread"], intent["named"]) == (77, 0, [])


def test_a_dead_source_is_asked_once_and_the_unknown_ids_are_outstanding() -> None:
    world = Arrivals(silent={SOURCE})
    points = calls(world)
    intent = checked(world)
    assert points == [f"look at {SOURCE}"]
    assert KIND.apply(intent, cast(LinkWriter, Blind())) == ()
    readback = seen(intent, world)
    assert points == [f"look at {SOURCE}"], "the target was read although nothing can be compared"
    assert readback.state is State.DONE
    assert readback.outstanding == (
        f"{RESTART}; {NAMED_LATER}; the ids in use on primary are unknown: cluster primary did not"
        " answer within 3 s"
    )


def test_a_source_that_just_failed_to_answer_is_not_awaited_again() -> None:
    silent = "cluster primary did not answer within 3 s"
    before = {"prepare-groups": {"created": 0, "ready": 0, "silent": silent}}
    world = Arrivals()
    intent = KIND.check(settings(), before, cast(LinkReader, Blind()))
    readback = seen(intent, world)
    assert readback.outstanding.endswith("cluster primary did not answer within 3 s")
    assert world.given == {1: 40, 2: 1040}


def test_unanswered_partitions_are_outstanding_and_the_others_count() -> None:
    world = Arrivals(remembered={**remembered(1500, 30), TopicPartition("z", 0): AWAY})
    readback = seen(applied(world), world)
    assert readback.state is State.DONE
    assert readback.facts == {"beyond": 1500, "unread": 1}
    assert readback.items == ("z-0: its leader did not answer for it",)
    assert readback.outstanding == (
        f"{RESTART}; {NAMED_LATER}; the ids in use in 1 partition of primary are unknown: z-0:"
        " its leader did not answer for it"
    )


def test_a_source_that_answers_nothing_is_not_asked_further() -> None:
    world = Arrivals(remembered=remembered(AWAY, 10_000))
    intent = checked(world)
    assert world.batches == [BATCH]
    assert (intent["unread"], len(intent["named"])) == (10_000, NAMED)
    readback = seen(intent, world)
    assert readback.state is State.DONE
    assert "the ids in use in 10,000 partitions of primary are unknown" in readback.outstanding


@pytest.mark.parametrize(("at_most_s", "times"), [(5, 1), (30, 3), (60, 6)])
def test_distant_ids_end_at_the_time_limit_with_numbers(at_most_s: float, times: int) -> None:
    world = Arrivals(remembered=remembered(10**9), given={1: 40})
    intent = checked(world, at_most_s)
    points = calls(world)
    assert KIND.apply(intent, cast(LinkWriter, world)) == ()
    assert points.count("after ids are skipped") == times
    readback = seen(intent, world)
    at = 41 + times * STEP + 1
    assert readback.state is State.FAILED, "the step waits although waiting cannot help"
    assert readback.message == (
        "secondary assigns ids that may be in use on primary: broker 1 advanced by"
        f" {at - 41:,} and is at {at:,}, {10**9 - at:,} below the highest; {RESTART}, or"
        " advance the ids days before the failover, with a runbook that runs this step with a"
        " longer timeout"
    )


def test_a_second_attempt_continues() -> None:
    world = Arrivals(remembered=remembered(5 * STEP), given={1: 40})
    intent = applied(world)
    assert seen(intent, world).state is State.FAILED
    KIND.apply(intent, cast(LinkWriter, world))
    assert seen(intent, world).state is State.DONE


def test_a_broker_that_does_not_answer_is_awaited() -> None:
    world = Arrivals(given={1: 40, 2: Unavailable("broker 2 did not answer")})
    intent = checked(world)
    assert KIND.apply(intent, cast(LinkWriter, world)) == ("broker 2: broker 2 did not answer",)
    readback = seen(intent, world)
    assert (readback.state, readback.items) == (
        State.WAITING,
        ("broker 2: broker 2 did not answer",),
    )
    assert RESTART in readback.message
    world.given[2] = 3000
    assert seen(intent, world).state is State.DONE


def test_nothing_is_rolled_back_and_the_report_states_it() -> None:
    world = Arrivals()
    intent = applied(world)
    assert KIND.undo(intent, cast(LinkWriter, Blind())) == ()
    assert KIND.verify_undo(intent, cast(LinkReader, Blind())).state is State.DONE
    assert "none is needed" in KIND.describe(settings()).rollback


def test_a_run_continues_without_it_and_reports_it_as_outstanding() -> None:
    world = World(remembered=remembered(10**9))
    notes = MemoryJournal(world)
    state, outcome = execution(world, notes).start(plan(), WHO)
    assert (outcome.status, outcome.outstanding) == (Status.DONE, True)
    assert list(state.outstanding) == ["advance-producer-ids"]
    outstanding = state.outstanding["advance-producer-ids"]
    assert outstanding.startswith(
        "advance the producer ids of secondary past those in use on primary: "
    )
    assert RESTART in outstanding
    assert world.on["open"]


def test_it_can_be_made_mandatory() -> None:
    world = World(remembered=remembered(10**9))
    notes = MemoryJournal(world)
    duties = {"advance-producer-ids": Duty.REQUIRED}
    _, outcome = execution(world, notes).start(plan(**duties), WHO)
    assert (outcome.status, outcome.step) == (Status.REFUSED, "advance-producer-ids")
    assert not any(world.on.values())
    back = [e["step"] for e in notes.entries if e["entry"] == What.UNDONE]
    assert back == ["advance-producer-ids", "offsets", "prepare-groups", "stop", "fence"]


def test_its_time_limit_covers_its_verification() -> None:
    seen_link = PlanInputs("main", SOURCE, TARGET)
    step = advance_producer_ids(seen_link, 7200)
    assert (step.timeout_s, step.settings["at_most_seconds"]) == (7200, 7200)
    assert advance_producer_ids(seen_link).duty is Duty.BEST_EFFORT
