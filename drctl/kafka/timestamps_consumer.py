"""A consumer that writes the timestamp of the last consumed record with each commit."""

import logging
import weakref
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from threading import Condition, Lock, Thread
from types import TracebackType
from typing import Any

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined, unused-ignore]

from drctl.formats.consumer_timestamps import (
    TOPIC,
    ConsumerTimestamp,
    GroupPartition,
    encode_key,
    encode_value,
)
from drctl.kafka.connection import LOGGER

_PREFIX = "timestamps."
_PRODUCER = "timestamps.producer."
NUMBERS = {
    "timestamps.topic.num.partitions": "partitions",
    "timestamps.topic.replication.factor": "replicas",
    "timestamps.topic.max.per.partition": "per_partition",
    "timestamps.value.bytes": "value_bytes",
    "timestamps.close.timeout.ms": "close_timeout_ms",
}
_VALUE_BYTES = (8, 16)

# Connection settings, which the consumer and the producer share.
_SHARED = (
    *("bootstrap.servers", "metadata.broker.list", "client.id", "client.dns.lookup", "oauth_cb"),
    *("security.", "sasl.", "ssl.", "enable.ssl.", "enable.sasl.", "https.", "socket."),
    *("broker.address.", "reconnect.", "api.version.", "metadata.recovery.", "connections."),
)


@dataclass(frozen=True, slots=True)
class TimestampSettings:
    """How to remember and write timestamps.

    Attributes:
        producer: settings of the producer; by default it writes to the consumer's cluster.
        partitions: their number in the topic if drctl creates the topic.
        replicas: the replication factor of the topic if drctl creates the topic.
        per_partition: how many consumed records of a partition to remember until the commit.
        value_bytes: 16, or 8 for Replicator before 5.4.
        close_timeout_ms: how long `close` may wait for the last timestamps to be written.
    """

    producer: Mapping[str, Any] = field(repr=False)
    partitions: int = 50
    replicas: int = 3
    per_partition: int = 10_000
    value_bytes: int = 16
    close_timeout_ms: int = 5_000


def split(config: Mapping[str, Any]) -> tuple[TimestampSettings, dict[str, Any]]:
    """Split a configuration into timestamp settings and the consumer's own configuration.

    Raises:
        ValueError: a timestamp setting is unknown or has an invalid value.
    """
    consumer = {name: value for name, value in config.items() if not name.startswith(_PREFIX)}
    producer = {name: value for name, value in consumer.items() if name.startswith(_SHARED)}
    numbers: dict[str, int] = {}
    for name, value in config.items():
        if name.startswith(_PRODUCER):
            producer[name.removeprefix(_PRODUCER)] = value
        elif name.startswith(_PREFIX):
            numbers[_field(name)] = _number(name, value)
    if numbers.get("value_bytes", _VALUE_BYTES[0]) not in _VALUE_BYTES:
        raise ValueError("timestamps.value.bytes must be 8 or 16")
    return TimestampSettings(producer, **numbers), consumer


def _field(name: str) -> str:
    if name not in NUMBERS:
        near = get_close_matches(name, NUMBERS, n=1)
        raise ValueError(f"unknown setting {name}" + (f": {near[0]}?" if near else ""))
    return NUMBERS[name]


def _number(name: str, value: object) -> int:
    text = str(value)
    if isinstance(value, bool) or not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{name} must be a number of at least 1, not {value!r}")
    return int(text)


_TIMEOUT_S = 10.0
_SILENT = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
    }
)
_HINT = (
    "create it with cleanup.policy=compact, or grant CREATE and DESCRIBE on it, or lower"
    " timestamps.topic.replication.factor"
)

# An AdminClient rejects properties that only producers have.
_PRODUCER_ONLY = frozenset(
    {
        *("acks", "request.required.acks", "compression.type", "compression.codec", "linger.ms"),
        *("compression.level", "batch.size", "batch.num.messages", "partitioner"),
        *("enable.idempotence", "retries", "message.send.max.retries", "message.timeout.ms"),
        *("delivery.timeout.ms", "queue.buffering.max.ms", "queue.buffering.max.messages"),
        *("queue.buffering.max.kbytes", "request.timeout.ms", "max.in.flight"),
        *("max.in.flight.requests.per.connection", "sticky.partitioning.linger.ms"),
        "transactional.id",
    }
)


