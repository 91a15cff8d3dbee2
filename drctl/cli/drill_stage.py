"""One drill: its applications, the plan, the fault and the cleanup."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from drctl.app import adapters, drill_adapters, plan_inputs, run_journal
from drctl.app.drill_adapters import DrillLinkReader, DrillLinkWriter
from drctl.app.link_reader import Connectors
from drctl.app.link_writer import ClusterLinkWriter
from drctl.app.notices import NoPrompts
from drctl.app.prechecks import run_prechecks
from drctl.cli.console import console
from drctl.cli.grammar import command_line
from drctl.cli.running import watched
from drctl.cli.stopping import StoppableClock
from drctl.config.mirrors import brokers
from drctl.drill.cleaning import MARK, Cleaned, Left, Ports, began, clean, drill_of, left_on
from drctl.drill.clients import Applications, Conducted, Logs
from drctl.drill.inventory import Compared, Inventory, compared, connect_holding, holding
from drctl.drill.planning import LeftOut, Rehearsal, narrowed, overrides, rehearsal
from drctl.drill.result import Past, Verdict, read
from drctl.drill.takeovers import Takeover, TaskId
from drctl.engine.executing import Execution
from drctl.engine.kind import Outcome, Status
from drctl.engine.ports import LinkWriter
from drctl.engine.run_state import RunState
from drctl.host import connections
from drctl.model.errors import DrctlError, ExitCode, Interrupted, Refused, Stopped, Unreachable
from drctl.model.loss import Mode
from drctl.model.strict_json import read_json
from drctl.model.text import plural
from drctl.model.topology import TopicPartition, Unavailable
from drctl.plans.inputs import FenceMethod
from drctl.steps.registry import KINDS

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.drill.cleaning import Scratch
    from drctl.drill.result import Measures

PARTITIONS = 3
RATE = 50.0
NOTE, ALIVE = "drill.json", "alive"
LONGEST = timedelta(hours=6)
"""No drill takes longer. An older drill of another host has therefore ended."""

_LOOK_EVERY_S = 0.2
_READ_S = 60.0
_NAMED = 3

# How long to wait for an injected fault and its reversal, and the state of a component.
_CALL_S = 180.0
_ANSWER_S = 60.0
_FAULT_LOOK_EVERY_S = 0.5
_CONNECT = "connect"
_HANGS, _ANSWERS = "frozen", "answering"

# How long connectors may take to restart their tasks before the final comparison.
_TASKS_S = 20.0
_FAULT_S = 90.0
_SETTLING_LOOK_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """The size of a drill.

    Attributes:
        records: number of records that are written and replicated first.
        work_s: how long the applications run before the failover or the fault.
        budget_s: limit for the whole drill without the cleanup.
    """

    records: int
    work_s: float
    budget_s: float


@dataclass(slots=True)
class Stage:
    """One drill.

    Attributes:
        principals: fenced principals; empty without a fence.
        state: state of the run; None until the run began.
        left_out: steps of a real failover that the drill skips.
        journal: where the journal of the run is; empty until the run began.
        takeovers: tasks of source connectors that the fault disrupted.
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
    state: RunState | None = field(default=None, init=False)
    outcome: Outcome | None = field(default=None, init=False)
    left_out: tuple[LeftOut, ...] = field(default=(), init=False)
    journal: str = field(default="", init=False)
    takeovers: tuple[Takeover, ...] = field(default=(), init=False)
    _until: float = field(default=0.0, init=False)

    @property
    def mode(self) -> Mode:
        """The mode of the failover."""
        lost = self.fault is not None and self.fault.fault.loses_source
        return Mode.UNPLANNED if lost else Mode.PLANNED

    @property
    def done(self) -> bool:
        """Whether all steps succeeded."""
        return self.outcome is not None and self.outcome.status is Status.DONE

    @property
    def not_done(self) -> str:
        """Why not all steps succeeded; empty if they did."""
        if self.outcome is None or self.done:
            return ""
        words = "; ".join((self.outcome.message, *self.outcome.items[:_NAMED]))
        return f"step {self.outcome.step}: {words}" if self.outcome.step else words

    @property
    def outcome_unknown(self) -> bool:
        """Whether the result of a request is unknown."""
        return self.outcome is not None and self.outcome.status is Status.UNKNOWN

    def plan(self, reader: DrillLinkReader) -> Rehearsal:
        """Make the plan from the current state of the clusters."""
        fenced = bool(self.principals)
        seen = plan_inputs.look_at(reader.link, reader, overrides(fenced))
        return rehearsal(self.mode, seen, readers=(self.scratch.principal,))

    def reader(self) -> DrillLinkReader:
        """The reader of the link, narrowed to the drill."""
        over = narrowed(self.link, self.scratch, self.principals)
        probe_record = self.scratch.probe_record
        lost = self.mode is Mode.UNPLANNED
        return DrillLinkReader(
            self.config, over, run_prechecks, NoPrompts(), lost, probe_record=probe_record
        )

    def run(self) -> Logs | None:
        """Run the drill; returns the logs of the applications, or None if they were not moved.

        Raises:
            Interrupted: Ctrl-C was pressed.
            DrctlError: the drill failed.
        """
        self._until = self.clock.monotonic() + self.wanted.budget_s
        on_source = drill_adapters.source_applications(
            self.link, self.scratch, self.wanted.records // 2
        )
        applications = Applications(
            *on_source, lambda: drill_adapters.target_applications(self.link, self.scratch)
        )
        try:
            self._set_up(applications)
            if self.fault is not None:
                console().progress(f"injecting {self.fault.fault.value}")
                self._strike(self.fault)
            self._fail_over(applications)
            return self._logs(applications)
        finally:
            applications.end()

    def _set_up(self, applications: Applications) -> None:
        """Write records, wait for their replication, and start the applications."""
        records, topic = self.wanted.records, self.scratch.topic
        self.source.scratch.make_topic(topic, PARTITIONS)
        applications.writer.write(records)
        console().progress(f"{plural(records, 'record')} written to {topic} on {self.link.source}")
        copy = self.link.target_topic(topic)
        self._wait(lambda: self._copied(copy) >= records, f"copy of {topic} on {self.link.target}")
        applications.reader.start()
        most = records // 2
        self._wait(
            lambda: len(applications.reader.log.finished) >= most or _ended(applications),
            f"group to read {plural(most, 'record')}",
        )
        if applications.reader.failure:
            raise Stopped(f"the drill's group cannot read: {applications.reader.failure}")
        applications.writer.start(RATE)
        began = self.clock.monotonic()
        self._wait(
            lambda: self.clock.monotonic() - began >= self.wanted.work_s, "end of the warm-up"
        )

    def _strike(self, fault: "Injected") -> None:
        """Inject the fault; wait until the source connector tasks that it stopped run again."""
        if not fault.fault.hits_connectors:
            fault.strike()
            return
        connectors = drill_adapters.source_connectors(self.link)
        connectors.require_running()
        tasks, gone = connectors.running(), ""
        if not tasks:
            raise Stopped("the source connectors have no task", "drctl connect status")
        began = self.clock.monotonic()
        if fault.fault is Fault.RESTART_TASKS:
            connectors.restart()
        else:
            gone = next(iter(tasks.values()))
            fault.strike(gone)
            tasks = {task: worker for task, worker in tasks.items() if worker == gone}
        again: dict[TaskId, Takeover] = {}

        def all_again() -> bool:
            seconds = round(self.clock.monotonic() - began, 3)
            for task, worker in connectors.running().items():
                if task in tasks and task not in again and worker != gone:
                    again[task] = Takeover(*task, tasks[task], worker, seconds)
            return len(again) == len(tasks)

        self._wait(all_again, "tasks of the source connectors to run again")
        self.takeovers = tuple(again[task] for task in sorted(again))

    def _copied(self, topic: str) -> int:
        """The number of replicated records."""
        numbers = self.target.cluster_reader.overview().partitions.get(topic, ())
        places = [TopicPartition(topic, number) for number in numbers]
        found = self.target.cluster_reader.offsets(places) if places else {}
        return sum(0 if isinstance(each, Unavailable) else each.end for each in found.values())

    def _fail_over(self, applications: Applications) -> None:
        held = run_journal.holder(self.scratch.drill)
        with self.reader() as reader:
            planned = self.plan(reader)
            plan, self.left_out = planned.plan, planned.left_out
            if FenceMethod(reader.link.settings.fence.method) is FenceMethod.NONE:
                applications.stop_writing(wait=self.mode is Mode.PLANNED)
            folder = drill_adapters.folder(self.config) / self.scratch.drill
            inner = ClusterLinkWriter(self.config, reader.link, folder, reader.commands)
            own = DrillLinkWriter(inner, self.scratch.probe_record, applications.fence_set)
            writer = cast(LinkWriter, own)
            with (
                drill_adapters.journals(self.config).create(self.scratch.drill) as journal,
                watched(plan, journal, self.clock) as seen,
            ):
                self.journal = journal.where
                watcher = Conducted(plan, applications, seen.watcher)
                engine = Execution(KINDS, reader, writer, seen.journal, self.clock, watcher)
                self.state, self.outcome = engine.start(plan, run_journal.who(held))
        if self.outcome.status is Status.INTERRUPTED:
            raise Interrupted("interrupted after an operation")

    def _logs(self, applications: Applications) -> Logs | None:
        source, before = applications.writer.log, applications.reader.log
        if not self.done or applications.moved is None:
            return None
        writer, reader = applications.moved
        self._wait_briefly(lambda: writer.log.first_at is not None)
        writer.stop(wait=True)
        held = self._held()
        unread = held.keys() - before.finished
        self._wait_briefly(lambda: unread <= reader.log.read.keys() or bool(reader.failure))
        return Logs(source, writer.log, before, reader.log, held)

    def _held(self) -> Mapping[str, int]:
        try:
            return drill_adapters.records_on_target(self.link, self.scratch)
        except Unreachable as error:
            raise Unreachable(f"the loss is unknown: {error.message}", error.hint) from error

    def _wait_briefly(self, condition: Callable[[], bool]) -> None:
        """Wait a short time for a condition; if it is not met, the measurements show that."""
        until = time.monotonic() + _READ_S
        while not condition() and time.monotonic() < until and not self.clock.stopping:
            self.clock.wait(_LOOK_EVERY_S)

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition.

        Raises:
            Stopped: the drill timed out.
            Interrupted: Ctrl-C was pressed.
        """
        while not condition():
            if self.clock.stopping:
                raise Interrupted(f"interrupted while waiting for the {what}")
            if self.clock.monotonic() >= self._until:
                raise Stopped(
                    f"timed out after {self.wanted.budget_s:g} s: waiting for the {what}",
                    "check that replication is running, or increase --timeout:"
                    " MirrorMaker 2 finds a new"
                    " topic only every refresh.topics.interval.seconds",
                )
            self.clock.wait(_LOOK_EVERY_S)


def _ended(applications: Applications) -> bool:
    return bool(applications.reader.failure or applications.writer.failure)


class Fault(StrEnum):
    """Faults that can be injected into the lab."""

    KILL_SOURCE = "kill-source"
    PAUSE_SOURCE = "pause-source"
    STOP_CONNECT = "stop-connect"
    RESTART_TASKS = "restart-tasks"
    KILL_WORKER = "kill-worker"

    @property
    def loses_source(self) -> bool:
        """Whether the failover that follows is an unplanned one."""
        return self in (Fault.KILL_SOURCE, Fault.PAUSE_SOURCE)

    @property
    def hits_connectors(self) -> bool:
        """Whether it stops tasks of source connectors, which then start again."""
        return self in (Fault.RESTART_TASKS, Fault.KILL_WORKER)


# The lab command for each fault, and the one that reverts it.
_COMMANDS = {
    Fault.KILL_SOURCE: ("kill", "start"),
    Fault.PAUSE_SOURCE: ("freeze", "unfreeze"),
    Fault.STOP_CONNECT: ("kill", "start"),
    Fault.KILL_WORKER: ("kill", "start"),
}


@dataclass(frozen=True, slots=True)
class Injected:
    """A fault of one lab.

    Attributes:
        part: the affected part of the lab.
        folder: folder of the lab; empty for the default lab.
    """

    fault: Fault
    part: str
    folder: str

    def strike(self, worker: str = "") -> None:
        """Inject the fault.

        Args:
            worker: host and port of the Connect worker to hit.

        Raises:
            Stopped: it failed.
        """
        part = self.part
        if worker:
            components = _status(self.folder).get("components", ())
            part = next((str(c["name"]) for c in components if c["address"] == worker), "")
            if not part:
                raise Stopped(f"the lab has no Connect worker {worker}", "drctl lab status")
        self._call(_COMMANDS[self.fault][0], part)

    @property
    def description(self) -> str:
        """The fault and the component that it hits."""
        return f"fault {self.fault.value} of lab component {self.part}"

    def undo(self) -> None:
        """Revert the fault and wait until the part answers; idempotent.

        Raises:
            Stopped: it failed.
        """
        if self.fault is Fault.RESTART_TASKS:
            return
        states = self._states()
        # Nothing to revert: the lab is gone, or the suspended process is dead.
        if not states or (self.fault is Fault.PAUSE_SOURCE and _HANGS not in states):
            return
        self._call(_COMMANDS[self.fault][1], self.part)
        until = time.monotonic() + _ANSWER_S
        while set(self._states()) != {_ANSWERS}:
            if time.monotonic() >= until:
                raise Stopped(
                    f"lab component {self.part} does not answer {_ANSWER_S:g} s after"
                    f" {self.fault.value} was reverted",
                    "drctl lab status",
                )
            time.sleep(_FAULT_LOOK_EVERY_S)
        # Clusters that did not answer because of the fault are asked again.
        connections.recheck_all()

    def to_json(self) -> dict[str, str]:
        """As stored while the fault lasts."""
        return {"fault": self.fault.value, "part": self.part, "folder": self.folder}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Injected":
        """Read the result of `to_json`.

        Raises:
            KeyError, ValueError: the data does not have that form.
        """
        return cls(Fault(data["fault"]), str(data["part"]), str(data["folder"]))

    def _states(self) -> tuple[str, ...]:
        """The state of each process of the part; empty if the lab is gone."""
        return tuple(
            str(each["state"])
            for each in _status(self.folder).get("components", ())
            if self.part in (each["name"], str(each["name"]).rpartition("-")[0])
        )

    def _call(self, command: str, part: str) -> None:
        ended = _lab(command, part, folder=self.folder)
        # Exit code 1: a part of the lab does not answer, as intended.
        if ended.returncode not in (0, 1):
            raise Stopped(
                f"drctl lab {command} {part} failed (exit code {ended.returncode}):"
                f" {_error(ended)}",
                "drctl lab status",
            )


def injected(fault: Fault, link: "Link", folder: Path | None) -> Injected:
    """The fault for the lab of the link's clusters.

    Raises:
        Refused: they do not belong to a lab.
    """
    place = str(folder.absolute()) if folder else ""
    known = _status(place)
    clusters = {n: brokers(str(c["bootstrap"])) for n, c in known.get("clusters", {}).items()}
    ends = (link.source_config, link.target_config)
    bootstraps = [brokers(adapters.revealed(end)["bootstrap.servers"]) for end in ends]
    parts = [
        next((name for name, known in clusters.items() if bootstrap <= known), None)
        for bootstrap in bootstraps
    ]
    if None in parts:
        raise Refused(
            f"link {link.name} is not between the clusters of a lab: faults are only injected in a"
            " lab",
            "drctl lab up && drctl lab env; for a lab in another folder, add --lab DIR",
        )
    source = parts[0] or ""
    workers = [c for c in known["components"] if str(c["name"]).startswith(_CONNECT)]
    if fault is Fault.KILL_WORKER and len(workers) < 2:
        raise Refused(
            "the lab has one Connect worker: no other can take over its tasks",
            "start a lab with two: drctl lab up --workers 2 --dir DIR",
        )
    return Injected(fault, source if fault.loses_source else _CONNECT, place)


def _status(folder: str) -> Mapping[str, Any]:
    """The result of `drctl lab status`; empty if there is no lab."""
    ended = _lab("status", folder=folder)
    found: dict[str, Any] = read_json(ended.stdout) if ended.returncode in (0, 1) else {}
    return found


def _error(ended: "subprocess.CompletedProcess[str]") -> str:
    """The error message of a command."""
    try:
        return str(read_json(ended.stdout)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        lines = ended.stderr.strip().splitlines()
        return lines[0] if lines else "no output"


def _lab(*words: str, folder: str) -> "subprocess.CompletedProcess[str]":
    line = [sys.executable, "-m", "drctl", "lab", *words, *(("--dir", folder) if folder else ())]
    try:
        return subprocess.run(
            [*line, "--output", "json"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_CALL_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Stopped(
            f"drctl lab {words[0]} failed: {error.__class__.__name__}", "drctl lab status"
        ) from error


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Leftovers of drills on both clusters of a link.

    Attributes:
        dead: drills that no longer run.
        spared: drills whose leftovers are not deleted, each with the reason.
    """

    lefts: tuple[Left, ...]
    dead: frozenset[str]
    spared: Mapping[str, str]

    @property
    def resources(self) -> tuple[str, ...]:
        """Descriptions of the leftovers of dead drills."""
        return tuple(what for left in self.lefts for what in left.of(self.dead).resources)


