"""Writes records to a cluster of the lab, and counts them."""

import logging
from collections.abc import Mapping, Sequence

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined, unused-ignore]

from bench.records import PARTITIONS, Message
from drctl.kafka.connection import Connection
from drctl.kafka.reader import KafkaClusterReader
from drctl.lab.cluster import LabCluster
from drctl.lab.waiting import Patience
from drctl.model.errors import Stopped
from drctl.model.topology import TopicPartition, Unavailable

QUIET = logging.getLogger("bench")
QUIET.addHandler(logging.NullHandler())

_MOST_PARTITIONS = 1_000
"""Maximum number of partitions created by one request: Kafka refuses 10,000."""

_WAITING = 200_000
_PATIENCE_S = 120
_SLOW_S = 300
"""Timeout with ten thousand new partitions."""
PRODUCER = {
    "compression.type": "lz4",
    "enable.idempotence": "true",
    "linger.ms": "50",
    "batch.size": "1000000",
    "queue.buffering.max.messages": "1000000",
}


def create_topics(
    cluster: LabCluster,
    names: Sequence[str],
    partitions: int = PARTITIONS,
    seconds: float = 20,
    config: Mapping[str, str] | None = None,
) -> None:
    """Create empty topics with unlimited retention.

    Args:
        config: further configuration.

    Raises:
        KafkaException: the cluster rejected it.
    """
    admin = cluster.admin()
    config = {"retention.ms": "-1", **(config or {})}
    new = [NewTopic(name, partitions, config=config) for name in names]
    at_once = max(1, _MOST_PARTITIONS // partitions)
    for first in range(0, len(new), at_once):
        for future in admin.create_topics(
            new[first : first + at_once], operation_timeout=seconds, request_timeout=seconds + 30
        ).values():
            future.result()


def reading(cluster: LabCluster, timeout_s: float = 20) -> KafkaClusterReader:
    """Provide a reader of the cluster."""
    return KafkaClusterReader(Connection(cluster.name, cluster.client_properties(), timeout_s))


class Appender:
    """Appends to topics of one cluster, in order, and tracks the expected number of records.

    Args:
        more: further properties of the producer.
    """

    def __init__(self, cluster: LabCluster, more: Mapping[str, str] | None = None) -> None:
        self._cluster = cluster
        properties = {**cluster.client_properties(), **PRODUCER, **(more or {})}
        self._producer = Producer(properties, logger=QUIET)
        self.counts: dict[str, int] = {}

    def append(self, topic: str, messages: list[Message]) -> None:
        """Queue records.

        Raises:
            Stopped: the cluster rejects them.
        """
        self._await_queue(_WAITING)
        produce = self._producer.produce  # the batch call takes no timestamps
        for key, value, partition, timestamp in messages:
            produce(topic, value, key, partition, timestamp=timestamp)
        self.counts[topic] = self.counts.get(topic, 0) + len(messages)

    def finish(self) -> None:
        """Verify that every topic contains what was appended.

        Raises:
            Stopped: a topic does not.
        """
        self._await_queue(0)
        for topic, wanted in self.counts.items():
            found = _records(self._cluster, topic)
            if found != wanted:
                raise Stopped(f"{self._cluster.name}: {topic} holds {found} of {wanted} records")

    def _await_queue(self, length: int) -> None:
        patience = Patience.of(_PATIENCE_S)
        while len(self._producer) > length:
            self._producer.poll(0.05)
            if not patience.remaining:
                raise Stopped(f"{self._cluster.name} does not acknowledge records")


def _records(cluster: LabCluster, topic: str) -> int:
    known = cluster.admin().list_topics(timeout=20).topics[topic].partitions
    partitions = [TopicPartition(topic, number) for number in known]
    with reading(cluster) as reader:
        found = reader.offsets(partitions).values()
    if unavailable := next((o for o in found if isinstance(o, Unavailable)), None):
        raise Stopped(f"{cluster.name}: {topic}: {unavailable.reason}")
    return sum(o.end - o.log_start for o in found if not isinstance(o, Unavailable))


def write_each(
    cluster: LabCluster, names: Sequence[str], partitions: int, start_ms: int, records: int
) -> None:
    """Write the same records, one second apart, into every partition of these topics.

    Raises:
        Stopped: the cluster did not accept all of them.
    """
    settings = {
        # Idempotent producers would get the same id on both clusters, which a precheck refuses.
        "enable.idempotence": "false",
        "max.in.flight.requests.per.connection": "1",
        "linger.ms": "200",
        "queue.buffering.max.messages": "2000000",
        # With very many new partitions, metadata of some arrives late.
        "topic.metadata.propagation.max.ms": "300000",
    }
    failed: list[object] = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            failed.append(error)

    properties = {**cluster.client_properties(), **settings, "on_delivery": delivered}
    producer = Producer(properties, logger=QUIET)
    for topic in names:
        for partition in range(partitions):
            for number in range(records):
                at = start_ms + number * 1000
                producer.produce(topic, b"value %d" % number, b"key", partition, timestamp=at)
        producer.poll(0)
    left = producer.flush(_SLOW_S)
    if left or failed:
        raise Stopped(
            f"{cluster.name}: {left + len(failed)} records were not acknowledged: {failed[:1]}"
        )
