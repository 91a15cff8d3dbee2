"""The cluster of this room's tests, and what they fill it with."""

import logging
from collections.abc import Iterator, Mapping
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from drctl.systems.kafka.reader import KafkaClusterReader
from tests.kafka.tls_broker import TlsCluster

QUIET = logging.getLogger("tests.kafka")


class Bench:
    """Writes to the cluster, for the readers under test."""

    def __init__(self, cluster: TlsCluster) -> None:
        self.cluster = cluster
        self.admin = AdminClient(cluster.properties(), logger=QUIET)

    def create(self, replicas: list[list[int]], config: Mapping[str, str] | None = None) -> str:
        """A new topic, one partition for each list of brokers."""
        name = f"topic-{uuid4().hex[:8]}"
        topic = NewTopic(
            name, len(replicas), replica_assignment=replicas, config=dict(config or {})
        )
        for future in self.admin.create_topics([topic], operation_timeout=20).values():
            future.result()
        return name

    def producer(self, **settings: str) -> Producer:
        """A producer of the administrator."""
        return Producer({**self.cluster.properties(), **settings}, logger=QUIET)

    def produce(self, topic: str, *records: Mapping[str, object], partition: int = 0) -> None:
        """Append these records, in order."""
        producer = self.producer()
        for record in records:
            producer.produce(topic, partition=partition, **record)  # type: ignore[arg-type]
        assert producer.flush(20) == 0


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsCluster]:
    """A cluster of two brokers with every security protocol."""
    started = TlsCluster(tmp_path_factory.mktemp("tls-cluster"))
    try:
        started.start()
        yield started
    finally:
        started.close()


@pytest.fixture(scope="session")
def bench(cluster: TlsCluster) -> Bench:
    """A hand that writes."""
    return Bench(cluster)


@pytest.fixture
def reader(cluster: TlsCluster) -> Iterator[KafkaClusterReader]:
    """The administrator's view of the cluster."""
    with KafkaClusterReader("primary", cluster.properties()) as opened:
        yield opened
