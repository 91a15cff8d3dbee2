"""One drctl process: its reader and writer, its clock, and the journal as it writes it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, cast

from drctl.app.failback import outstanding_since_failback
from drctl.config.configuration import Config
from drctl.config.link import Link
from drctl.config.reverse_link import reversed_link
from drctl.engine import run_state
from drctl.engine.entries import What
from drctl.engine.failback_state import OutstandingAction
from drctl.engine.ports import LinkReader, LinkWriter, Missing
from drctl.engine.run_state import run_states
from drctl.gap.arrival import AFTER_OPEN
from drctl.kafka.journal_topic import HeldRun
from drctl.model.groups import Committed
from drctl.model.topology import TopicPartition
from drctl.offsets.applying import Bounds, Translated, Wanted, unmatched
from tests.engine.crashing import Ledger
from tests.engine.ground_truth import ROLLED_BACK, TRUTHS
from tests.engine.processes import MemoryReader, MemoryWriter, Process
from tests.simulation.faults import Faults, Violation
from tests.simulation.journal import SimulatedJournal, holds
from tests.simulation.world import GROUPS, World

_PASSING = frozenset({"verify-forward-copies", "wait-for-catch-up", "verify-clients"})
"""Kinds whose proof is of the moment at which it was read: applications go on meanwhile."""


@dataclass
class Reader(MemoryReader):
    """What steps read; offsets are translated without skipping an unread record.

    Attributes:
        config: the drctl.yaml of the machine; `forward`: its link.
        lost: whether the source is probably down.
    """

    journal: SimulatedJournal = field(kw_only=True)
    config: Config | None = None
    forward: Link | None = None
    lost: bool = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close nothing."""

    @property
    def link(self) -> Link:
        """The link in the direction of this reader."""
        assert self.forward is not None
        return self.forward if self.source == self.forward.source else reversed_link(self.forward)

    def probe_clusters(self, *, abandoned: bool) -> None:
        """Do nothing: nothing is remembered of earlier requests."""

    def watch_source(self) -> None:
        """Do nothing: requests to a lost cluster take no time."""

    def start_snapshot(self) -> None:
        """Do nothing: nothing is read in the background."""

    def prepare(self) -> None:
        """Do nothing: there are no connections."""

    def translated(self) -> Translated:
        self.pair.trace.look(f"checkpoints on {self.target}")
        world = cast(World, self.pair)
        site = world.sites[self.source]
        found = world.checkpoints if site.logs.dead else site.positions.positions
        rows = (
            Wanted(group, place, Committed(self._first_unread(place, at.offset)), Bounds(0, 0))
            for group in sorted(found)
            for place, at in sorted(found[group].items())
        )
        wanted = tuple(rows)
        return Translated(wanted, unmatched(GROUPS, wanted) if site.logs.dead else ())

    def missing(self) -> Missing:
        # Read first: what is committed meanwhile must not count as compared.
        blocked = sorted(self._site(self.source).logs.open_)
        undecided = tuple(f"{place}: 1 offset {AFTER_OPEN}" for place in blocked)
        return replace(super().missing(), undecided=undecided)

    def outstanding(self) -> Sequence[OutstandingAction]:
        return outstanding_since_failback(run_states(self.journal))

    def reversed(self) -> "Reader":
        given = self.pair, self.target, self.source, self.memory
        return Reader(*given, journal=self.journal, config=self.config, forward=self.forward)

    def _first_unread(self, place: TopicPartition, offset: int) -> int:
        unread = {each.key for each in self._site(self.source).logs.committed(place, offset)}
        logs = self._site(self.target).logs
        end = len(logs.logs.get(place, ()))
        return next((each.offset for each in logs.committed(place) if each.key in unread), end)


