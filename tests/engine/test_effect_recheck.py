"""A run resumed after its fence: effects that nothing depends on are kept."""

from dataclasses import dataclass
from typing import cast

from drctl.engine.entries import What
from drctl.engine.executing import Execution
from drctl.engine.kind import Description, Facts, Polling, Readback, State, Trait
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.engine.run_state import read_run
from drctl.model.plan import Json, Plan, Step
from tests.engine.toggles import Crash, FastClock, MemoryJournal, NoWatcher, World, kinds

WHO = {"user": "ada", "host": "laptop"}


@dataclass
class Estimate(Polling):
    """Returns a different value each time, like a result that depends on the time."""

    name = "estimate"
    traits = Trait.NONE
    looks: int = 0

    def describe(self, settings: Json) -> Description:
        return Description("estimate", "it is said")

    def check(self, settings: Json, facts: Facts, look: LinkReader) -> Json:
        return {}

    def verify(self, intent: Json, look: LinkReader) -> Readback:
        self.looks += 1
        return Readback(State.DONE, "estimated", {"looks": self.looks})


def killed_and_resumed(
    world: World, *, lifted: bool, clock: FastClock | None = None
) -> tuple[MemoryJournal, Estimate]:
    """Kill the run before offsets are committed, then resume it; the fence may have been lifted."""
    notes, estimate = MemoryJournal(world), Estimate()
    steps = ("preflight", "stock", "fence", "estimate", "stop", "offsets", "open", "switch")
    plan = Plan("test", "main", "primary", "secondary", tuple(Step(s, s, {}, 120) for s in steps))
    known = {**kinds(), estimate.name: estimate}
    look, writer = cast(LinkReader, world), cast(LinkWriter, world)
    engine = Execution(known, look, writer, notes, clock or FastClock(), NoWatcher())

    def fall(point: str) -> None:
        if point == "before offsets True":
            raise Crash

    world.fall = fall
    try:
        engine.start(plan, WHO)
    except Crash:
        world.fall = lambda point: None
    world.on["fence"] = not lifted
    engine.resume(read_run(notes.entries), WHO)
    return notes, estimate


def steps_with(notes: MemoryJournal, what: What) -> list[str]:
    return [entry["step"] for entry in notes.entries if entry["entry"] == what]


def test_an_estimate_is_not_repeated_and_triggers_no_step() -> None:
    notes, estimate = killed_and_resumed(World(), lifted=False)
    assert estimate.looks == 1
    assert steps_with(notes, What.STALE) == []
    assert steps_with(notes, What.INTEND).count("stop") == 1
    assert read_run(notes.entries).status == "done"


def test_after_a_lifted_fence_the_estimate_is_repeated_with_the_rest() -> None:
    notes, estimate = killed_and_resumed(World(), lifted=True)
    assert estimate.looks == 2
    assert {"estimate", "stop"} <= set(steps_with(notes, What.STALE))
    assert read_run(notes.entries).status == "done"


def test_a_lifted_fence_is_set_again_without_waiting() -> None:
    clock = FastClock()
    killed_and_resumed(World(), lifted=True, clock=clock)
    assert clock.waited == 0, "the run waited while the source was not fenced"
