"""The course of one drill: its applications at work, the engine's plan, and what came of both."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from drctl.cli.console import console
from drctl.cli.drill import wiring as drill_wiring
from drctl.cli.drill.sight import DrillHands, DrillSight
from drctl.cli.notices import Nobody
from drctl.cli.runs import circumstances, run_journal
from drctl.cli.runs.guarding import judged
from drctl.cli.runs.run_watching import watched
from drctl.cli.stopping import StoppableClock
from drctl.drill.acting import Applications, Conducted
from drctl.drill.logs import Logs
from drctl.drill.narrowing import narrowed
from drctl.drill.planning import LeftOut, Rehearsal, overrides, rehearsal
from drctl.engine.executing import Execution
from drctl.engine.outcome import Outcome, Status
from drctl.engine.registry import KINDS
from drctl.engine.sequences.circumstances import FenceMethod, Mode
from drctl.engine.story import Story
from drctl.model.errors import Interrupted, Stopped, Unreachable
from drctl.model.topology import TopicPartition, Unavailable

if TYPE_CHECKING:
    from drctl.cli.drill.inject import Injected
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.drill.cleaning import Ports
    from drctl.drill.names import Scratch
    from drctl.drill.ports import Reader, Writer

PARTITIONS = 3
RATE = 50.0
_LOOK_EVERY_S = 0.2
_READ_S = 60.0
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Wanted:
    """How large a drill is.

    Attributes:
        records: that are written and copied before anything else happens.
        work_s: how long applications are at work before the failover, or the fault.
        budget_s: how long it may all take; cleaning up not counted.
    """

    records: int
    work_s: float
    budget_s: float


@dataclass(slots=True)
class Stage:
    """One drill, from its first record to its last.

    Attributes:
        principals: whom the fence denies; empty where none is set.
        story: of the engine's part; None until it began.
        left_out: steps of the real plan that it does without.
        journal: where the engine's part is written down; empty until it began.
    """

    config: "Config"
    link: "Link"
    scratch: "Scratch"
    wanted: Wanted
    principals: tuple[str, ...]
    clock: StoppableClock
    source: "Ports"
    target: "Ports"
    fault: "Injected | None" = None
    story: Story | None = field(default=None, init=False)
    outcome: Outcome | None = field(default=None, init=False)
    left_out: tuple[LeftOut, ...] = field(default=(), init=False)
    journal: str = field(default="", init=False)
    _until: float = field(default=0.0, init=False)

    @property
    def mode(self) -> Mode:
        """How the engine fails over."""
        lost = self.fault is not None and self.fault.fault.loses_source
        return Mode.UNPLANNED if lost else Mode.PLANNED

    @property
    def done(self) -> bool:
        """Whether the engine went through all steps."""
        return self.outcome is not None and self.outcome.status is Status.DONE

    @property
    def not_done(self) -> str:
        """Why the engine did not go through all steps; empty where it did."""
        if self.outcome is None or self.done:
            return ""
        words = "; ".join((self.outcome.words, *self.outcome.items[:_NAMED]))
        return f"step {self.outcome.step}: {words}" if self.outcome.step else words

    @property
    def not_seen_done(self) -> bool:
        """Whether the engine sent something and did not see it done."""
        return self.outcome is not None and self.outcome.status is Status.UNKNOWN

    def plan(self, sight: DrillSight) -> Rehearsal:
        """The engine's plan over what is there now."""
        fenced = bool(self.principals)
        seen = circumstances.look_at(sight.link, sight, overrides(fenced))
        return rehearsal(self.mode, seen, readers=(self.scratch.principal,))

    def sight(self) -> DrillSight:
        """What looks over the narrowed link."""
        over = narrowed(self.link, self.scratch, self.principals)
        canary = self.scratch.canary
        lost = self.mode is Mode.UNPLANNED
        return DrillSight(self.config, over, judged, Nobody(), lost, canary=canary)

    def run(self) -> Logs | None:
        """All of it; what the applications saw, None where they were not moved.

        Raises:
            Interrupted: somebody pressed Ctrl-C.
            DrctlError: it could not be carried out.
        """
        self._until = self.clock.monotonic() + self.wanted.budget_s
        at_home = drill_wiring.applications_at_home(
            self.link, self.scratch, self.wanted.records // 2
        )
        applications = Applications(*at_home, self._there)
        try:
            self._set_up(applications)
            if self.fault is not None:
                console().progress(f"injecting {self.fault.fault.value}")
                self.fault.strike()
            self._fail_over(applications)
            return self._logs(applications)
        finally:
            applications.end()

    def _set_up(self, applications: Applications) -> None:
        """The topic is copied, and the group has read a part of it."""
        records, topic = self.wanted.records, self.scratch.topic
        self.source.scratch.make_topic(topic, PARTITIONS)
        applications.writer.write(records)
        console().progress(f"{records:,} records are in {topic} of {self.link.source}")
        copy = self.link.target_topic(topic)
        self._wait(lambda: self._copied(copy) >= records, f"copy {topic} to {self.link.target}")
        applications.reader.start()
        most = records // 2
        self._wait(
            lambda: len(applications.reader.log.finished) >= most or _ended(applications),
            f"read {most:,} records",
        )
        if applications.reader.failure:
            raise Stopped(f"the drill's group cannot read: {applications.reader.failure}")
        applications.writer.start(RATE)
        began = self.clock.monotonic()
        self._wait(
            lambda: self.clock.monotonic() - began >= self.wanted.work_s, "let applications work"
        )

    def _copied(self, topic: str) -> int:
        """How many records the target holds; none where there is no copy yet."""
        numbers = self.target.site.overview().partitions.get(topic, ())
        places = [TopicPartition(topic, number) for number in numbers]
        found = self.target.site.offsets(places) if places else {}
        return sum(0 if isinstance(each, Unavailable) else each.end for each in found.values())

    def _fail_over(self, applications: Applications) -> None:
        held = run_journal.holder(self.scratch.drill)
        with self.sight() as sight:
            planned = self.plan(sight)
            plan, self.left_out = planned.plan, planned.left_out
            if FenceMethod(sight.link.settings.fence.method) is FenceMethod.NONE:
                applications.stop_writing(wait=self.mode is Mode.PLANNED)
            hands = DrillHands(
                self.config,
                sight.link,
                drill_wiring.folder(self.config) / self.scratch.drill,
                sight.commands,
                canary_topic=self.scratch.canary,
                denied=applications.fence_set,
            )
            with (
                drill_wiring.journals(self.config).anew(self.scratch.drill) as journal,
                watched(plan, journal, self.clock) as seen,
            ):
                self.journal = journal.where
                watcher = Conducted(plan, applications, seen.watcher)
                engine = Execution(KINDS, sight, hands, seen.journal, self.clock, watcher)
                self.story, self.outcome = engine.start(plan, run_journal.who(held))
        if self.outcome.status is Status.INTERRUPTED:
            raise Interrupted("stopped between two effects")

    def _there(self) -> "tuple[Writer, Reader]":
        return drill_wiring.applications_there(self.link, self.scratch)

    def _logs(self, applications: Applications) -> Logs | None:
        source, before = applications.writer.log, applications.reader.log
        if not self.done or applications.moved is None:
            return None
        writer, reader = applications.moved
        self._hope(lambda: writer.log.first_at is not None)
        writer.stop(wait=True)
        held = self._held()
        unread = held.keys() - before.finished
        self._hope(lambda: unread <= reader.log.read.keys() or bool(reader.failure))
        return Logs(source, writer.log, before, reader.log, held)

    def _held(self) -> Mapping[str, int]:
        try:
            return drill_wiring.held_there(self.link, self.scratch)
        except Unreachable as error:
            raise Unreachable(f"what was lost is not known: {error.message}", error.hint) from error

    def _hope(self, condition: Callable[[], bool]) -> None:
        """Wait for it a while; what did not come shows in the measures."""
        until = time.monotonic() + _READ_S
        while not condition() and time.monotonic() < until and not self.clock.stopping:
            self.clock.wait(_LOOK_EVERY_S)

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        """Until it is so.

        Raises:
            Stopped: the budget was used up first.
            Interrupted: somebody pressed Ctrl-C.
        """
        while not condition():
            if self.clock.stopping:
                raise Interrupted(f"stopped while waiting to {what}")
            if self.clock.monotonic() >= self._until:
                raise Stopped(
                    f"it took longer than {self.wanted.budget_s:g} s to {what}",
                    "see that replication runs; a new topic is seen within"
                    " refresh.topics.interval.seconds of MirrorMaker 2: --budget gives more time",
                )
            self.clock.wait(_LOOK_EVERY_S)


def _ended(applications: Applications) -> bool:
    return bool(applications.reader.failure or applications.writer.failure)
