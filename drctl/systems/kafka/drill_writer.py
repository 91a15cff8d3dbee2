"""A drill's application that writes: a plain producer, and a log of what was acknowledged."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from drctl.drill.logs import Written, identity
from drctl.model.errors import ConfigError, Unreachable
from drctl.systems.kafka.connection import LOGGER, client_properties

_KEYS = 17
_DELIVERY_S = 30.0
_END_S = 10.0
_REFUSAL_S = 1.0
_FORBIDDEN = frozenset(
    {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}
)


class DrillWriter:
    """Implements `drctl.drill.ports.Writer`.

    Args:
        side: with which the ids of its records begin.
    """

    def __init__(self, name: str, properties: Mapping[str, str], topic: str, side: str) -> None:
        self._name = name
        self._topic = topic
        self._side = side
        self._log = Written()
        self._failure = ""
        self._next = 0
        self._stopping = threading.Event()
        self._expected = threading.Event()
        self._thread: threading.Thread | None = None
        settings: dict[str, Any] = {
            **client_properties(properties),
            "acks": "all",
            "linger.ms": 5,
            "delivery.timeout.ms": int(_DELIVERY_S * 1000),
        }
        try:
            self._producer = Producer(settings, logger=LOGGER)
        except (KafkaException, ValueError, TypeError) as error:
            raise ConfigError(
                f"cluster {name}: a producer does not take its properties: {error.__class__}",
                f"Correct clusters.{name}.properties: librdkafka's names and values go there.",
            ) from None

    @property
    def log(self) -> Written:
        """What it knows so far."""
        return self._log

    @property
    def failure(self) -> str:
        """Why it ended by itself; empty where it did not."""
        return self._failure

    def write(self, count: int) -> None:
        """So many, and wait for them.

        Raises:
            Unreachable: some were not acknowledged.
        """
        before = len(self._log.acknowledged)
        for _ in range(count):
            self._send()
        self._producer.flush(_DELIVERY_S + 1)
        acknowledged = len(self._log.acknowledged) - before
        if acknowledged != count:
            raise Unreachable(
                f"{self._name} acknowledged {acknowledged:,} of {count:,} records"
                f" of topic {self._topic}",
                "see that its brokers run, and that this user may write there",
            )

    def start(self, rate: float) -> None:
        """Go on writing in a thread, so many a second, until it is stopped."""
        self._thread = threading.Thread(target=self._go_on, args=(1 / rate,), daemon=True)
        self._thread.start()

    def expect_refusal(self) -> None:
        """A fence was set: stop when a record is refused, or in a moment where none is."""
        self._expected.set()

    def stop(self, *, wait: bool) -> None:
        """End it; where it is not waited for, what is under way stays unknown."""
        self._stopping.set()
        if wait and self._thread is not None:
            self._thread.join(_DELIVERY_S)

    def _go_on(self, pause_s: float) -> None:
        try:
            self._write_until(self._told_to_stop(), pause_s)
        except KafkaException as error:
            self._failure = str(error.args[0].str())

    def _told_to_stop(self) -> Callable[[], bool]:
        since: float | None = None

        def told() -> bool:
            nonlocal since
            if self._stopping.is_set() or self._log.refused_at is not None:
                return True
            if since is None and self._expected.is_set():
                since = time.monotonic()
            return since is not None and time.monotonic() - since >= _REFUSAL_S

        return told

    def _write_until(self, over: Callable[[], bool], pause_s: float) -> None:
        while not over():
            self._send()
            self._producer.poll(0)
            self._stopping.wait(pause_s)
        # A dead cluster acknowledges nothing: it is not waited for longer than a moment.
        self._producer.flush(_END_S if not self._stopping.is_set() else _REFUSAL_S)
        # What is still under way must not be written later, when nobody counts any more.
        self._producer.purge()

    def _send(self) -> None:
        number = self._next
        self._next += 1
        value = identity(self._side, number)
        try:
            self._producer.produce(
                self._topic, value=value, key=str(number % _KEYS), on_delivery=self._told
            )
        except BufferError:
            self._producer.poll(0.1)
        except KafkaException as error:
            self._fault(error.args[0])

    def _told(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._fault(error)
            return
        value = message.value() or b""
        self._log.acknowledged[value.decode()] = time.monotonic()

    def _fault(self, error: KafkaError) -> None:
        self._log.refused += 1
        if error.code() in _FORBIDDEN and self._log.refused_at is None:
            self._log.refused_at = time.monotonic()
