"""Committed offsets of groups."""

from collections.abc import Mapping

from drctl.kafka.connection import Connection
from drctl.kafka.group_offsets import KafkaGroupWriter
from drctl.kafka.groups import KafkaGroupReader
from drctl.model.groups import Committed
from drctl.model.topology import TopicPartition, Unavailable
from tests.lab.cluster_under_test import ClusterUnderTest


def commit_offsets(
    cluster: ClusterUnderTest, topic: str, groups: Mapping[str, Mapping[int, int]]
) -> None:
    """Commit offsets by partition, as a consumer does."""
    wanted = {
        group: {TopicPartition(topic, number): Committed(at) for number, at in offsets.items()}
        for group, offsets in groups.items()
    }
    with KafkaGroupWriter(Connection(cluster.name, cluster.properties())) as writer:
        answers = writer.commit(wanted)
    assert {answer for of in answers.values() for answer in of.values()} == {None}


def positions_on(cluster: ClusterUnderTest, group: str) -> dict[int, int]:
    """Return the committed offsets of a group of one topic."""
    return {number: at for (_, number), at in places_on(cluster, group).items()}


def places_on(cluster: ClusterUnderTest, group: str) -> dict[tuple[str, int], int]:
    """Return the committed offsets of a group by topic and partition."""
    with KafkaGroupReader(Connection(cluster.name, cluster.properties())) as reader:
        found = reader.committed((group,))[group]
    assert not isinstance(found, Unavailable), found
    return {(place.topic, place.partition): at.offset for place, at in found.items()}
