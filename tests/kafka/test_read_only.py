"""Proof that reading changes nothing, on brokers that auto-create topics."""

from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)

from drctl.kafka.connection import Connection
from drctl.kafka.reader import KafkaClusterReader
from drctl.lab.lab import Lab
from drctl.model.topology import TopicPartition, TopicState
from tests.kafka.conftest import QUIET, Bench
from tests.kafka.tls_broker import TlsCluster, wait_until
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = pytest.mark.jvm


class Everything(NamedTuple):
    """Everything that could change."""

    partitions: frozenset[tuple[str, int]]
    ends: Mapping[tuple[str, int], int]
    groups: frozenset[str]
    acls: frozenset[str]


def everything(properties: Mapping[str, Any]) -> Everything:
    """The state of a cluster, read without the code under test."""
    admin = AdminClient(dict(properties), logger=QUIET)
    topics = admin.list_topics(timeout=10).topics
    partitions = frozenset((name, n) for name, topic in topics.items() for n in topic.partitions)
    asked = admin.list_offsets({KafkaPartition(*p): OffsetSpec.latest() for p in partitions})
    groups = admin.list_consumer_groups().result()
    acls = admin.describe_acls(
        AclBindingFilter(
            ResourceType.ANY,
            None,
            ResourcePatternType.ANY,
            None,
            None,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
    )
    return Everything(
        partitions,
        {(p.topic, p.partition): future.result().offset for p, future in asked.items()},
        frozenset(group.group_id for group in groups.valid),
        frozenset(map(str, acls.result())),
    )


def look_at_everything(reader: KafkaClusterReader) -> None:
    """Call every method of a reader, with existing and missing names."""
    names = [*reader.topic_names(), "no-such-topic", "neither-this-one"]
    reader.cluster_id()
    states = reader.topics(names)
    partitions = [TopicPartition(name, 7) for name in names if states[name] is None]
    for name, state in states.items():
        if isinstance(state, TopicState):
            partitions += [TopicPartition(name, number) for number in state.partitions]
    reader.offsets(partitions)
    reader.max_timestamps(partitions)
    assert reader.first_timestamps(dict.fromkeys(partitions, 0))
    assert reader.records([(partition, 0) for partition in partitions])


def look_and_compare(properties: Mapping[str, str]) -> Everything:
    """Read everything; prove that nothing changed; return the state before."""
    before = everything(properties)
    with KafkaClusterReader(Connection("primary", {**properties, "group.id": "mine"})) as reader:
        look_at_everything(reader)
    # Brokers create topics asynchronously. This topic is requested last, with auto-creation: once
    # it exists, topics requested earlier would exist, too.
    last = f"last-{uuid4().hex[:8]}"
    admin = AdminClient(dict(properties), logger=QUIET)
    admin.list_topics(last, timeout=10)
    wait_until(lambda: last in admin.list_topics(timeout=10).topics, "the topic exists")
    after = everything(properties)
    for future in admin.delete_topics([last]).values():
        future.result()
    assert after == before._replace(
        partitions=before.partitions | {(last, 0)}, ends={**before.ends, (last, 0): 0}
    )
    return before


def test_reading_a_cluster_without_groups(cluster: TlsCluster, bench: Bench) -> None:
    name = bench.create(2)
    bench.produce(name, {"value": b"v"})
    before = look_and_compare(cluster.properties())
    # A consumer that looks up its coordinator would create this topic.
    assert "__consumer_offsets" not in {topic for topic, _ in before.partitions}


def test_reading_both_clusters_of_a_link(
    lab: Lab, primary: ClusterUnderTest, secondary: ClusterUnderTest
) -> None:
    lab.replicate(False)
    try:
        for each in (primary, secondary):
            look_and_compare(each.properties())
    finally:
        lab.replicate(True)
