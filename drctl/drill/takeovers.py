"""Source connectors that lose a task or a worker in a drill: where their tasks run again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from drctl.model.document import Count, Name, Seconds
from drctl.model.errors import Refused
from drctl.model.replication import Connector

TaskId = tuple[str, int]
"""A connector, and the number of one of its tasks."""


class TaskRestarter(Protocol):
    """Reads and restarts the tasks of one Connect cluster."""

    def statuses(self) -> Mapping[str, Connector]:
        """The states of all connectors and their tasks.

        Raises:
            Unreachable: no worker answered within the deadline.
        """

    def restart_task(self, name: str, number: int) -> None:
        """Restart one task.

        Raises:
            Unknown: no answer came; it may have been restarted.
        """


@dataclass(frozen=True, slots=True)
class Takeover:
    """A task that was disrupted and runs again.

    Attributes:
        before: host and port of the worker that ran it.
        after: host and port of the worker that runs it now.
        seconds: from the fault until it was seen running again.
    """

    connector: Name
    task: Count
    before: Name
    after: Name
    seconds: Seconds


@dataclass(frozen=True, slots=True)
class SourceConnectors:
    """The source connectors of a link.

    Attributes:
        places: Connect clusters, each with the names of its connectors.
    """

    places: Sequence[tuple[TaskRestarter, Sequence[str]]]

    def require_running(self) -> None:
        """Require each connector, and each of its tasks, to run.

        Raises:
            Refused: one does not exist or does not run, or there is no connector.
            Unreachable: no worker answered within the deadline.
        """
        if not any(names for _, names in self.places):
            raise Refused(
                "drctl.yaml names no source connector of the link",
                "set `replicator.connectors.source`, or `source_connectors`",
            )
        for client, names in self.places:
            known = client.statuses()
            for name in names:
                parts = known[name].parts if name in known else ()
                states = sorted({part.state for part in parts}) or ["missing"]
                if states != ["RUNNING"]:
                    raise Refused(
                        f"connector {name} must run before the fault: it is {'+'.join(states)}",
                        "drctl connect status",
                    )

    def running(self) -> Mapping[TaskId, str]:
        """The worker of each task that runs.

        Raises:
            Unreachable: no worker answered within the deadline.
        """
        return {
            task: worker
            for client, names in self.places
            for task, worker in _running(client, names).items()
        }

    def restart(self) -> None:
        """Restart every running task.

        Raises:
            Unknown: no answer came; a task may have been restarted.
        """
        for client, names in self.places:
            for name, number in _running(client, names):
                client.restart_task(name, number)


def _running(client: TaskRestarter, names: Sequence[str]) -> Mapping[TaskId, str]:
    return {
        (name, task.number): task.worker
        for name, each in client.statuses().items()
        if name in names
        for task in each.tasks
        if task.number is not None and task.state == "RUNNING"
    }
