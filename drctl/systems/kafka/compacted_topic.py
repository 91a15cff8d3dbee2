"""What a compacted topic of one partition holds: the newest committed value of each key."""

from collections.abc import Iterable

from drctl.gap.comparison import Side
from drctl.gap.failures import ScanFailed
from drctl.model.errors import ConfigError, Unknown, Unreachable
from drctl.model.topology import OffsetRange, PartitionOffsets, TopicPartition, Unavailable
from drctl.systems.kafka.connection import Connection
from drctl.systems.kafka.deadline import Deadline
from drctl.systems.kafka.log_reader import KafkaLogReader, LogSource
from drctl.systems.kafka.offsets import read_offsets
from drctl.systems.kafka.own_topics import LEDGER, Purpose
from drctl.systems.kafka.topics import read_topics

_PAUSE_S = 0.05


class CompactedTopic:
    """The records whose keys begin with `prefix`, kept in memory; each is read once.

    Reads by a consumer that belongs to no group, and never asks for the topic by its name.

    Attributes:
        values: as of the last `catch_up`.
    """

    def __init__(
        self, connection: Connection, topic: str, prefix: bytes, purpose: Purpose = LEDGER
    ) -> None:
        self._connection = connection
        self._purpose = purpose
        self._topic = topic
        self._prefix = prefix
        self._partition = TopicPartition(topic, 0)
        self._id: str | None = None
        self._position = 0
        self.values: dict[bytes, bytes] = {}

    def catch_up(self) -> bool:
        """Read what was committed since; whether the topic exists at all.

        Raises:
            ConfigError: it may not be read, or would forget what is kept in it.
            Unreachable: the cluster did not answer.
            Unknown: it was deleted, or made anew, since it was first read.
        """
        if not self._exists():
            return False
        self._read_to(self._offsets().last_stable)
        return True

    def settle(self, patience_s: float) -> bool:
        """Catch up with everything that was appended until now.

        False: somebody's transaction is still open after all that time.

        Raises:
            ConfigError, Unreachable, Unknown: as above.
        """
        if not self._exists():
            raise self._gone()
        deadline = Deadline.after(patience_s)
        offsets = self._offsets()
        wanted = offsets.end
        while offsets.last_stable < wanted:
            if deadline.expired:
                return False
            self._connection.wait(_PAUSE_S)
            offsets = self._offsets()
        self._read_to(offsets.last_stable)
        return True

    def _exists(self) -> bool:
        deadline = self._connection.deadline()
        state = read_topics(self._connection, [self._topic], deadline)[self._topic]
        if isinstance(state, Unavailable):
            raise self._forbidden() if "authorized" in state.reason else self._silent(state.reason)
        if self._id is not None and (state is None or state.topic_id != self._id):
            raise self._gone()
        if state is None:
            return False
        if not state.readable:
            raise self._forbidden()
        if "compact" not in state.config.get("cleanup.policy", "compact"):
            raise ConfigError(
                f"{self._where} has cleanup.policy {state.config['cleanup.policy']}: it would"
                " forget what is kept in it",
                "set its cleanup.policy to compact, or delete it and let drctl make it",
            )
        self._id = state.topic_id
        return True

    def _offsets(self) -> PartitionOffsets:
        deadline = self._connection.deadline()
        offsets = read_offsets(self._connection, [self._partition], deadline)[self._partition]
        if isinstance(offsets, Unavailable):
            raise self._silent(offsets.reason)
        if offsets.end < self._position:
            raise self._gone()
        self._position = max(self._position, offsets.log_start)
        return offsets

    def _read_to(self, end: int) -> None:
        if end <= self._position:
            return
        source = LogSource(self._connection.name, self._connection.properties)
        reader = KafkaLogReader({Side.TARGET: source}, patience_s=self._connection.timeout_s)
        ranges = {self._topic: {0: [OffsetRange(self._position, end)]}}
        try:
            for chunk in reader.read(Side.TARGET, ranges):
                self._take((row[2], row[3]) for row in chunk.rows)
        except ScanFailed as failed:
            raise self._silent(failed.message) from failed
        self._position = max(self._position, end)

    def _take(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        for key, value in records:
            if key is None or not key.startswith(self._prefix):
                continue
            if value is None:
                self.values.pop(key, None)
            else:
                self.values[key] = value

    @property
    def _where(self) -> str:
        return f"topic {self._topic} of {self._connection.name}"

    def _forbidden(self) -> ConfigError:
        return ConfigError(
            f"{self._where} may not be read by this user",
            f"grant READ and DESCRIBE_CONFIGS on it ({self._purpose.page})",
        )

    def _silent(self, reason: str) -> Unreachable:
        return Unreachable(
            f"{self._purpose.what} in {self._where} cannot be read: "
            + self._connection.redacted(reason),
            self._purpose.silent,
        )

    def _gone(self) -> Unknown:
        return Unknown(
            f"{self._where} was deleted, or made anew, while drctl used it",
            self._purpose.anew,
        )
