"""Connectors made by hand, and workers that hold them in memory."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from drctl.connectors.applying import Export
from drctl.connectors.connector import Connector, Part, Position
from drctl.model.errors import DrctlError, Unreachable

REFUSED = "org.apache.kafka.connect.errors.ConnectException: Connection refused"
MIRROR = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
POSTGRES = "io.debezium.connector.postgresql.PostgresConnector"
MONGO = "io.debezium.connector.mongodb.MongoDbConnector"


def connector(
    name: str = "shop",
    state: str = "RUNNING",
    *tasks: Part,
    plugin: str = POSTGRES,
    kind: str = "source",
    **config: str,
) -> Connector:
    """One with a running task, unless other tasks are given."""
    settings = {key.replace("_", "."): value for key, value in config.items()}
    parts = (Part(None, state, "w:8083"), *(tasks or (Part(0, "RUNNING", "w:8083"),)))
    return Connector(name, kind, {"connector.class": plugin, **settings}, parts)


def failed(name: str = "shop", trace: str = REFUSED, **settings: Any) -> Connector:
    """One whose task failed."""
    return connector(name, "RUNNING", Part(0, "FAILED", "w:8083", trace), **settings)


def stopped(name: str = "shop", **settings: Any) -> Connector:
    """One that was stopped: it has no tasks."""
    running = connector(name, "STOPPED", **settings)
    return Connector(name, running.kind, running.config, running.parts[:1])


@dataclass
class World:
    """Workers, a clock and a notebook that keep one order of events.

    Attributes:
        cured: tells, of a connector that is restarted for the nth time, whether it runs then.
    """

    connectors: dict[str, Connector] = field(default_factory=dict)
    kept: dict[str, list[Position]] = field(default_factory=dict)
    cured: Callable[[str, int], bool] = lambda name, attempt: False
    silent: str = ""
    answer: DrctlError | None = None
    seconds: float = 0.0
    stop_at: float = float("inf")
    restarts: list[tuple[str, float]] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    exports: list[Export] = field(default_factory=list)

    def all(self) -> Mapping[str, Connector]:
        if self.silent:
            raise Unreachable(self.silent)
        return dict(self.connectors)

    def positions(self, name: str) -> tuple[Position, ...]:
        if self.silent:
            raise Unreachable(self.silent)
        return tuple(self.kept.get(name, ()))

    def restart(self, name: str) -> None:
        self.events.append(f"restart {name}")
        self.restarts.append((name, self.seconds))
        if self.cured(name, len([one for one, _ in self.restarts if one == name])):
            self.connectors[name] = connector(name)

    def stop(self, name: str) -> None:
        self.events.append(f"stop {name}")
        before = self.connectors[name]
        self.connectors[name] = stopped(name, plugin=before.plugin)

    def resume(self, name: str) -> None:
        self.events.append(f"resume {name}")
        self.connectors[name] = connector(name)

    def put_config(self, name: str, config: Mapping[str, str]) -> None:
        self.events.append(f"create {name}")
        assert config["name"] == name
        self.connectors[name] = connector(name)

    def put_positions(self, name: str, positions: Sequence[Position]) -> None:
        self.events.append(f"put {name}")
        if self.answer is not None:
            raise self.answer
        rest = [p for p in self.kept.get(name, []) if p.partition not in [q[0] for q in positions]]
        self.kept[name] = [*rest, *(p for p in positions if p.offset is not None)]

    def delete_positions(self, name: str) -> None:
        self.events.append(f"delete {name}")
        self.kept[name] = []

    def append(self, entries: Sequence[Mapping[str, Any]]) -> None:
        self.events += [str(each["entry"]) for each in entries]

    def keep(self, before: Export) -> str:
        self.events.append("keep")
        self.exports.append(before)
        return "before.json"

    def monotonic(self) -> float:
        return self.seconds

    def wait(self, seconds: float) -> None:
        self.seconds += seconds

    @property
    def stopping(self) -> bool:
        return self.seconds >= self.stop_at
