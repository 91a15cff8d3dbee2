"""How a run ends, and what its journal says."""

from dataclasses import replace

import pytest

from drctl.engine.entries import What
from drctl.engine.executing import Poller
from drctl.engine.kind import Readback, State, Status
from drctl.engine.run_state import read_run
from drctl.model.errors import ExitCode, Fenced, Refused, Unknown
from drctl.model.plan import Duty, Plan
from tests.engine.toggles import FastClock, MemoryJournal, NoWatcher, World, execution, plan

WHO = {"user": "ada", "host": "laptop"}


def words_of(notes: MemoryJournal) -> list[str]:
    return [f"{e['entry']} {e.get('step', '')}".strip() for e in notes.entries]


def test_every_effect_is_announced_before_and_verified_after() -> None:
    world = World()
    notes = MemoryJournal(world)
    _, outcome = execution(world, notes).start(plan(), WHO)
    assert outcome.status is Status.DONE
    assert outcome.exit_code is ExitCode.DONE
    assert words_of(notes)[0] == "began"
    assert words_of(notes)[-1] == "ended"
    for step in ("fence", "stop", "offsets", "open", "switch"):
        at = words_of(notes).index(f"intend {step}")
        assert words_of(notes)[at + 1] == f"done {step}"
        assert world.on[step]


def test_a_failure_before_writes_are_enabled_rolls_back_newest_first() -> None:
    world = World(stuck={"offsets"})
    notes = MemoryJournal(world)
    _, outcome = execution(world, notes).start(plan(), WHO)
    assert outcome.status is Status.REFUSED
    assert outcome.step == "offsets"
    assert not any(world.on.values())
    undone = [line for line in words_of(notes) if line.startswith("undone")]
    assert undone == [f"undone {step}" for step in ("offsets", "prepare-groups", "stop", "fence")]


def test_a_target_that_refuses_writes_does_not_stop_the_rollback() -> None:
    world = World(stuck={"open"})
    notes = MemoryJournal(world)
    _, outcome = execution(world, notes).start(plan(), WHO)
    assert (outcome.status, outcome.step) == (Status.REFUSED, "open")
    assert not any(world.on.values())


def test_an_effect_reported_missing_is_read_and_applied_again() -> None:
    world = World()
    original, declined = world.set, [2]

    def busy(name: str, to: bool) -> None:
        if (name, to) == ("stop", True) and declined[0]:
            declined[0] -= 1
            raise Refused("Connect is rebalancing")
        original(name, to)

    world.set = busy  # type: ignore[method-assign]
    notes = MemoryJournal(world)
    clock = FastClock()
    _, outcome = execution(world, notes, clock).start(plan(), WHO)
    assert outcome.status is Status.DONE
    assert declined == [0]
    assert clock.waited == 4, "not two seconds after each refusal"
    errors = [e["errors"] for e in notes.entries if e["entry"] == What.APPLIED]
    assert errors == [["Connect is rebalancing"]], "a repeated error is not recorded once"


@pytest.mark.parametrize(
    ("step", "duty", "waited"),
    [
        ("fence", Duty.REQUIRED, 0),
        ("stop", Duty.REQUIRED, 1.5),
        ("stop", Duty.BEST_EFFORT, 0),
        ("open", Duty.REQUIRED, 1.5),
    ],
)
def test_after_the_fence_a_missing_answer_is_requested_once_more(
    step: str, duty: Duty, waited: float
) -> None:
    """Before the fence no client is blocked; best-effort steps are not awaited."""
    world = World(unseen={step})
    clock = FastClock()
    original, waits = clock.wait, [0.0]

    def wait(seconds: float) -> None:
        original(seconds)
        waits[0] += seconds
        if waits[0] >= waited:
            world.unseen.clear()

    clock.wait = wait  # type: ignore[method-assign]
    _, outcome = execution(world, MemoryJournal(world), clock).start(plan(**{step: duty}), WHO)
    done = Status.DONE if waited or duty is Duty.BEST_EFFORT else Status.UNKNOWN
    assert (outcome.status, waits[0]) == (done, waited)


