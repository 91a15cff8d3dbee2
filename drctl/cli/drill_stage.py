"""One drill: its applications, the engine's plan, a fault, and how all of it is cleaned up."""

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
from drctl.app.notices import Nobody
from drctl.app.prechecks import judged
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
from drctl.engine.executing import Execution
from drctl.engine.kind import Outcome, Status
from drctl.engine.ports import LinkWriter
from drctl.engine.run_state import RunState
from drctl.host import connections
from drctl.model.errors import DrctlError, ExitCode, Interrupted, Refused, Stopped, Unreachable
from drctl.model.loss import Mode
from drctl.model.strict_json import read_json
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
"""No drill takes so long: one of another machine that began before that is dead."""

_LOOK_EVERY_S = 0.2
_READ_S = 60.0
_NAMED = 3

# Of a fault.
_CALL_S = 180.0
_ANSWER_S = 60.0
_FAULT_LOOK_EVERY_S = 0.5
_CONNECT = "connect"
_HANGS, _ANSWERS = "stopped", "answering"

# Of the comparison at the end.
_TASKS_S = 20.0
_FAULT_S = 90.0
_SETTLING_LOOK_EVERY_S = 1.0


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
        state: of the engine's part; None until it began.
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
    state: RunState | None = field(default=None, init=False)
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

    def plan(self, reader: DrillLinkReader) -> Rehearsal:
        """The engine's plan over what is there now."""
        fenced = bool(self.principals)
        seen = plan_inputs.look_at(reader.link, reader, overrides(fenced))
        return rehearsal(self.mode, seen, readers=(self.scratch.principal,))

    def reader(self) -> DrillLinkReader:
        """What looks over the narrowed link."""
        over = narrowed(self.link, self.scratch, self.principals)
        probe_record = self.scratch.probe_record
        lost = self.mode is Mode.UNPLANNED
        return DrillLinkReader(self.config, over, judged, Nobody(), lost, probe_record=probe_record)

    def run(self) -> Logs | None:
        """All of it; what the applications saw, None where they were not moved.

        Raises:
            Interrupted: somebody pressed Ctrl-C.
            DrctlError: it could not be carried out.
        """
        self._until = self.clock.monotonic() + self.wanted.budget_s
        at_home = drill_adapters.applications_at_home(
            self.link, self.scratch, self.wanted.records // 2
        )
        applications = Applications(
            *at_home, lambda: drill_adapters.applications_there(self.link, self.scratch)
        )
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
                drill_adapters.journals(self.config).anew(self.scratch.drill) as journal,
                watched(plan, journal, self.clock) as seen,
            ):
                self.journal = journal.where
                watcher = Conducted(plan, applications, seen.watcher)
                engine = Execution(KINDS, reader, writer, seen.journal, self.clock, watcher)
                self.state, self.outcome = engine.start(plan, run_journal.who(held))
        if self.outcome.status is Status.INTERRUPTED:
            raise Interrupted("stopped between two effects")

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
            return drill_adapters.held_there(self.link, self.scratch)
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
                    " refresh.topics.interval.seconds of MirrorMaker 2: --timeout gives more time",
                )
            self.clock.wait(_LOOK_EVERY_S)


def _ended(applications: Applications) -> bool:
    return bool(applications.reader.failure or applications.writer.failure)


class Fault(StrEnum):
    """What is done to the lab while applications are at work."""

    KILL_SOURCE = "kill-source"
    PAUSE_SOURCE = "pause-source"
    STOP_CONNECT = "stop-connect"

    @property
    def loses_source(self) -> bool:
        """Whether the failover that follows is an unplanned one."""
        return self is not Fault.STOP_CONNECT


# The command of the lab that does it, and the one that takes it back.
_COMMANDS = {
    Fault.KILL_SOURCE: ("kill", "start"),
    Fault.PAUSE_SOURCE: ("stop", "cont"),
    Fault.STOP_CONNECT: ("kill", "start"),
}


