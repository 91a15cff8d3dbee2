"""A failback with its real steps, interrupted before, inside and after each effect and entry."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from drctl.engine.entries import What
from drctl.engine.executing import Execution
from drctl.engine.failback_state import Reconciliation, Search
from drctl.engine.kind import Outcome, Status
from drctl.engine.ports import ConnectorState, LinkReader, LinkWriter
from drctl.engine.run_state import read_run
from drctl.model.errors import Unknown
from drctl.model.plan import Json, Plan
from drctl.model.topology import Record, TopicPartition
from drctl.plans.failback import failback
from drctl.steps.registry import KINDS
from tests.depth import some
from tests.engine.test_failback_plan import failback_inputs
from tests.engine.test_failback_steps import Around, Site
from tests.engine.toggles import Crash, FastClock, MemoryJournal, NoWatcher, World

WHO = {"user": "ada", "host": "laptop"}
PLACE = TopicPartition("orders", 0)
ON_PRIMARY, NEW = ("a", "b", "t1", "t2", "t3"), ("n1", "n2")
TAIL, BOUNDARY = ON_PRIMARY[2:], 2
COPY = (("__drctl_provenance", b"{}"),)
STEPS = (
    *("find-missing", "classify-records", "reconcile", "exclude-reconciled-records"),
    *("set-start-offsets", "start-reverse-replication"),
)


def plan() -> Plan:
    """Create the part of the plan that concerns records and replication."""
    whole = failback(failback_inputs())
    return replace(whole, steps=tuple(step for step in whole.steps if step.id in STEPS))


@dataclass
class RecoveredCluster(Around):
    """A recovered cluster with unreplicated records, and a surviving cluster with new ones.

    Attributes:
        fall: called at each point at which the process may end.
        silent: calls that take effect without a response; each once.
    """

    fall: Callable[[str], None] = lambda point: None
    silent: set[str] = field(default_factory=set)
    applied: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sites = {
            "primary": Site("primary", records(*ON_PRIMARY)),
            "secondary": Site("secondary", records(*ON_PRIMARY[:BOUNDARY], *NEW)),
        }
        self.states = {"mm2-back": "STOPPED"}
        self.settings = {"source.cluster.alias": "sec", "transforms": "mask"}

    def keys(self, name: str) -> list[str]:
        """Return the keys of all records of a cluster, in order."""
        return [(each.key or b"").decode() for each in self.sites[name].records]

    def search_result(self) -> Search:
        self.fall("look for missing records")
        ends, boundaries = {PLACE: len(ON_PRIMARY)}, {PLACE: BOUNDARY}
        return Search("gap/main-1", len(TAIL), len(TAIL), 0, 0, ends, boundaries)

    def reconciliation(self, request: Json) -> Reconciliation:
        self.fall("look at decisions")
        copied = sum(key in TAIL for key in self.keys("secondary"))
        return Reconciliation(len(TAIL) - copied, done={"copy": copied})

    def reconcile(self, request: Json) -> None:
        for key in TAIL:
            if key in self.keys("secondary"):
                continue  # its progress is in the same transaction as the record
            self.fall(f"before {key} is copied")
            self._append("secondary", key, COPY)
            self.fall(f"after {key} is copied")
        self._answer("reconcile")

    def config(self, name: str) -> Mapping[str, str]:
        self.fall("look at the configuration")
        return dict(self.settings)

    def configure(self, name: str, changes: Mapping[str, str | None]) -> None:
        self._effect("configure", lambda: Around.configure(self, name, changes))

    def state(self, name: str) -> ConnectorState:
        self.fall("look at the connector")
        return Around.state(self, name)

    def offsets(self, name: str) -> Sequence[Mapping[str, Any]]:
        self.fall("look at its offsets")
        return Around.offsets(self, name)

    def alter_offsets(self, name: str, offsets: Sequence[Mapping[str, Any]]) -> None:
        self._effect("alter_offsets", lambda: Around.alter_offsets(self, name, offsets))

    def resume(self, name: str) -> None:
        def keeps_running() -> None:
            Around.resume(self, name)
            self._replicate()

        self._effect("resume", keeps_running)

    def _replicate(self) -> None:
        """Let the running connector replicate from its offset, without reconciled records."""
        log = self.sites["secondary"].records
        for number in range(self.kept.get(PLACE, -1) + 1, len(log)):
            if log[number].headers != COPY or "drctlCopies" not in self.settings["transforms"]:
                self._append("primary", (log[number].key or b"").decode(), ())
            self.kept[PLACE] = number

    def _append(self, name: str, key: str, headers: tuple[tuple[str, bytes], ...]) -> None:
        site = self.sites[name]
        record = Record(0, len(site.records), 1, key.encode(), b"", headers)
        self.sites[name] = replace(site, records=(*site.records, record))
        self.applied.append(f"{key} to {name}")

    def _effect(self, name: str, do: Callable[[], None]) -> None:
        self.fall(f"before {name}")
        do()
        self.applied.append(name)
        self.fall(f"after {name}")
        self._answer(name)

    def _answer(self, name: str) -> None:
        if name in self.silent:
            self.silent.discard(name)
            raise Unknown(f"no answer to {name}")


def records(*keys: str) -> tuple[Record, ...]:
    return tuple(Record(0, n, 1, key.encode(), b"") for n, key in enumerate(keys))


def run(world: RecoveredCluster, numbers: tuple[int, ...]) -> Outcome:
    """Start a run, resume it after each crash, and once more after a missing response."""
    notes = MemoryJournal(cast(World, world))
    for number in (*numbers, None, None):
        world.fall = countdown(number)
        look, writer = cast(LinkReader, world), cast(LinkWriter, world)
        engine = Execution(KINDS, look, writer, notes, FastClock(), NoWatcher())
        try:
            if not notes.entries:
                outcome = engine.start(plan(), WHO)[1]
            else:
                state = read_run(notes.entries)
                if state.status:
                    return Outcome(Status(state.status))
                outcome = engine.resume(state, WHO)
        except Crash:
            announced = {e["step"] for e in notes.entries if e["entry"] == What.INTEND}
            assert not world.applied or "reconcile" in announced
            continue
        if outcome.status is not Status.UNKNOWN:
            return outcome
    return outcome


def countdown(number: int | None) -> Callable[[str], None]:
    left = [10**9 if number is None else number]

    def fall(point: str) -> None:
        left[0] -= 1
        if left[0] == -1:
            raise Crash(point)

    return fall


def points() -> int:
    """Count the points at which a whole run can end."""
    seen = [0]

    def count(point: str) -> None:
        seen[0] += 1

    world = RecoveredCluster()
    world.fall = count
    notes = MemoryJournal(cast(World, world))
    look, writer = cast(LinkReader, world), cast(LinkWriter, world)
    Execution(KINDS, look, writer, notes, FastClock(), NoWatcher()).start(plan(), WHO)
    return seen[0]


def assert_on_primary(world: RecoveredCluster) -> None:
    """Assert that each unreplicated and each new record was copied once, in order."""
    assert world.keys("secondary") == [*ON_PRIMARY[:BOUNDARY], *NEW, *TAIL]
    assert world.keys("primary") == [*ON_PRIMARY, *NEW]
    assert world.settings["transforms"] == "mask,drctlCopies"
    assert world.states == {"mm2-back": "RUNNING"}


def test_an_uninterrupted_run_copies_everything_once() -> None:
    world = RecoveredCluster()
    assert run(world, ()).status is Status.DONE
    assert_on_primary(world)
    assert points() > 40


SILENT = ("", "reconcile", "configure", "alter_offsets", "resume")


@pytest.mark.parametrize("silent", SILENT)
def test_wherever_the_process_ends_everything_is_copied_once(silent: str) -> None:
    for number in some(range(points())):
        world = RecoveredCluster(silent={silent} - {""})
        assert run(world, (number,)).status is Status.DONE, number
        assert_on_primary(world)
        assert len(world.applied) == len(set(world.applied)), (number, world.applied)


@pytest.mark.slow
def test_after_two_crashes_everything_is_copied_once() -> None:
    total = points()
    for first in range(total):
        for second in range(0, total, 3):
            world = RecoveredCluster()
            assert run(world, (first, second)).status is Status.DONE, (first, second)
            assert_on_primary(world)
