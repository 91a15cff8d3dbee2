"""drctl's commands as an operator types them: plan, blockers, confirmation, resume, abandon.

They run as they are, from the function of the command line to the executor. Replaced are the
connections, the terminal, and the copy of the journal on this host, which is kept in memory.
"""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from types import SimpleNamespace
from typing import Any, Self, cast

from drctl.app import notices, run_journal
from drctl.app.operation import Operation
from drctl.app.prechecks import known_overrides
from drctl.cli.failback import failback
from drctl.cli.failover import failover
from drctl.cli.prompts import Prompts
from drctl.cli.resume import resume
from drctl.cli.running import Watched
from drctl.config.configuration import Config
from drctl.engine.kind import Kind, Outcome
from drctl.engine.run_state import RunState
from drctl.model.errors import UsageError
from drctl.model.journal import Holder
from drctl.model.loss import Mode
from drctl.model.plan import Plan
from drctl.plans.failback import is_failback
from drctl.plans.inputs import FenceMethod
from drctl.steps.groups import Quiesce
from drctl.steps.prechecks import Preflight
from drctl.steps.registry import KINDS
from drctl.views.plan_text import mode_of
from drctl.views.run_lines import next_steps
from drctl.views.run_reading import report_data
from tests import links
from tests.engine.pair import APP, BACK, BATCH, PRIMARY, SECONDARY
from tests.engine.processes import FENCE
from tests.engine.toggles import NoWatcher
from tests.simulation.faults import Faults, Violation
from tests.simulation.journal import Topic
from tests.simulation.process import CheckedJournal, Clock, Reader, SimulatedProcess
from tests.simulation.world import FORWARD, GROUPS, PASSWORD

COMMANDS: Mapping[str, Callable[..., int | None]] = {
    "failover": failover,
    "failback": failback,
    "resume": resume,
}
TIMES = "--timeout 20m --wait-for-consumers 1s"
REASON = "accepted"
SECRET = "pa55-of-the-workers"
"""A secret in drctl.yaml: it must not be in a message, a plan or a journal."""

SWITCH = {"argv": ["switch", "{cluster}"], "observe": ["look"]}
WORKER = f"http://ada:{SECRET}@w:8083"


@cache
def configuration(method: FenceMethod, *, reverse: bool) -> Config:
    """The drctl.yaml of each machine."""
    fence: dict[str, object] = {"method": method.value}
    if method is FenceMethod.ACL:
        fence["principals"] = [APP, BATCH]
    if method is FenceMethod.COMMAND:
        fence |= {"command": [FENCE, "on"], "undo": [FENCE, "off"], "verify": [FENCE, "look"]}
    back = {"connect": WORKER, "connectors": {"source": BACK}}
    return links.configuration(
        PRIMARY,
        SECONDARY,
        topics=["orders", "audit"],
        groups=[*GROUPS],
        fence=fence,
        replicator={
            "kind": "mirrormaker2",
            "connect": WORKER,
            "connectors": {"source": FORWARD},
            "reverse": {**back, **({"after_failover": True} if reverse else {})},
        },
        endpoints=[
            {
                "kind": "command",
                "argv": ["switch", "{cluster}"],
                "observe": ["look"],
                "bootstrap": "entrance:1",
            },
            {"kind": "file", "path": "bootstrap"},
        ],
    )


