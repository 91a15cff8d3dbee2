"""A consumer that notes, with each commit, when the last consumed record was made."""

import weakref
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, Message, TopicPartition

from drctl.systems.kafka.consumed_times import ConsumedTimes
from drctl.systems.kafka.timestamps_settings import split
from drctl.systems.kafka.timestamps_writer import SAYS, TimestampsWriter

Rebalanced = Callable[[Consumer, list[TopicPartition]], None]
Committed = Callable[[KafkaError | None, list[TopicPartition]], None]


class TimestampsConsumer(Consumer):
    """A confluent-kafka `Consumer` that writes `__consumer_timestamps` as Replicator's interceptor.

    With each commit that a broker took, of every kind, it writes for each partition the timestamp
    of the last consumed record before the committed offset: from a thread of its own, in which a
    cluster that does not answer changes nothing for the consumer. What goes wrong is logged to
    `drctl.consumer`. Offsets that a producer commits in a transaction are not seen.

    Args:
        config: of the consumer, with `timestamps.*` settings (docs/consumer.md).

    Raises:
        ValueError: there is no such `timestamps.*` setting, or it cannot have this value.
        KafkaException: librdkafka does not take the configuration.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, /, **options: Any) -> None:
        settings, consumer = split({**(config or {}), **options})
        writer = TimestampsWriter(settings, str(consumer.get("group.id", "")))
        consumed = ConsumedTimes(settings.per_partition)
        self._consumed, self._timestamps = consumed, writer
        self._noted = _noting(consumed, writer)
        # Nothing that librdkafka keeps refers to this object: it could not be collected.
        consumer["on_commit"] = _both(self._noted, consumer.get("on_commit"))
        super().__init__(consumer)
        self._abandon = weakref.finalize(self, writer.abandon)

    def subscribe(
        self,
        topics: list[str],
        on_assign: Rebalanced | None = None,
        on_revoke: Rebalanced | None = None,
        on_lost: Rebalanced | None = None,
    ) -> None:
        """As of `Consumer`; what is noted of revoked partitions is written at once."""
        consumed, writer = self._consumed, self._timestamps

        def assigned(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            for partition in partitions:
                consumed.forget((partition.topic, partition.partition))
            if on_assign is not None:
                on_assign(consumer, partitions)

        def revoked(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            if on_revoke is not None:
                on_revoke(consumer, partitions)
            writer.hurry()

        lost = {} if on_lost is None else {"on_lost": on_lost}
        super().subscribe(topics, on_assign=assigned, on_revoke=revoked, **lost)

    def poll(self, timeout: float = -1) -> Message | None:
        """As of `Consumer`."""
        message = super().poll(timeout)
        if message is not None:
            self._note((message,))
        return message

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """As of `Consumer`."""
        messages = super().consume(num_messages, timeout)
        self._note(messages)
        return messages

    def commit(self, *arguments: Any, **options: Any) -> Any:
        """As of `Consumer`."""
        done: list[TopicPartition] | None = super().commit(*arguments, **options)
        if done:  # it waited; of the others librdkafka tells when they are done
            self._noted(None, done)
        return done

    def consumer_group_metadata(self) -> Any:
        """As of `Consumer`."""
        SAYS.warning("offsets that are committed in transactions leave no consumer timestamps")
        return super().consumer_group_metadata()

    def close(self) -> None:
        """As of `Consumer`; then waits, but not for ever, for what is still to be written."""
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


def _noting(consumed: ConsumedTimes, writer: TimestampsWriter) -> Committed:
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
