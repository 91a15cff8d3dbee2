"""Connectors as `drctl connect`, checks and failback need them, and the calls that change them."""

from collections.abc import Collection, Mapping, Sequence
from time import monotonic
from types import MappingProxyType
from typing import Any

from drctl.connect.client import (
    ConnectReader,
    ConnectRejected,
    ConnectWriter,
    acknowledged,
    each,
    path_of,
)
from drctl.connect.connectors import member, read_config, read_status
from drctl.connectors.connector import Connector, Part, Position
from drctl.model import replication
from drctl.model.errors import Refused


class ConnectHealth(ConnectReader):
    """Implements `drctl.connectors.connector.Workers`."""

    _looked = 0.0
    _running_since: Mapping[str, float] = MappingProxyType({})

    def all(self) -> Mapping[str, Connector]:
        """Every connector, by name.

        Raises:
            NotConnect: what answered is not Connect.
            Unreachable: no worker answered within the deadline.
        """
        found = self._call("GET", "/connectors?expand=status&expand=info", each(_connector))
        now, before = monotonic(), self._running_since
        running = (name for name, one in found.items() if one.running)
        self._running_since = {name: before.get(name, now) for name in running}
        self._looked = now
        return found

    def running_for(self, names: Collection[str]) -> Mapping[str, float]:
        """For how many seconds each has been seen to run; 0 where it did not run last time."""
        return {name: self._looked - self._running_since.get(name, self._looked) for name in names}

    def positions(self, name: str) -> tuple[Position, ...]:
        """How far a connector got.

        Raises:
            NoSuchConnector: there is none of this name.
            NotConnect: what answered is not Connect.
            Unreachable: no worker answered within the deadline.
        """
        return tuple(Position(at["partition"], at["offset"]) for at in self.offsets(name))


class ConnectCurer(ConnectWriter):
    """Implements `drctl.connectors.connector.WorkersWriter`."""

    def put_positions(self, name: str, positions: Sequence[Position]) -> None:
        """Have a stopped connector resume from there; None removes a position.

        Raises:
            NoSuchConnector: there is none of this name.
            Refused: it is not stopped, or they are none of its positions.
            Unknown: no answer came; they may have been taken.
        """
        told = [{"partition": at.partition, "offset": at.offset} for at in positions]
        try:
            self.alter_offsets(name, told)
        except ConnectRejected as no:
            raise Refused(no.message, no.hint) from no

    def copy(self, name: str, to: str) -> None:
        """Make another connector with the same configuration.

        Raises:
            NoSuchConnector: there is none of this name.
            ConnectRejected: the worker does not accept the configuration.
            Unknown: no answer came; it may have been made.
        """
        self.put_config(to, {**self.config(name), "name": to})

    def delete_positions(self, name: str) -> None:
        """Have a stopped connector forget how far it got.

        Raises:
            NoSuchConnector: there is none of this name.
            ConnectRejected: it is not stopped.
            Unknown: no answer came; it may have been done.
        """
        self._call("DELETE", f"{path_of(name)}/offsets", acknowledged)


def _connector(name: str, document: Any) -> Connector:
    status, info = member(document, "status", dict), member(document, "info", dict)
    tasks = (_part(member(t, "id", int), t) for t in member(status, "tasks", list))
    parts = (_part(None, member(status, "connector", dict)), *tasks)
    kind = str(info.get("type") or status.get("type", ""))
    return Connector(name, kind, read_config(info.get("config")), parts)


def _part(task: int | None, document: Mapping[str, Any]) -> Part:
    trace = str(document.get("trace") or "")
    return Part(task, member(document, "state", str), str(document.get("worker_id", "")), trace)


class ConnectLister(ConnectReader):
    """Implements `drctl.model.replication.ConnectorLister`."""

    def described(self) -> Mapping[str, replication.Connector]:
        """Every connector with its configuration and its tasks, by name.

        Raises:
            NotConnect: what answered is not Connect.
            Unreachable: no worker answered within the deadline.
        """
        return self._call("GET", "/connectors?expand=status&expand=info", each(_described))


def _described(name: str, document: Any) -> replication.Connector:
    told, info = member(document, "status", dict), member(document, "info", dict)
    status = read_status(told)
    return replication.Connector(
        name,
        str(info.get("type") or told.get("type", "")),
        read_config(info.get("config")),
        status.state,
        tuple(replication.Task(task.number, task.state, task.trace) for task in status.tasks),
        status.trace,
    )
