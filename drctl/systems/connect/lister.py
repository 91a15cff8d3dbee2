"""All connectors of some Connect workers in one question."""

from collections.abc import Mapping
from typing import Any

from drctl.model.connectors import Connector, Task
from drctl.systems.connect.client import ConnectReader, each
from drctl.systems.connect.status import field, read_config, read_status


class ConnectLister(ConnectReader):
    """Implements `drctl.model.connectors.ConnectorLister`."""

    def described(self) -> Mapping[str, Connector]:
        """Every connector with its configuration and its tasks, by name.

        Raises:
            NotConnect: what answered is not Connect.
            Unreachable: no worker answered within the deadline.
        """
        return self._get("/connectors?expand=status&expand=info", each(_connector))


def _connector(name: str, document: Any) -> Connector:
    told, info = field(document, "status", dict), field(document, "info", dict)
    status = read_status(told)
    return Connector(
        name,
        str(info.get("type") or told.get("type", "")),
        read_config(info.get("config")),
        status.state,
        tuple(Task(task.number, task.state, task.trace) for task in status.tasks),
        status.trace,
    )