def leftovers(config: "Config", source: Ports, target: Ports, *, everything: bool) -> Leftovers:
    """Find leftovers.

    Args:
        everything: whether to include drills of other hosts that may still run.

    Raises:
        Unreachable: a cluster did not answer.
    """
    lefts = (left_on(source), left_on(target))
    dead, spared = set(), {}
    for drill in sorted(lefts[0].drills | lefts[1].drills):
        place = drill_adapters.folder(config) / drill
        if drill_adapters.is_alive(place / ALIVE):
            spared[drill] = "it is running on this host"
        elif everything or place.is_dir() or datetime.now(UTC) - began(drill) > LONGEST:
            dead.add(drill)
        else:
            spared[drill] = (
                "it may be running on another host;"
                " `drctl drill clean --execute` deletes its leftovers anyway"
            )
    return Leftovers(lefts, frozenset(dead), spared)


def clean_up(
    source: Ports, target: Ports, drills: frozenset[str], wait: Callable[[float], None]
) -> Cleaned:
    """Delete what these drills created.

    Raises:
        Unreachable: a cluster did not answer.
    """
    done = clean(source, target, drills, wait)
    for what in done.left:
        console().warn(f"not deleted: {what}")
    return done


def note(config: "Config", drill: str, link: "Link", fault: Mapping[str, str] | None) -> None:
    """Store what a later drill needs to know if this one is killed."""
    from drctl.views.files import write_whole

    document = {"link": link.name, "inject": dict(fault) if fault else None}
    write_whole(drill_adapters.folder(config) / drill / NOTE, json.dumps(document) + "\n")


