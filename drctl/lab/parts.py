"""The components of a lab and their names."""

from dataclasses import dataclass
from pathlib import Path

from drctl.lab.cluster import Broker, LabCluster
from drctl.lab.mirrors import Direction, directions
from drctl.lab.processes import Part
from drctl.lab.settings import CLUSTERS, LabSettings
from drctl.lab.worker import Worker
from drctl.model.errors import UsageError


@dataclass(frozen=True, slots=True)
class Parts:
    """The components of one lab."""

    root: Path
    settings: LabSettings

    def cluster(self, name: str) -> LabCluster:
        """`primary` or `secondary`."""
        return LabCluster(self.root, self.settings, name)

    @property
    def clusters(self) -> tuple[LabCluster, ...]:
        """Primary and secondary."""
        return tuple(self.cluster(name) for name in CLUSTERS)

    @property
    def worker(self) -> Worker:
        """The first Connect worker."""
        return self.workers[0]

    @property
    def workers(self) -> tuple[Worker, ...]:
        """All Connect workers."""
        numbers = range(1, self.settings.workers + 1)
        return tuple(Worker(self.root, self.settings, number) for number in numbers)

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The directions in which MirrorMaker 2 replicates."""
        return directions(self.settings, *self.clusters)

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """All nodes of both clusters."""
        return tuple(broker for cluster in self.clusters for broker in cluster.brokers)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all processes: `primary-1`, ..., `connect`."""
        return (*(each.name for each in self.brokers), *(each.name for each in self.workers))

    def named(self, name: str) -> tuple[str, ...]:
        """Resolve `primary`, `secondary`, `connect` or a node to process names.

        Raises:
            UsageError: there is no such component.
        """
        found = tuple(each for each in self.names if name in (each, each.rpartition("-")[0]))
        if not found:
            raise UsageError(
                f"unknown lab component {name!r}",
                f"choose primary, secondary, or one of {', '.join(self.names)}",
            )
        return found

    def part(self, name: str) -> Part:
        """The process of this name."""
        return (self.worker_named(name) or self._broker(name)).part

    def ports(self, name: str) -> tuple[int, ...]:
        """The ports of a component; the client port first."""
        worker = self.worker_named(name)
        return (worker.port,) if worker else self._broker(name).ports

    def worker_named(self, name: str) -> Worker | None:
        """The Connect worker of this name; None if it is another component's."""
        return next((worker for worker in self.workers if worker.name == name), None)

    def _broker(self, name: str) -> Broker:
        return next(broker for broker in self.brokers if broker.name == name)
