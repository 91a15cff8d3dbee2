"""Workers of Connect in memory: connectors that copy between two clusters, and can be told to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from drctl.engine.failback_state import drops_copies
from drctl.engine.ports import ConnectorState, ConnectorTasks
from drctl.model.errors import Unknown, UsageError
from drctl.model.topology import TopicPartition
from drctl.steps.first_records import is_copy
from drctl.steps.stop_replication import PAUSED, RUNNING, STOPPED
from tests.engine.sites import TOPICS, Logs, Trace

CONNECT = "Connect"
ALIAS = "source.cluster.alias"


@dataclass
class Connector:
    """One that copies from a cluster to the other one.

    Attributes:
        state: of its tasks; they follow what is wanted of them.
        kept: the last offset that it copied, by partition.
    """

    source: Logs
    target: Logs
    state: str = RUNNING
    wanted: str = RUNNING
    config: dict[str, str] = field(default_factory=dict)
    kept: dict[TopicPartition, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.config = {ALIAS: self.source.name[:3], "transforms": "mask", **self.config}

    def copy(self) -> None:
        """Time passes."""
        self.state = self.wanted
        if self.state != RUNNING or self.source.dead:
            return
        leaves_out = drops_copies(self.config)
        for place, log in sorted(self.source.logs.items()):
            if place.topic not in TOPICS:
                continue
            for found in log[self.kept.get(place, -1) + 1 :]:
                if not (leaves_out and is_copy(found)):
                    self.target.append(place, found)
                self.kept[place] = found.offset


@dataclass
class Workers:
    """All of them; implements what looks at connectors, and what changes them."""

    trace: Trace
    connectors: dict[str, Connector] = field(default_factory=dict)

    def copy(self) -> None:
        """Time passes."""
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

    def tasks_left(self, names: Sequence[str], settle_s: float) -> Sequence[str]:
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
