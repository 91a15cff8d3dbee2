"""Connectors as their workers report them, and what reads and changes them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

FAILED, RUNNING, STOPPED = "FAILED", "RUNNING", "STOPPED"
SINK = "sink"

Partition = Mapping[str, Any]
"""What a connector reads, in its own words; for a sink a Kafka partition."""


class Part(NamedTuple):
    """A connector itself, or one of its tasks.

    Attributes:
        task: None for the connector itself.
        trace: the whole Java stack trace; empty where it did not fail.
    """

    task: int | None
    state: str
    worker: str
    trace: str = ""

    @property
    def name(self) -> str:
        """In words."""
        return "the connector" if self.task is None else f"task {self.task}"


@dataclass(frozen=True, slots=True)
class Connector:
    """A connector of some workers.

    Attributes:
        kind: `source` or `sink`.
        config: as it was given; it may hold passwords: named keys only are shown.
        parts: the connector itself, then its tasks.
    """

    name: str
    kind: str
    config: Mapping[str, str]
    parts: tuple[Part, ...]

    @property
    def state(self) -> str:
        """Of the connector itself."""
        return self.parts[0].state

    @property
    def plugin(self) -> str:
        """The class that it is made of."""
        return self.config.get("connector.class", "")

    @property
    def failed(self) -> tuple[Part, ...]:
        """What of it failed."""
        return tuple(part for part in self.parts if part.state == FAILED)

    @property
    def running(self) -> bool:
        """Whether it and all of its tasks run; it may have none, where there is nothing to read."""
        return all(part.state == RUNNING for part in self.parts)

    @property
    def unassigned(self) -> tuple[Part, ...]:
        """What of it no worker has."""
        return tuple(part for part in self.parts if part.state == "UNASSIGNED")

    @property
    def group(self) -> str | None:
        """The consumer group in which a sink's positions stand; None for a source."""
        if self.kind != SINK:
            return None
        return self.config.get("consumer.override.group.id", f"connect-{self.name}")


@dataclass(frozen=True, slots=True)
class Position:
    """How far a connector got in one of the things that it reads; None where it has none there.

    Attributes:
        partition: in the connector's own words.
    """

    partition: Partition
    offset: Mapping[str, Any] | None


class Workers(Protocol):
    """Looks at the connectors of one Connect cluster."""

    def all(self) -> Mapping[str, Connector]:
        """Every connector, by name.

        Raises:
            Unreachable: no worker answered within the deadline.
        """

    def positions(self, name: str) -> tuple[Position, ...]:
        """How far a connector got.

        Raises:
            UsageError: there is none of this name.
            Unreachable: no worker answered within the deadline.
        """

    def kafka_cluster_id(self) -> str:
        """The cluster that the workers are of.

        Raises:
            Unreachable: no worker answered within the deadline.
        """

    def running_for(self, names: Collection[str]) -> Mapping[str, float]:
        """For how many seconds each has been seen to run by `all`; 0 where it was not last time."""


class WorkersWriter(Protocol):
    """Changes the connectors of one Connect cluster."""

    def restart(self, name: str) -> None:
        """Start what failed of it again.

        Raises:
            Unknown: no answer came; it may have been started.
        """

    def stop(self, name: str) -> None:
        """End its tasks; its configuration and positions stay.

        Raises:
            Unknown: no answer came; it may have been stopped.
        """

    def resume(self, name: str) -> None:
        """Resume it.

        Raises:
            Unknown: no answer came; it may have resumed.
        """

    def copy(self, name: str, to: str) -> None:
        """Make another connector with the same configuration.

        Raises:
            Unknown: no answer came, or it was not accepted.
        """

    def put_positions(self, name: str, positions: Sequence[Position]) -> None:
        """Have a stopped connector resume from there; None removes a position.

        Raises:
            Refused: they were not accepted.
            Unknown: no answer came; they may have been taken.
        """

    def delete_positions(self, name: str) -> None:
        """Have a stopped connector forget how far it got.

        Raises:
            Unknown: no answer came, or it was not accepted.
        """