def missing_topic(settings: TimestampSettings) -> str:
    """Create the topic if necessary; return why it is missing, or an empty string.

    Never requests the topic by name, since that could create it with default settings.
    """
    try:
        _ensure(settings)
    except KafkaException as failed:
        error = failed.args[0]
        text = error.str() if isinstance(error, KafkaError) else str(error)
        if isinstance(error, KafkaError) and error.code() in _SILENT:
            return f"cannot tell whether topic {TOPIC} exists: {text}"
        return f"topic {TOPIC} does not exist and could not be created: {text}; {_HINT}"
    return ""


def _ensure(settings: TimestampSettings) -> None:
    properties = {k: v for k, v in settings.producer.items() if k not in _PRODUCER_ONLY}
    admin = AdminClient(properties, logger=LOGGER)
    if TOPIC in admin.list_topics(timeout=_TIMEOUT_S).topics:
        return
    new = NewTopic(
        TOPIC,
        settings.partitions,
        replication_factor=settings.replicas,
        config={"cleanup.policy": "compact"},
    )
    try:
        admin.create_topics([new], operation_timeout=_TIMEOUT_S)[TOPIC].result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


Place = tuple[str, int]
"""Topic and partition."""


class ConsumedTimes:
    """Remembers offset and timestamp of the last consumed records of each partition.

    Above the limit, every other record is forgotten. An older record then represents each forgotten
    one, so a failover may re-read more records, but skips none.

    Args:
        limit: how many records per partition to remember.
    """

    def __init__(self, limit: int) -> None:
        self._limit = max(2, limit)
        self._windows: dict[Place, tuple[array[int], array[int]]] = {}
        self._lock = Lock()

    def note(self, place: Place, offset: int, timestamp_ms: int) -> None:
        """Remember a consumed record."""
        with self._lock:
            window = self._windows.get(place)
            if window is None:
                window = self._windows[place] = (array("q"), array("q"))
            offsets, times = window
            if offsets and offset <= offsets[-1]:
                del offsets[:], times[:]  # a seek to an earlier offset
            offsets.append(offset)
            times.append(timestamp_ms)
            if len(offsets) > self._limit:
                del offsets[1:-1:2], times[1:-1:2]

    def before(self, place: Place, committed: int) -> int | None:
        """The timestamp of the last consumed record before this offset; None if unknown.

        Forgets the records before that one.
        """
        with self._lock:
            offsets, times = self._windows.get(place, (array("q"), array("q")))
            last = bisect_left(offsets, committed) - 1
            if last < 0:
                return None
            found = times[last]
            del offsets[:last], times[:last]
            return found

    def forget(self, place: Place) -> None:
        """Forget a partition that was assigned again: others may have read it meanwhile."""
        with self._lock:
            self._windows.pop(place, None)


CONSUMER_LOG = logging.getLogger("drctl.consumer")
"""Problems are logged here; no exception is raised in the consumer."""

_LINGER_S = 0.5
_BACKOFF_S = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
_DELTA_BYTES = 8
_DEFAULTS = {
    "acks": "all",
    "compression.type": "lz4",
    "linger.ms": "10",
    "max.in.flight.requests.per.connection": "1",
    "message.timeout.ms": "30000",
}
# The same partitioner as Java's producer: a key must always be in the same partition.
_FIXED = {"partitioner": "murmur2_random"}


