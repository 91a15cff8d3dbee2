"""A cluster of the tests' lab with methods that write what a test needs."""

import logging
import time
from collections.abc import Iterable, Mapping
from typing import Literal

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined, unused-ignore]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from drctl.lab.cluster import LabCluster
from drctl.lab.waiting import Patience
from drctl.model.topology import Record

QUIET = logging.getLogger("tests.lab")
QUIET.addHandler(logging.NullHandler())
DEADLINE_S = 30
_MOVING = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError._NOENT,  # "no leaders found"
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
    }
)

Ending = Literal["none", "commit", "abort", "open"]


class ClusterUnderTest:
    """`primary` or `secondary` for a test, as the administrator by default."""

    def __init__(self, cluster: LabCluster) -> None:
        self.lab_cluster = cluster
        self.name = cluster.name
        self.bootstrap = cluster.bootstrap
        self.admin: AdminClient = cluster.admin()
        self._open: list[Producer] = []

    def properties(self, user: str = "admin") -> dict[str, str]:
        """Return the properties of a librdkafka client, including the password."""
        return self.lab_cluster.client_properties(user)

    def producer(self, user: str = "admin", **settings: object) -> Producer:
        """A quiet producer; dots of property names are given as two underscores."""
        extra = {name.replace("__", "."): value for name, value in settings.items()}
        return Producer({**self.properties(user), **extra}, logger=QUIET)

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic and wait until all its partitions have leaders."""
        new = NewTopic(name, partitions, config=dict(config or {}))
        for future in self.admin.create_topics([new], operation_timeout=DEADLINE_S).values():
            future.result()
        self._await_leaders(name, partitions)

    def add_partitions(self, name: str, total: int) -> None:
        """Increase the partition count of a topic."""
        for future in self.admin.create_partitions([NewPartitions(name, total)]).values():
            future.result()
        self._await_leaders(name, total)

    def configure(self, topic: str, **config: str) -> None:
        """Set topic properties; dots are given as underscores."""
        entries = [
            ConfigEntry(k.replace("_", "."), v, incremental_operation=AlterConfigOpType.SET)
            for k, v in config.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        for future in self.admin.incremental_alter_configs([resource]).values():
            future.result()

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics that exist."""
        known = self.admin.list_topics(timeout=DEADLINE_S).topics
        if present := [name for name in names if name in known]:
            for future in self.admin.delete_topics(present).values():
                future.result()

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Move a partition's log start offset."""
        place = TopicPartition(topic, partition, before)
        for future in self.admin.delete_records([place]).values():
            future.result()

    def produce(
        self, topic: str, records: Iterable[Record], ending: Ending = "none", **settings: object
    ) -> list[int]:
        """Append records to their partitions (-1: by key); return their offsets in this order.

        Args:
            ending: how their transaction ends; an open one stays open until `close`.
            settings: properties of the producer, with two underscores for each dot.
        """
        if ending != "none":
            settings = {"transactional__id": f"test-{time.monotonic_ns()}", **settings}
        producer = self.producer("admin", **settings)
        if ending != "none":
            producer.init_transactions(DEADLINE_S)
            producer.begin_transaction()
        offsets = _append(producer, topic, records)
        if ending == "commit":
            producer.commit_transaction(DEADLINE_S)
        elif ending == "abort":
            producer.abort_transaction(DEADLINE_S)
        elif ending == "open":
            self._open.append(producer)
        return offsets

    def end_offsets(self, topic: str) -> dict[int, int]:
        """The end offset of each partition."""
        partitions = self.admin.list_topics(topic, timeout=DEADLINE_S).topics[topic].partitions
        return _ends(self.admin, [TopicPartition(topic, number) for number in partitions])

    def close(self) -> None:
        """Abort open transactions."""
        while self._open:
            self._open.pop().abort_transaction(DEADLINE_S)

    def _await_leaders(self, name: str, partitions: int) -> None:
        until = time.monotonic() + DEADLINE_S
        while time.monotonic() < until:
            known = self.admin.list_topics(timeout=DEADLINE_S).topics.get(name)
            leaders = [part.leader for part in known.partitions.values()] if known else []
            if len(leaders) == partitions and min(leaders) >= 0:
                return
            self.admin.poll(0.05)
        raise AssertionError(f"{name} of {self.name} has no leaders after {DEADLINE_S} s")


def _ends(admin: AdminClient, places: Iterable[TopicPartition]) -> dict[int, int]:
    """Return end offsets; a broker that has just restarted may not lead its partitions yet."""
    asked = {place: OffsetSpec.latest() for place in places}
    ends: dict[int, int] = {}

    def all_reported() -> bool:
        for place, future in admin.list_offsets(asked, request_timeout=DEADLINE_S).items():
            try:
                ends[place.partition] = int(future.result().offset)
            except KafkaException as failed:
                if failed.args[0].code() not in _MOVING:
                    raise
        return len(ends) == len(asked)

    assert Patience.of(DEADLINE_S).wait_until(all_reported), f"nobody leads all of {[*asked]}"
    return dict(sorted(ends.items()))


def _append(producer: Producer, topic: str, records: Iterable[Record]) -> list[int]:
    offsets: dict[int, int] = {}
    failures: list[str] = []
    number = -1
    for number, record in enumerate(records):

        def delivered(error: object, message: object, number: int = number) -> None:
            if error is not None:
                failures.append(str(error))
            else:
                offsets[number] = message.offset()  # type: ignore[attr-defined]

        arguments: dict[str, object] = {"partition": record.partition, "on_delivery": delivered}
        if record.timestamp_ms > 0:  # librdkafka cannot write 0
            arguments["timestamp"] = record.timestamp_ms
        if record.headers:
            arguments["headers"] = list(record.headers)
        while True:
            try:
                producer.produce(topic, key=record.key, value=record.value, **arguments)  # type: ignore[arg-type]
            except BufferError:
                producer.poll(0.1)
            else:
                break
    left = producer.flush(DEADLINE_S)
    if left or failures:
        raise KafkaException(
            f"{left} records not delivered, {len(failures)} failed: {failures[:1]}"
        )
    return [offsets[each] for each in range(number + 1)]
