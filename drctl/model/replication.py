"""How far replication came, as far as it can be known without reading a record."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from drctl.model.topology import TopicPartition


class Task(NamedTuple):
    """A task of a connector.

    Attributes:
        trace: first line of what it failed with; empty where it did not.
    """

    number: int
    state: str
    trace: str = ""


@dataclass(frozen=True, slots=True)
class Connector:
    """A connector as Connect's REST interface tells it.

    Attributes:
        kind: `source` or `sink`.
        config: as it was given. It may hold passwords: checks read named keys only.
        state: RUNNING, PAUSED, STOPPED, FAILED, ...; empty where nobody asked.
        trace: first line of what it failed with; empty where it did not.
    """

    name: str
    kind: str
    config: Mapping[str, str]
    state: str = ""
    tasks: tuple[Task, ...] = ()
    trace: str = ""


class ConnectorLister(Protocol):
    """Looks at all connectors of some workers at once."""

    def described(self) -> Mapping[str, Connector]:
        """Every connector with its configuration and its tasks, by name.

        Raises:
            Unreachable: no worker answered within the deadline.
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
