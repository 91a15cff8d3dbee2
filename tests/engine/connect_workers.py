"""Connect workers in memory: connectors that replicate between two clusters."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from drctl.engine.failback_state import drops_copies
from drctl.engine.ports import ConnectorState, ConnectorTasks
from drctl.model.errors import Unknown, UsageError
from drctl.model.replication import Connector as Replicated
from drctl.model.replication import Position, Task
from drctl.model.topology import TopicPartition
from drctl.steps.first_records import is_copy
from drctl.steps.stop_replication import PAUSED, RUNNING, STOPPED
from tests.engine.memory_clusters import TOPICS, Logs, Trace

CONNECT = "Connect"
ALIAS = "source.cluster.alias"


@dataclass
class Connector:
    """A connector that replicates from one cluster to the other.

    Attributes:
        state: state of its tasks; follows `wanted` with a delay.
        kept: last replicated offset by partition.
        header: header that it adds to copies, and by which it skips records; empty for none.
        copies_uncommitted: whether it copies records of open and aborted transactions, as it does
            with the default of `isolation.level`.
    """

    source: Logs
    target: Logs
    state: str = RUNNING
    wanted: str = RUNNING
    config: dict[str, str] = field(default_factory=dict)
    kept: dict[TopicPartition, int] = field(default_factory=dict)
    header: str = ""
    copies_uncommitted: bool = True

    def __post_init__(self) -> None:
        self.config = {ALIAS: self.source.name[:3], "transforms": "mask", **self.config}

    def copy(self) -> None:
        """Replicate what is available, if the connector runs."""
        self.state = self.wanted
        if self.state == RUNNING and not self.source.dead:
            self.replicate(self.kept)

    def replicate(self, done: dict[TopicPartition, int], most: int | None = None) -> None:
        """Replicate at most this many records of each partition.

        Args:
            done: last replicated offset by partition; it is advanced.
        """
        for place, log in sorted(self.source.logs.items()):
            if place.topic not in TOPICS:
                continue
            start = done.get(place, -1) + 1
            hidden = self.source.hidden.get(place, ())
            end = len(log) if self.copies_uncommitted else self.source.stable_end(place)
            for found in log[start : end if most is None else min(end, start + most)]:
                done[place] = found.offset
                if found.offset in hidden and not (self.copies_uncommitted and found.key):
                    continue
                marked = any(name == self.header for name, _ in found.headers)
                if not (marked or (is_copy(found) and drops_copies(self.config))):
                    mark = ((self.header, b""),) if self.header else ()
                    copied = replace(found, headers=(*found.headers, *mark)) if mark else found
                    self.target.append(place, copied)


@dataclass
class Workers:
    """All workers; implements the reader and the writer of connectors."""

    trace: Trace
    connectors: dict[str, Connector] = field(default_factory=dict)

    def copy(self) -> None:
        """Let every connector run for a moment."""
        for each in self.connectors.values():
            each.copy()

    def state(self, name: str) -> ConnectorState:
        found = self._found(name)
        state = found.state if found.state == found.wanted else f"{found.wanted}+{found.state}"
        return ConnectorState(name, state)

    def tasks(self, name: str) -> ConnectorTasks:
        found = self._found(name)
        running = (f"0 is {found.state}",) if found.state != STOPPED else ()
        return ConnectorTasks(int(found.wanted != STOPPED), running, frozenset({"worker-1"}))

    def tasks_left(self, names: Sequence[str], stabilize_s: float) -> Sequence[str]:
        return [name for name in names if self.tasks(name).any]

    def offsets(self, name: str) -> Sequence[Mapping[str, Any]]:
        found = self._found(name)
        return [
            {
                "partition": {
                    "cluster": found.config[ALIAS],
                    "topic": place.topic,
                    "partition": place.partition,
                },
                "offset": {"offset": at},
            }
            for place, at in sorted(found.kept.items())
        ]

    def config(self, name: str) -> Mapping[str, str]:
        return dict(self._found(name).config)

    def stop(self, name: str) -> None:
        self._want(name, STOPPED)

    def pause(self, name: str) -> None:
        self._want(name, PAUSED)

    def resume(self, name: str) -> None:
        self._want(name, RUNNING)

    def configure(self, name: str, changes: Mapping[str, str | None]) -> None:
        def put() -> None:
            merged = {**self.connectors[name].config, **changes}
            self.connectors[name].config = {k: v for k, v in merged.items() if v is not None}

        self._changed(f"configure {name} {sorted(changes.items())}", put)

    def alter_offsets(self, name: str, offsets: Sequence[Mapping[str, Any]]) -> None:
        found = self.connectors[name]
        if (found.state, found.wanted) != (STOPPED, STOPPED):
            raise Unknown(f"{name} is {found.state}")

        def put() -> None:
            for each in offsets:
                assert each["partition"]["cluster"] == found.config[ALIAS]
                place = TopicPartition(each["partition"]["topic"], each["partition"]["partition"])
                found.kept.pop(place, None)
                if each["offset"] is not None:
                    found.kept[place] = each["offset"]["offset"]

        self._changed(f"offsets of {name} {offsets}", put)

    def _found(self, name: str) -> Connector:
        self.trace.look(CONNECT)
        if name not in self.connectors:
            raise UsageError(f"there is no connector {name}")
        return self.connectors[name]

    def _want(self, name: str, state: str) -> None:
        def put() -> None:
            self.connectors[name].wanted = state

        self._changed(f"{name} {state}", put)

    def _changed(self, how: str, put: Any) -> None:
        if not self.trace.change(CONNECT, how, put):
            raise Unknown("the workers do not accept it")


SHOP = {"server": "shop"}
"""The source partition of the connector that captures a database."""


@dataclass
class SourceWorkers:
    """Workers with a connector that captures a database into one cluster.

    Attributes:
        positions: position of each connector in its database.
        end: end of the database's log; a running connector reads up to it.
        broken: whether a connector's task fails as soon as it is resumed.
    """

    cluster: str
    trace: Trace
    connectors: dict[str, Replicated] = field(default_factory=dict)
    kept: dict[str, Position] = field(default_factory=dict)
    end: int = 7
    broken: bool = False

    @property
    def named(self) -> str:
        return f"sources of {self.cluster}"

    def all(self) -> Mapping[str, Replicated]:
        self.trace.look(self.named)
        return dict(self.connectors)

    def positions(self, name: str) -> tuple[Position, ...]:
        self.trace.look(self.named)
        return (self.kept[name],) if name in self.kept else ()

    def kafka_cluster_id(self) -> str:
        return f"id of {self.cluster}"

    def running_for(self, names: Collection[str]) -> Mapping[str, float]:
        return dict.fromkeys(names, 60.0)

    def stop(self, name: str) -> None:
        self._changed(f"stop {name}", lambda: self._set(name, STOPPED))

    def resume(self, name: str) -> None:
        self._changed(f"resume {name}", lambda: self._set(name, RUNNING))

    def put_positions(self, name: str, positions: Sequence[Position]) -> None:
        assert self.connectors[name].state == STOPPED

        def put() -> None:
            (position,) = positions
            self.kept.pop(name, None)
            if position.offset is not None:
                self.kept[name] = position

        self._changed(f"positions of {name}", put)

    def _set(self, name: str, state: str) -> None:
        tasks: tuple[Task, ...] = ()
        if state == RUNNING:
            trace = "Caused by: error 286 ChangeStreamHistoryLost" if self.broken else ""
            tasks = (Task(0, "FAILED" if self.broken else RUNNING, trace),)
            self.kept[name] = Position(SHOP, {"lsn": self.end})
        self.connectors[name] = replace(self.connectors[name], state=state, tasks=tasks)

    def _changed(self, how: str, put: Any) -> None:
        if not self.trace.change(self.named, how, put):
            raise Unknown("the workers do not accept it")


def capturing(cluster: str, trace: Trace, *, runs: bool) -> SourceWorkers:
    """Create workers with the connector `shop`; if it does not run, its position is old."""
    config = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "topic.prefix": "shop",
    }
    made = SourceWorkers(cluster, trace)
    state, tasks = (RUNNING, (Task(0, RUNNING),)) if runs else (STOPPED, ())
    made.connectors["shop"] = Replicated("shop", "source", config, state, tasks)
    made.kept["shop"] = Position(SHOP, {"lsn": made.end if runs else 3})
    return made
