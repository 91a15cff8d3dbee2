"""One seed: what operators do and what goes wrong, until the link has come to rest."""

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from random import Random
from types import SimpleNamespace
from typing import Any, TypeVar
from unittest.mock import patch
from uuid import UUID

from drctl.config.configuration import Config
from drctl.engine.invariants import violations
from drctl.engine.kind import Kind, Outcome, Status
from drctl.engine.run_state import RunState, check_entry, parse_line, read_run
from drctl.engine.source_fence import ALIVE, CHANGED_AFTER_FENCE
from drctl.formats.journal_records import decode
from drctl.model.errors import Fenced, Refused, Unknown
from drctl.model.loss import Mode
from drctl.model.plan import Plan
from drctl.plans.inputs import FenceMethod
from drctl.steps.stop_replication import RUNNING
from tests.engine import failovers
from tests.engine.pair import BACK, PRIMARY, SECONDARY
from tests.engine.toggles import Crash
from tests.simulation import commands
from tests.simulation.commands import SECRET, TIMES, Command, configuration, suggested
from tests.simulation.faults import NO_FAULTS, Faults, Rates, Violation, drawn
from tests.simulation.journal import BEFORE_ENTRY, LINK, REPLACED, SimulatedJournal, Topic
from tests.simulation.judging import judge
from tests.simulation.process import CheckedJournal, Clock, SimulatedProcess
from tests.simulation.world import FORWARD, PASSWORD, World, begun

ATTEMPTS, FAULTS_UNTIL, ABANDONED_AFTER = 16, 8, 13
"""Attempts to bring a run to its end; after how many nothing goes wrong any more; and after how
many a run is abandoned whose source was written to because somebody had lifted its fence."""

RUNS = 3
"""Runs until a failover or failback must be done; nothing goes wrong in the last one."""

MOST_POINTS = 30_000
"""A run that has not ended after so many requests never will."""