class TimestampsWriter:
    """Keeps the newest timestamp of each partition until it is written.

    While the cluster does not answer, it keeps only one timestamp per partition.

    Args:
        group: the consumer group of the timestamps.
    """

    def __init__(self, settings: TimestampSettings, group: str) -> None:
        self._settings = settings
        self._group = group
        self._waiting: dict[Place, int] = {}
        self._changed = Condition()
        self._thread: Thread | None = None
        self._flushing = False
        self._closing = False
        self._failed = ""
        self._logged: set[str] = set()

    def note(self, place: Place, timestamp_ms: int) -> None:
        """Queue a timestamp."""
        with self._changed:
            if self._closing:
                return
            self._waiting[place] = timestamp_ms
            if self._thread is None:
                self._thread = Thread(target=self._work, name="drctl-timestamps", daemon=True)
                self._thread.start()
            self._changed.notify()

    def flush(self) -> None:
        """Write queued timestamps now; returns at once."""
        with self._changed:
            self._flushing = True
            self._changed.notify()

    def close(self) -> None:
        """Wait, up to the configured timeout, until queued timestamps are written."""
        self.abandon()
        if self._thread is not None:
            self._thread.join(self._settings.close_timeout_ms / 1000)
            left = len(self._waiting)
            if left or self._thread.is_alive():
                self._warn(f"closed before {left or 'some'} timestamps were written")

    def abandon(self) -> None:
        """Accept no more timestamps; queued ones are still written if the process continues."""
        with self._changed:
            self._closing = True
            self._changed.notify()

    def _work(self) -> None:
        try:
            producer = Producer({**_DEFAULTS, **self._settings.producer, **_FIXED}, logger=LOGGER)
        except (KafkaException, ValueError, TypeError) as error:
            self._warn(f"timestamps are not written: {error}; correct timestamps.producer.*")
            self.abandon()
            return
        failures, ready = 0, False
        while self._await_work(failures):
            batch = self._take()
            ready = ready or self._topic_exists()
            self._failed = "" if ready else "no topic"
            if ready:
                self._write(producer, batch)
            else:
                self._requeue(batch)
            failures = failures + 1 if self._failed else 0
            if self._failed and self._closing:
                return

    def _await_work(self, failures: int) -> bool:
        """Wait until there is something to write; return False once closed and done."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing)
            pause = _BACKOFF_S[min(failures, len(_BACKOFF_S)) - 1] if failures else _LINGER_S
            # A flush shortens the linger time, not the backoff after a failure.
            self._changed.wait_for(
                lambda: self._closing or (self._flushing and not failures), pause
            )
            self._flushing = False
            return bool(self._waiting)

    def _take(self) -> dict[Place, int]:
        with self._changed:
            batch, self._waiting = self._waiting, {}
            return batch

    def _requeue(self, batch: dict[Place, int]) -> None:
        """Queue timestamps again, unless there are newer ones."""
        with self._changed:
            self._waiting = {**batch, **self._waiting}

    def _topic_exists(self) -> bool:
        missing = missing_topic(self._settings)
        if missing:
            self._warn(f"{missing}; timestamps are written once the topic exists")
        return not missing

    def _write(self, producer: Producer, batch: dict[Place, int]) -> None:
        for place, timestamp_ms in batch.items():
            while True:
                try:
                    producer.produce(TOPIC, **self._record(place, timestamp_ms, batch))
                except BufferError:
                    producer.poll(_LINGER_S)
                except KafkaException as error:
                    self._fail({place: timestamp_ms}, error.args[0])
                    break
                else:
                    break
        producer.flush()

    def _record(self, place: Place, timestamp_ms: int, batch: dict[Place, int]) -> dict[str, Any]:
        value = ConsumerTimestamp(timestamp_ms)
        if self._settings.value_bytes > _DELTA_BYTES:
            value = ConsumerTimestamp(timestamp_ms, 0, _DELTA_BYTES)
        return {
            "key": encode_key(GroupPartition(self._group, *place)),
            "value": encode_value(value),
            "on_delivery": self._delivery_report({place: timestamp_ms}),
        }

    def _delivery_report(
        self, entry: dict[Place, int]
    ) -> Callable[[KafkaError | None, object], None]:
        def report(error: KafkaError | None, _message: object) -> None:
            if error is not None:
                self._fail(entry, error)

        return report

    def _fail(self, entry: dict[Place, int], error: KafkaError) -> None:
        self._failed = error.str()
        self._requeue(entry)
        self._warn(f"could not write timestamps to {TOPIC}, retrying: {error.str()}")

    def _warn(self, message: str) -> None:
        """Log each message once, however often the failure repeats."""
        if message not in self._logged:
            self._logged.add(message)
            CONSUMER_LOG.warning("consumer timestamps of group %s: %s", self._group, message)


Rebalanced = Callable[[Consumer, list[TopicPartition]], None]
Committed = Callable[[KafkaError | None, list[TopicPartition]], None]


class TimestampsConsumer(Consumer):
    """A `Consumer` of confluent-kafka that writes `__consumer_timestamps`, like Replicator.

    After each successful commit, it writes for each partition the timestamp of the last consumed
    record before the committed offset. It writes in its own thread, so an unreachable cluster does
    not affect the consumer. Problems are logged to `drctl.consumer`. Offsets committed by a
    producer, in a transaction, are not covered.

    Args:
        config: of the consumer, with `timestamps.*` settings (docs/howto/python-consumer.md).

    Raises:
        ValueError: a `timestamps.*` setting is unknown or has an invalid value.
        KafkaException: librdkafka rejects the configuration.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, /, **options: Any) -> None:
        settings, consumer = split({**(config or {}), **options})
        writer = TimestampsWriter(settings, str(consumer.get("group.id", "")))
        consumed = ConsumedTimes(settings.per_partition)
        self._consumed, self._timestamps = consumed, writer
        self._on_commit = _on_commit(consumed, writer)
        # librdkafka must hold no reference to this object, or it would never be collected.
        consumer["on_commit"] = _both(self._on_commit, consumer.get("on_commit"))
        super().__init__(consumer)
        self._abandon = weakref.finalize(self, writer.abandon)

    def subscribe(
        self,
        topics: list[str],
        on_assign: Rebalanced | None = None,
        on_revoke: Rebalanced | None = None,
        on_lost: Rebalanced | None = None,
    ) -> None:
        """Like `Consumer.subscribe`; writes the timestamps of revoked partitions at once."""
        consumed, writer = self._consumed, self._timestamps

        def assigned(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            for partition in partitions:
                consumed.forget((partition.topic, partition.partition))
            if on_assign is not None:
                on_assign(consumer, partitions)

        def revoked(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            if on_revoke is not None:
                on_revoke(consumer, partitions)
            writer.flush()

        lost = {} if on_lost is None else {"on_lost": on_lost}
        super().subscribe(topics, on_assign=assigned, on_revoke=revoked, **lost)

    def poll(self, timeout: float = -1) -> Message | None:
        """Like `Consumer.poll`."""
        message = super().poll(timeout)
        if message is not None:
            self._note((message,))
        return message

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """Like `Consumer.consume`."""
        messages = super().consume(num_messages, timeout)
        self._note(messages)
        return messages

    def commit(self, *arguments: Any, **options: Any) -> Any:
        """Like `Consumer.commit`."""
        done: list[TopicPartition] | None = super().commit(*arguments, **options)
        if done:  # synchronous; librdkafka reports asynchronous commits by callback
            self._on_commit(None, done)
        return done

    def consumer_group_metadata(self) -> Any:
        """Like `Consumer.consumer_group_metadata`."""
        CONSUMER_LOG.warning("offsets committed in transactions produce no consumer timestamps")
        return super().consumer_group_metadata()

    def close(self) -> None:
        """Like `Consumer.close`; then waits briefly for timestamps still to be written."""
        try:
            super().close()
        finally:
            self._timestamps.close()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _note(self, messages: Iterable[Message]) -> None:
        note = self._consumed.note
        for message in messages:
            if message.error() is None:
                kind, time = message.timestamp()
                if kind != TIMESTAMP_NOT_AVAILABLE:
                    place = message.topic(), message.partition()
                    note(place, message.offset(), time)  # type: ignore[arg-type]


def _on_commit(consumed: ConsumedTimes, writer: TimestampsWriter) -> Committed:
    def committed(error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        if error is not None:
            return
        for partition in partitions:
            if partition.error is None and partition.offset >= 0:
                place = partition.topic, partition.partition
                time = consumed.before(place, partition.offset)
                if time is not None:
                    writer.note(place, time)

    return committed


def _both(first: Committed, second: Committed | None) -> Committed:
    if second is None:
        return first

    def both(error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        first(error, partitions)
        second(error, partitions)

    return both
