"""A topic as a plain consumer reads it, with keys and drctl's header."""

from collections.abc import Mapping

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient  # type: ignore[attr-defined, unused-ignore]

from drctl.formats.provenance import HEADER
from drctl.lab.cluster import LOGGER, LabCluster
from drctl.lab.waiting import Patience
from drctl.model.errors import Unreachable
from tests.soak.judging import Held

_READ_S = 60


def held(cluster: LabCluster, topic: str, *, committed: bool = True) -> tuple[Held, ...]:
    """Return all records; none if the topic does not exist.

    If leaders change at the same moment, a consumer may not reach the end: then a second one reads.

    Args:
        committed: whether to leave out aborted records, and all that follow an open transaction.

    Raises:
        Unreachable: the end was not reached in time.
    """
    try:
        return _held_by_one(cluster, topic, committed)
    except Unreachable as error:
        print(f"reading {topic} again: {error.message}", flush=True)
        return _held_by_one(cluster, topic, committed)


def _held_by_one(cluster: LabCluster, topic: str, committed: bool) -> tuple[Held, ...]:
    settings: dict[str, str | int | float | bool] = {
        **cluster.client_properties("admin"),
        "group.id": "soak-never-joined",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed" if committed else "read_uncommitted",
    }
    consumer = Consumer(settings, logger=LOGGER)
    try:
        ends = _ends(consumer, topic)
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in ends])
        return _read(consumer, ends, f"{topic} of {cluster.name}")
    finally:
        consumer.close()


def missing(admin: AdminClient, group: str, topic: str, ends: Mapping[int, int]) -> int:
    """Return how far a group's committed offsets are from these ends."""
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    places = asked[group].result(20).topic_partitions
    at = {each.partition: each.offset for each in places if each.topic == topic}
    return sum(max(0, end - max(at.get(number, 0), 0)) for number, end in ends.items())


def members_of(admin: AdminClient, group: str) -> int:
    """Return the number of members of a group."""
    found = admin.describe_consumer_groups([group], request_timeout=20)[group].result(20)
    return len(found.members)


def _ends(consumer: Consumer, topic: str) -> dict[int, int]:
    described = consumer.list_topics(timeout=20).topics.get(topic)
    places = [
        TopicPartition(topic, number) for number in (described.partitions if described else ())
    ]
    ends = {p.partition: consumer.get_watermark_offsets(p, timeout=20)[1] for p in places}
    return {number: end for number, end in ends.items() if end}


def _read(consumer: Consumer, waiting: dict[int, int], what: str) -> tuple[Held, ...]:
    found: list[Held] = []
    patience = Patience.of(_READ_S)
    while waiting:
        if not patience.remaining:
            raise Unreachable(f"{what} was not read to its end in {_READ_S} s")
        for message in consumer.consume(5_000, timeout=0.3):
            error = message.error()
            number, at = message.partition() or 0, message.offset() or 0
            if error is None:
                found.append(_held(message))
                # While applications write, the consumer may never see the end of the partition.
                at += 1
            elif error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            # Records alone do not show it: the last offset may end a transaction.
            if at >= waiting.get(number, 0):
                waiting.pop(number, None)
    return tuple(found)


def _held(message: Message) -> Held:
    key, headers = message.key(), message.headers() or []
    return Held(
        message.partition() or 0,
        message.offset() or 0,
        None if key is None else key.decode(),
        (message.value() or b"").decode(),
        any(each[0] == HEADER for each in headers),
    )
