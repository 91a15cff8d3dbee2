"""Links alike, each with a topic and a connector of its own that the lab's know nothing of."""

from typing import Any

from confluent_kafka import TopicPartition

from drctl.kafka.connection import Connection
from drctl.kafka.groups import KafkaGroupReader
from drctl.lab.lab import Lab
from drctl.model.topology import Unavailable
from tests.cluster.conftest import NewDrctl
from tests.cluster.failover_stage import APP, PARTITIONS, Stage
from tests.cluster.own_connectors import Connectors, settings
from tests.cluster.rights import allow, forget
from tests.conftest import NewTopic
from tests.kafka.members import commit
from tests.lab.cluster_under_test import ClusterUnderTest

RECORDS, READ = 120, 25
"""Of a topic, and of each of its partitions."""


class OwnLinks:
    """What was made is gone at the end, but for the topics."""

    def __init__(self, lab: Lab, new_drctl: NewDrctl, new_topic: NewTopic) -> None:
        self._lab, self._new_drctl, self._new_topic = lab, new_drctl, new_topic
        self._connectors = Connectors(lab)
        self._made: list[Stage] = []

    def make(self, **link: Any) -> Stage:
        """One whose topic is copied from now on, each record with a trace of its own.

        Args:
            link: more of its section, or other than a stage has by itself.
        """
        topic = self._new_topic(PARTITIONS)
        name = f"copies-{topic}"
        replicator = {
            "kind": "mirrormaker2",
            "connect": self._connectors.url,
            "connectors": {"source": name},
        }
        stage = Stage(self._lab, self._new_drctl, topic, replicator, **link)
        self._made.append(stage)
        for cluster in (stage.source, stage.target):
            allow(cluster, APP, topic)
        copying = settings(
            self._lab, "primary", "secondary", topic, offset__lag__max="0", tasks__max="1"
        )
        self._connectors.create(name, copying, running=True)
        return stage

    def close(self) -> None:
        """Also where the primary was killed meanwhile: its rules are lifted, too."""
        self._lab.start("primary")
        self._connectors.close()
        for stage in self._made:
            for cluster in (stage.source, stage.target):
                forget(cluster, stage.topic)


def at_work(stage: Stage) -> list[str]:
    """Records that are copied, and a group that has read some of each partition."""
    written = stage.write(RECORDS, "before")
    assert len(written) == RECORDS
    read = [TopicPartition(stage.topic, number, READ) for number in range(PARTITIONS)]
    commit(stage.source.properties(), stage.group, *read)
    stage.copied(RECORDS)
    return written


def positions(stage: Stage) -> dict[int, int]:
    """Of the group, on the target."""
    return positions_on(stage.target, stage.group)


def positions_on(cluster: ClusterUnderTest, group: str) -> dict[int, int]:
    """Of a group that reads one topic."""
    with KafkaGroupReader(Connection(cluster.name, cluster.properties())) as reader:
        found = reader.committed((group,))[group]
    assert not isinstance(found, Unavailable), found
    return {place.partition: at.offset for place, at in found.items()}
