"""Protocols through which the core reads clusters and changes group offsets.

Readers cannot write. `drctl.kafka` implements the protocols, `drctl.app.adapters` creates them.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from drctl.model.groups import Group, Positions
from drctl.model.topology import (
    Found,
    Overview,
    PartitionOffsets,
    Record,
    TopicPartition,
    TopicState,
    Unavailable,
)


class OffsetReader(Protocol):
    """Reads offsets of many partitions; reads no records."""

    @property
    def name(self) -> str:
        """The cluster's name in drctl.yaml."""

    def overview(self) -> Overview:
        """The cluster's id, and all partitions that this user may see.

        Raises:
            Unreachable: no broker answered within the deadline.
        """

    def topics(self, names: Collection[str]) -> Mapping[str, TopicState | Unavailable | None]:
        """The state of each topic; None if it does not exist.

        Raises:
            Unreachable: no broker answered within the deadline.
        """

    def configurations(
        self, names: Collection[str]
    ) -> Mapping[str, Mapping[str, str] | Unavailable]:
        """Each topic's configuration, name to value.

        Raises:
            Unreachable: no broker answered within the deadline.
        """

    def look_up(
        self, questions: Sequence[tuple[TopicPartition, int]]
    ) -> Callable[[], Sequence[Found | Unavailable]]:
        """Ask each partition's leader for an offset; the returned function waits for the answers.

        Answers are in the order of the questions. A question is a `Mark` or a time (milliseconds
        UTC), which finds the first record (or control record) at or after it.

        Raises:
            Unreachable: no broker answered within the deadline.
        """


class ClusterReader(OffsetReader, Protocol):
    """Reads one Kafka cluster; joins no group, creates no topic, writes nothing."""

    def cluster_id(self) -> str:
        """The cluster's own id.

        Raises:
            Unreachable: no broker answered within the deadline.
        """

    def topic_names(self) -> frozenset[str]:
        """All topics this user may see, internal ones included.

        Raises:
            Unreachable: no broker answered within the deadline.
        """

    def offsets(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, PartitionOffsets | Unavailable]:
        """Log start, last stable and end offset of each partition, from its leader."""

    def first_timestamps(
        self, positions: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int | Unavailable]:
        """Timestamp (ms) of the first committed record at or after each offset.

        Partitions that hold no such record are left out.
        """

    def max_timestamps(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int | Unavailable]:
        """The newest record timestamp (ms); -1 if the partition is empty (KIP-734)."""

    def records(
        self, positions: Sequence[tuple[TopicPartition, int]]
    ) -> Mapping[tuple[TopicPartition, int], Record | Unavailable]:
        """The records at exactly these offsets; for examples, not for scans."""

    def following(
        self, positions: Mapping[TopicPartition, int], number: int
    ) -> Mapping[TopicPartition, tuple[Record, ...] | Unavailable]:
        """The first `number` committed records at or after each offset."""

    def leader_epochs(
        self, positions: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int | Unavailable]:
        """The leader epoch in which the committed record at exactly this offset was appended."""

    def close(self) -> None:
        """Release connections."""


class GroupReader(Protocol):
    """Reads a cluster's consumer groups; joins none."""

    def groups(self, *, incomplete: bool = False) -> tuple[str, ...]:
        """The names of all groups that this user may see, of every protocol.

        Args:
            incomplete: whether groups without a coordinator may be left out.

        Raises:
            Unreachable: no broker answered within the deadline, or groups have no coordinator.
        """

    def described(self, names: Collection[str]) -> Mapping[str, Group | Unavailable]:
        """Protocol, state and members of each group; a group that does not exist is DEAD.

        Raises:
            Unreachable: no broker answered within the deadline.
        """

    def committed(self, names: Collection[str]) -> Mapping[str, Positions | Unavailable]:
        """The committed offsets of each group.

        Raises:
            Unreachable: no broker answered within the deadline.
        """


class GroupWriter(Protocol):
    """Changes the committed offsets of groups without members."""

    def commit(
        self, wanted: Mapping[str, Positions]
    ) -> Mapping[str, Mapping[TopicPartition, Unavailable | None]]:
        """Commit offsets; for each group and partition, return None or why it failed.

        The coordinator refuses the commit if the group has members.
        """

    def delete(
        self, unwanted: Mapping[str, Collection[TopicPartition]]
    ) -> Mapping[str, Mapping[TopicPartition, Unavailable | None]]:
        """Delete offsets; for each group and partition, return None or why it failed."""
