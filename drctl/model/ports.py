"""What the core needs from outside, as Protocols.

A reader cannot write: nothing here changes a cluster. `drctl.systems` implements these,
`drctl.cli.wiring` opens them.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from drctl.model.topology import (
    PartitionOffsets,
    Record,
    TopicPartition,
    TopicState,
    Unavailable,
)


class ClusterReader(Protocol):
    """Looks at one Kafka cluster; joins no group, creates no topic, writes nothing."""

    @property
    def name(self) -> str:
        """The name that drctl.yaml gives the cluster."""

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

    def topics(self, names: Collection[str]) -> Mapping[str, TopicState | Unavailable | None]:
        """Each named topic's state; None where the cluster says that it does not exist.

        Raises:
            Unreachable: no broker answered within the deadline.
        """

    def offsets(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, PartitionOffsets | Unavailable]:
        """Log start, last stable and end offset of each partition, from its leader."""

    def offsets_for_time(
        self, partitions: Collection[TopicPartition], timestamp_ms: int
    ) -> Mapping[TopicPartition, int | Unavailable]:
        """First offset whose timestamp is at or after the given one; the end offset if none is."""

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

    def close(self) -> None:
        """Release connections."""
