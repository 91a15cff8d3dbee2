"""Connectors with their whole traces and positions, and the calls that change them."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from drctl.connectors.connector import Connector, Part, Position
from drctl.model.errors import Refused
from drctl.systems.connect.client import ConnectReader, ConnectRejected, ConnectWriter


class ConnectWard(ConnectReader):
    """Implements `drctl.connectors.ports.Workers`."""

    def all(self) -> Mapping[str, Connector]:
        """Every connector, by name.

        Raises:
            Unreachable: no worker answered within the deadline.
        """
        answer = self._get("/connectors?expand=status&expand=info")
        return {name: _connector(name, answer[name]) for name in sorted(answer)}

    def positions(self, name: str) -> tuple[Position, ...]:
        """How far a connector got.

        Raises:
            NoSuchConnector: there is none of this name.
            Unreachable: no worker answered within the deadline.
        """
        found = (Position(each["partition"], each["offset"]) for each in self.offsets(name))
        return tuple(found)


class ConnectCurer(ConnectWriter):
    """Implements `drctl.connectors.ports.WorkersWriter`."""

    def put_positions(self, name: str, positions: Sequence[Position]) -> None:
        """Have a stopped connector go on from there; None takes a position away.

        Raises:
            NoSuchConnector: there is none of this name.
            Refused: it is not stopped, or they are none of its positions.
            Unknown: no answer came; they may have been taken.
        """
        told = [{"partition": each.partition, "offset": each.offset} for each in positions]
        try:
            self.alter_offsets(name, told)
        except ConnectRejected as no:
            raise Refused(no.message, no.hint) from no

    def delete_positions(self, name: str) -> None:
        """Have a stopped connector forget how far it got.

        Raises:
            NoSuchConnector: there is none of this name.
            ConnectRejected: it is not stopped.
            Unknown: no answer came; it may have been done.
        """
        self._call("DELETE", f"/connectors/{quote(name, safe='')}/offsets")


def _connector(name: str, document: Mapping[str, Any]) -> Connector:
    status, info = document["status"], document["info"]
    config = {key: str(value) for key, value in info["config"].items()}
    parts = (_part(None, status["connector"]), *(_part(t["id"], t) for t in status["tasks"]))
    return Connector(name, str(info.get("type") or status.get("type", "")), config, parts)


def _part(task: int | None, document: Mapping[str, Any]) -> Part:
    trace = str(document.get("trace") or "")
    return Part(task, document["state"], str(document.get("worker_id", "")), trace)
