"""Connectors of Kafka Connect as their workers report them, and how far replication came.

All of it as far as it can be known without reading a record.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from drctl.model.topology import TopicPartition

FAILED, RUNNING, STOPPED = "FAILED", "RUNNING", "STOPPED"
SINK = "sink"
_CAUSE = "Caused by: "

Partition = Mapping[str, Any]
"""What a connector reads, in its own words; for a sink a Kafka partition."""


def first_lines(stack_trace: str) -> str:
    """The first line of a Java stack trace, and its cause."""
    lines = stack_trace.splitlines()
    causes = [line.partition(_CAUSE)[2] for line in lines if line.startswith(_CAUSE)]
    return "; by ".join((*lines[:1], *causes[-1:]))


class Task(NamedTuple):
    """A connector itself, or one of its tasks.

    Attributes:
        number: None for the connector itself.
        stack_trace: the whole Java stack trace; empty where it did not fail.
    """

    number: int | None
    state: str
    stack_trace: str = ""
    worker: str = ""

    @property
    def name(self) -> str:
        """In words."""
        return "the connector" if self.number is None else f"task {self.number}"


@dataclass(frozen=True, slots=True)
class Connector:
    """A connector as Connect's REST interface tells it.

    Attributes:
        kind: `source` or `sink`.
        config: as it was given. It may hold passwords: named keys only are read and shown.
        state: RUNNING, PAUSED, STOPPED, FAILED, ...; empty where nobody asked.
        stack_trace: the whole Java stack trace; empty where it did not fail.
    """

    name: str
    kind: str
    config: Mapping[str, str]
    state: str = ""
    tasks: tuple[Task, ...] = ()
    stack_trace: str = ""
    worker: str = ""

    @property
    def parts(self) -> tuple[Task, ...]:
        """The connector itself, then its tasks."""
        return (Task(None, self.state, self.stack_trace, self.worker), *self.tasks)

    @property
    def plugin(self) -> str:
        """The class that it is made of."""
        return self.config.get("connector.class", "")

    @property
    def failed(self) -> tuple[Task, ...]:
        """What of it failed."""
        return tuple(part for part in self.parts if part.state == FAILED)

    @property
    def running(self) -> bool:
        """Whether it and all of its tasks run; it may have none, where there is nothing to read."""
        return self.all_in(RUNNING)

    @property
    def unassigned(self) -> tuple[Task, ...]:
        """What of it no worker has."""
        return tuple(part for part in self.parts if part.state == "UNASSIGNED")

    @property
    def stack_traces(self) -> tuple[str, ...]:
        """First lines of what it and its tasks failed with."""
        return tuple(first_lines(part.stack_trace) for part in self.parts if part.stack_trace)

    @property
    def group(self) -> str | None:
        """The consumer group in which a sink's positions stand; None for a source."""
        if self.kind != SINK:
            return None
        return self.config.get("consumer.override.group.id", f"connect-{self.name}")

    def all_in(self, state: str) -> bool:
        """Whether the connector and all its tasks are in this state."""
        return all(part.state == state for part in self.parts)


@dataclass(frozen=True, slots=True)
class Position:
    """How far a connector got in one of the things that it reads; None where it has none there.

    Attributes:
        partition: in the connector's own words.
    """

    partition: Partition
    offset: Mapping[str, Any] | None


class ConnectorLister(Protocol):
    """Looks at all connectors of some workers at once."""

    def all(self) -> Mapping[str, Connector]:
        """Every connector with its configuration and its tasks, by name.

        Raises:
            Unreachable: no worker answered within the deadline.
        """


class Workers(ConnectorLister, Protocol):
    """Looks at the connectors of one Connect cluster."""

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


class ReplicatedTo(Protocol):
    """Up to where a partition was replicated."""

    @property
    def offset(self) -> int:
        """The first offset of the source that may not have been."""

    @property
    def evidence(self) -> str:
        """Who says so, in words for a person."""


class ReplicationProgress(Protocol):
    """Knows how far a replicator came."""

    def positions(self, topics: Iterable[str]) -> Mapping[TopicPartition, ReplicatedTo]:
        """By partition of the source; without those of which nothing is known.

        Raises:
            Unreachable: who knows it did not answer.
        """


class Lag(NamedTuple):
    """What of a partition of the source was perhaps not replicated yet.

    Attributes:
        records: about so many were not, by the best that is known.
        at_most: by the replicator's own word, which may be a minute old; `records` where there is
            none.
        evidence: how that is known, in words for a person.
        oldest_ms: the time of the oldest record that was not, milliseconds UTC; -1 where nobody
            knows it, or there is none.
    """

    records: int
    at_most: int
    evidence: str
    oldest_ms: int = -1


class Tail(NamedTuple):
    """An unreplicated tail of a partition, and what retention is about to do to it.

    Attributes:
        lost: records of it that the source has deleted already.
        soon: records of it that the source may delete within the time that a drain may take.
        later: the same within a quarter of the time that it keeps records.
        by_size: the limit by which the source deletes whatever its age; empty where there is none.
    """

    lost: int
    soon: int
    later: int
    by_size: str = ""


class LeftOut(NamedTuple):
    """A position of a group that has no place on the target.

    Attributes:
        reason: why, in words for a person.
    """

    group: str
    partition: TopicPartition
    reason: str
