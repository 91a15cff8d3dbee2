"""Connectors in memory, and the workers that run them."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from drctl.connectors.applying import Export, read_export
from drctl.engine.executing import Execution
from drctl.engine.kind import Outcome
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.engine.run_state import RunState, read_run
from drctl.model.errors import DrctlError, Unreachable
from drctl.model.plan import Plan
from drctl.model.replication import Connector, Position, Task
from drctl.steps.registry import KINDS
from tests.engine.toggles import MemoryJournal, NoWatcher
from tests.engine.toggles import World as Fallible

REFUSED = "org.apache.kafka.connect.errors.ConnectException: Connection refused"
MIRROR = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
POSTGRES = "io.debezium.connector.postgresql.PostgresConnector"
MONGO = "io.debezium.connector.mongodb.MongoDbConnector"


def connector(
    name: str = "shop",
    state: str = "RUNNING",
    *tasks: Task,
    plugin: str = POSTGRES,
    kind: str = "source",
    **config: str,
) -> Connector:
    """Create a connector with one running task by default."""
    settings = {key.replace("_", "."): value for key, value in config.items()}
    tasks = tasks or (Task(0, "RUNNING", worker="w:8083"),)
    config = {"connector.class": plugin, **settings}
    return Connector(name, kind, config, state, tasks, worker="w:8083")


def failed(name: str = "shop", stack_trace: str = REFUSED, **settings: Any) -> Connector:
    """Create a connector whose task failed."""
    return connector(name, "RUNNING", Task(0, "FAILED", stack_trace, "w:8083"), **settings)


def stopped(name: str = "shop", **settings: Any) -> Connector:
    """Create a stopped connector: it has no tasks."""
    return replace(connector(name, "STOPPED", **settings), tasks=())


@dataclass
class World:
    """Workers, a clock and a run's folder that record one order of events.

    Attributes:
        recovers: whether a connector runs after its nth restart.
        looking: whether a step is reading.
        fall: called at each point where the process may end.
        since: when a connector was first seen running.
    """

    connectors: dict[str, Connector] = field(default_factory=dict)
    kept: dict[str, list[Position]] = field(default_factory=dict)
    recovers: Callable[[str, int], bool] = lambda name, attempt: False
    away: str = ""
    answer: DrctlError | None = None
    seconds: float = 0.0
    stop_at: float = float("inf")
    restarts: list[tuple[str, float]] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    exports: list[Export] = field(default_factory=list)
    looking: bool = False
    fall: Callable[[str], None] = lambda point: None
    since: dict[str, float] = field(default_factory=dict)

    def workers(self) -> "World":
        return self

    def kafka_cluster_id(self) -> str:
        return "id"

    def running_for(self, names: Collection[str]) -> Mapping[str, float]:
        return {name: self.seconds - self.since.get(name, self.seconds) for name in names}

    def all(self) -> Mapping[str, Connector]:
        if self.away:
            raise Unreachable(self.away)
        running = (name for name, each in self.connectors.items() if each.running)
        self.since = {name: self.since.get(name, self.seconds) for name in running}
        return dict(self.connectors)

    def positions(self, name: str) -> tuple[Position, ...]:
        if self.away:
            raise Unreachable(self.away)
        return tuple(self.kept.get(name, ()))

    def restart(self, name: str) -> None:
        self._changed(f"restart {name}")
        self.restarts.append((name, self.seconds))
        if self.recovers(name, len([one for one, _ in self.restarts if one == name])):
            self.connectors[name] = connector(name)

    def stop(self, name: str) -> None:
        self._changed(f"stop {name}")
        before = self.connectors[name]
        self.connectors[name] = stopped(name, plugin=before.plugin)

    def resume(self, name: str) -> None:
        self._changed(f"resume {name}")
        self.connectors[name] = connector(name)

    def copy(self, name: str, to: str) -> None:
        self._changed(f"copy {name} {to}")
        self.connectors[to] = connector(to)

    def put_positions(self, name: str, positions: Sequence[Position]) -> None:
        self._changed(f"put {name}")
        if self.answer is not None:
            raise self.answer
        rest = [
            p
            for p in self.kept.get(name, [])
            if p.partition not in [q.partition for q in positions]
        ]
        self.kept[name] = [*rest, *(p for p in positions if p.offset is not None)]

    def delete_positions(self, name: str) -> None:
        self._changed(f"delete {name}")
        self.kept[name] = []

    def save_evidence(self, name: str, document: Mapping[str, Any]) -> None:
        self._changed("keep")
        self.exports.append(read_export(json.loads(json.dumps(document)), name))

    def _changed(self, what: str) -> None:
        assert not self.looking, f"a read-only method called {what}"
        self.fall(what)
        self.events.append(what)

    def now(self) -> float:
        return 1_700_000_000 + self.seconds

    def monotonic(self) -> float:
        return self.seconds

    def wait(self, seconds: float) -> None:
        self.seconds += seconds

    @property
    def stopping(self) -> bool:
        return self.seconds >= self.stop_at


def notes_of(world: World) -> MemoryJournal:
    """Return the journal of a run on these workers."""
    return MemoryJournal(cast(Fallible, world))


def carried_out(
    world: World, plan: Plan, notes: MemoryJournal | None = None
) -> tuple[RunState, Outcome]:
    """Start the plan, or resume it from the journal."""
    notes = notes or notes_of(world)
    given = cast(LinkReader, world), cast(LinkWriter, world)
    engine = Execution(KINDS, *given, notes, world, NoWatcher())
    who = {"user": "ada", "host": "laptop"}
    if not notes.entries:
        return engine.start(plan, who)
    state = read_run(notes.entries)
    return state, engine.resume(state, who)
