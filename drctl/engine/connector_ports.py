"""What steps need from the workers of Kafka Connect: to look at connectors, and to change them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class ConnectorState:
    """A connector as its workers tell it.

    Attributes:
        state: RUNNING, PAUSED, STOPPED, FAILED, ...; of the connector and all its tasks where they
            agree, else all of them.
        trace: what failed, in the words of its worker; empty where nothing did.
    """

    name: str
    state: str
    trace: str = ""

    @property
    def told(self) -> str:
        """How it stands, and why."""
        return f"{self.name} is {self.state}{f': {self.trace}' if self.trace else ''}"


@dataclass(frozen=True, slots=True)
class ConnectorTasks:
    """The tasks of a connector: they copy, and it only says what they are to copy.

    Attributes:
        configured: how many are to run, as the workers keep it.
        running: what is known of those that ran last, such as `0 is RUNNING`.
        workers: that run the connector or a task of it.
    """

    configured: int
    running: tuple[str, ...]
    workers: frozenset[str]

    @property
    def any(self) -> bool:
        """Whether one is to run, or does."""
        return bool(self.configured or self.running)

    @property
    def told(self) -> tuple[str, ...]:
        """Those that run, or how many are to."""
        return self.running or (f"{self.configured} are to run",)


class ConnectorsReader(Protocol):
    """Looks at the connectors that replicate the link."""

    def tasks(self, name: str) -> ConnectorTasks:
        """Of one connector.

        Raises:
            UsageError: there is none of this name.
            Unreachable: no worker answered within the deadline.
        """

    def tasks_left(self, names: Sequence[str], settle_s: float) -> Sequence[str]:
        """Tasks that are there still, in words; none where for so long none was seen.

        Raises:
            UsageError: there is no such connector.
            Unreachable: no worker answered within the deadline.
        """

    def state(self, name: str) -> ConnectorState:
        """Of one connector and its tasks.

        Raises:
            UsageError: there is none of this name.
            Unreachable: no worker answered within the deadline.
        """

    def offsets(self, name: str) -> Sequence[Mapping[str, Any]]:
        """What it keeps of how far it got.

        Raises:
            UsageError: there is none of this name.
            Unreachable: no worker answered within the deadline.
        """

    def kafka_cluster_id(self) -> str:
        """The cluster that the workers are of, and write to where a connector names no other.

        Raises:
            Unreachable: no worker answered within the deadline.
        """

    def config(self, name: str) -> Mapping[str, str]:
        """How it is configured. It may hold passwords: read named keys only, and keep no others.

        Raises:
            UsageError: there is none of this name.
            Unreachable: no worker answered within the deadline.
        """


class ConnectorsWriter(Protocol):
    """Stops the connectors that replicate the link, and lets them go on."""

    def stop(self, name: str) -> None:
        """End its tasks; its configuration and offsets stay.

        Raises:
            Unknown: no answer came; it may have been stopped.
        """

    def pause(self, name: str) -> None:
        """Let its tasks idle.

        Raises:
            Unknown: no answer came; it may have been paused.
        """

    def resume(self, name: str) -> None:
        """Let it go on.

        Raises:
            Unknown: no answer came; it may go on.
        """

    def configure(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Change some keys of its configuration, and leave all others; None removes one.

        Raises:
            Unknown: no answer came, or the workers do not accept it.
        """

    def alter_offsets(self, name: str, offsets: Sequence[Mapping[str, Any]]) -> None:
        """Set how far it got, of these source partitions; it must be stopped.

        Raises:
            Unknown: no answer came, or the workers do not accept it.
        """