def test_after_the_fence_missing_answers_are_not_awaited_forever() -> None:
    world, clock = World(unseen={"stop"}), FastClock()
    steps = tuple(replace(each, timeout_s=600) for each in plan().steps)
    _, outcome = execution(world, MemoryJournal(world), clock).start(
        replace(plan(), steps=steps), WHO
    )
    assert (outcome.status, outcome.step, clock.waited) == (Status.UNKNOWN, "stop", 10)
    assert world.on["fence"]


def test_a_request_without_answer_is_read_back_and_not_repeated() -> None:
    world = World()
    original, sent = world.set, []

    def silent(name: str, to: bool) -> None:
        if name == "stop":
            sent.append(to)
            raise Unknown("Connect does not answer")
        original(name, to)

    world.set = silent  # type: ignore[method-assign]
    _, outcome = execution(world, MemoryJournal(world)).start(plan(), WHO)
    assert outcome.status is Status.REFUSED
    assert sent.count(True) == 1


def test_a_rollback_that_did_not_work_at_once_is_retried() -> None:
    world = World(stuck={"offsets"})
    original, lost = world.set, [2]

    def deaf(name: str, to: bool) -> None:
        if (name, to) == ("stop", False) and lost[0]:
            lost[0] -= 1
            raise Unknown("Connect does not answer")
        original(name, to)

    world.set = deaf  # type: ignore[method-assign]
    notes = MemoryJournal(world)
    _, outcome = execution(world, notes).start(plan(), WHO)
    assert lost == [0]
    assert outcome.status is Status.REFUSED
    assert not any(world.on.values())


def test_a_rollback_that_times_out_is_named_with_its_reason() -> None:
    world = World(stuck={"offsets"})
    original, asked = world.set, []

    def deaf(name: str, to: bool) -> None:
        if (name, to) == ("stop", False):
            asked.append(name)
            raise Unknown("Connect does not answer")
        original(name, to)

    world.set = deaf  # type: ignore[method-assign]
    clock = FastClock()
    _, outcome = execution(world, MemoryJournal(world), clock).start(plan(), WHO)
    assert outcome.status is Status.STOPPED
    assert outcome.items == ("stop: stop is back: False (Connect does not answer)",)
    assert len(asked) == 3, "not every two seconds within five"
    assert not world.on["fence"], "the other steps were not rolled back"


def test_a_failure_after_writes_are_enabled_stops_and_can_be_resumed() -> None:
    world = World(stuck={"switch"})
    notes = MemoryJournal(world)
    _, outcome = execution(world, notes).start(plan(), WHO)
    assert (outcome.status, outcome.step) == (Status.STOPPED, "switch")
    assert outcome.exit_code is ExitCode.STOPPED
    assert world.on["open"]
    world.stuck.clear()
    assert execution(world, notes).resume(read_run(notes.entries), WHO).status is Status.DONE
    assert world.on["switch"]


def test_a_refusal_by_the_first_precheck_changes_nothing() -> None:
    world = World(refused={"fence"})
    notes = MemoryJournal(world)
    _, outcome = execution(world, notes).start(plan(), WHO)
    assert outcome.status is Status.REFUSED
    assert outcome.exit_code is ExitCode.REFUSED
    assert "ask its owner" in outcome.message
    assert not world.applied


def test_a_missing_answer_is_replaced_by_a_read() -> None:
    world = World(silent={"stop"})
    notes = MemoryJournal(world)
    _, outcome = execution(world, notes).start(plan(), WHO)
    assert outcome.status is Status.DONE
    applied = next(e for e in notes.entries if e["entry"] == What.APPLIED)
    assert applied["errors"] == ["no answer from stop"]


def test_an_unreadable_effect_is_unknown_and_nothing_is_rolled_back_blindly() -> None:
    world = World(unseen={"drain"})
    notes = MemoryJournal(world)
    _, outcome = execution(world, notes).start(plan(), WHO)
    assert outcome.status is Status.UNKNOWN
    assert outcome.exit_code is ExitCode.UNKNOWN
    assert world.on["fence"]
    assert world.applied == [("fence", True)]
    world.unseen.clear()
    assert execution(world, notes).resume(read_run(notes.entries), WHO).status is Status.DONE