@dataclass
class Clock:
    """The clock of a machine: its time of day drifts and jumps, its monotonic time does not."""

    world: World
    ahead: float
    held: HeldRun | None = None
    stopping: bool = False

    def now(self) -> float:
        return self.world.seconds + self.ahead

    def monotonic(self) -> float:
        return self.world.seconds

    def wait(self, seconds: float) -> None:
        """Wait on a slow machine, and send a heartbeat."""
        self.world.seconds += 20 * seconds
        if self.world.random is not None and self.world.random.random() < 0.02:
            self.ahead += self.world.random.uniform(-4000, 4000)
        self.world.tick()
        if self.held is not None:
            self.held._beat()


@dataclass
class SimulatedProcess(Process):
    """A process on one machine.

    Attributes:
        dead: whether it was killed.
        fenced_at: the step at which another process took over its run; None if none did.
    """

    name: str = ""
    journal: SimulatedJournal = field(kw_only=True)
    clock: Clock = field(kw_only=True)
    dead: bool = False
    checked: "CheckedJournal | None" = None
    fenced_at: str | None = None

    @property
    def look(self) -> LinkReader:
        """What its steps read."""
        pair = self.pair
        found = Reader(pair, pair.source, pair.target, self.memory, journal=self.journal)
        return cast(LinkReader, found)

    @property
    def change(self) -> LinkWriter:
        """What its steps change."""
        return cast(LinkWriter, MemoryWriter(*self._given))

    @property
    def _given(self) -> Any:
        return self.pair, self.pair.source, self.pair.target, self.memory


@dataclass
class CheckedJournal(Ledger):
    """The journal as the engine writes it: each statement must be so.

    Attributes:
        places: where it is written: the topic, and a copy on the machine.
        late: how many late requests were executed before the proof of the next entry began.
    """

    held: HeldRun | None = None
    places: Any = None
    process: SimulatedProcess | None = None
    late: int = 0

    @property
    def holds_link(self) -> bool:
        """Whether no other process has taken the link over."""
        return self.held is not None and holds(self.held)

    def append(self, entries: Sequence[Mapping[str, Any]]) -> None:
        for entry in entries:
            assert self.places is not None
            if self.holds_link:
                self._must_be_true(entry)
            self.places.append([entry])
            self.entries.append(run_state.parse_line(self.places.file.lines[-1]).entry)
            if entry["entry"] != What.OBSERVED:
                self.late = self._late_requests
            cast(Faults, self.pair.trace).note(_described(entry))

    def check(self) -> None:
        assert self.held is not None
        self.held.check()

    def announced(self, what: str) -> None:
        """The last entry must announce this change; one fenced process may finish one step."""
        super().announced(what)
        assert self.process is not None
        if not self.holds_link:
            step = self.entries[-1]["step"]
            if self.process.fenced_at not in (None, step):
                raise Violation(f"a fenced process went on from {self.process.fenced_at} to {step}")
            self.process.fenced_at = step

    def _must_be_true(self, entry: Mapping[str, Any]) -> None:
        what = entry["entry"]
        if what == What.INTEND and any(each["entry"] == What.UNDOING for each in self.entries):
            raise Violation(f"a run that rolls back goes forward: {_described(entry)}")
        if what not in (What.DONE, What.UNDONE):
            return
        kind, done = self.plan.step(entry["step"]).kind, what == What.DONE
        if kind in _PASSING:
            return
        if kind == "fence-recovered" and self.late < self._late_requests:
            # A request of a killed process may have lifted this fence just after it was verified.
            return
        intent = self._intents[entry["effect"] - 1]
        with self.pair.trace.unrecorded_reads():
            truth = (TRUTHS if done else ROLLED_BACK).get(kind)
            if truth is None:
                raise Violation(f"{kind} was rolled back")
            if not truth(self.pair, intent):
                raise Violation(f"the journal says what is not so: {_described(entry)}")

    @property
    def _late_requests(self) -> int:
        return cast(World, self.pair).executed_late


def _described(entry: Mapping[str, Any]) -> str:
    what = (entry["entry"], entry.get("step", ""), entry.get("message", entry.get("what", "")))
    return " ".join(("  =", *map(str, what))).rstrip()
