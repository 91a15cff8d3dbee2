"""Kafka Connect connectors as reported by their workers, and replication progress.

Nothing here reads records.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from drctl.model.topology import TopicPartition

FAILED, RUNNING, STOPPED = "FAILED", "RUNNING", "STOPPED"
SINK = "sink"
_CAUSE = "Caused by: "

Partition = Mapping[str, Any]
"""A source partition of a connector; for a sink, a Kafka partition."""


def first_lines(stack_trace: str) -> str:
    """The first line of a Java stack trace and its innermost cause, on one line."""
    lines = stack_trace.splitlines()
    causes = [line.partition(_CAUSE)[2] for line in lines if line.startswith(_CAUSE)]
    return "; by ".join((*lines[:1], *causes[-1:]))


class Task(NamedTuple):
    """A connector itself, or one of its tasks.

    Attributes:
        number: task number; None for the connector itself.
        stack_trace: the complete Java stack trace; empty if it did not fail.
    """

    number: int | None
    state: str
    stack_trace: str = ""
    worker: str = ""

    @property
    def name(self) -> str:
        """The connector or task, as messages name it."""
        return "the connector" if self.number is None else f"task {self.number}"


@dataclass(frozen=True, slots=True)
class Connector:
    """A connector as reported by Connect's REST interface.

    Attributes:
        kind: `source` or `sink`.
        config: its configuration. It may hold passwords: only known keys are shown.
        state: RUNNING, PAUSED, STOPPED, FAILED, ...; empty if not read.
        stack_trace: the complete Java stack trace; empty if it did not fail.
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
        """Its connector class."""
        return self.config.get("connector.class", "")

    @property
    def failed(self) -> tuple[Task, ...]:
        """The failed parts: connector or tasks."""
        return tuple(part for part in self.parts if part.state == FAILED)

    @property
    def running(self) -> bool:
        """Whether the connector runs, and so do all of its tasks, if it has any."""
        return self.all_in(RUNNING)

    @property
    def unassigned(self) -> tuple[Task, ...]:
        """The parts that are assigned to no worker."""
        return tuple(part for part in self.parts if part.state == "UNASSIGNED")

    @property
    def stack_traces(self) -> tuple[str, ...]:
        """First lines of the stack traces of the connector and its tasks."""
        return tuple(first_lines(part.stack_trace) for part in self.parts if part.stack_trace)

    @property
    def group(self) -> str | None:
        """The consumer group of a sink; None for a source."""
        if self.kind != SINK:
            return None
        return self.config.get("consumer.override.group.id", f"connect-{self.name}")

    def all_in(self, state: str) -> bool:
        """Whether the connector and all its tasks are in this state."""
        return all(part.state == state for part in self.parts)


@dataclass(frozen=True, slots=True)
class Position:
    """A source position of a connector.

    Attributes:
        partition: the source partition, in the connector's format.
        offset: the position in this partition; null if there is none.
    """

    partition: Partition
    offset: Mapping[str, Any] | None


class ConnectorLister(Protocol):
    """Lists all connectors of a Connect cluster."""

    def all(self) -> Mapping[str, Connector]:
        """Every connector with its configuration and its tasks, by name.

        Raises:
            Unreachable: no worker answered within the deadline.
        """


class Workers(ConnectorLister, Protocol):
    """Reads the connectors of one Connect cluster."""

    def positions(self, name: str) -> tuple[Position, ...]:
        """The source positions of a connector.

        Raises:
            UsageError: there is no connector of this name.
            Unreachable: no worker answered within the deadline.
        """

    def kafka_cluster_id(self) -> str:
        """The id of the Kafka cluster in which the workers keep their state.

        Raises:
            Unreachable: no worker answered within the deadline.
        """

    def running_for(self, names: Collection[str]) -> Mapping[str, float]:
        """How many seconds `all` has observed each connector as RUNNING; 0 if it is not now."""


class ConnectorStopper(Protocol):
    """Stops and resumes connectors."""

    def stop(self, name: str) -> None:
        """Stop the tasks of a connector; keep its configuration and source positions.

        Raises:
            Unknown: no answer came; the connector may have been stopped.
        """

    def resume(self, name: str) -> None:
        """Resume a connector.

        Raises:
            Unknown: no answer came; it may have been resumed.
        """


class WorkersWriter(ConnectorStopper, Protocol):
    """Changes the connectors of one Connect cluster."""

    def restart(self, name: str) -> None:
        """Restart the connector and its tasks that failed.

        Raises:
            Unknown: no answer came; it may have been restarted.
        """

    def copy(self, name: str, to: str) -> None:
        """Create another connector with the same configuration.

        Raises:
            Unknown: no answer came, or it was rejected.
        """

    def put_positions(self, name: str, positions: Sequence[Position]) -> None:
        """Set the source positions of a stopped connector; None removes a position.

        Raises:
            Refused: they were rejected.
            Unknown: no answer came; they may have been set.
        """

    def delete_positions(self, name: str) -> None:
        """Delete the source positions of a stopped connector.

        Raises:
            Unknown: no answer came, or it was rejected.
        """


class ReplicatedTo(Protocol):
    """How far a partition has been replicated."""

    @property
    def offset(self) -> int:
        """The first source offset that may not have been replicated."""

    @property
    def evidence(self) -> str:
        """The source of this information, as text."""


class ReplicationProgress(Protocol):
    """Reads the progress of a replicator."""

    def positions(self, topics: Iterable[str]) -> Mapping[TopicPartition, ReplicatedTo]:
        """How far each source partition is replicated; omits partitions without known progress.

        Raises:
            Unreachable: the cluster or worker that stores the progress did not answer.
        """


class Lag(NamedTuple):
    """Replication lag of a source partition.

    Attributes:
        records: best estimate of the number of unreplicated records.
        at_most: upper bound from the replicator's committed progress, which may be a minute old;
            `records` if no progress is known.
        evidence: how this is known, as text.
        oldest_ms: timestamp of the oldest unreplicated record, milliseconds UTC; -1 if unknown.
    """

    records: int
    at_most: int
    evidence: str
    oldest_ms: int = -1


class Tail(NamedTuple):
    """The unreplicated tail of a partition, and how retention affects it.

    Attributes:
        lost: records that the source has already deleted.
        soon: records that the source may delete during a drain.
        later: records that the source may delete within a quarter of its retention time.
        by_size: the size-based retention limit, if any.
    """

    lost: int
    soon: int
    later: int
    by_size: str = ""


class LeftOut(NamedTuple):
    """A committed offset that cannot be translated to the target.

    Attributes:
        reason: why, as text.
    """

    group: str
    partition: TopicPartition
    reason: str
