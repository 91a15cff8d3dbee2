"""Writing to a topic of drctl's own: a record counts when all in-sync replicas have it."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException, Producer

from drctl.model.errors import ConfigError, DrctlError, Unknown, Unreachable
from drctl.systems.kafka.connection import LOGGER, NO_TOPIC, Connection, client_properties
from drctl.systems.kafka.deadline import Deadline
from drctl.systems.kafka.own_topics import Purpose

_POLL_S = 0.1
_PARTITION = 0
_CONNECTING_S = 1.0
_SILENT = frozenset({KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._MSG_TIMED_OUT})
_MISSING = frozenset(
    {KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART}
)
_FORBIDDEN = frozenset(
    {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}
)
_PURGED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})

Change = tuple[bytes, bytes | None]
"""A key and its new value; None deletes it."""


class TopicWriter:
    """Writes to the one partition of a topic, idempotently; a context manager.

    Args:
        patience_s: how long the cluster may take to acknowledge.

    Raises:
        ConfigError: librdkafka does not take the properties.
    """

    def __init__(
        self, connection: Connection, topic: str, purpose: Purpose, patience_s: float
    ) -> None:
        self._connection = connection
        self._topic = topic
        self._purpose = purpose
        self._patience_s = patience_s
        self._errors: list[KafkaError] = []
        self._failed: list[KafkaError] = []

    def __enter__(self) -> Self:
        self._producer = self._open()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        del self._producer

    def write(self, changes: Iterable[Change]) -> None:
        """All of it, in this order.

        Raises:
            ConfigError: this user may not write.
            Unreachable: the cluster did not answer; some of it may be written.
            Unknown: it failed otherwise; likewise.
        """
        self._errors.clear()
        self._failed.clear()
        try:
            for key, value in changes:
                self._produce(key, value)
            self._flush()
        except KafkaException as failed:
            raise self._ended(failed.args[0]) from failed
        if self._failed:
            raise self._ended(self._failed[0])

    @property
    def _where(self) -> str:
        return f"topic {self._topic} of {self._connection.name}"

    def _settings(self) -> dict[str, Any]:
        return {"enable.idempotence": True, "acks": "all", "compression.type": "lz4"}

    def _open(self) -> Producer:
        settings: dict[str, Any] = {
            **client_properties(self._connection.properties),
            **self._settings(),
            "delivery.timeout.ms": int(self._patience_s * 1000),
            "error_cb": self._errors.append,
        }
        try:
            producer = Producer(settings, logger=LOGGER)
        except (KafkaException, ValueError, TypeError) as error:
            name = self._connection.name
            raise ConfigError(
                f"cluster {name}: {self._connection.redacted(str(error))}",
                f"Correct clusters.{name}.properties: librdkafka's names and values go there.",
            ) from None
        # One that asks for its producer id before it is connected asks again after half a second.
        with suppress(KafkaException):
            self._call(producer.list_topics, NO_TOPIC, _CONNECTING_S)
        return producer

    def _produce(self, key: bytes, value: bytes | None) -> None:
        deadline = Deadline.after(self._patience_s)
        while True:
            try:
                self._producer.produce(
                    self._topic, key=key, value=value, partition=_PARTITION, on_delivery=self._told
                )
            except BufferError:
                if deadline.expired:
                    raise self._ended(KafkaError(KafkaError._TIMED_OUT)) from None
                self._call(self._producer.poll, _POLL_S)
            else:
                self._call(self._producer.poll, 0)
                return

    def _flush(self) -> None:
        if self._call(self._producer.flush, self._patience_s):
            raise self._ended(KafkaError(KafkaError._TIMED_OUT))

    def _told(self, error: KafkaError | None, _message: object) -> None:
        if error is not None:
            self._errors.append(error)
            self._failed.append(error)

    def _call(self, function: Callable[..., Any], *arguments: object) -> Any:
        """Call what may call back; raises KafkaException, and nothing else, where that is due.

        On a fatal error confluent-kafka goes on to call back with the exception already set. Python
        then loses it, or takes it for a bug of the callback.
        """
        try:
            return function(*arguments)
        except SystemError as mixed:
            self._errors += _lost_in(mixed)
            if not self._errors:
                raise
            raise KafkaException(self._errors[-1]) from None

    def _ended(self, last: KafkaError) -> DrctlError:
        """The likeliest reason: the last error is often but a consequence."""
        if last.code() in _PURGED:
            # What librdkafka gave up for may be told only now.
            with suppress(KafkaException):
                self._call(self._producer.poll, _POLL_S)
        errors = [*self._errors, last]
        codes = {error.code() for error in errors}
        if codes & _FORBIDDEN:
            return ConfigError(
                f"{self._where} may not be written by this user",
                f"grant READ, WRITE and DESCRIBE_CONFIGS on it ({self._purpose.page})",
            )
        if codes & _MISSING:
            return Unknown(f"{self._where} was deleted while drctl wrote to it", "run it again")
        reason = self._connection.redacted(errors[0].str())
        if codes & _SILENT:
            return Unreachable(
                f"no answer in time while writing to {self._where}: {reason}",
                "see that its brokers run, and run it again: it looks at what was kept first",
            )
        return Unknown(f"{self._where} could not be written: {reason}", "run it again")


def _lost_in(error: BaseException) -> list[KafkaError]:
    """What Kafka said before Python lost it."""
    found, seen = list[KafkaError](), error.__cause__ or error.__context__
    while seen is not None:
        if isinstance(seen, KafkaException) and isinstance(seen.args[0], KafkaError):
            found.append(seen.args[0])
        seen = seen.__cause__ or seen.__context__
    return found
