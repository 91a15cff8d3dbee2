"""A failover with scripted steps, executed by the real executor on this terminal.

Run it as a program on a test's terminal: `python -m tests.cli.live_run [SPEED]`.
"""

import sys
from collections.abc import Mapping
from typing import Any, cast

from drctl.cli.console import console
from drctl.cli.prompts import Prompts
from drctl.cli.running import watched
from drctl.cli.stopping import StoppableClock, stoppable
from drctl.engine.executing import Execution
from drctl.engine.kind import Description, Facts, Kind, Readback, State, Trait
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.plan import Json
from drctl.steps.registry import KINDS
from tests.engine.toggles import MemoryJournal, World
from tests.report import runs

HOSTILE = "\x1b[2J\x07\u202e[bold red]orders[/]\r\n"


class Drama:
    """A real kind with scripted messages."""

    def __init__(self, real: Kind, clock: StoppableClock, speed: float) -> None:
        self._real, self._clock, self._speed = real, clock, speed
        self._began = 0.0
        self.name = real.name

    @property
    def traits(self) -> Trait:
        return self._real.traits

    def describe(self, settings: Json) -> Description:
        return self._real.describe(settings)

    def check(self, settings: Json, facts: Facts, look: LinkReader) -> Json:
        if settings["part"] == "stop-replication":
            asked = Prompts({}, terminal="ask" in sys.argv)
            return {"part": settings["part"], "said": asked.answer("stop", "stop the connectors")}
        return {"part": settings["part"]}

    def apply(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        self._began = self._clock.monotonic()
        return ()

    def verify(self, intent: Json, look: LinkReader) -> Readback:
        part = intent["part"]
        passed = (self._clock.monotonic() - self._began) * self._speed
        if part == "drain":
            left = round(12_400 - 2_000 * passed)
            with console().task(f"comparing {HOSTILE}", 10) as task:
                task.update(done=passed)
            if left > 0:
                return Readback(State.WAITING, f"{left:,} records are not replicated yet {HOSTILE}")
        if passed < 1 and part in ("preflight", "verify-clients"):
            return Readback(State.WAITING, f"{part} is not done yet")
        failed = part == "verify-clients" and "fail" in sys.argv
        state = State.FAILED if failed else State.DONE
        return Readback(state, f"{part} was seen {HOSTILE}", {"missing": 0})

    def undo(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        return ()

    def verify_undo(self, intent: Json, look: LinkReader) -> Readback:
        return Readback(State.DONE, "as it was")


def main(speed: float) -> int:
    plan = runs.staged(runs.planned())
    world = World()
    with stoppable() as clock, watched(plan, MemoryJournal(world), clock) as seen:
        parts = {name: Drama(kind, clock, speed) for name, kind in KINDS.items()}
        kinds = cast(Mapping[str, Kind], parts)
        nothing: Any = world
        engine = Execution(kinds, nothing, nothing, seen.journal, clock, seen.watcher)
        _, outcome = engine.start(plan, {"user": "ada", "host": "laptop-7"})
    print(f"ended: {outcome.status} {outcome.step}".strip())
    return int(outcome.exit_code)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0))