@dataclass(frozen=True, slots=True)
class Injected:
    """A fault of one lab.

    Attributes:
        part: of the lab, that it is done to.
        folder: of the lab; empty for the user's own.
    """

    fault: Fault
    part: str
    folder: str

    def strike(self) -> None:
        """Do it.

        Raises:
            Stopped: the lab did not.
        """
        self._call(_COMMANDS[self.fault][0])

    @property
    def words(self) -> str:
        """What it is, in words."""
        return f"fault {self.fault.value}, done to {self.part} of the lab"

    def undo(self) -> None:
        """Take it back, and see the part answer; may be done again.

        Raises:
            Stopped: the lab did not.
        """
        states = self._states()
        # A lab that is gone has taken its faults along, and what is dead does not hang any more.
        if not states or (self.fault is Fault.PAUSE_SOURCE and _HANGS not in states):
            return
        self._call(_COMMANDS[self.fault][1])
        until = time.monotonic() + _ANSWER_S
        while set(self._states()) != {_ANSWERS}:
            if time.monotonic() >= until:
                raise Stopped(
                    f"{self.part} of the lab does not answer {_ANSWER_S:g} s after"
                    f" {self.fault.value} was taken back",
                    "drctl lab status tells what runs",
                )
            time.sleep(_FAULT_LOOK_EVERY_S)
        # What was silent because of the fault is asked anew.
        connections.recheck_all()

    def to_json(self) -> dict[str, str]:
        """As it is kept while it lasts."""
        return {"fault": self.fault.value, "part": self.part, "folder": self.folder}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Injected":
        """From what `to_json` made.

        Raises:
            KeyError, ValueError: it did not.
        """
        return cls(Fault(data["fault"]), str(data["part"]), str(data["folder"]))

    def _states(self) -> tuple[str, ...]:
        """Of each process of the part; none where there is no such lab any more."""
        return tuple(
            str(each["state"])
            for each in _status(self.folder).get("components", ())
            if self.part in (each["name"], str(each["name"]).rpartition("-")[0])
        )

    def _call(self, command: str) -> None:
        ended = _lab(command, self.part, folder=self.folder)
        # Ends with 1 where a part of the lab does not answer: that is what a fault is for.
        if ended.returncode not in (0, 1):
            raise Stopped(
                f"drctl lab {command} {self.part} ended with {ended.returncode}: {_said(ended)}",
                "drctl lab status tells what runs",
            )


def injected(fault: Fault, link: "Link", folder: Path | None) -> Injected:
    """The fault, of the lab that the link's clusters belong to.

    Raises:
        Refused: they belong to none.
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
            f"link {link.name} is not between the clusters of a lab: faults are injected there"
            " alone",
            "drctl lab up, then drctl lab env; --lab DIR names a lab that is elsewhere",
        )
    source = parts[0] or ""
    return Injected(fault, source if fault.loses_source else _CONNECT, place)


def _status(folder: str) -> Mapping[str, Any]:
    """What `drctl lab status` says; nothing where there is no lab."""
    ended = _lab("status", folder=folder)
    found: dict[str, Any] = read_json(ended.stdout) if ended.returncode in (0, 1) else {}
    return found


def _said(ended: "subprocess.CompletedProcess[str]") -> str:
    """Why it ended so."""
    try:
        return str(read_json(ended.stdout)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        said = ended.stderr.strip().splitlines()
        return said[0] if said else "it said nothing"


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
            f"drctl lab {words[0]} did not end: {error.__class__.__name__}", "drctl lab status"
        ) from error


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What is on both clusters of a link.

    Attributes:
        dead: drills that made it and are gone.
        spared: others, each with the reason why theirs is left alone.
    """

    lefts: tuple[Left, ...]
    dead: frozenset[str]
    spared: Mapping[str, str]

    @property
    def words(self) -> tuple[str, ...]:
        """What the dead left, each in words."""
        return tuple(what for left in self.lefts for what in left.of(self.dead).words)


def leftovers(config: "Config", source: Ports, target: Ports, *, everything: bool) -> Leftovers:
    """Look for them.

    Args:
        everything: whether also of drills of other machines that may still be at work.

    Raises:
        Unreachable: a cluster did not answer.
    """
    lefts = (left_on(source), left_on(target))
    dead, spared = set(), {}
    for drill in sorted(lefts[0].drills | lefts[1].drills):
        place = drill_adapters.folder(config) / drill
        if drill_adapters.is_alive(place / ALIVE):
            spared[drill] = "it is at work on this machine"
        elif everything or place.is_dir() or datetime.now(UTC) - began(drill) > LONGEST:
            dead.add(drill)
        else:
            spared[drill] = (
                "it may be running on another host: `drctl drill clean` deletes it anyway"
            )
    return Leftovers(lefts, frozenset(dead), spared)


def clean_up(
    source: Ports, target: Ports, drills: frozenset[str], wait: Callable[[float], None]
) -> Cleaned:
    """Delete what these drills made, and tell of it.

    Raises:
        Unreachable: a cluster did not answer.
    """
    done = clean(source, target, drills, wait)
    for what in done.left:
        console().warn(f"still there: {what}")
    return done


