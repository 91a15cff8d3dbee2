"""Equal links, each with a topic and a connector that nothing else in the lab uses."""

from typing import Any

from confluent_kafka import TopicPartition

from tests.cluster.failover_stage import APP, PARTITIONS, Stage
from tests.cluster.groups import positions_on
from tests.cluster.isolated_connectors import Connectors, mirror_of, settings
from tests.cluster.lab_link import Site
from tests.cluster.topic_acls import allow, forget
from tests.kafka.members import commit

RECORDS, READ = 120, 25
"""Records of a topic, and how many of each partition the group has read."""


class OwnLinks:
    """Links that are removed at the end, except their topics."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._connectors = Connectors(site.lab)
        self._made: list[Stage] = []

    def make(
        self, connector: str = "copies-{}", *, topic: str = "", reverse: bool = False, **link: Any
    ) -> Stage:
        """Create a link whose topic is replicated from now on, with a provenance header per record.

        Args:
            connector: its name, which contains the topic's.
            topic: an existing topic; by default a new one.
            reverse: whether a connector of the reverse direction exists.
            link: other keys of its section.
        """
        lab, topic = self._site.lab, topic or self._site.new_topic(PARTITIONS)
        name, back = connector.format(topic), f"back-{topic}" if reverse else ""
        replicator = link.pop("replicator", None) or mirror_of(lab, name, back)
        stage = Stage(self._site, topic, replicator, **link)
        self._made.append(stage)
        for cluster in self._site.clusters:
            allow(cluster, APP, topic)
        copying = settings(lab, "primary", "secondary", topic, offset__lag__max="0", tasks__max="1")
        self._connectors.create(name, copying, running=True)
        if reverse:
            copying = settings(lab, "secondary", "primary", topic, tasks__max="1")
            self._connectors.create(back, copying)
        return stage

    def close(self) -> None:
        """Remove them and their ACLs, also if the primary was killed."""
        self._site.lab.start("primary")
        self._connectors.close()
        for cluster in self._site.clusters:
            forget(cluster, *(stage.topic for stage in self._made))


def at_work(stage: Stage) -> list[str]:
    """Create replicated records, and a group that has read some of each partition."""
    written = stage.written(RECORDS)
    read = [TopicPartition(stage.topic, number, READ) for number in range(PARTITIONS)]
    commit(stage.source.properties(), stage.group, *read)
    return written


def positions(stage: Stage) -> dict[int, int]:
    """Return the group's committed offsets on the target."""
    return positions_on(stage.target, stage.group)
