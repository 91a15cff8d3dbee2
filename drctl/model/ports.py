"""What the core needs from outside, as Protocols.

A reader cannot write: nothing here changes a cluster. `drctl.stores` implements these,
`drctl.app.adapters` opens them.
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
    """Looks at the offsets of very many partitions; reads no record."""

    @property
    def name(self) -> str:
        """The name that drctl.yaml gives the cluster."""

    def overview(self) -> Overview:
        """The cluster's id, and all partitions that this user may see.

        Raises:
            Unreachable: no broker answered within the deadline.
        """

    def topics(self, names: Collection[str]) -> Mapping[str, TopicState | Unavailable | None]:
        """Each named topic's state; None where the cluster says that it does not exist.

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
        """Ask each partition's leader for an offset; what is returned waits for the answers.

        They are in the order of the questions. A question is a `Mark`, or milliseconds UTC: the
        first record (or control record) at or after that time.

        Raises:
            Unreachable: no broker answered within the deadline.
        """


class ClusterReader(OffsetReader, Protocol):
    """Looks at one Kafka cluster; joins no group, creates no topic, writes nothing."""

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
        """No record is younger than this (ms); -1 where the partition is empty (KIP-734)."""

    def records(
        self, positions: Sequence[tuple[TopicPartition, int]]
    ) -> Mapping[tuple[TopicPartition, int], Record | Unavailable]:
        """The records at these exact offsets; meant for a few examples, not for scans."""

    def following(
        self, positions: Mapping[TopicPartition, int], number: int
    ) -> Mapping[TopicPartition, tuple[Record, ...] | Unavailable]:
        """The first committed records at or after each offset, up to so many of each."""

    def leader_epochs(
        self, positions: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int | Unavailable]:
        """The leader epoch in which the committed record at exactly this offset was appended."""

    def close(self) -> None:
        """Release connections."""


class GroupReader(Protocol):
    """Looks at a cluster's consumer groups from outside; joins none."""

    def groups(self) -> tuple[str, ...]:
        """The names of all groups that this user may see, of every protocol.

        Raises:
            Unreachable: no broker answered within the deadline.
        """

    def described(self, names: Collection[str]) -> Mapping[str, Group | Unavailable]:
        """Protocol, state and members of each; one that does not exist is dead and empty.

        Raises:
            Unreachable: no broker answered within the deadline.
        """

    def committed(self, names: Collection[str]) -> Mapping[str, Positions | Unavailable]:
        """What each group has committed.

        Raises:
            Unreachable: no broker answered within the deadline.
        """


class GroupWriter(Protocol):
    """Changes the positions of groups that nobody reads in."""

    def commit(
        self, wanted: Mapping[str, Positions]
    ) -> Mapping[str, Mapping[TopicPartition, Unavailable | None]]:
        """Commit these positions; by group and partition None where it was, or why it was not.

        A group's members are not asked for here: the coordinator refuses where there are some.
        """

    def delete(
        self, unwanted: Mapping[str, Collection[TopicPartition]]
    ) -> Mapping[str, Mapping[TopicPartition, Unavailable | None]]:
        """Remove positions; by group and partition None where it was, or why it was not."""