def revert_faults(config: "Config") -> Sequence[str]:
    """Revert faults of killed drills of this host, and add them to the history.

    Raises:
        Stopped: a fault cannot be reverted.
    """
    history = drill_adapters.history(config)
    recorded = []
    for drill, document in _unrecorded(config):
        fault = _fault(document)
        if fault is not None:
            console().progress(f"reverting {fault.fault.value} of an interrupted drill")
            fault.undo()
        history.append(_died(drill, document).line())
        recorded.append(drill)
    return recorded


def active_faults(config: "Config") -> Sequence[str]:
    """Descriptions of faults of killed drills of this host that were not reverted."""
    faults = ((drill, _fault(document)) for drill, document in _unrecorded(config))
    return [
        f"{fault.description}, by drill {drill}" for drill, fault in faults if fault is not None
    ]


def _unrecorded(config: "Config") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Killed drills of this host that are not in the history yet, each with its note."""
    known = {past.drill for past in read(drill_adapters.history(config).lines())[0]}
    for file in sorted(drill_adapters.folder(config).glob(f"*/{NOTE}")):
        drill = file.parent.name
        if drill in known or drill_of(f"{MARK}{drill}") is None:
            continue
        if not drill_adapters.is_alive(file.parent / ALIVE):
            yield drill, _noted(file)


def _noted(file: Path) -> Mapping[str, Any]:
    try:
        found = read_json(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _fault(document: Mapping[str, Any]) -> "Injected | None":
    data = document.get("inject")
    if not isinstance(data, dict):
        return None
    try:
        return Injected.from_json(data)
    except (KeyError, ValueError):
        return None


def _died(drill: str, document: Mapping[str, Any]) -> Past:
    inject = document.get("inject")
    kind = str(inject.get("fault", "")) if isinstance(inject, dict) else ""
    why = ("its process ended before the drill was complete",)
    link = str(document.get("link", ""))
    return Past(drill, link, began(drill), Verdict.INTERRUPTED, inject=kind, reasons=why)


def kept_lines(spared: Mapping[str, str]) -> Iterable[str]:
    """Describe drills whose leftovers are kept, a line each."""
    return (f"drill {drill}: {why}" for drill, why in spared.items())


@dataclass(slots=True)
class Ending:
    """The end of a drill.

    Attributes:
        broke_off: why it ended early; empty if it did not.
        unanswered: whether a request was not answered.
        interrupted: whether Ctrl-C was pressed.
        deleted: what was deleted.
        left: what was not deleted, or may not have been.
        compared: None if the final comparison failed; `not_compared` says why.
    """

    broke_off: str = ""
    unanswered: bool = False
    interrupted: bool = False
    measures: "Measures | None" = None
    deleted: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    compared: Compared | None = None
    not_compared: str = ""


@contextmanager
def cleaning_up(stage: "Stage", before: Inventory, ending: Ending) -> Iterator[None]:
    """Record errors of the block in the result, and clean up afterwards."""
    try:
        yield
    except Interrupted as stopped:
        ending.broke_off, ending.interrupted = stopped.message, True
    except DrctlError as error:
        ending.broke_off = f"{error.message}: {error.hint}" if error.hint else error.message
        ending.unanswered = error.exit_code is ExitCode.UNKNOWN
    except BaseException:
        again = command_line(["drill", "clean", "--link", stage.link.name, "--execute"])
        console().warn(f"topics and groups of the drill were not deleted; to delete them: {again}")
        raise
    # Ctrl-C stopped the drill, but does not stop the cleanup.
    clock = StoppableClock()
    _undo_fault(stage, ending)
    console().progress("deleting scratch topics and groups")
    try:
        mine = frozenset({stage.scratch.drill})
        done = clean_up(stage.source, stage.target, mine, clock.wait)
        ending.deleted += done.gone
        ending.left += done.left
    except DrctlError as error:
        ending.left.append(f"cannot search for leftovers: {error.message}")
    try:
        ending.compared = _settled(stage, before, clock)
    except DrctlError as error:
        ending.not_compared = error.message


def take_inventory(stage: "Stage") -> Inventory:
    """Record the state of everything outside of drills.

    Raises:
        Unreachable: a cluster did not answer.
    """
    ends = (stage.source, stage.target)
    clusters = {e.name: holding(e.cluster_reader, e.groups, e.acls, e.survey) for e in ends}
    connect = adapters.connect_of(stage.link)
    return Inventory(clusters, connect_holding(Connectors(connect) if connect else None))


def _undo_fault(stage: "Stage", ending: Ending) -> None:
    if stage.fault is None:
        return
    console().progress(f"reverting {stage.fault.fault.value}")
    try:
        stage.fault.undo()
    except DrctlError as error:
        ending.left.append(f"{stage.fault.fault.value}: {error.message}")


def _settled(stage: "Stage", before: Inventory, clock: StoppableClock) -> Compared:
    """Compare with the state before; connectors get time to restart their tasks.

    Raises:
        Unreachable: a cluster did not answer.
    """
    until = clock.monotonic() + (_FAULT_S if stage.fault else _TASKS_S)
    known = set(compared(before, before).unseen)
    while True:
        found = compared(before, take_inventory(stage))
        if not (found.differences or set(found.unseen) - known) or clock.monotonic() >= until:
            return found
        clock.wait(_SETTLING_LOOK_EVERY_S)
