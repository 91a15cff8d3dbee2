"""A plain consumer that reads a drill's topic from outside while the topic exists."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaException, TopicPartition

from drctl.lab.waiting import Patience
from tests.lab.cluster_under_test import DEADLINE_S, QUIET, ClusterUnderTest

_POLL_S = 0.1
_APPEARS_S = 120


class Witness:
    """All values that a topic was seen to contain, and when each was first seen."""

    def __init__(self, cluster: ClusterUnderTest, topic: str) -> None:
        self.seen: dict[str, float] = {}
        self._topic = topic
        self._over = threading.Event()
        self._consumer = Consumer(
            {
                **cluster.properties(),
                "group.id": "tests-never-joined",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
            },
            logger=QUIET,
        )
        self._thread = threading.Thread(target=self._run, daemon=True)

    def of(self, side: str) -> set[str]:
        """Return those whose ids begin like this."""
        return {value for value in self.seen if value.startswith(side)}

    def begin(self) -> None:
        """Read from the start once the topic exists."""

        def there() -> bool:
            known = self._consumer.list_topics(timeout=DEADLINE_S).topics.get(self._topic)
            numbers = known.partitions if known else ()
            self._consumer.assign([TopicPartition(self._topic, n, 0) for n in numbers])
            return bool(numbers)

        assert Patience.of(_APPEARS_S).wait_until(there), f"{self._topic} does not appear"
        self._thread.start()

    def end(self) -> None:
        """Stop reading."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(DEADLINE_S)
        self._consumer.close()

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                messages = self._consumer.consume(500, timeout=_POLL_S)
            except KafkaException:
                # The drill has deleted the topic, or the cluster was killed.
                continue
            now = time.monotonic()
            for message in messages:
                if message.error() is None:
                    self.seen.setdefault((message.value() or b"").decode(), now)


@contextmanager
def witness(cluster: ClusterUnderTest, topic: str) -> Iterator[Witness]:
    """Run a witness."""
    made = Witness(cluster, topic)
    try:
        made.begin()
        yield made
    finally:
        made.end()
