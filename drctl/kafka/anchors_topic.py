"""The anchors topic on the cluster that survives."""

from collections.abc import Iterable, Sequence

from drctl.kafka.brokers import ClusterClient
from drctl.kafka.connection import Connection
from drctl.kafka.followed_topic import CompactedTopic
from drctl.kafka.own_topics import ANCHORS, TopicWriter, check_writable, create_compacted
from drctl.model.errors import Unknown
from drctl.offsets.anchor_log import ANCHORS_TOPIC, AnchorLog, Change

_PATIENCE_S = 30.0
_CONFIG = {
    # Anchors of busy groups are replaced with every pass: what is read at a start must stay small.
    "segment.bytes": str(64 << 20),
    "segment.ms": "3600000",
    "min.cleanable.dirty.ratio": "0.1",
}


class _Log(CompactedTopic):
    """The topic, read into a log."""

    _restarts = True

    def __init__(self, connection: Connection, topic: str) -> None:
        super().__init__(connection, topic, b"", ANCHORS)
        self.log = AnchorLog()

    def _forget(self) -> None:
        self.log = AnchorLog()

    def _take(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        self.log.take(records)


class AnchorsTopicReader(ClusterClient):
    """Follows the topic; each of its records is read once."""

    def __init__(self, connection: Connection, topic: str = ANCHORS_TOPIC) -> None:
        super().__init__(connection)
        self._topic = topic
        self._held = _Log(self._connection, topic)
        self.exists = False

    def cluster_id(self) -> str:
        """Of the cluster that keeps the topic.

        Raises:
            Unreachable: it did not answer.
        """
        return self._connection.nodes(self._connection.deadline()).cluster_id

    def catch_up(self) -> AnchorLog:
        """All that was noted until now, by whomever; nothing where there is no such topic.

        Raises:
            ConfigError: the topic may not be read, or is not compacted.
            Unreachable: the cluster did not answer.
            Unknown: the topic was recreated since it was first read; the next call reads it again.
        """
        self.exists = self._held.catch_up()
        return self._held.log

    def check(self) -> None:
        """See whether this user may write the topic, where there is one.

        Raises:
            ConfigError: this user may not.
        """
        if self.exists:
            check_writable(self._connection, self._topic, ANCHORS)


class AnchorsTopic(AnchorsTopicReader):
    """The same, and writes."""

    _writer: TopicWriter | None = None

    def write(self, changes: Sequence[Change]) -> None:
        """Write all of it, upon which it is read back; makes the topic where there is none.

        Raises:
            ConfigError: the topic may not be made or written.
            Unreachable: the cluster did not answer; some of it may be written.
            Unknown: it failed otherwise, or is not there; likewise.
        """
        if not self.exists:
            create_compacted(self._connection, self._topic, ANCHORS, _CONFIG)
        self._send(changes)
        settled = self._held.settle(_PATIENCE_S)
        self.exists = True
        missing = sum(not self._held.log.holds(*change) for change in dict(changes).items())
        if missing or not settled:
            raise Unknown(
                f"topic {self._topic} of {self._connection.name}: {missing} of {len(changes)}"
                " records that were written could not be read back",
                "the next pass writes what is not there",
            )

    def _send(self, changes: Sequence[Change]) -> None:
        # Opening one takes half a second.
        writer = self._writer
        if writer is None:
            # An idempotent producer that may not write says no more than that it is at an end.
            check_writable(self._connection, self._topic, ANCHORS)
            opened = TopicWriter(self._connection, self._topic, ANCHORS, _PATIENCE_S)
            writer = opened.__enter__()
        self._writer = None
        writer.write(changes)
        self._writer = writer
