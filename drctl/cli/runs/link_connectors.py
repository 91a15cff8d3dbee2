"""The connectors of a link, as its steps look at them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from drctl.engine.ports import ConnectorState, ConnectorTasks
from drctl.model.errors import UsageError

if TYPE_CHECKING:
    from drctl.systems.connect.client import ConnectReader

_PAUSE_S = 0.2


@dataclass(slots=True)
class Connectors:
    """Implements `drctl.engine.ports.ConnectorsReader`."""

    client: "ConnectReader"

    def names(self) -> Sequence[str]:
        """Of all connectors that the workers run, whosever they are.

        Raises:
            Unreachable: no worker answered within the deadline.
        """
        return self.client.connectors()

    def state(self, name: str) -> ConnectorState:
        """Of one connector and its tasks.

        Raises:
            NoSuchConnector: there is none of this name.
            Unreachable: no worker answered within the deadline.
        """
        status = self.client.status(name)
        states = {status.state, *(task.state for task in status.tasks)}
        traces = [status.trace, *(task.trace for task in status.tasks)]
        return ConnectorState(name, "+".join(sorted(states)), next(filter(None, traces), ""))

    def tasks(self, name: str) -> ConnectorTasks:
        """Of one connector: those that are to run, and those that are known to.

        Raises:
            NoSuchConnector: there is none of this name.
            Unreachable: no worker answered within the deadline.
        """
        status = self.client.status(name)
        running = tuple(f"{task.number} is {task.state}" for task in status.tasks)
        workers = frozenset(filter(None, (status.worker, *(t.worker for t in status.tasks))))
        return ConnectorTasks(self.client.task_count(name), running, workers)

    def tasks_left(self, names: Sequence[str], settle_s: float) -> Sequence[str]:
        """Tasks that are there still, in words; none where for so long none was seen.

        Raises:
            NoSuchConnector: there is no such connector.
            Unreachable: no worker answered within the deadline.
        """
        until = monotonic() + settle_s
        while True:
            left = [
                f"{name}: {', '.join(tasks.told)}"
                for name in names
                if (tasks := self.tasks(name)).any
            ]
            if left or monotonic() >= until:
                return left
            sleep(_PAUSE_S)

    def offsets(self, name: str) -> Sequence[Mapping[str, Any]]:
        """What it keeps of how far it got.

        Raises:
            NoSuchConnector: there is none of this name.
            Unreachable: no worker answered within the deadline.
        """
        return self.client.offsets(name)

    def kafka_cluster_id(self) -> str:
        """The cluster that the workers are of.

        Raises:
            Unreachable: no worker answered within the deadline.
        """
        return self.client.kafka_cluster_id()

    def config(self, name: str) -> Mapping[str, str]:
        """How it is configured; it may hold passwords.

        Raises:
            NoSuchConnector: there is none of this name.
            Unreachable: no worker answered within the deadline.
        """
        return self.client.config(name)


def must_have(client: "ConnectReader | None") -> "ConnectReader":
    """The Connect workers.

    Raises:
        UsageError: none are configured.
    """
    if client is None:
        raise UsageError(
            "the link's replicator has no Connect workers",
            "set `replicator: {connect: http://..., connectors: {...}}` in drctl.yaml",
        )
    return client
