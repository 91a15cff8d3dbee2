"""Clusters that refuse, are down, or answer only partly."""

import signal
import socket
import time
from collections.abc import Iterator

import pytest

from drctl.kafka.connection import Connection
from drctl.kafka.reader import KafkaClusterReader
from drctl.lab.waiting import Patience
from drctl.model.errors import ConfigError, Unreachable
from drctl.model.topology import PartitionOffsets, TopicPartition, TopicState, Unavailable
from tests.kafka.certificates import make_authority
from tests.kafka.conftest import Bench
from tests.kafka.tls_broker import CLUSTER_ID, PASSWORDS, TlsCluster, free_ports, wait_until

jvm = pytest.mark.jvm


def refusal(properties: dict[str, str], timeout_s: float = 5) -> Unreachable:
    """The error of a reader with these properties."""
    reader = KafkaClusterReader(Connection("primary", properties, timeout_s=timeout_s))
    with reader, pytest.raises(Unreachable) as failed:
        reader.cluster_id()
    text = failed.value.message + failed.value.hint
    assert not [word for word in (*PASSWORDS.values(), "wrong-one") if word in text]
    assert properties["bootstrap.servers"] in failed.value.message
    assert "cluster primary" in failed.value.message
    return failed.value


@jvm
@pytest.mark.parametrize(("user", "mechanism"), [("bob", "PLAIN"), ("admin", "SCRAM-SHA-512")])
def test_sasl_over_tls(cluster: TlsCluster, user: str, mechanism: str) -> None:
    with KafkaClusterReader(
        Connection("primary", cluster.tls_properties(user, mechanism))
    ) as reader:
        assert reader.cluster_id() == CLUSTER_ID


@jvm
def test_a_certificate_instead_of_a_password(cluster: TlsCluster, bench: Bench) -> None:
    # Only node 1 accepts client certificates.
    partition = TopicPartition(bench.create(replicas=[[1]]), 0)
    bench.produce(partition.topic, {"value": b"v", "timestamp": 1_700_000_000_000})
    expected = {partition: 1_700_000_000_000}
    with KafkaClusterReader(Connection("primary", cluster.mtls_properties())) as reader:
        # The broker may know the new topic's leader only a little later.
        assert Patience.of(20).wait_until(
            lambda: reader.first_timestamps({partition: 0}) == expected
        )


@jvm
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_wrong_password_is_named(cluster: TlsCluster, mechanism: str) -> None:
    properties = {**cluster.tls_properties("admin", mechanism), "sasl.password": "wrong-one"}
    started = time.monotonic()
    refused = refusal(properties, timeout_s=10)
    assert "authentication failed" in refused.message
    assert "sasl.password of clusters.primary" in refused.hint
    assert time.monotonic() - started < 8, "a wrong password was retried until the timeout"


@jvm
def test_an_unknown_authority_is_named(cluster: TlsCluster) -> None:
    other = make_authority(cluster.folder / "other", "other")
    properties = {**cluster.tls_properties(), "ssl.ca.location": str(other.certificate)}
    refused = refusal(properties)
    assert "TLS failed" in refused.message
    assert "certificate verify failed" in refused.message
    assert "ssl.*" in refused.hint


@jvm
def test_a_missing_client_certificate_is_a_tls_error(cluster: TlsCluster) -> None:
    properties = cluster.mtls_properties()
    del properties["ssl.certificate.location"], properties["ssl.key.location"]
    assert "TLS failed" in refusal(properties).message


@jvm
def test_a_broker_that_closes_connections_with_the_wrong_protocol(cluster: TlsCluster) -> None:
    refused = refusal({"bootstrap.servers": cluster.tls}, timeout_s=2)
    assert "Disconnected" in refused.message
    assert "security.protocol" in refused.hint


@pytest.mark.slow
def test_the_cluster_is_down(capfd: pytest.CaptureFixture[str]) -> None:
    bootstrap = ",".join(f"127.0.0.1:{port}" for port in free_ports(2))
    started = time.monotonic()
    refused = refusal({"bootstrap.servers": bootstrap}, timeout_s=2)
    assert time.monotonic() - started < 5
    assert "did not answer within 2 s" in refused.message
    assert "Connection refused" in refused.message
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
@pytest.mark.parametrize("somebody", [False, True])
def test_refused_connections_fail_at_once(somebody: bool) -> None:
    """If one of two addresses accepts connections, its broker may only be slow."""
    with socket.socket() as slow:
        slow.bind(("127.0.0.1", 0))
        ports = free_ports(1 if somebody else 2)
        if somebody:
            slow.listen()
            ports = [*ports, slow.getsockname()[1]]
        bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports)
        connection = Connection("primary", {"bootstrap.servers": bootstrap}, timeout_s=5)
        started = time.monotonic()
        with pytest.raises(Unreachable, match="did not answer within") as caught:
            connection.present()
        took = time.monotonic() - started
        connection.close()
    assert (took < 3) is not somebody, caught.value.message


