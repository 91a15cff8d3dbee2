"""Producing rows to a cluster as an application would, and knowing which were acknowledged."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from drctl.lab.cluster import LOGGER
from drctl.lab.flights import Row

FLUSH_S = 15
_SETTINGS: dict[str, str | int | float | bool] = {
    "enable.idempotence": True,
    "acks": "all",
    "partitioner": "murmur2_random",  # as Java clients do
    "linger.ms": 5,
    "message.timeout.ms": 30_000,
    "reconnect.backoff.max.ms": 500,
    "queue.buffering.max.messages": 50_000,
}


@dataclass(frozen=True, slots=True)
class Ack:
    """A row that the cluster has."""

    row: int
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Failure:
    """A row of which nobody knows that the cluster has it."""

    row: int
    topic: str
    reason: str


@dataclass(slots=True)
class LoadCount:
    """What became of the rows so far; handed to the observer while the load runs.

    Attributes:
        next_row: the first row that was not tried.
    """

    acknowledged: int = 0
    failed: int = 0
    next_row: int = 0
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Since the load began."""
        return time.monotonic() - self.began


def never() -> bool:
    """Do not stop before the rows end."""
    return False


def load(
    properties: Mapping[str, str],
    topic: str,
    rows: Iterable[Row],
    on_ack: Callable[[Ack], object],
    on_failure: Callable[[Failure], object],
    rate: float = 0,
    stop: Callable[[], bool] = never,
) -> LoadCount:
    """Produce the rows in order; a dead broker makes failures, not an end.

    Args:
        properties: of a librdkafka client.
        rate: records a second; 0 is as fast as the cluster takes them.
        stop: asked before each row.

    Raises:
        KafkaException: the producer cannot go on at all.
    """
    return _Load(properties, topic, on_ack, on_failure).run(rows, rate, stop)


class _Load:
    def __init__(
        self,
        properties: Mapping[str, str],
        topic: str,
        on_ack: Callable[[Ack], object],
        on_failure: Callable[[Failure], object],
    ) -> None:
        self._producer = Producer({**_SETTINGS, **properties}, logger=LOGGER)
        self._topic = topic
        self._on_ack = on_ack
        self._on_failure = on_failure
        self._count = LoadCount()

    def run(self, rows: Iterable[Row], rate: float, stop: Callable[[], bool]) -> LoadCount:
        count = self._count
        for sent, row in enumerate(rows):
            self._pace(count.began + sent / rate if rate else 0.0, stop)
            if stop():
                break
            self._send(row)
            count.next_row = row.number + 1
        self._producer.flush(FLUSH_S)
        self._producer.purge()
        self._producer.flush(FLUSH_S)
        return count

    def _pace(self, due: float, stop: Callable[[], bool]) -> None:
        self._producer.poll(0)
        while (left := due - time.monotonic()) > 0 and not stop():
            self._producer.poll(min(left, 0.1))

    def _send(self, row: Row) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    key=row.key,
                    value=row.value,
                    timestamp=row.timestamp_ms,
                    on_delivery=partial(self._delivered, row.number),
                )
            except BufferError:
                self._producer.poll(0.1)
            except KafkaException as error:
                if error.args[0].fatal():
                    raise
                self._fail(row.number, error.args[0])
                return
            else:
                return

    def _delivered(self, row: int, error: KafkaError | None, message: Message) -> None:
        offset, partition = message.offset(), message.partition()
        if error is not None or offset is None or partition is None:
            self._fail(row, error)
            return
        self._count.acknowledged += 1
        self._on_ack(Ack(row, self._topic, partition, offset))

    def _fail(self, row: int, error: KafkaError | None) -> None:
        self._count.failed += 1
        self._on_failure(Failure(row, self._topic, error.str() if error else "no offset"))
