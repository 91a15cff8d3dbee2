"""All connectors of some Connect workers in one question."""

from collections.abc import Mapping
from typing import Any

from drctl.model.connectors import Connector, Task
from drctl.systems.connect.client import ConnectReader
from drctl.systems.connect.status import read_status


class ConnectLister(ConnectReader):
    """Implements `drctl.model.connectors.ConnectorLister`."""

    def described(self) -> Mapping[str, Connector]:
        """Every connector with its configuration and its tasks, by name.

        Raises:
            Unreachable: no worker answered within the deadline.
        """
        answer = self._get("/connectors?expand=status&expand=info")
        return {name: _connector(name, answer[name]) for name in sorted(answer)}


def _connector(name: str, document: Mapping[str, Any]) -> Connector:
    status, info = read_status(document["status"]), document["info"]
    return Connector(
        name,
        str(info.get("type") or document["status"].get("type", "")),
        {key: str(value) for key, value in info["config"].items()},
        status.state,
        tuple(Task(task.number, task.state, task.trace) for task in status.tasks),
        status.trace,
    )
