"""The cluster permissions of drctl's own user."""

import pytest
from confluent_kafka.admin import AclOperation, ResourceType  # type: ignore[attr-defined, unused-ignore]

from drctl.kafka.connection import Connection
from drctl.kafka.health import KafkaHealthReader
from drctl.lab.waiting import Patience
from drctl.model.errors import Unreachable
from drctl.model.health import ALTER
from drctl.model.topology import Unavailable
from tests.kafka.rights import Rights
from tests.kafka.tls_broker import TlsCluster, free_ports

pytestmark = pytest.mark.jvm


def operations(cluster: TlsCluster, user: str) -> frozenset[str] | Unavailable:
    with KafkaHealthReader(Connection("x", cluster.properties(user), timeout_s=10)) as reader:
        return reader.operations()


def may_alter(cluster: TlsCluster, user: str) -> bool:
    found = operations(cluster, user)
    return isinstance(found, frozenset) and ALTER in found


def test_an_administrator(cluster: TlsCluster) -> None:
    assert may_alter(cluster, "admin")


def test_a_user_without_permissions_gets_no_report(cluster: TlsCluster, bob: Rights) -> None:
    found = operations(cluster, "bob")
    assert isinstance(found, Unavailable)
    assert "DESCRIBE" in found.reason


def test_rights_that_were_granted(cluster: TlsCluster, bob: Rights) -> None:
    bob.grant(ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE)
    granted = Patience.of(20).wait_until(
        lambda: operations(cluster, "bob") == frozenset({"DESCRIBE"})
    )
    assert granted
    assert not may_alter(cluster, "bob")
    bob.grant(ResourceType.BROKER, "kafka-cluster", AclOperation.ALTER)
    assert Patience.of(20).wait_until(lambda: may_alter(cluster, "bob"))


def test_no_server_responds() -> None:
    nowhere = {"bootstrap.servers": f"127.0.0.1:{free_ports(1)[0]}"}
    with (
        KafkaHealthReader(Connection("x", nowhere, timeout_s=1)) as reader,
        pytest.raises(Unreachable),
    ):
        reader.operations()
