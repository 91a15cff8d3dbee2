"""What a Connect worker says of its connectors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_CAUSE = "Caused by: "


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """One task of a connector.

    Attributes:
        trace: first line of the Java exception, and its cause; empty while it runs.
    """

    number: int
    state: str
    worker: str
    trace: str = ""


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """A connector and its tasks; states are Connect's: RUNNING, PAUSED, STOPPED, FAILED, ..."""

    name: str
    state: str
    worker: str
    tasks: tuple[TaskStatus, ...]
    trace: str = ""

    def all_in(self, state: str) -> bool:
        """Whether the connector and all its tasks are in this state."""
        return self.state == state and all(task.state == state for task in self.tasks)


def read_status(document: Mapping[str, Any]) -> ConnectorStatus:
    """From the JSON of `/connectors/NAME/status`."""
    connector = document["connector"]
    return ConnectorStatus(
        document["name"],
        connector["state"],
        connector["worker_id"],
        tuple(
            TaskStatus(task["id"], task["state"], task["worker_id"], _first_line(task))
            for task in document["tasks"]
        ),
        _first_line(connector),
    )


def _first_line(document: Mapping[str, Any]) -> str:
    lines = str(document.get("trace", "")).splitlines()
    causes = [line.partition(_CAUSE)[2] for line in lines if line.startswith(_CAUSE)]
    return "; by ".join((*lines[:1], *causes[-1:]))
