"""Reading groups creates nothing, not even the topic that Kafka creates on a look-up."""

import pytest

from drctl.kafka.connection import Connection
from drctl.kafka.groups import KafkaGroupReader
from drctl.model.groups import Group, GroupProtocol, GroupState
from drctl.model.topology import Unavailable
from tests.kafka.conftest import Bench
from tests.kafka.tls_broker import TlsCluster, wait_until

pytestmark = pytest.mark.jvm

OFFSETS = "__consumer_offsets"


def topics(bench: Bench) -> set[str]:
    return set(bench.admin.list_topics(timeout=10).topics)


def test_reading_a_cluster_that_has_never_had_a_group(cluster: TlsCluster, bench: Bench) -> None:
    before = topics(bench)
    assert OFFSETS not in before, "a test of this package has used a group"
    names = [f"g{number}" for number in range(100)]
    with KafkaGroupReader(Connection("primary", cluster.properties())) as reader:
        for _ in range(2):
            assert reader.groups() == ()
            assert reader.described(names) == {
                name: Group(name, GroupProtocol.UNKNOWN, GroupState.DEAD) for name in names
            }
            assert reader.committed(names) == {name: {} for name in names}
    # A user who may not see the topic cannot know whether a look-up would create it.
    with KafkaGroupReader(Connection("primary", cluster.properties("reader", "PLAIN"))) as reader:
        assert reader.groups() == ()
        for found in (*reader.described(["g"]).values(), *reader.committed(["g"]).values()):
            assert isinstance(found, Unavailable)
            assert "grant this user DESCRIBE on the group" in found.reason
    # Topics are created a little after the request: this one is requested last.
    last = bench.create()
    wait_until(lambda: last in topics(bench), "the topic exists")
    assert topics(bench) == before | {last}
