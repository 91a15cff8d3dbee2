"""One seed: what operators do and what goes wrong, until the link has come to rest."""

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import count
from random import Random
from typing import Any, cast
from unittest.mock import patch
from uuid import UUID

from drctl.engine.abandoning import abandon
from drctl.engine.executing import Execution
from drctl.engine.invariants import violations
from drctl.engine.kind import Outcome, Status
from drctl.engine.run_state import RunState, entries_in, parse_line, read_run
from drctl.engine.source_fence import ALIVE, CHANGED_AFTER_FENCE
from drctl.formats.journal_records import decode
from drctl.kafka.journal_topic import HeldRun
from drctl.model.errors import Fenced, Refused, Unknown
from drctl.model.journal import Holder
from drctl.model.loss import Mode
from drctl.model.plan import Plan
from drctl.plans.failback import failback, reverse_inputs
from drctl.plans.inputs import FenceMethod
from drctl.steps.registry import KINDS
from drctl.steps.stop_replication import RUNNING
from tests.engine import failovers
from tests.engine.pair import BACK, PRIMARY, SECONDARY
from tests.engine.toggles import Crash, NoWatcher
from tests.simulation.faults import NO_FAULTS, Faults, Rates, Violation, drawn
from tests.simulation.journal import BEFORE_ENTRY, REPLACED, SimulatedJournal, Topic
from tests.simulation.judging import judge
from tests.simulation.process import CheckedJournal, Clock, SimulatedProcess
from tests.simulation.world import FORWARD, World, begun

ATTEMPTS, FAULTS_UNTIL, ABANDONED_AFTER = 16, 8, 13
"""Attempts to bring a run to its end; after how many nothing goes wrong any more; and after how
many a run is abandoned whose source was written to because somebody had lifted its fence."""

RUNS = 3
"""Runs until a failover or failback must be done; nothing goes wrong in the last one."""

MOST_POINTS = 30_000
"""A run that has not ended after so many requests never will."""

LINK = "main"
SEEN = replace(failovers.SEEN, timeout_s=1200)
REVERSED = replace(failovers.REVERSED, timeout_s=1200)


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


@contextmanager
def simulated() -> Iterator[None]:
    """Replace the threads of drctl's code, and what it sends to the journal's brokers.

    Garbage is collected between seeds only: a collection closes what a killed process left open,
    and must not do so at a point that a replay does not repeat.
    """
    numbers = count(1)
    replaced = {
        **REPLACED,
        "drctl.steps.stop_replication.ThreadPoolExecutor": AtOnce,
        "uuid.uuid4": lambda: UUID(int=next(numbers)),
        # Each process reads the whole journal again: these two are pure, and take half of the time.
        "drctl.kafka.journal_log.decode": lru_cache(maxsize=4096)(decode),
        "drctl.engine.run_state.parse_line": lru_cache(maxsize=4096)(parse_line),
    }
    with ExitStack() as patched:
        for name, stand_in in replaced.items():
            patched.enter_context(patch(name, stand_in))
        gc.freeze()
        gc.disable()
        patched.callback(gc.enable)
        yield


