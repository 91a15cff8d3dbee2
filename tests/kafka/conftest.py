"""The cluster of these tests, and how they fill it."""

import logging
import random
from collections.abc import Iterator, Mapping
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from drctl.lab.lab import Lab
from drctl.lab.processes import lab_mark, marked_processes
from drctl.lab.settings import LabSettings, keep_settings
from drctl.lab.starting import free_port_base
from tests.kafka.certificates import Authority, Certificate, make_authority
from tests.kafka.rights import Rights
from tests.kafka.tls_broker import TlsCluster
from tests.lab.cluster_under_test import ClusterUnderTest

QUIET = logging.getLogger("tests.kafka")


class Bench:
    """Writes to a cluster, for the readers under test."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.properties = dict(properties)
        self.admin = AdminClient(self.properties, logger=QUIET)
        self._topics: list[str] = []
        self._acls: list[AclBinding] = []

    def create(
        self,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
        replicas: list[list[int]] | None = None,
    ) -> str:
        """Create a topic; each partition is on the given brokers, or on any one."""
        name = f"test-{uuid4().hex[:8]}"
        # Otherwise, records with old timestamps would be deleted at once.
        settings = {"retention.ms": "-1", **(config or {})}
        assigned = {"replica_assignment": replicas} if replicas else {"replication_factor": 1}
        topic = NewTopic(name, partitions, config=settings, **assigned)
        for future in self.admin.create_topics([topic], operation_timeout=20).values():
            future.result()
        self._topics.append(name)
        return name

    def allow(self, user: str, topic: str, *operations: AclOperation) -> None:
        """Allow a user an operation on a topic; READ by default."""
        bindings = [
            AclBinding(
                ResourceType.TOPIC,
                topic,
                ResourcePatternType.LITERAL,
                f"User:{user}",
                "*",
                operation,
                AclPermissionType.ALLOW,
            )
            for operation in operations or (AclOperation.READ,)
        ]
        for future in self.admin.create_acls(bindings).values():
            future.result()
        self._acls += bindings

    def clean_up(self) -> None:
        """Delete the topics and ACLs created here."""
        filters = [
            AclBindingFilter(
                acl.restype,
                acl.name,
                acl.resource_pattern_type,
                acl.principal,
                acl.host,
                acl.operation,
                acl.permission_type,
            )
            for acl in self._acls
        ]
        done = {
            **(self.admin.delete_acls(filters) if filters else {}),
            **(self.admin.delete_topics(self._topics) if self._topics else {}),
        }
        for future in done.values():
            future.result()

    def producer(self, **settings: str) -> Producer:
        """A producer of the administrator."""
        return Producer({**self.properties, **settings}, logger=QUIET)

    def produce(self, topic: str, *records: Mapping[str, object], partition: int = 0) -> None:
        """Append these records, in order."""
        producer = self.producer()
        for record in records:
            producer.produce(topic, partition=partition, **record)  # type: ignore[arg-type]
        assert producer.flush(20) == 0


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Issues certificates; those of the brokers of `cluster` are issued by its own."""
    return make_authority(tmp_path_factory.mktemp("ca"), "ca")


@pytest.fixture(scope="session")
def alice(authority: Authority) -> Certificate:
    return authority.issue("alice")


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
    """Writes to that cluster."""
    return Bench(cluster.properties())


@pytest.fixture(scope="package")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The primary of a lab with three brokers in three racks."""
    root = tmp_path_factory.mktemp("three") / "lab"
    opened = Lab(root)
    base = free_port_base(random.Random())
    keep_settings(root, LabSettings(port_base=base, brokers=3, heap_mb=320, racks=True))
    try:
        opened.start("primary")
        yield opened
    finally:
        opened.down()
        assert not marked_processes(lab_mark(root))


@pytest.fixture(scope="package")
def three(brokers: Lab) -> Iterator[ClusterUnderTest]:
    cluster = ClusterUnderTest(brokers.cluster("primary"))
    yield cluster
    cluster.close()


@pytest.fixture
def bob(bench: Bench) -> Iterator[Rights]:
    """Bob's permissions: none at first."""
    rights = Rights(bench.admin)
    yield rights
    rights.withdraw()