class AtOnce:
    """Stands for a pool of threads: handles each request in turn."""

    def __init__(self, *_: object) -> None:
        pass

    def __enter__(self) -> "AtOnce":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def map(self, do: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        return [do(item) for item in items]

    def submit(self, do: Callable[[], Any]) -> SimpleNamespace:
        return SimpleNamespace(result=do)


CHECKING = ("drctl.engine.invariants", "drctl.cli.resume")
"""The modules that look up whether a plan violates a rule."""

MOST_KNOWN = 2000
"""After so many, objects are forgotten: those of earlier seeds are not needed."""

T, R = TypeVar("T"), TypeVar("R")

_RULES: dict[tuple[tuple[str, str], ...], tuple[str, ...]] = {}


def _violations(plan: Plan, kinds: Mapping[str, Kind]) -> tuple[str, ...]:
    """Check the order of each sequence of steps once."""
    steps = tuple((step.id, step.kind) for step in plan.steps)
    if steps not in _RULES:
        _RULES[steps] = violations(plan, kinds)
    return _RULES[steps]


def once(read: Callable[[T], R]) -> Callable[[T], R]:
    """Read each object once: processes that read the same line of the journal get the same one."""
    known: dict[int, tuple[T, R]] = {}

    def found(given: T) -> R:
        before = known.get(id(given))
        if before is None or before[0] is not given:
            if len(known) > MOST_KNOWN:
                known.clear()
            known[id(given)] = before = (given, read(given))
        return before[1]

    return found


@contextmanager
def simulated() -> Iterator[None]:
    """Replace the threads of drctl's code, and what it sends to the journal's brokers.

    Garbage is collected between seeds only: a collection closes what a killed process left open,
    and must not do so at a point that a replay does not repeat.
    """
    numbers = count(1)
    replaced = {
        **REPLACED,
        **commands.REPLACED,
        "drctl.steps.stop_replication.ThreadPoolExecutor": AtOnce,
        "drctl.steps.prechecks.ThreadPoolExecutor": AtOnce,
        "uuid.uuid4": lambda: UUID(int=next(numbers)),
        # Each process reads the whole journal, and checks its plan, again: these are pure.
        "drctl.kafka.journal_log.decode": lru_cache(maxsize=512)(decode),
        "drctl.engine.run_state.parse_line": lru_cache(maxsize=512)(parse_line),
        "drctl.engine.run_state.check_entry": once(check_entry),
        "drctl.engine.run_state.Plan": SimpleNamespace(from_json=once(Plan.from_json)),
        **{f"{module}.violations": _violations for module in CHECKING},
    }
    with ExitStack() as patched:
        for name, substitute in replaced.items():
            patched.enter_context(patch(name, substitute))
        gc.freeze()
        gc.disable()
        patched.callback(gc.enable)
        yield


@dataclass
class Simulation:
    """A link, its operators, and what happens to them.

    Attributes:
        config: the drctl.yaml of each machine.
        line: the command that starts the run; `state`: what the journal says of the run so far.
        running: the process that acts now; None while people and applications do.
        results: by run, in order: what its journal says, and what it came to.
        contested: whether a second process acts while the first one waits.
        lifted: whether somebody has removed the fence during this run.
        points: how many requests were made.
    """

    seed: int
    random: Random = field(init=False)
    faults: Faults = field(init=False)
    world: World = field(init=False)
    topic: Topic = field(init=False)
    config: Config = field(init=False)
    line: str = ""
    state: RunState | None = None
    running: SimulatedProcess | None = None
    results: list[tuple[RunState, Outcome]] = field(default_factory=list)
    contested: bool = False
    lifted: bool = False
    points: int = 0
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.faults = Faults(random=self.random)
        self.world = begun(self.faults, self.random)
        self.faults.happens, self.faults.late = self._point, self.world.later
        self.topic = Topic(self.faults)

    def play(self) -> None:
        """Fail over and perhaps back; judge the world after each run."""
        mode = self.random.choice(tuple(Mode))
        method = self.random.choice(tuple(FenceMethod))
        reverse = mode is Mode.PLANNED and self.random.random() < 0.3
        self.config = configuration(method, reverse=reverse)
        if method is not FenceMethod.ACL:
            failovers.lift_fence(self.world, SECONDARY)
        if method is FenceMethod.NONE:
            self.world.manual_actions = failovers.by_hand(self.world)
        if mode is Mode.UNPLANNED:
            self.world.die(PRIMARY)
        self.world.restarted = True
        self._until_done(f"drctl failover --link {LINK} --mode {mode.value} {TIMES} --execute")
        if self.results[-1][0].abandoned or reverse or method is not FenceMethod.ACL:
            return
        if self.world.copies_aborted:
            return
        self.world.recover(PRIMARY)
        self.world.abandoned = ""
        self.world.source, self.world.target = SECONDARY, PRIMARY
        self._pass_time()
        self._until_done(f"drctl failback --link {LINK} --policy copy {TIMES} --execute")

    def _until_done(self, line: str) -> None:
        """Run a command until it is done: what was rolled back or stopped can be run again."""
        for number in range(RUNS):
            if self.world.abandoned:
                self.world.die(PRIMARY)
            rates = drawn(self.random) if number < RUNS - 1 else NO_FAULTS
            outcome = self._run(line, rates)
            self._no_secret_is_printed()
            judge(self.world, *self.results[-1])
            if outcome.status is Status.DONE or self.results[-1][0].abandoned:
                return
            self._pass_time()
        raise Violation(f"{line} ends {outcome.status} although nothing goes wrong: {outcome}")

    def _run(self, line: str, rates: Rates) -> Outcome:
        """Type a command, and those that its report names, until the run ends."""
        self.faults.rates, self.lifted, self.line, self.state = rates, False, line, None
        self.faults.muted.clear()
        for producer in self.world.producers:
            producer.left = self.random.randint(0, 30)
        run, outcome = f"r{next(self.numbers)}", None
        self.faults.note(f"{line} as run {run}: {self.faults.rates}")
        for attempt in range(ATTEMPTS):
            if attempt == FAULTS_UNTIL:
                self.faults.note("-- from here on, nothing goes wrong")
                self.faults.rates = NO_FAULTS
                self.faults.muted.clear()
            if outcome:
                self._remedy(outcome)
            abandons = attempt == ABANDONED_AFTER and self.lifted
            outcome = self._attempt(run, self._next_line(run, abandons=abandons)) or outcome
            self.state = self._journaled(run)
            if self.state and self.state.status:
                return self._note_end(self.state, outcome)
            self._pass_time()
            if self.random.random() < self.faults.rates.meddling and not self.topic.free:
                self._lift_fence(self.world.source)
            if self.random.random() < 0.05 and self.state:
                self._begin_beside(line)
        raise Violation(f"run {run} does not end: {outcome}")

    def _begin_beside(self, line: str) -> None:
        """An operator types the first command again although its run has not ended."""
        other = f"r{next(self.numbers)}"
        self._attempt(other, line, refused=True)
        if self._journaled(other):
            raise Violation(f"run {other} began although an earlier one has not ended")

    def _journaled(self, run: str) -> RunState | None:
        """What the journal says of a run; None if it does not name it."""
        with self.faults.unrecorded_reads():
            journal = self._process().journal
            if run not in journal.runs():
                return None
            entries = journal.entries(run)
        if self.state is None or self.state.run != run:
            return read_run(entries)
        self.state.take(entries[len(self.state.entries) :])
        return self.state

    def _next_line(self, run: str, *, abandons: bool = False) -> str:
        """The command that the report of the run names, or the first one again without a run."""
        if self.state is None:
            return self.line
        named = [e for e in suggested(self.state) if e.startswith(f"drctl resume {run} ")]
        if abandons:
            wanted = "--abandon"
        else:
            wanted = "--override" if any(CHANGED_AFTER_FENCE in each for each in named) else ""
        found = next((each for each in named if wanted in each), "")
        if not found:
            raise Violation(f"the report of run {run} names no command that continues it")
        return found if "--execute" in found else f"{found} --execute"

    def _note_end(self, state: RunState, outcome: Outcome | None) -> Outcome:
        """Keep how a run has ended."""
        if outcome is None or outcome.status.value != state.status:
            # Its last process was killed, or got no answer, after it had written the end.
            outcome = Outcome(Status(state.status), over=True)
        self.results.append((state, outcome))
        return outcome

    def _no_secret_is_printed(self) -> None:
        """What drctl printed and journaled is in the trace."""
        text = "\n".join(self.faults.lines)
        if PASSWORD in text or SECRET in text:
            text = next(e for e in self.faults.lines if PASSWORD in e or SECRET in e)
            raise Violation(f"a secret is printed: {text}")

    def _remedy(self, outcome: Outcome) -> None:
        """Do what the run asked for."""
        text = f"{outcome.message} {' '.join(outcome.items)}"
        if "rollback is incomplete" in text and self.world.abandoned:
            self.world.recover(PRIMARY)
        elif ALIVE in text:
            self.world.die(PRIMARY)
        if "not replicated yet" in text and self.lifted:
            source = self.world.source
            connector = self.world.workers.connectors[FORWARD if source == PRIMARY else BACK]
            connector.wanted = RUNNING
            self.faults.note(f"-- somebody lets replication from {source} catch up")
            for _ in range(20):
                self.world.tick()

    def _pass_time(self) -> None:
        for _ in range(self.random.randint(1, 6)):
            self.world.tick()

    def _attempt(self, run: str, line: str, *, refused: bool = False) -> Outcome | None:
        """Run a command in a new process; None if it was killed or has executed nothing.

        Args:
            run: the name of the run, if it starts one.
            refused: whether it may be refused, because another process has the link.
        """
        process = self._process()
        command = Command(process, self.config, self.topic, run)
        before, self.running = self.running, process
        self.faults.note(f"-- {process.name}: {line}")
        try:
            command(line)
        except Crash as point:
            process.dead = True
            self.faults.note(f"-- {process.name} is killed at {point}")
        except (Fenced, Unknown) as error:
            self.faults.note(f"-- {process.name} ends: {error.message}; {error.hint}")
        except Refused as error:
            self.faults.note(f"-- {process.name} is refused: {error.message}; {error.hint}")
            if not refused:
                return self._blocked(command, error)
        finally:
            self.running, self.topic.beating = before, False
        if command.ended is None:
            return None
        outcome = command.ended[1]
        text = f"{outcome.status}: {outcome.message} {outcome.items} {command.printed}"
        self.faults.note(f"-- {process.name}: {text}")
        return outcome

    def _blocked(self, command: Command, error: Refused) -> Outcome:
        """A command may be refused before its run starts, for a reason that is true."""
        alive = not self.world.sites[PRIMARY].logs.dead
        is_true = command.plan is None and (
            (ALIVE in error.message and alive)
            or "target-unreachable" in error.message
            or "have changed since the plan was made" in error.message
            or "its state is unknown" in error.message
        )
        if not is_true:
            raise Violation(f"the next command does not work: {error.message}") from error
        return Outcome(Status.REFUSED, message=error.message)

    def _process(self) -> SimulatedProcess:
        name = f"drctl-{next(self.numbers)}"
        ahead = self.random.choice((0.0, 0.0, 600.0, -86_400.0))
        tokens = (f"{name}-{number}" for number in count())
        journal = SimulatedJournal(self.topic, lambda: next(tokens))
        return SimulatedProcess(
            self.world, name=name, journal=journal, clock=Clock(self.world, ahead)
        )

    def _point(self, point: str) -> None:
        """Let happen what may happen at a request: nothing, most often."""
        process, rates = self.running, self.faults.rates
        if process is None:
            return
        if process.dead:
            raise Crash(point)
        self.points += 1
        if self.points > MOST_POINTS:
            raise Violation("it never ends")
        number = self.random.random()
        if number < rates.tick:
            self.world.tick()
        elif (number := number - rates.tick) < rates.crash:
            process.dead, self.topic.beating = True, False
            raise Crash(point)
        elif (number := number - rates.crash) < rates.second_process:
            checked = process.checked
            if checked and checked.holds_link and not (self.topic.free or self.contested):
                self._second_process(process, checked, point)
        elif number - rates.second_process < rates.incident:
            self._incident()

    def _second_process(
        self, process: SimulatedProcess, checked: CheckedJournal, point: str
    ) -> None:
        """Another process wants the link: while the first one is alive, it must be refused.

        The first one hangs only before it announces a change, or while it reads: nothing keeps a
        request from being sent that a process had announced before it hung.
        """
        announced = point.startswith(("before", "after")) and point != BEFORE_ENTRY
        hangs = self.random.random() < 0.5 and not announced
        self.topic.beating, self.contested = not hangs, True
        same = hangs or self.random.random() < 0.5
        run = checked.run if same else f"r{next(self.numbers)}"
        self.faults.note(f"-- {process.name} {'hangs' if hangs else 'is alive'}")
        line = f"drctl resume {run} --execute" if run in process.journal.runs() else self.line
        self._attempt(run, line, refused=True)
        self.faults.note(f"-- {process.name} continues")
        self.topic.beating, self.contested = True, False
        self.faults.announced = checked.announced

    def _incident(self) -> None:
        """Something happens to a part of the world."""
        incidents = (self._workers_restart, self._outage, self._source_returns)
        self.random.choice(incidents)()

    def _lift_fence(self, name: str) -> None:
        """A person removes the ACLs of drctl from a cluster, and applications there write."""
        if self.world.sites[name].logs.dead:
            return
        self.faults.note(f"-- somebody lifts the fence of {name}")
        failovers.lift_fence(self.world, name)
        self.lifted = True
        self._pass_time()

    def _workers_restart(self) -> None:
        self.faults.note("-- Connect's workers restart")
        for connector in self.world.mirrors:
            connector.running = False

    def _source_returns(self) -> None:
        """A lost source answers again, and applications that have not moved write there."""
        if self.world.abandoned and self.world.sites[self.world.abandoned].logs.dead:
            self.faults.note(f"-- {self.world.abandoned} answers again")
            self.world.recover(self.world.abandoned)

    def _outage(self) -> None:
        """A cluster does not answer for a while."""
        name = self.random.choice((PRIMARY, SECONDARY))
        if not self.world.sites[name].logs.dead:
            self.faults.note(f"-- {name} does not answer for a while")
            self.world.outage(name, self.random.uniform(3, 40))


def play(seed: int) -> Simulation:
    """Play one seed.

    Raises:
        Violation: an invariant does not hold.
    """
    simulation = Simulation(seed)
    simulation.play()
    return simulation
