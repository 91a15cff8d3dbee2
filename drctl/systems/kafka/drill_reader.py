"""A drill's application that reads: the only member of its group, and a log of what it read."""

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from drctl.drill.logs import Consumed
from drctl.model.errors import ConfigError, Unreachable
from drctl.systems.kafka.connection import LOGGER, client_properties
from drctl.systems.kafka.deadline import Deadline

_BATCH = 200
_POLL_S = 0.2
_END_S = 15.0
_SCAN_S = 60.0


def _consumer(name: str, properties: Mapping[str, str], settings: Mapping[str, Any]) -> Consumer:
    try:
        return Consumer({**client_properties(properties), **settings}, logger=LOGGER)
    except (KafkaException, ValueError, TypeError) as error:
        raise ConfigError(
            f"cluster {name}: a consumer does not take its properties: {error.__class__}",
            f"Correct clusters.{name}.properties: librdkafka's names and values go there.",
        ) from None


class DrillReader:
    """Implements `drctl.drill.ports.Reader`; commits what it read, batch by batch.

    Args:
        most: after so many it stays in the group and reads no more; 0 is never.
    """

    def __init__(
        self, name: str, properties: Mapping[str, str], topic: str, group: str, most: int = 0
    ) -> None:
        self._topic = topic
        self._most = most
        self._log = Consumed()
        self._failure = ""
        self._stopping = threading.Event()
        settings = {
            "group.id": group,
            "enable.auto.commit": False,
            "session.timeout.ms": 6_000,
            # Where it never committed it begins at the start, here as there.
            "auto.offset.reset": "earliest",
        }
        self._consumer = _consumer(name, properties, settings)
        self._thread = threading.Thread(target=self._run, name=group, daemon=True)

    @property
    def log(self) -> Consumed:
        """What it knows so far."""
        return self._log

    @property
    def failure(self) -> str:
        """Why it ended by itself; empty where it did not."""
        return self._failure

    def start(self) -> None:
        """Begin to read in a thread."""
        self._thread.start()

    def leave(self, *, wait: bool) -> None:
        """Leave the group."""
        self._stopping.set()
        if wait:
            self._thread.join(_END_S)

    def _run(self) -> None:
        try:
            self._consumer.subscribe([self._topic])
            while not self._stopping.is_set():
                self._take(self._consumer.consume(self._room(), timeout=_POLL_S))
        except KafkaException as error:
            self._failure = str(error.args[0].str())
        finally:
            self._consumer.close()

    def _room(self) -> int:
        """How many to take at once; one where it has enough, and has to be heard of only."""
        left = self._most - len(self._log.read)
        if not self._most or left >= _BATCH:
            return _BATCH
        if left > 0:
            return left
        self._consumer.pause(self._consumer.assignment())
        return 1

    def _take(self, messages: Sequence[Message]) -> None:
        sound = [message for message in messages if message.error() is None]
        if not sound:
            return
        now = time.monotonic()
        values = [(message.value() or b"").decode() for message in sound]
        for value in values:
            self._log.read.setdefault(value, now)
        self._log.times += len(values)
        following = {(m.partition() or 0): (m.offset() or 0) + 1 for m in sound}
        wanted = [TopicPartition(self._topic, p, offset) for p, offset in following.items()]
        self._consumer.commit(offsets=wanted, asynchronous=False)
        self._log.finished.update(values)


def held(name: str, properties: Mapping[str, str], topic: str) -> Mapping[str, int]:
    """How often each id is in a topic, up to its ends of now; joins no group.

    Raises:
        Unreachable: the cluster did not answer.
    """
    settings = {
        "group.id": "drctl",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "enable.partition.eof": False,
    }
    consumer = _consumer(name, properties, settings)
    try:
        return _scanned(consumer, topic)
    except KafkaException as error:
        raise Unreachable(
            f"topic {topic} of {name} cannot be read: {error.args[0].str()}",
            "see that its brokers run",
        ) from error
    finally:
        consumer.close()


def _scanned(consumer: Consumer, topic: str) -> Mapping[str, int]:
    known = consumer.list_topics(timeout=_SCAN_S).topics.get(topic)
    places = [TopicPartition(topic, number) for number in (known.partitions if known else ())]
    marks = {each.partition: consumer.get_watermark_offsets(each, _SCAN_S) for each in places}
    left = {number: high for number, (low, high) in marks.items() if high > low}
    consumer.assign([TopicPartition(topic, number, marks[number][0]) for number in left])
    found: Counter[str] = Counter()
    deadline = Deadline.after(_SCAN_S)
    while left:
        if deadline.expired:
            raise Unreachable(f"topic {topic} was not read to its end in {_SCAN_S:g} s")
        for message in consumer.consume(_BATCH, timeout=_POLL_S):
            if message.error() is not None:
                continue
            found[(message.value() or b"").decode()] += 1
            number = message.partition() or 0
            if (message.offset() or 0) + 1 >= left.get(number, 0):
                left.pop(number, None)
    return found
