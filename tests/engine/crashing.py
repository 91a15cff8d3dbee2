"""Runs real plans with real steps whose process can end anywhere; checks the journal's statements.

Each journal entry is compared with the state of both clusters when it is written.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from drctl.engine.entries import NOTHING, What
from drctl.engine.executing import Execution
from drctl.engine.kind import Outcome, Readback, State, Status
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.engine.run_state import read_run
from drctl.model.plan import Json, Plan
from drctl.steps.registry import KINDS
from tests.depth import some
from tests.engine.ground_truth import MAY_CHANGE, ROLLED_BACK, TRUTHS
from tests.engine.pair import Pair
from tests.engine.processes import Process
from tests.engine.toggles import Crash, FastClock, MemoryJournal, NoWatcher, World

WHO = {"user": "ada", "host": "laptop"}
_BEFORE_A_CHANGE = {What.INTEND, What.OBSERVED, What.APPLIED, What.UNDOING}
_ATTEMPTS = 4

Change = Callable[[Pair], None]


def nothing(pair: Pair) -> None:
    """Change nothing."""


@dataclass(frozen=True)
class Case:
    """A plan, and the two clusters on which it runs.

    Attributes:
        prepare: breaks something before the run.
        meanwhile: what other people do after a crash.
        remedy: what a person repairs when the run cannot continue.
        overrides: prechecks to override on resume: name to reason.
    """

    plan: Plan
    make: Callable[[], Pair]
    prepare: Change = nothing
    meanwhile: Change = nothing
    remedy: Change = nothing
    overrides: Mapping[str, str] = field(default_factory=dict)

    def pair(self) -> Pair:
        """Create the clusters."""
        pair = self.make()
        self.prepare(pair)
        return pair


@dataclass
class Busy(FastClock):
    """A clock on a slow host: each wait takes longer, and the clusters continue meanwhile."""

    pair: Pair = field(default_factory=Pair)

    def wait(self, seconds: float) -> None:
        super().wait(20 * seconds)
        self.pair.tick()


@dataclass
class Ledger(MemoryJournal):
    """A journal in memory, stored as JSON; each entry must agree with the clusters."""

    pair: Pair = field(default_factory=Pair)
    plan: Plan = field(default_factory=lambda: Plan("", "", "", "", ()))

    def append(self, entries: Sequence[Mapping[str, Any]]) -> None:
        for entry in entries:
            self._must_be_true(entry)
            super().append([json.loads(json.dumps(entry))])

    def announced(self, what: str) -> None:
        """Fail unless the last entry announces this change."""
        last = self.entries[-1]
        if what == "people":
            assert self.steps_with(What.INTEND), (
                "a person was asked without an announcement in the journal"
            )
            return
        assert last["entry"] in _BEFORE_A_CHANGE, f"{what} was changed after {last}"
        kind = self.plan.step(last["step"]).kind
        assert kind in MAY_CHANGE[what.partition(" o")[0]], f"{what} was changed by {kind}"

    def steps_with(self, what: What) -> list[str]:
        """Return the steps of all entries of one kind."""
        return [each["step"] for each in self.entries if each["entry"] == what]

    def _must_be_true(self, entry: Mapping[str, Any]) -> None:
        if entry["entry"] not in (What.DONE, What.UNDONE):
            return
        kind = KINDS[self.plan.step(entry["step"]).kind]
        intent = self._intents[entry["effect"] - 1]
        reader = cast(LinkReader, Process(self.pair).reader)
        done = entry["entry"] == What.DONE
        with self.pair.trace.unrecorded_reads():
            seen: Readback = (kind.verify if done else kind.verify_undo)(intent, reader)
            assert seen.state is State.DONE, f"the step does not confirm {entry}: {seen.message}"
            truth = (TRUTHS if done else ROLLED_BACK)[kind.name]
            assert truth(self.pair, intent), f"{entry} is not true on the clusters"

    @property
    def _intents(self) -> list[Json]:
        return [each["intent"] for each in self.entries if each["entry"] == What.INTEND]


@dataclass
class Ran:
    """The result of a run.

    Attributes:
        outcome: outcome of the last attempt; only its status if the run had ended before.
        first: status of the first attempt that ended without a crash.
    """

    pair: Pair
    ledger: Ledger
    outcome: Outcome
    first: Status


def countdown(number: int | None) -> Callable[[str], None]:
    """Return a function that ends the process at the given point; never for None."""
    left = [-1 if number is None else number]

    def fall(point: str) -> None:
        left[0] -= 1
        if left[0] == -1:
            raise Crash(point)

    return fall


def run(case: Case, *falls: int | Callable[[str], None]) -> Ran:
    """Start a run, resume it after each crash, and resume it after the remedy if it could not
    continue.

    Args:
        falls: for each attempt, the point at which its process ends, or a function that
            decides.
    """
    pair = case.pair()
    ledger = Ledger(cast(World, pair.trace), pair=pair, plan=case.plan)
    pair.trace.announced = ledger.announced
    first: Status | None = None
    for fall in (*falls, *[None] * _ATTEMPTS):
        pair.trace.fall = fall if callable(fall) else countdown(fall)
        try:
            outcome = attempt(case, pair, ledger, case.overrides if first else {})
        except Crash:
            pair.trace.fall = lambda point: None
            pair.tick()
            case.meanwhile(pair)
            continue
        first = first or outcome.status
        if outcome.over or outcome.status in (Status.DONE, Status.REFUSED):
            break
        case.remedy(pair)
    assert first is not None
    pair.settle()
    return Ran(pair, ledger, outcome, first)


def attempt(
    case: Case, pair: Pair, ledger: Ledger, overrides: Mapping[str, str] = NOTHING
) -> Outcome:
    """Start or resume the run in a new process."""
    process = Process(pair)
    look, writer = cast(LinkReader, process.reader), cast(LinkWriter, process.writer)
    engine = Execution(KINDS, look, writer, ledger, Busy(pair=pair), NoWatcher())
    if not ledger.entries:
        return engine.start(case.plan, WHO)[1]
    state = read_run(ledger.entries)
    if state.status:
        return Outcome(Status(state.status), over=True)
    return engine.resume(state, WHO, overrides)


def points(case: Case) -> list[str]:
    """Return the names of all points at which the run can end; names may repeat."""
    found: list[str] = []
    run(case, found.append)
    return found


def ends(case: Case) -> list[int]:
    """Return the numbers of one point between each two changes of the clusters or the journal.

    All points between the same two changes are equivalent: a process's memory is lost with it.
    """
    names = points(case)
    return [n for n, name in enumerate(names) if name.startswith("before ")] + [len(names) - 1]


def assert_the_same(case: Case, numbers: Iterable[int] | None = None) -> None:
    """Assert that the run ends the same wherever its process ends, and never changes anything
    blindly.
    """
    whole = run(case)
    assert_looked_at(whole.pair)
    for number in some(ends(case) if numbers is None else numbers):
        ran = run(case, number)
        context = (number, ran.ledger.entries[-1])
        assert ran.outcome.status == whole.outcome.status, context
        assert ran.pair.state == whole.pair.state, context
        assert_looked_at(ran.pair)


def assert_looked_at(pair: Pair) -> None:
    """Assert that no change was repeated without reading the state in between."""
    since: dict[str, set[str]] = {}
    for what, how in pair.trace.happened:
        if what == "evidence":
            # A file in the run's own folder: it is replaced by the same content.
            continue
        if not how:
            since.pop(what, None)
            continue
        seen_by = what.replace("probe_record on", "logs of")
        assert how not in since.get(seen_by, ()), f"{what}: {how}, twice without a read in between"
        since.setdefault(seen_by, set()).add(how)