@dataclass
class LocalCopy:
    """The copy of a run's journal on one machine."""

    where: str = "the copy"
    lines: list[bytes] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close nothing."""

    def copy(self, lines: Sequence[bytes]) -> None:
        """Append lines."""
        for line in lines:
            if PASSWORD.encode() in line or SECRET.encode() in line:
                raise Violation(f"a secret is in the copy of the journal: {line!r}")
        self.lines += lines


class LocalCopies:
    """Stands for `RunFiles`."""

    def entries(self, run: str) -> Sequence[Mapping[str, Any]]:
        """No run: each process runs on another machine."""
        raise UsageError(f"there is no run {run}")

    def create(self, run: str) -> LocalCopy:
        """The copy of a new run."""
        return LocalCopy()

    def reopen(self, run: str, lines: Sequence[bytes]) -> LocalCopy:
        """The copy of a run that is resumed."""
        return LocalCopy()


@dataclass
class Command:
    """A command of one drctl process.

    Attributes:
        run: the name of the run that it would start.
        printed: what it prints as a warning, an error or a hint.
        ended: the run and its outcome, if it executed one to an end.
        alive: whether another process held the link when it began.
    """

    process: SimulatedProcess
    config: Config
    topic: Topic
    run: str
    printed: list[str] = field(default_factory=list)
    ended: tuple[RunState, Outcome] | None = None
    alive: bool = False
    plan: Plan | None = None

    def __call__(self, line: str) -> None:
        """Run a command line."""
        self.alive = self.topic.beating
        name, values = parsed(line)
        kinds, remembering = cast(dict[str, Kind], KINDS), KINDS[Quiesce.name]
        _current.append(self)
        # This kind remembers progress, and measures time.
        kinds[Quiesce.name] = Kind(Quiesce(self.process.clock.monotonic))
        try:
            COMMANDS[name](**values)
        finally:
            kinds[Quiesce.name] = remembering
            _current.pop()

    @property
    def faults(self) -> Faults:
        """What goes wrong, and the trace."""
        return cast(Faults, self.process.pair.trace)

    @contextmanager
    def watched(
        self, plan: Plan, journal: Any, clock: Clock, entries: Sequence[Mapping[str, Any]] = ()
    ) -> Iterator[Watched]:
        """Check what the engine writes to the journal."""
        process, self.plan = self.process, plan
        if self.alive:
            raise Violation(f"{process.name} has taken the link from a process that is alive")
        self.topic.beating, clock.held = True, journal.topic
        what = "resumes" if entries else "starts"
        self.faults.note(f"-- {process.name} {what} {journal.run}")
        given: Any = self.faults
        checked = CheckedJournal(
            given, journal.run, pair=process.pair, plan=plan, entries=[*entries]
        )
        checked.held, checked.places, checked.process = journal.topic, journal, process
        process.checked, self.faults.announced = checked, checked.announced
        yield Watched(cast(Any, NoWatcher()), cast(Any, checked))
        process.checked = None

    @contextmanager
    def stoppable(self) -> Iterator[Clock]:
        """The clock of its machine; nobody presses Ctrl-C."""
        yield self.process.clock

    def holder(self, run: str) -> Holder:
        """This process as the holder of a run."""
        now = datetime.fromtimestamp(self.process.clock.now(), UTC)
        return Holder(run, "ada", self.process.name, 1, now)

    def reader(self, config: Config, link: Any, _prompts: object, lost: bool) -> Reader:
        """What the steps of a plan read."""
        found = cast(Reader, self.process.look)
        found.config, found.forward, found.lost = config, link, lost
        return found

    def operation(self, *, back: bool = False) -> Operation:
        """Stands for `OVER_LINK` and `FAILBACK`."""
        return Operation(
            cast(Any, self.reader),
            lambda *_: cast(Any, self.process.change),
            known_overrides,
            lambda plan: "" if back else _asked(plan),
        )

    def show_end(self, _config: Config, state: RunState, outcome: Outcome) -> int:
        """Stands for the report of a run."""
        self.ended = state, outcome
        return int(outcome.exit_code)


def _asked(plan: Plan) -> str:
    return mode_of(plan).value if any(s.kind == Preflight.name for s in plan.steps) else ""


_current: list[Command] = []


_words = cache(shlex.split)


def parsed(line: str) -> tuple[str, dict[str, Any]]:
    """Return the name of a command, and its options."""
    values: dict[str, Any] = {"yes": True}
    program, name, *words = _words(line)
    assert program == "drctl", line
    while words:
        word = words.pop(0)
        key = word.removeprefix("--").replace("-", "_")
        if word == "--execute":
            values["execute"] = True
        elif word == "--override":
            values.setdefault("override", []).append(words.pop(0).replace("=REASON", f"={REASON}"))
        elif word == "--mode":
            values["mode"] = Mode(words.pop(0))
        elif word.startswith("--"):
            values[key] = words.pop(0).replace("REASON", REASON)
        else:
            values["run"] = word
    return name, values


def suggested(state: RunState) -> list[str]:
    """The commands that the report of a run names as next steps."""
    return [each.command for each in next_steps(report_data(state)) if each.command]


class OverLink:
    """Stands for `OVER_LINK`."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_current[-1].operation(), name)


class AtOnceQuery:
    """Stands for `BoundedQuery`: asks when it is created."""

    def __init__(self, query: Callable[[], Any], timeout_s: float) -> None:
        self._query = query

    def value(self) -> Any:
        """Return the answer, or raise the error."""
        return self._query()

    def answer(self) -> Any:
        """Ask for nothing: only what is asked ahead of time is not awaited."""


class SilentConsole(notices.Silent):
    """Stands for the terminal."""

    def warn(self, message: str) -> None:
        """Keep a warning."""
        _current[-1].printed.append(message)

    def result(self, *_: object) -> int:
        """Print nothing."""
        return 0


def _of_command(name: str) -> Callable[..., Any]:
    return lambda *given, **named: getattr(_current[-1], name)(*given, **named)


def _operation_of(plan: Plan) -> Operation:
    return _current[-1].operation(back=is_failback(plan.steps))


def _journal(*_: object) -> Any:
    return _current[-1].process.journal


BOTH = ("running", "resume")
"""The modules of `drctl.cli` that execute runs."""

REPLACED: Mapping[str, object] = {
    **{f"drctl.cli.{each}.configuration": lambda: _current[-1].config for each in BOTH},
    **{f"drctl.cli.{each}.show_end": _of_command("show_end") for each in BOTH},
    **{f"drctl.cli.{each}.watched": _of_command("watched") for each in BOTH},
    **{f"drctl.cli.{each}.console": SilentConsole for each in BOTH},
    **{f"drctl.cli.{each}.prompts": lambda: Prompts({}, terminal=True) for each in BOTH},
    "drctl.cli.stopping.stoppable": _of_command("stoppable"),
    "drctl.cli.resume.stoppable": _of_command("stoppable"),
    "drctl.cli.running.BoundedQuery": AtOnceQuery,
    "drctl.cli.running.new_name": lambda: _current[-1].run,
    "drctl.cli.running.OVER_LINK": OverLink(),
    "drctl.cli.resume._operation_of": lambda plan: _current[-1].operation(
        back=plan.name == "failback"
    ),
    "drctl.cli.failback.failback_with": lambda _policies: _current[-1].operation(back=True),
    "drctl.app.notices._provider": [SilentConsole],
    "drctl.app.run_adapters.journal_topic": _journal,
    "drctl.app.run_adapters.journal_reader": _journal,
    "drctl.app.run_adapters.run_files": lambda _config: LocalCopies(),
    "drctl.app.run_adapters.local_runs": lambda *_: SimpleNamespace(unfinished=False),
    "drctl.app.run_journal.holder": _of_command("holder"),
    "drctl.app.run_journal.with_command_time": run_journal.who,
}
"""What of the commands' code opens connections, prints, or writes files; and what stands for it."""
