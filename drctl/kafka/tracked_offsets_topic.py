"""The topic of tracked offsets (`__drctl_anchors`) on the target cluster."""

from collections.abc import Iterable, Sequence

from drctl.kafka.brokers import ClusterClient
from drctl.kafka.connection import Connection
from drctl.kafka.followed_topic import CompactedTopic
from drctl.kafka.own_topics import TRACKED_OFFSETS, TopicWriter, check_writable, create_compacted
from drctl.model.errors import Unknown
from drctl.offsets.tracking_log import TRACKED_OFFSETS_TOPIC, Change, TrackingLog

_PATIENCE_S = 30.0
_CONFIG = {
    # Offsets of busy groups change in every pass: compact often to keep startup reads small.
    "segment.bytes": str(64 << 20),
    "segment.ms": "3600000",
    "min.cleanable.dirty.ratio": "0.1",
}


class _Log(CompactedTopic):
    """The topic's records as a `TrackingLog`."""

    _restarts = True

    def __init__(self, connection: Connection, topic: str) -> None:
        super().__init__(connection, topic, b"", TRACKED_OFFSETS)
        self.log = TrackingLog()

    def _forget(self) -> None:
        self.log = TrackingLog()

    def _take(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        self.log.take(records)


class TrackedOffsetsReader(ClusterClient):
    """Follows the topic; reads each record once."""

    def __init__(self, connection: Connection, topic: str = TRACKED_OFFSETS_TOPIC) -> None:
        super().__init__(connection)
        self._topic = topic
        self._held = _Log(self._connection, topic)
        self.exists = False

    def cluster_id(self) -> str:
        """The id of the cluster that holds the topic.

        Raises:
            Unreachable: it did not answer.
        """
        return self._connection.nodes(self._connection.deadline()).cluster_id

    def catch_up(self) -> TrackingLog:
        """Read up to the end of the topic; empty if the topic does not exist.

        Raises:
            ConfigError: this user may not read the topic, or it is not compacted.
            Unreachable: the cluster did not answer.
            Unknown: the topic was recreated since it was first read; the next call reads it again.
        """
        self.exists = self._held.catch_up()
        return self._held.log

    def check(self) -> None:
        """Check write permission, if the topic exists.

        Raises:
            ConfigError: this user may not write to the topic.
        """
        if self.exists:
            check_writable(self._connection, self._topic, TRACKED_OFFSETS)


class TrackedOffsetsTopic(TrackedOffsetsReader):
    """Reads and writes the topic."""

    _writer: TopicWriter | None = None

    def write(self, changes: Sequence[Change]) -> None:
        """Write the changes and read them back; create the topic if needed.

        Raises:
            ConfigError: this user may not create or write the topic.
            Unreachable: the cluster did not answer; some changes may be written.
            Unknown: another failure; some changes may be written.
        """
        if not self.exists:
            create_compacted(self._connection, self._topic, TRACKED_OFFSETS, _CONFIG)
        self._send(changes)
        settled = self._held.settle(_PATIENCE_S)
        self.exists = True
        missing = sum(not self._held.log.holds(*change) for change in dict(changes).items())
        if missing or not settled:
            raise Unknown(
                f"could not read back {missing} of {len(changes)} records written to topic"
                f" {self._topic} of cluster {self._connection.name}",
                "the next pass writes them again",
            )

    def _send(self, changes: Sequence[Change]) -> None:
        # Reuse the writer: opening one takes half a second.
        writer = self._writer
        if writer is None:
            # Without permission, an idempotent producer only reports a fatal error.
            check_writable(self._connection, self._topic, TRACKED_OFFSETS)
            opened = TopicWriter(self._connection, self._topic, TRACKED_OFFSETS, _PATIENCE_S)
            writer = opened.__enter__()
        self._writer = None
        writer.write(changes)
        self._writer = writer