def test_a_failed_rollback_is_named_and_the_others_are_done() -> None:
    world = World(refused={"offsets"})
    notes = MemoryJournal(world)
    run = execution(world, notes)
    original = world.set

    def sticky(name: str, to: bool) -> None:
        if name == "stop" and not to:
            return
        original(name, to)

    world.set = sticky  # type: ignore[method-assign]
    _, outcome = run.start(plan(), WHO)
    assert outcome.status is Status.STOPPED
    assert outcome.items == ("stop: stop is back: False",)
    assert not world.on["fence"]
    world.set = original  # type: ignore[method-assign]
    again = execution(world, notes).resume(read_run(notes.entries), WHO)
    assert again.status is Status.REFUSED
    assert not any(world.on.values())


def test_an_optional_step_that_fails_is_outstanding_and_the_run_continues() -> None:
    world = World(unseen={"fence"})
    notes = MemoryJournal(world)
    state, outcome = execution(world, notes).start(plan(fence=Duty.BEST_EFFORT), WHO)
    assert outcome.status is Status.DONE
    assert outcome.exit_code is ExitCode.FOUND
    assert state.outstanding == {"fence": "switch fence on: fence does not answer"}


def test_a_stop_request_ends_a_wait_and_the_run_can_be_resumed() -> None:
    world = World(stuck={"stop"})
    notes = MemoryJournal(world)
    _, outcome = execution(world, notes, FastClock(stop_after=1)).start(plan(), WHO)
    assert outcome.status is Status.INTERRUPTED
    assert outcome.exit_code is ExitCode.INTERRUPTED
    assert words_of(notes)[-1] == "interrupted stop"
    world.stuck.clear()
    assert execution(world, notes).resume(read_run(notes.entries), WHO).status is Status.DONE


def test_a_run_that_lost_the_link_writes_nothing_more() -> None:
    world = World()
    notes = MemoryJournal(world)

    def lost(point: str) -> None:
        if point == "before journal intend stop":
            raise Fenced("run r2 of eve took the link")

    world.fall = lost
    with pytest.raises(Fenced) as caught:
        execution(world, notes).start(plan(), WHO)
    assert caught.value.exit_code is ExitCode.STOPPED
    assert world.applied == [("fence", True)]
    assert words_of(notes)[-1] == "done drain"


@pytest.mark.parametrize("forward", [True, False])
def test_a_wait_ends_as_soon_as_the_link_is_lost(forward: bool) -> None:
    """The step could wait much longer without writing a journal entry."""
    world = World(stuck={"stop"} if forward else {"offsets"})
    notes, clock = MemoryJournal(world), FastClock()
    lines: list[str] = []

    def lose(name: str, to: bool) -> None:
        original(name, to)
        if (name, to) == (("stop", True) if forward else ("offsets", False)):
            # Neither change is confirmed, so the run waits for both.
            world.on[name] = not to
            notes.taken, lines[:] = True, words_of(notes)

    original = world.set
    world.set = lose  # type: ignore[method-assign]
    with pytest.raises(Fenced) as caught:
        execution(world, notes, clock).start(plan(), WHO)
    assert caught.value.exit_code is ExitCode.STOPPED
    assert words_of(notes) == lines, "a run that lost its link wrote to the journal"
    assert clock.waited < 6


def test_plans_survive_json_and_have_distinct_fingerprints() -> None:
    one = plan()
    assert Plan.from_json(one.to_json()) == one
    assert plan().fingerprint == one.fingerprint
    assert plan(fence=Duty.BEST_EFFORT).fingerprint != one.fingerprint


def test_a_fast_effect_is_observed_fast() -> None:
    looks: list[float] = []
    clock = FastClock(seconds=0.0)

    def reader() -> Readback:
        looks.append(clock.waited)
        return Readback(State.WAITING, "not yet")

    Poller(clock, NoWatcher(), lambda: None).wait_for(reader, "stop", 2)
    assert looks == [0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 1, 1.5, 2]
