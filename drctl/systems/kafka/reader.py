"""One Kafka cluster, looked at.

Everything here goes through requests that change nothing: no group is joined or looked up, no
topic asked for by a name that a broker would then create.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from drctl.model.topology import (
    Found,
    Overview,
    PartitionOffsets,
    Record,
    TopicPartition,
    TopicState,
    Unavailable,
)
from drctl.systems.closing import Closing
from drctl.systems.kafka.connection import Connection
from drctl.systems.kafka.look_ups import LookUps
from drctl.systems.kafka.offsets import read_max_timestamps, read_offsets, read_offsets_for_time
from drctl.systems.kafka.records import (
    read_first_records,
    read_following,
    read_leader_epochs,
    read_records,
)
from drctl.systems.kafka.topics import read_configurations, read_topics


class KafkaClusterReader(Closing):
    """Implements `ClusterReader` and `OffsetReader` of `drctl.model.ports`.

    Connects on first use. Every call ends within `timeout_s` (and a moment); one that got no
    answer at all raises `Unreachable`, whose message says why, and never a credential.
    """

    def __init__(self, name: str, properties: Mapping[str, str], *, timeout_s: float = 10) -> None:
        self._connection = Connection(name, properties, timeout_s)
        self._look_ups = LookUps(self._connection)

    @property
    def name(self) -> str:
        """The name that drctl.yaml gives the cluster."""
        return self._connection.name

    def prepare(self) -> None:
        """Open the client, which asks nobody yet.

        Raises:
            ConfigError: librdkafka does not take the properties.
        """
        self._connection.admin()

    def cluster_id(self) -> str:
        """The cluster's own id.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: librdkafka does not take the properties.
        """
        return self._connection.nodes(self._connection.deadline()).cluster_id

    def topic_names(self) -> frozenset[str]:
        """All topics this user may see, internal ones included.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        return frozenset(self._connection.metadata(self._connection.deadline()).topics)

    def topics(self, names: Collection[str]) -> Mapping[str, TopicState | Unavailable | None]:
        """Each named topic's state; None where the cluster says that it does not exist.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        seen = self._look_ups.seen
        return read_topics(self._connection, names, self._connection.deadline(), seen)

    def offsets(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, PartitionOffsets | Unavailable]:
        """Log start, last stable and end offset of each partition, from its leader.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        return read_offsets(self._connection, partitions, self._connection.deadline())

    def offsets_for_time(
        self, partitions: Collection[TopicPartition], timestamp_ms: int
    ) -> Mapping[TopicPartition, int | Unavailable]:
        """First offset whose timestamp is at or after the given one; the end offset if none is.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        deadline = self._connection.deadline()
        return read_offsets_for_time(self._connection, partitions, timestamp_ms, deadline)

    def first_timestamps(
        self, positions: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int | Unavailable]:
        """Timestamp (ms) of the first committed record at or after each offset.

        Partitions that hold no such record are left out.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        found = read_first_records(self._connection, positions, self._connection.deadline())
        return {p: r.timestamp_ms if isinstance(r, Record) else r for p, r in found.items()}

    def max_timestamps(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int | Unavailable]:
        """No record is younger than this (ms); -1 where the partition is empty (KIP-734).

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        return read_max_timestamps(self._connection, partitions, self._connection.deadline())

    def records(
        self, positions: Sequence[tuple[TopicPartition, int]]
    ) -> Mapping[tuple[TopicPartition, int], Record | Unavailable]:
        """The committed records at these exact offsets; for a few examples, not for scans.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        return read_records(self._connection, positions, self._connection.deadline())

    def following(
        self, positions: Mapping[TopicPartition, int], number: int
    ) -> Mapping[TopicPartition, tuple[Record, ...] | Unavailable]:
        """The first committed records at or after each offset, up to so many of each.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        deadline = self._connection.deadline()
        return read_following(self._connection, positions, number, deadline)

    def leader_epochs(
        self, positions: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int | Unavailable]:
        """The leader epoch in which the committed record at exactly this offset was appended.

        Two logs that hold the same epoch at an offset are equal up to there (KIP-101).

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        return read_leader_epochs(self._connection, positions, self._connection.deadline())

    def overview(self) -> Overview:
        """The cluster's id, and all partitions that this user may see.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        return self._look_ups.overview(self._connection.deadline())

    def configurations(
        self, names: Collection[str]
    ) -> Mapping[str, Mapping[str, str] | Unavailable]:
        """Each topic's configuration, name to value.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        seen = self._look_ups.seen
        return read_configurations(self._connection, names, self._connection.deadline(), seen)

    def look_up(
        self, questions: Sequence[tuple[TopicPartition, int]]
    ) -> Callable[[], Sequence[Found | Unavailable]]:
        """Ask each partition's leader for an offset; what is returned waits for the answers.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        return self._look_ups.ask(questions, self._connection.deadline())

    def close(self) -> None:
        """Release connections; may be called again."""
        self._look_ups.close()
        self._connection.close()