@dataclass
class Simulation:
    """A link, its operators, and what happens to them.

    Attributes:
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
        seen = self.random.choice((SEEN, SEEN, REVERSED)) if mode is Mode.PLANNED else SEEN
        if method is FenceMethod.NONE:
            self.world.manual_actions = failovers.by_hand(self.world)
        if mode is Mode.UNPLANNED:
            self.world.die(PRIMARY)
        self.world.restarted = True
        self._until_done(failovers.plan(mode, method, seen))
        if self.results[-1][0].abandoned or seen is REVERSED or method is not FenceMethod.ACL:
            return
        self.world.recover(PRIMARY)
        self.world.abandoned = ""
        self.world.source, self.world.target = SECONDARY, PRIMARY
        self._pass_time()
        old = replace(SEEN, replicator="mirrormaker2")
        self._until_done(failback(replace(reverse_inputs(old, (BACK,)), policy="copy")))

    def _until_done(self, plan: Plan) -> None:
        """Run a plan until it is done: what was rolled back or stopped can be run again."""
        assert not violations(plan, KINDS)
        for number in range(RUNS):
            if self.world.abandoned:
                self.world.die(PRIMARY)
            rates = drawn(self.random) if number < RUNS - 1 else NO_FAULTS
            outcome = self._run(plan, rates)
            judge(self.world, *self.results[-1])
            if outcome.status is Status.DONE or self.results[-1][0].abandoned:
                return
            self._pass_time()
        raise Violation(f"{plan.name} ends {outcome.status} although nothing goes wrong: {outcome}")

    def _run(self, plan: Plan, rates: Rates) -> Outcome:
        """Execute a plan as an operator does: resume it until it ends."""
        self.faults.rates, self.lifted = rates, False
        self.faults.muted.clear()
        for producer in self.world.producers:
            producer.left = self.random.randint(0, 30)
        run, outcome = f"r{next(self.numbers)}", None
        self.faults.note(f"{plan.name} as run {run}: {self.faults.rates}")
        for attempt in range(ATTEMPTS):
            if attempt == FAULTS_UNTIL:
                self.faults.note("-- from here on, nothing goes wrong")
                self.faults.rates = NO_FAULTS
                self.faults.muted.clear()
            if attempt == ABANDONED_AFTER and self.lifted:
                self._abandon(run)
            overrides = self._remedy(plan, outcome) if outcome else {}
            outcome = self._attempt(run, plan, overrides) or outcome
            if outcome and (outcome.over or outcome.status in (Status.DONE, Status.REFUSED)):
                self._note_end(run, outcome)
                return outcome
            self._pass_time()
            if self.random.random() < self.faults.rates.meddling and not self.topic.over:
                self._lift_fence(plan.source)
        raise Violation(f"run {run} does not end: {outcome}")

    def _abandon(self, run: str) -> None:
        """End a run that applications have made impossible to complete."""
        process = self._process()
        held = process.journal.abandon(Holder(run, "ada", process.name, 1, datetime.now(UTC)))
        state = read_run(entries_in(run, held.lines, held.where))
        told = abandon(state, "both clusters were written to", {}, held, KINDS, process.clock)
        held.close()
        self.faults.note(f"-- {process.name} abandons {run}: {told.items}")

    def _remedy(self, plan: Plan, outcome: Outcome) -> Mapping[str, str]:
        """Do what the run asked for; return the prechecks that the operator overrides."""
        told = f"{outcome.message} {' '.join(outcome.items)}"
        if "rollback is incomplete" in told and self.world.abandoned:
            self.world.recover(PRIMARY)
        elif ALIVE in told:
            self.world.die(PRIMARY)
        if "not replicated yet" in told and self.lifted:
            connector = self.world.workers.connectors[FORWARD if plan.source == PRIMARY else BACK]
            connector.wanted = RUNNING
            self.faults.note(f"-- somebody lets replication from {plan.source} catch up")
            for _ in range(20):
                self.world.tick()
        return {CHANGED_AFTER_FENCE: "accepted"} if CHANGED_AFTER_FENCE in told else {}

    def _note_end(self, run: str, outcome: Outcome) -> None:
        """Keep what the journal says of the run in the end."""
        journal = self._process().journal
        with self.faults.unrecorded_reads():
            self.results.append((read_run(journal.entries(run)), outcome))

    def _pass_time(self) -> None:
        for _ in range(self.random.randint(1, 6)):
            self.world.tick()

    def _attempt(
        self, run: str, plan: Plan, overrides: Mapping[str, str], *, refused: bool = False
    ) -> Outcome | None:
        """Start or resume the run in a new process; None if it was killed or did not begin.

        Args:
            refused: whether it may be refused, because another process has the link.
        """
        process = self._process()
        before, self.running = self.running, process
        try:
            return self._execute(process, run, plan, overrides)
        except Crash as point:
            process.dead = True
            self.faults.note(f"-- {process.name} is killed at {point}")
        except (Fenced, Unknown) as error:
            self.faults.note(f"-- {process.name} ends: {error.message}; {error.hint}")
        except Refused as error:
            self.faults.note(f"-- {process.name} is refused: {error.message}; {error.hint}")
            if not refused:
                raise Violation(f"the next command does not work: {error.message}") from error
        finally:
            self.running, self.topic.beating = before, False
        return None

    def _process(self) -> SimulatedProcess:
        name = f"drctl-{next(self.numbers)}"
        ahead = self.random.choice((0.0, 0.0, 600.0, -86_400.0))
        tokens = (f"{name}-{number}" for number in count())
        journal = SimulatedJournal(self.topic, LINK, lambda: next(tokens))
        return SimulatedProcess(
            self.world, name=name, journal=journal, clock=Clock(self.world, ahead)
        )

    def _execute(
        self, process: SimulatedProcess, run: str, plan: Plan, overrides: Mapping[str, str]
    ) -> Outcome:
        journal = process.journal
        now = datetime.fromtimestamp(process.clock.now(), UTC)
        holder, alive = Holder(run, "ada", process.name, 1, now), self.topic.beating
        known = run in journal.runs()
        if known and journal._log.link.ended(run):
            return Outcome(Status(read_run(journal.entries(run)).status), over=True)
        held = journal.resume(holder) if known else journal.acquire(holder)
        if alive:
            raise Violation(f"{process.name} has taken the link from a process that is alive")
        self.topic.beating = True
        process.clock.held = held
        self.faults.note(f"-- {process.name} {'resumes' if known else 'starts'} {run} {overrides}")
        state = read_run(entries_in(run, held.lines, held.where)) if known else None
        outcome = self._go(process, held, state, plan, overrides)
        process.checked = None
        held.close()
        told = f"{outcome.status}: {outcome.message} {outcome.items}"
        self.faults.note(f"-- {process.name}: {told}")
        return outcome

    def _go(
        self,
        process: SimulatedProcess,
        held: HeldRun,
        state: RunState | None,
        plan: Plan,
        overrides: Mapping[str, str],
    ) -> Outcome:
        earlier = list(state.entries) if state else []
        checked = CheckedJournal(
            cast(Any, self.faults), held.run, pair=self.world, plan=plan, entries=earlier
        )
        checked.held, checked.process, process.checked = held, process, checked
        self.faults.announced = checked.announced
        kinds, clock, who = process.kinds, process.clock, {"user": "ada", "host": process.name}
        engine = Execution(kinds, process.look, process.change, checked, clock, NoWatcher())
        if state is None:
            return engine.start(plan, who)[1]
        if state.plan.fingerprint != plan.fingerprint:
            raise Violation("the journal has another plan than the one that was started")
        return engine.resume(state, who, overrides)

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
            if checked and checked.holds_link and not (self.topic.over or self.contested):
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
        self._attempt(run, checked.plan, {}, refused=True)
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