@pytest.mark.slow
@pytest.mark.parametrize(
    "ask",
    [
        lambda reader: reader.topic_names(),
        lambda reader: reader.topics(["t"]),
        lambda reader: reader.offsets([TopicPartition("t", 0)]),
        lambda reader: reader.max_timestamps([TopicPartition("t", 0)]),
        lambda reader: reader.first_timestamps({TopicPartition("t", 0): 0}),
        lambda reader: reader.records([(TopicPartition("t", 0), 0)]),
    ],
)
def test_every_request_to_a_dead_cluster_times_out(ask) -> None:  # type: ignore[no-untyped-def]
    bootstrap = f"127.0.0.1:{free_ports(1)[0]}"
    reader = KafkaClusterReader(
        Connection("primary", {"bootstrap.servers": bootstrap}, timeout_s=1)
    )
    with reader, pytest.raises(Unreachable, match=bootstrap):
        ask(reader)


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"sasl.passwort": "wrong-one"}, "sasl.passwort"),
        ({"security.protocol": "TLS"}, "security.protocol"),
        ({"security.protocol": "SSL", "ssl.ca.location": "/no/such.pem"}, "ssl.ca.location"),
    ],
)
def test_properties_that_librdkafka_refuses(properties: dict[str, str], message: str) -> None:
    reader = KafkaClusterReader(
        Connection("primary", {"bootstrap.servers": "127.0.0.1:1", **properties})
    )
    with pytest.raises(ConfigError, match=message) as refused:
        reader.cluster_id()
    assert "cluster primary" in refused.value.message
    assert "clusters.primary.properties" in refused.value.hint
    assert "wrong-one" not in refused.value.message


def test_secrets_are_masked_in_client_messages() -> None:
    secrets = {
        "sasl.password": "one!",
        "ssl.key.password": "two!",
        "sasl.oauthbearer.client.secret": "three!",
        "ssl.key.pem": "four!",
    }
    connection = Connection("primary", {"bootstrap.servers": "a:1", **secrets}, 1)
    assert connection.redacted("one! two! three! four! a:1") == "*** *** *** *** a:1"


@pytest.fixture
def divided(cluster: TlsCluster, bench: Bench) -> Iterator[str]:
    """A topic with partition 0 only on node 1, and partition 1 only on node 2."""
    name = bench.create(2, replicas=[[1], [2]])
    for partition in (0, 1):
        bench.produce(name, {"value": b"v", "timestamp": 1_700_000_000_000}, partition=partition)
    yield name
    both = {TopicPartition(name, n): PartitionOffsets(0, 1, 1) for n in (0, 1)}
    cluster.wait_for_brokers(2)
    with KafkaClusterReader(Connection("primary", cluster.properties())) as reader:
        wait_until(lambda: reader.offsets(both) == both, "both brokers answer again")


@jvm
def test_a_hanging_broker_does_not_delay_the_others(cluster: TlsCluster, divided: str) -> None:
    alive, hung = TopicPartition(divided, 0), TopicPartition(divided, 1)
    with KafkaClusterReader(Connection("primary", cluster.properties(), timeout_s=3)) as reader:
        assert set(reader.offsets([alive, hung]).values()) == {PartitionOffsets(0, 1, 1)}
        cluster.signal(2, signal.SIGSTOP)
        try:
            started = time.monotonic()
            found = reader.offsets([alive, hung])
            assert time.monotonic() - started < 6
            assert found[alive] == PartitionOffsets(0, 1, 1)
            assert isinstance(found[hung], Unavailable)
            assert isinstance(reader.topics([divided])[divided], TopicState)
            times = reader.first_timestamps({alive: 0, hung: 0})
            assert times[alive] == 1_700_000_000_000
            assert isinstance(times[hung], Unavailable)
        finally:
            cluster.signal(2, signal.SIGCONT)


@jvm
def test_a_dead_broker_leaves_partitions_without_leader(cluster: TlsCluster, divided: str) -> None:
    alive, dead = TopicPartition(divided, 0), TopicPartition(divided, 1)
    with KafkaClusterReader(Connection("primary", cluster.properties(), timeout_s=3)) as reader:
        reader.cluster_id()
        cluster.signal(2, signal.SIGKILL)
        try:
            # The broker is dead, but still in the cluster's metadata.
            found = reader.offsets([alive, dead])
            assert found[alive] == PartitionOffsets(0, 1, 1)
            assert isinstance(found[dead], Unavailable)
            cluster.wait_for_brokers(1)
            state = reader.topics([divided])[divided]
            assert isinstance(state, TopicState)
            assert state.partitions == {0: 1, 1: None}
            assert reader.offsets([alive, dead]) == {
                alive: PartitionOffsets(0, 1, 1),
                dead: Unavailable("the partition has no leader"),
            }
            assert isinstance(reader.records([(dead, 0)])[dead, 0], Unavailable)
            assert isinstance(reader.max_timestamps([dead])[dead], Unavailable)
        finally:
            cluster.start_node(2)