def note(config: "Config", drill: str, link: "Link", fault: Mapping[str, str] | None) -> None:
    """Keep what a later drill needs to know of this one, should it die."""
    from drctl.views.files import write_whole

    document = {"link": link.name, "inject": dict(fault) if fault else None}
    write_whole(drill_adapters.folder(config) / drill / NOTE, json.dumps(document) + "\n")


def bury(config: "Config") -> Sequence[str]:
    """Take back faults of drills that died on this machine, and write them into the history.

    Raises:
        Stopped: a fault cannot be taken back.
    """
    history = drill_adapters.history(config)
    buried = []
    for drill, document in _unburied(config):
        fault = _fault(document)
        if fault is not None:
            console().progress(f"taking back {fault.fault.value} of a drill that died")
            fault.undo()
        history.append(_died(drill, document).line())
        buried.append(drill)
    return buried


def lasting(config: "Config") -> Sequence[str]:
    """Faults that nobody took back since a drill of this machine died, each in words."""
    faults = ((drill, _fault(document)) for drill, document in _unburied(config))
    return [f"{fault.words}, by drill {drill}" for drill, fault in faults if fault is not None]


def _unburied(config: "Config") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Drills of this machine that died and are not in the history yet, each with its note."""
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
    why = ("its process was gone before it ended",)
    link = str(document.get("link", ""))
    return Past(drill, link, began(drill), Verdict.DIED, inject=kind, reasons=why)


def told(spared: Mapping[str, str]) -> Iterable[str]:
    """Drills whose things are left alone, a line each."""
    return (f"drill {drill}: {why}" for drill, why in spared.items())


@dataclass(slots=True)
class Ending:
    """How a drill ended, as it becomes known.

    Attributes:
        broke_off: why it ended early; empty where it did not.
        unanswered: whether that was an answer that did not come.
        interrupted: whether somebody wanted that.
        deleted: what it had made and is gone.
        left: what is still there, or may be.
        compared: None where the second look was not possible, and `not_compared` says why.
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
def leaving_nothing(stage: "Stage", before: Inventory, ending: Ending) -> Iterator[None]:
    """What ends the block early is part of the result; afterwards everything is cleaned up."""
    try:
        yield
    except Interrupted as stopped:
        ending.broke_off, ending.interrupted = stopped.message, True
    except DrctlError as error:
        ending.broke_off = f"{error.message}: {error.hint}" if error.hint else error.message
        ending.unanswered = error.exit_code is ExitCode.UNKNOWN
    except BaseException:
        again = command_line(["drill", "clean", "--link", stage.link.name, "--execute"])
        console().warn(f"what the drill made is still there: {again}")
        raise
    # Ctrl-C has stopped the drill, and does not stop this.
    clock = StoppableClock()
    _undo_fault(stage, ending)
    console().progress("deleting what the drill made")
    try:
        mine = frozenset({stage.scratch.drill})
        done = clean_up(stage.source, stage.target, mine, clock.wait)
        ending.deleted += done.gone
        ending.left += done.left
    except DrctlError as error:
        ending.left.append(f"what was made cannot be looked for: {error.message}")
    try:
        ending.compared = _settled(stage, before, clock)
    except DrctlError as error:
        ending.not_compared = error.message


def stocktaking(stage: "Stage") -> Inventory:
    """How everything stands that is not of a drill.

    Raises:
        Unreachable: a cluster did not answer.
    """
    ends = (stage.source, stage.target)
    clusters = {e.name: holding(e.site, e.groups, e.acls, e.survey) for e in ends}
    connect = adapters.connect_of(stage.link)
    return Inventory(clusters, connect_holding(Connectors(connect) if connect else None))


def _undo_fault(stage: "Stage", ending: Ending) -> None:
    if stage.fault is None:
        return
    console().progress(f"taking {stage.fault.fault.value} back")
    try:
        stage.fault.undo()
    except DrctlError as error:
        ending.left.append(f"{stage.fault.fault.value}: {error.message}")


def _settled(stage: "Stage", before: Inventory, clock: StoppableClock) -> Compared:
    """The comparison; connectors get a while to run again, for their tasks begin anew with topics.

    Raises:
        Unreachable: a cluster did not answer.
    """
    until = clock.monotonic() + (_FAULT_S if stage.fault else _TASKS_S)
    known = set(compared(before, before).unseen)
    while True:
        found = compared(before, stocktaking(stage))
        if not (found.differences or set(found.unseen) - known) or clock.monotonic() >= until:
            return found
        clock.wait(_SETTLING_LOOK_EVERY_S)
