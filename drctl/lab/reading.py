"""A topic of the lab read by a plain consumer: the truth that answers are held against."""

from collections.abc import Mapping

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from drctl.lab.cluster import LOGGER, LabCluster
from drctl.lab.waiting import Patience
from drctl.model.errors import Unreachable

READ_S = 60
_BATCH = 10_000
# A call lasts so long where fewer records come than it asks for.
_PAUSE_S = 0.1

Position = tuple[int, int]
"""Partition and offset."""


def count_of(cluster: LabCluster, topic: str) -> int:
    """How many offsets the topic has used; 0 where it does not exist yet."""
    consumer = _consumer(cluster)
    try:
        return sum(end for _, end in _ends(consumer, topic))
    finally:
        consumer.close()


def read_topic(cluster: LabCluster, topic: str) -> Mapping[Position, bytes]:
    """The values of all committed records, by position.

    Raises:
        Unreachable: the end was not reached in time.
    """
    consumer = _consumer(cluster)
    try:
        waiting = {p: end for p, end in _ends(consumer, topic) if end}
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in waiting])
        return _read(consumer, waiting, f"{topic} of {cluster.name}")
    finally:
        consumer.close()


def _read(consumer: Consumer, waiting: dict[int, int], what: str) -> Mapping[Position, bytes]:
    found: dict[Position, bytes] = {}
    patience = Patience.of(READ_S)
    while waiting:
        if not patience.remaining:
            raise Unreachable(f"{what} was not read to its end in {READ_S} s")
        for message in consumer.consume(_BATCH, timeout=_PAUSE_S):
            if message.error():
                raise KafkaException(message.error())
            found[message.partition() or 0, message.offset() or 0] = message.value() or b""
        for position in consumer.position(consumer.assignment()):
            if position.offset >= waiting.get(position.partition, 0):
                waiting.pop(position.partition, None)
    return found


def _ends(consumer: Consumer, topic: str) -> list[tuple[int, int]]:
    described = consumer.list_topics(topic, timeout=10).topics[topic]
    return [
        (p, consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=10)[1])
        for p in sorted(described.partitions)
    ]


def _consumer(cluster: LabCluster) -> Consumer:
    settings: dict[str, str | int | float | bool] = {
        **cluster.client_properties("admin"),
        "group.id": "lab-reader",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
    }
    return Consumer(settings, logger=LOGGER)
