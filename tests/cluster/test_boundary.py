"""Where new records begin in a real log with transaction markers."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from drctl.failback.observers import boundaries, copies
from drctl.failback.observers.boundaries import observe_boundaries
from drctl.kafka.connection import Connection
from drctl.kafka.reader import KafkaClusterReader
from drctl.model.topology import OffsetRange, Record, TopicPartition
from tests.cluster.link_command import soon
from tests.conftest import NewTopic
from tests.failback.failback_orders import PRIMARY, gap, partition
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(120)]

OLD, NEW, TOGETHER = 30, 60, 2


@pytest.fixture
def reader(secondary: ClusterUnderTest) -> Iterator[KafkaClusterReader]:
    with KafkaClusterReader(Connection("secondary", secondary.properties())) as opened:
        yield opened


def written(cluster: ClusterUnderTest, topic: str) -> TopicPartition:
    """Write old records, then new ones: two per transaction, each with its marker."""
    cluster.produce(topic, [Record(0, 0, n, b"old", b"%d" % n) for n in range(OLD)])
    producer = cluster.producer(transactional__id=f"app-{uuid4().hex}")
    producer.init_transactions(30)
    for number in range(0, NEW, TOGETHER):
        producer.begin_transaction()
        for each in range(TOGETHER):
            producer.produce(topic, b"%d" % (number + each), b"new", partition=0)
        producer.commit_transaction(30)
    return TopicPartition(topic, 0)


@pytest.mark.parametrize("at_once", [7, 50_000])
def test_transaction_markers_are_offsets_but_not_new_records(
    secondary: ClusterUnderTest,
    reader: KafkaClusterReader,
    new_topic: NewTopic,
    monkeypatch: pytest.MonkeyPatch,
    at_once: int,
) -> None:
    place = written(secondary, new_topic(on=("secondary",)))
    end = OLD + NEW + NEW // TOGETHER
    # The broker writes the transaction marker after it has responded to the producer.
    soon(lambda: secondary.end_offsets(place.topic)[0] == end)
    for module, name in ((copies, "AT_ONCE"), (copies, "_LEAST"), (boundaries, "AT_ONCE")):
        monkeypatch.setattr(module, name, at_once)
    found = gap(partition(place=place, copy=place, only_on_target=NEW, target=OffsetRange(0, end)))
    assert observe_boundaries(found, PRIMARY, reader, reader) == {place: OLD}
