"""Follow one of drctl's own topics with one partition: read each committed record once."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import ClassVar, TypeVar

from drctl.formats.primitives import Undecodable
from drctl.gap.comparison import ScanFailed
from drctl.kafka.connection import Connection, election_deadline
from drctl.kafka.deadline import Deadline
from drctl.kafka.log_reader import KafkaRangeReader, LogSource
from drctl.kafka.offsets import read_offsets
from drctl.kafka.own_topics import LEDGER, Purpose
from drctl.kafka.topics import read_topics
from drctl.model.errors import ConfigError, Unknown, Unreachable
from drctl.model.topology import (
    OffsetRange,
    PartitionOffsets,
    TopicPartition,
    TopicState,
    Unavailable,
)

_PAUSE_S = 0.05

T = TypeVar("T")


class FollowedTopic(ABC):
    """Passes the records to `_take`, in order.

    Uses no consumer group, and never requests the topic by name, which could create it.
    """

    _restarts: ClassVar[bool] = False
    """Whether to read the topic from its start after it was recreated or could not be decoded."""

    def __init__(self, connection: Connection, topic: str, purpose: Purpose) -> None:
        self._connection = connection
        self._purpose = purpose
        self._topic = topic
        self._partition = TopicPartition(topic, 0)
        self._id: str | None = None
        self._position = 0

    @property
    def where(self) -> str:
        """The topic and its cluster."""
        return f"topic {self._topic} of {self._connection.name}"

    @property
    def position(self) -> int:
        """The offset up to which the topic was read."""
        return self._position

    def catch_up(self) -> bool:
        """Read newly committed records; return whether the topic exists.

        Raises:
            ConfigError: this user may not read the topic, or it has wrong settings.
            Unreachable: the cluster did not answer.
            Unknown: the topic was deleted or recreated since it was first read.
        """
        with self._reset_on_failure():
            if not self._exists():
                return False
            self._read_to(self.offsets().last_stable)
            return True

    def settle(self, timeout_s: float) -> bool:
        """Read everything appended until now, waiting for open transactions.

        Returns:
            False if a transaction is still open after the timeout.

        Raises:
            ConfigError, Unreachable, Unknown: as for `catch_up`.
        """
        with self._reset_on_failure():
            if not self._exists():
                raise self._gone()
            deadline = Deadline.after(timeout_s)
            offsets = self.offsets()
            end = offsets.end
            while offsets.last_stable < end:
                if deadline.expired:
                    return False
                self._connection.wait(_PAUSE_S)
                offsets = self.offsets()
            self._read_to(offsets.last_stable)
            return True

    def offsets(self) -> PartitionOffsets:
        """The current offsets of its partition.

        Raises:
            Unreachable: its leader does not answer.
            Unknown: the topic was recreated since it was first read.
        """
        offsets = self._retried(self._ask_offsets, lambda found: isinstance(found, Unavailable))
        if isinstance(offsets, Unavailable):
            raise self._silent(offsets.reason)
        if offsets.end < self._position:
            raise self._gone()
        self._position = max(self._position, offsets.log_start)
        return offsets

    @contextmanager
    def _reset_on_failure(self) -> Iterator[None]:
        """Drop all records after a failure, since a part of a log is useless."""
        try:
            yield
        except Unreachable:
            raise
        except (Unknown, Undecodable):
            if self._restarts:
                self._id, self._position = None, 0
                self._forget()
            raise

    @abstractmethod
    def _forget(self) -> None:
        """Drop all records."""

    @abstractmethod
    def _take(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """Process these keys and values."""

    @abstractmethod
    def _check(self, state: TopicState) -> None:
        """Check the topic's settings.

        Raises:
            ConfigError: they are wrong.
        """

    def _exists(self) -> bool:
        state = self._retried(self._ask_state, lambda found: found is None and self._id is not None)
        if isinstance(state, Unavailable):
            if "authorized" in state.reason:
                raise self._purpose.unreadable(self.where)
            raise self._silent(state.reason)
        if self._id is not None and (state is None or state.topic_id != self._id):
            raise self._gone()
        if state is None:
            return False
        if not state.readable:
            raise self._purpose.unreadable(self.where)
        self._check(state)
        self._id = state.topic_id
        return True

    def _ask_state(self) -> TopicState | Unavailable | None:
        deadline = self._connection.deadline()
        return read_topics(self._connection, [self._topic], deadline)[self._topic]

    def _ask_offsets(self) -> PartitionOffsets | Unavailable:
        deadline = self._connection.deadline()
        return read_offsets(self._connection, [self._partition], deadline)[self._partition]

    def _retried(self, ask: Callable[[], T], doubtful: Callable[[T], bool]) -> T:
        """Retry doubtful answers briefly: not all brokers know a new topic at once."""
        settled = election_deadline(self._connection.deadline())
        found = ask()
        while doubtful(found) and not settled.expired:
            self._connection.wait(_PAUSE_S)
            found = ask()
        return found

    def _read_to(self, end: int) -> None:
        if end <= self._position:
            return
        source = LogSource(self._connection.name, self._connection.properties)
        reader = KafkaRangeReader(source, timeout_s=self._connection.timeout_s)
        ranges = {self._topic: {0: [OffsetRange(self._position, end)]}}
        try:
            for chunk in reader.read(ranges):
                self._take((row[2], row[3]) for row in chunk.rows)
                self._position = chunk.rows[-1][0] + 1
        except ScanFailed as failed:
            raise self._silent(failed.message) from failed
        self._position = max(self._position, end)

    def _silent(self, reason: str) -> Unreachable:
        return Unreachable(
            f"{self._purpose.what} in {self.where} cannot be read: "
            + self._connection.redacted(reason),
            self._purpose.silent,
        )

    def _gone(self) -> Unknown:
        return Unknown(
            f"{self.where} was deleted or recreated while drctl used it", self._purpose.recreated
        )


class CompactedTopic(FollowedTopic):
    """The values of all keys with a prefix, in memory.

    Attributes:
        values: values by key, as of the last `catch_up`.
    """

    def __init__(
        self, connection: Connection, topic: str, prefix: bytes, purpose: Purpose = LEDGER
    ) -> None:
        super().__init__(connection, topic, purpose)
        self._prefix = prefix
        self.values: dict[bytes, bytes] = {}

    def _check(self, state: TopicState) -> None:
        if not state.compacted and "cleanup.policy" in state.config:
            raise ConfigError(
                f"{self.where} has cleanup.policy {state.config['cleanup.policy']}: it would"
                " lose drctl's data",
                "set its cleanup.policy to compact, or delete it and let drctl create it",
            )

    def _forget(self) -> None:
        self.values.clear()

    def _take(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        for key, value in records:
            if key is None or not key.startswith(self._prefix):
                continue
            if value is None:
                self.values.pop(key, None)
            else:
                self.values[key] = value
