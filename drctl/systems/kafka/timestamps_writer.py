"""Writes consumer timestamps from a thread of its own: whoever notes one never waits for Kafka."""

import logging
from collections.abc import Callable
from threading import Condition, Thread
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from drctl.systems.kafka.connection import LOGGER
from drctl.systems.kafka.consumed_times import Place
from drctl.systems.kafka.timestamps_creation import missing_topic
from drctl.systems.kafka.timestamps_settings import TimestampSettings
from drctl.wire.consumer_timestamps import (
    TOPIC,
    ConsumerTimestamp,
    GroupPartition,
    encode_key,
    encode_value,
)

SAYS = logging.getLogger("drctl.consumer")
"""What goes wrong is said here; nothing is raised in the consumer."""

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
# The partition that Java's own producer would choose: a key must have one place only.
_FIXED = {"partitioner": "murmur2_random"}


class TimestampsWriter:
    """Keeps the newest timestamp of each partition until it is written.

    A cluster that does not answer costs one entry a partition, however long that lasts.

    Args:
        group: whose timestamps these are.
    """

    def __init__(self, settings: TimestampSettings, group: str) -> None:
        self._settings = settings
        self._group = group
        self._waiting: dict[Place, int] = {}
        self._changed = Condition()
        self._thread: Thread | None = None
        self._hurry = False
        self._closing = False
        self._failed = ""
        self._said: set[str] = set()

    def note(self, place: Place, timestamp_ms: int) -> None:
        """Write this soon."""
        with self._changed:
            if self._closing:
                return
            self._waiting[place] = timestamp_ms
            if self._thread is None:
                self._thread = Thread(target=self._work, name="drctl-timestamps", daemon=True)
                self._thread.start()
            self._changed.notify()

    def hurry(self) -> None:
        """Write what waits now; does not wait for it."""
        with self._changed:
            self._hurry = True
            self._changed.notify()

    def close(self) -> None:
        """Write what waits, for as long as the settings allow; says what could not be written."""
        self.abandon()
        if self._thread is not None:
            self._thread.join(self._settings.close_timeout_ms / 1000)
            left = len(self._waiting)
            if left or self._thread.is_alive():
                self._say(f"closed before {left or 'some'} timestamps were written")

    def abandon(self) -> None:
        """Note nothing more; what waits is still written, if the process lasts."""
        with self._changed:
            self._closing = True
            self._changed.notify()

    def _work(self) -> None:
        try:
            producer = Producer({**_DEFAULTS, **self._settings.producer, **_FIXED}, logger=LOGGER)
        except (KafkaException, ValueError, TypeError) as error:
            self._say(f"timestamps are not written: {error}; correct timestamps.producer.*")
            self.abandon()
            return
        failures, ready = 0, False
        while self._await_work(failures):
            batch = self._taken()
            ready = ready or self._topic_is_there()
            self._failed = "" if ready else "no topic"
            if ready:
                self._write(producer, batch)
            else:
                self._put_back(batch)
            failures = failures + 1 if self._failed else 0
            if self._failed and self._closing:
                return

    def _await_work(self, failures: int) -> bool:
        """Wait until there is something to write; False where nothing more will come."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing)
            pause = _BACKOFF_S[min(failures, len(_BACKOFF_S)) - 1] if failures else _LINGER_S
            # Haste helps against the pause for more, not against one that a failure made.
            self._changed.wait_for(lambda: self._closing or (self._hurry and not failures), pause)
            self._hurry = False
            return bool(self._waiting)

    def _taken(self) -> dict[Place, int]:
        with self._changed:
            batch, self._waiting = self._waiting, {}
            return batch

    def _put_back(self, batch: dict[Place, int]) -> None:
        """Unless something newer came meanwhile."""
        with self._changed:
            self._waiting = {**batch, **self._waiting}

    def _topic_is_there(self) -> bool:
        missing = missing_topic(self._settings)
        if missing:
            self._say(f"{missing}; no timestamp is written until it is there")
        return not missing

    def _write(self, producer: Producer, batch: dict[Place, int]) -> None:
        for place, timestamp_ms in batch.items():
            while True:
                try:
                    producer.produce(TOPIC, **self._record(place, timestamp_ms, batch))
                except BufferError:
                    producer.poll(_LINGER_S)
                except KafkaException as error:
                    self._lost({place: timestamp_ms}, error.args[0])
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
            "on_delivery": self._told({place: timestamp_ms}),
        }

    def _told(self, entry: dict[Place, int]) -> Callable[[KafkaError | None, object], None]:
        def told(error: KafkaError | None, _message: object) -> None:
            if error is not None:
                self._lost(entry, error)

        return told

    def _lost(self, entry: dict[Place, int], error: KafkaError) -> None:
        self._failed = error.str()
        self._put_back(entry)
        self._say(
            f"timestamps could not be written to {TOPIC}, they are tried again: {error.str()}"
        )

    def _say(self, message: str) -> None:
        """Each thing once: a log is no place for every failure of a long night."""
        if message not in self._said:
            self._said.add(message)
            SAYS.warning("consumer timestamps of group %s: %s", self._group, message)
