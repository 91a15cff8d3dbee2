"""The process may end anywhere: the next one comes to the same result."""

from collections.abc import Callable

import pytest

from drctl.engine.entries import What
from drctl.engine.kind import Outcome, Status
from drctl.engine.run_state import read_run
from drctl.model.plan import Plan
from drctl.model.topology import TopicPartition
from tests.depth import some
from tests.engine.client_state import SOURCE
from tests.engine.toggles import Crash, MemoryJournal, World, execution, plan

WHO = {"user": "ada", "host": "laptop"}
Prepare = Callable[[World], None]


class Countdown:
    """Ends the process at the n-th point where it can end."""

    def __init__(self, number: int) -> None:
        self.left = number
        self.point = ""

    def __call__(self, point: str) -> None:
        if self.left == 0:
            self.left = -1
            self.point = point
            raise Crash
        self.left -= 1


def run_with_crashes(world: World, wanted: Plan, numbers: tuple[int, ...]) -> Outcome:
    """Start a run, and resume it after each crash."""
    notes = MemoryJournal(world)
    for number in (*numbers, None):
        world.fall = (lambda point: None) if number is None else Countdown(number)
        try:
            if not notes.entries:
                return execution(world, notes).start(wanted, WHO)[1]
            state = read_run(notes.entries)
            if state.status:
                return Outcome(Status(state.status))
            return execution(world, notes).resume(state, WHO)
        except Crash:
            assert_journal_is_true(world, notes)
    raise AssertionError("the last attempt has no crash")


def assert_journal_is_true(world: World, notes: MemoryJournal) -> None:
    """Assert that each change was announced before."""
    announced = {e["step"] for e in notes.entries if e["entry"] == What.INTEND}
    assert {name for name, _ in world.applied} <= announced


def points(prepare: Prepare) -> int:
    """Count the points at which a whole run can end."""
    world = World()
    prepare(world)
    counted = Countdown(10**9)
    world.fall = counted
    execution(world, MemoryJournal(world)).start(plan(), WHO)
    return 10**9 - counted.left


def nothing(world: World) -> None:
    """No fault."""


def stuck_offsets(world: World) -> None:
    """A step before writes are enabled cannot be done: everything is rolled back."""
    world.stuck.add("offsets")


def stuck_switch(world: World) -> None:
    """A step after writes are enabled cannot be done."""
    world.stuck.add("switch")


def silent_stop(world: World) -> None:
    """A response is lost."""
    world.silent.add("stop")


def refused_offsets(world: World) -> None:
    """A check refuses in the middle of the run."""
    world.refused.add("offsets")


def ids_far_away(world: World) -> None:
    """The target cannot skip that many producer ids in the time limit."""
    world.remembered[TopicPartition("orders", 0)] = 10**9


def a_dead_source(world: World) -> None:
    """Nobody reports which producer ids the source uses, and which protocol its groups have."""
    world.silent.add(SOURCE)


CASES: tuple[Prepare, ...] = (
    *(nothing, stuck_offsets, stuck_switch, silent_stop, refused_offsets),
    *(ids_far_away, a_dead_source),
)


@pytest.mark.parametrize("prepare", CASES, ids=lambda v: v.__name__)
def test_the_end_is_the_same_after_a_crash(prepare: Prepare) -> None:
    whole = World()
    prepare(whole)
    wanted = run_with_crashes(whole, plan(), ())
    for number in some(range(points(prepare))):
        world = World()
        prepare(world)
        assert run_with_crashes(world, plan(), (number,)).status == wanted.status, number
        assert (world.on, world.end) == (whole.on, whole.end), number


@pytest.mark.slow
@pytest.mark.parametrize("prepare", CASES, ids=lambda v: v.__name__)
def test_the_end_is_the_same_after_two_crashes(prepare: Prepare) -> None:
    whole = World()
    prepare(whole)
    wanted = run_with_crashes(whole, plan(), ())
    total = points(prepare)
    for first in range(0, total, 3):
        for second in range(0, total, 5):
            world = World()
            prepare(world)
            assert run_with_crashes(world, plan(), (first, second)).status == wanted.status
            assert (world.on, world.end) == (whole.on, whole.end)


def test_nothing_is_done_twice() -> None:
    for number in some(range(points(nothing))):
        world = World()
        run_with_crashes(world, plan(), (number,))
        assert len(world.applied) == len(set(world.applied))


@pytest.mark.parametrize("prepare", CASES, ids=lambda v: v.__name__)
def test_nothing_is_applied_or_rolled_back_again_without_a_read(prepare: Prepare) -> None:
    for number in some(range(points(prepare))):
        world = World()
        prepare(world)
        run_with_crashes(world, plan(), (number,))
        assert world.again == [], f"after a crash at point {number}"


def test_a_rollback_before_the_crash_is_recognized() -> None:
    world = World(stuck={"offsets"})
    notes = MemoryJournal(world)
    world.fall = at("after stop False")
    with pytest.raises(Crash):
        execution(world, notes).start(plan(), WHO)
    assert not world.on["stop"]
    world.fall = lambda point: None
    before, calls = world.applied.count(("stop", False)), len(notes.entries)
    outcome = execution(world, notes).resume(read_run(notes.entries), WHO)
    assert outcome.status is Status.REFUSED
    assert not any(world.on.values())
    assert world.applied.count(("stop", False)) == before == 1
    later = [(e["entry"], e.get("step")) for e in notes.entries[calls:]]
    assert ("undone", "stop") in later
    assert ("undoing", "stop") not in later


def test_an_unverifiable_rollback_is_not_repeated() -> None:
    world = World(stuck={"offsets"})
    notes = MemoryJournal(world)
    world.fall = at("after stop False")
    with pytest.raises(Crash):
        execution(world, notes).start(plan(), WHO)
    world.fall = lambda point: None
    world.unseen.add("stop")
    outcome = execution(world, notes).resume(read_run(notes.entries), WHO)
    assert outcome.status is Status.UNKNOWN
    assert outcome.items == ("stop: stop does not answer",)
    assert not world.on["fence"], "an unknown step prevented the rollback of another"
    world.unseen.clear()
    again = execution(world, notes).resume(read_run(notes.entries), WHO)
    assert again.status is Status.REFUSED
    assert world.again == []


def at(wanted: str) -> Callable[[str], None]:
    """Return a function that ends the process at one point."""

    def fall(point: str) -> None:
        if point == wanted:
            raise Crash

    return fall


def test_a_lifted_fence_is_set_again_and_the_rest_is_checked_again() -> None:
    world = World()
    notes = MemoryJournal(world)
    world.refused.add("offsets")

    def before_rollback(point: str) -> None:
        if point == "before journal failed offsets":
            raise Crash

    world.fall = before_rollback
    with pytest.raises(Crash):
        execution(world, notes).start(plan(), WHO)
    world.fall = lambda point: None
    world.on["fence"] = False
    world.refused.clear()
    outcome = execution(world, notes).resume(read_run(notes.entries), WHO)
    assert outcome.status is Status.DONE
    assert world.on["fence"]
    again = [e["step"] for e in notes.entries if e["entry"] == What.STALE]
    assert again == ["drain", "stop", "prepare-groups"]
    assert world.applied.count(("fence", True)) == 2


def test_an_unreadable_journal_is_named() -> None:
    from drctl.model.errors import Unknown

    with pytest.raises(Unknown, match="run \\? cannot be read"):
        read_run([{"entry": "something"}])
