"""Switches that stand for steps, to test the executor; every change is counted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from drctl.engine.executing import Execution
from drctl.engine.kind import Description, Facts, Kind, Polling, Readback, State, Trait
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.errors import Fenced, Refused, Unknown
from drctl.model.plan import Duty, Json, Plan, Step
from drctl.steps.groups import PrepareGroups
from drctl.steps.producer_ids import AdvanceProducerIds
from tests.engine.client_state import ENDS, Arrivals


class Crash(BaseException):
    """The process ends here."""


@dataclass
class World(Arrivals):
    """The switches, their changes, and the state that clients find.

    Attributes:
        unseen: switches that cannot be read.
        stuck: switches whose changes have no effect.
        silent: switches whose changes have an effect but no response.
        again: changes that were repeated although the switch had the state already.
    """

    on: dict[str, bool] = field(default_factory=dict)
    unseen: set[str] = field(default_factory=set)
    stuck: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    again: list[tuple[str, bool]] = field(default_factory=list)

    def set(self, name: str, to: bool) -> None:
        """Set a switch."""
        self.fall(f"before {name} {to}")
        if name not in self.stuck:
            if self.on.get(name, False) == to and (name, to) in self.applied:
                self.again.append((name, to))
            if self.on.get(name, False) != to:
                self.applied.append((name, to))
            self.on[name] = to
        self.fall(f"after {name} {to}")
        if name in self.silent:
            raise Unknown(f"no answer from {name}")

    def is_on(self, name: str) -> bool:
        """Read a switch."""
        self.fall(f"look {name}")
        if name in self.unseen:
            raise Unknown(f"{name} does not answer")
        return self.on.get(name, False)


class Blind:
    """Fails on any use: reading methods must not use the writer."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"a read-only method used {name} of the writer")


@dataclass(frozen=True)
class Switch:
    """A step that turns a switch on."""

    name: str
    traits: Trait

    def describe(self, settings: Json) -> Description:
        return Description(
            f"switch {self.name} on", f"{self.name} is on", f"switch {self.name} off"
        )

    def check(self, settings: Json, facts: Facts, look: LinkReader) -> Json:
        world = cast(World, look)
        if self.name in world.refused:
            raise Refused(f"{self.name} must not be switched", "ask its owner")
        return {"name": self.name, "before": world.is_on(self.name)}

    def apply(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        cast(World, writer).set(intent["name"], True)
        return ()

    def verify(self, intent: Json, look: LinkReader) -> Readback:
        on = cast(World, look).is_on(intent["name"])
        return Readback(
            State.DONE if on else State.WAITING, f"{intent['name']} is {on}", {"on": on}
        )

    def undo(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        cast(World, writer).set(intent["name"], bool(intent["before"]))
        return ()

    def verify_undo(self, intent: Json, look: LinkReader) -> Readback:
        back = cast(World, look).is_on(intent["name"]) == intent["before"]
        return Readback(State.DONE if back else State.WAITING, f"{intent['name']} is back: {back}")


@dataclass(frozen=True)
class Glance(Polling):
    """A step that only reads whether a switch has a state."""

    name: str
    traits: Trait
    wanted: bool = False

    def describe(self, settings: Json) -> Description:
        return Description(f"look at {self.name}", f"{self.name} is {self.wanted}")

    def check(self, settings: Json, facts: Facts, look: LinkReader) -> Json:
        return {}

    def verify(self, intent: Json, look: LinkReader) -> Readback:
        fits = cast(World, look).is_on(self.name) == self.wanted
        facts = {"missing": 0} if self.name == "drain" else None
        return Readback(State.DONE if fits else State.WAITING, f"{self.name} fits: {fits}", facts)


@dataclass
class MemoryJournal:
    """A journal in memory; the process can end before and after each entry."""

    world: World
    run: str = "r1"
    where: str = "memory"
    entries: list[Mapping[str, Any]] = field(default_factory=list)
    taken: bool = False

    def append(self, entries: Sequence[Mapping[str, Any]]) -> None:
        for entry in entries:
            point = f"{entry['entry']} {entry.get('step', '')}".strip()
            self.world.fall(f"before journal {point}")
            self.entries.append(entry)
            self.world.fall(f"after journal {point}")

    def check(self) -> None:
        if self.taken:
            raise Fenced("link main was acquired by run r2", "follow the other one")


@dataclass
class FastClock:
    """A clock that does not sleep."""

    seconds: float = 1_700_000_000.0
    stop_after: float = float("inf")
    waited: float = 0

    def now(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds

    def wait(self, seconds: float) -> None:
        self.seconds += seconds
        self.waited += seconds

    @property
    def stopping(self) -> bool:
        return self.waited >= self.stop_after


class NoWatcher:
    """A watcher that shows nothing."""

    def step(self, identity: str, number: int, total: int) -> None:
        pass

    def waiting(self, identity: str, words: str, left_s: float) -> None:
        pass

    def ended(self, identity: str, words: str, figures: Mapping[str, float]) -> None:
        pass


STEPS: tuple[tuple[str, Trait], ...] = (
    ("fence", Trait.CHANGES | Trait.FENCES_WRITES),
    ("drain", Trait.DRAINS),
    ("stop", Trait.CHANGES | Trait.STOPS_REPLICATION),
    ("offsets", Trait.CHANGES | Trait.COMMITS_OFFSETS),
    ("open", Trait.CHANGES | Trait.ENABLES_WRITES),
    ("switch", Trait.CHANGES | Trait.SWITCHES),
)


def kinds() -> dict[str, Kind]:
    """Return one kind for each step."""
    looking: list[Kind] = [
        Glance("preflight", Trait.RUNS_PRECHECKS),
        Glance("stock", Trait.SNAPSHOTS_STATE),
    ]
    doing: list[Kind] = [
        Switch(name, traits) if Trait.CHANGES in traits else Glance(name, traits)
        for name, traits in STEPS
    ]
    real: list[Kind] = [Kind(PrepareGroups()), Kind(AdvanceProducerIds())]
    return {kind.name: kind for kind in (*looking, *doing, *real)}


ORDER = (
    *("preflight", "stock", "fence", "drain", "stop"),
    *("prepare-groups", "offsets", "advance-producer-ids", "open", "switch"),
)
REAL: Mapping[str, Json] = {
    "prepare-groups": ENDS,
    "advance-producer-ids": {**ENDS, "at_most_seconds": 30},
}
"""Settings of the step kinds that are drctl's own."""

PRECHECKS: Json = {"mode": "planned", "overrides": {}}


def plan(**duties: Duty) -> Plan:
    """Create a plan of all steps in order."""
    usual = dict.fromkeys(REAL, Duty.BEST_EFFORT) | duties
    steps = tuple(
        Step(
            name,
            name,
            PRECHECKS if name == "preflight" else REAL.get(name, {}),
            5,
            usual.get(name, Duty.REQUIRED),
        )
        for name in ORDER
    )
    return Plan("test", "main", "primary", "secondary", steps)


def execution(world: World, notes: MemoryJournal, clock: FastClock | None = None) -> Execution:
    """Create an executor over these switches."""
    look, writer = cast(LinkReader, world), cast(LinkWriter, world)
    return Execution(kinds(), look, writer, notes, clock or FastClock(), NoWatcher())
