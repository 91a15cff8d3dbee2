"""The records of one link as they are appended, whether or not their transaction is decided."""

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaError

from drctl.model.errors import ConfigError, Unknown
from drctl.model.topology import TopicPartition
from drctl.systems.kafka.connection import Connection
from drctl.systems.kafka.journal_log import LinkLog
from drctl.systems.kafka.own_topics import JOURNAL
from drctl.systems.kafka.scan_consumer import ScanConsumer
from drctl.wire.journal_records import JournalRecord

_CONNECT_S = 1.0


class _Undecided(ScanConsumer):
    """Does not wait for transactions: one that a dead process left open lasts half a minute."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        super().__init__(properties)
        self._properties["isolation.level"] = "read_uncommitted"


class Signs:
    """Reads on from an offset; a context manager.

    Attributes:
        position: the offset up to which everything was handed out.
    """

    def __init__(self, connection: Connection, topic: str, log: LinkLog, position: int) -> None:
        self._consumer = _Undecided(connection.properties)
        self._partition = TopicPartition(topic, 0)
        self._where = f"topic {topic} of {connection.name}"
        self._log = log
        self.position = position

    def __enter__(self) -> Self:
        self._consumer.__enter__()
        self._consumer.connect(_CONNECT_S)
        self._consumer.start(self._partition, self.position)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._consumer.__exit__(exc_type, exc, traceback)

    def poll(self, timeout_s: float) -> list[JournalRecord]:
        """What has come; waits for something where nothing has.

        Raises:
            ConfigError: the topic may not be read any more.
            AnotherVersion: a record is of a newer drctl.
            Unknown: records were deleted before they were read.
        """
        found = []
        for _, error, rows in self._consumer.poll_rows(timeout_s):
            if error:
                self._ended(error, rows[0][0])
                continue
            self.position = rows[-1][0] + 1
            records = (self._log.decoded(row[2], row[3]) for row in rows)
            found += [record for record in records if record is not None]
        return found

    def _ended(self, error: int, offset: int) -> None:
        if error == KafkaError._PARTITION_EOF:
            # The last offsets may hold no record but the end of a transaction.
            self.position = max(self.position, offset)
        elif error == KafkaError._AUTO_OFFSET_RESET:
            raise Unknown(f"{self._where} was made anew while drctl used it", JOURNAL.anew)
        elif error == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise ConfigError(
                f"{self._where} may not be read by this user",
                f"grant READ and DESCRIBE_CONFIGS on it ({JOURNAL.page})",
            )
