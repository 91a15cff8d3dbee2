"""Reads whole topics with a plain consumer, for the reference implementation."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from drctl.lab.waiting import Patience
from drctl.model.topology import Record
from tests.lab.cluster_under_test import QUIET, ClusterUnderTest

DEADLINE_S = 60
# Timeout of a call that gets fewer records than it requests.
_PAUSE_S = 0.1


@dataclass(frozen=True)
class TopicLog:
    """The committed records of a topic by partition, and the start and end of each log."""

    records: Mapping[int, list[Record]]
    bounds: Mapping[int, tuple[int, int]]


def read_logs(
    cluster: ClusterUnderTest, topics: Collection[str], isolation: str = "read_committed"
) -> dict[str, TopicLog]:
    """Return everything that a consumer with this isolation reads from existing topics."""
    consumer = Consumer(
        {
            **cluster.properties(),
            "group.id": "tests-never-joined",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        },
        logger=QUIET,
    )
    try:
        known = consumer.list_topics(timeout=DEADLINE_S).topics
        places = [(t, p) for t in topics if t in known for p in known[t].partitions]
        found = _read(consumer, places)
        # A broker handles a connection's requests in order: a pending fetch would delay each one
        # below.
        consumer.unassign()
        bounds = {p: _bounds(consumer, p) for p in places}
    finally:
        consumer.close()
    return {
        topic: TopicLog(
            {p: found[topic, p] for t, p in places if t == topic},
            {p: bounds[topic, p] for t, p in places if t == topic},
        )
        for topic in dict(places)
    }


def _read(
    consumer: Consumer, places: Iterable[tuple[str, int]]
) -> dict[tuple[str, int], list[Record]]:
    found: dict[tuple[str, int], list[Record]] = {place: [] for place in places}
    waiting = set(found)
    consumer.assign([TopicPartition(t, p, OFFSET_BEGINNING) for t, p in found])
    patience = Patience.of(DEADLINE_S)
    while waiting:
        assert patience.remaining, f"not read to the end: {waiting}"
        for message in consumer.consume(1000, timeout=_PAUSE_S):
            place = (message.topic(), message.partition())
            error = message.error()
            if error is None:
                found[place].append(_record(message))
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                waiting.discard(place)
    return found


def _record(message: Message) -> Record:
    return Record(
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )


def _bounds(consumer: Consumer, place: tuple[str, int]) -> tuple[int, int]:
    low, high = consumer.get_watermark_offsets(TopicPartition(*place), timeout=DEADLINE_S)
    return low, high
