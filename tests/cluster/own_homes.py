"""A way home of its own: a topic and connectors that nothing else of the lab knows of."""

from collections import Counter, defaultdict
from typing import Any

from confluent_kafka import TopicPartition

from drctl.lab.cluster import read_topic
from drctl.lab.lab import Lab
from drctl.reconcile.policy import QUARANTINE
from tests.cluster.conftest import NewDrctl
from tests.cluster.ended import told_of
from tests.cluster.own_connectors import Connectors, settings
from tests.cluster.own_links import positions_on
from tests.cluster.rights import allow, denials, forget
from tests.cluster.way_home import APP, COPIED, PARTITIONS, TAIL, Journey, named
from tests.kafka.members import commit
from tests.lab.cluster_under_test import ClusterUnderTest

OLDER = 6
"""Records of the tail whose keys the secondary has something newer of."""
READ = 5
"""Of each partition, behind what was copied."""
POLICIES = ("--policy", "copy", "--conflicting", "quarantine")


class OwnHome(Journey):
    """A topic and connectors that nothing else of the lab knows of.

    Attributes:
        unread: what the group has not read on the secondary, and will not have there.
    """

    unread: set[str]

    def __init__(self, lab: Lab, new_drctl: NewDrctl, topic: str, **link: Any) -> None:
        self.connectors = Connectors(lab)
        self.forward, self.reverse = f"there-{topic}", f"home-{topic}"
        replicator = {
            "kind": "mirrormaker2",
            "connect": self.connectors.url,
            "connectors": {"source": self.forward},
            "reverse": {"connect": self.connectors.url, "connectors": {"source": self.reverse}},
        }
        super().__init__(lab, new_drctl, topic, replicator=replicator, **link)
        for cluster in (self.primary, self.secondary):
            allow(cluster, APP, topic)
        there = settings(lab, "primary", "secondary", topic, tasks__max="1")
        self.connectors.create(self.forward, there, running=True)
        back = settings(lab, "secondary", "primary", topic, tasks__max="1")
        self.connectors.create(self.reverse, back)

    def replicate(self, running: bool) -> None:
        (self.connectors.run if running else self.connectors.stop)(self.forward)

    def lose_the_primary(self) -> None:
        """Some of the tail is older than what the secondary has of the same keys.

        The group has read some of what is new; what is copied comes behind that.
        """
        super().lose_the_primary()
        assert len(self.write("older", OLDER, self.primary, keys="flight")) == OLDER
        assert len(self.write("newer", OLDER, self.secondary, keys="flight")) == OLDER
        held = self.in_order(self.secondary)
        read = {n: sum(each in named("copied", COPIED) for each in held[n]) + READ for n in held}
        assert len(read) == PARTITIONS
        places = [TopicPartition(self.topic, number, at) for number, at in read.items()]
        commit(self.secondary.properties(), self.group, *places)
        self.unread = {value for n, at in read.items() for value in held[n][at:]}
        self.unread |= named("tail", TAIL)

    def in_order(self, cluster: ClusterUnderTest, topic: str = "") -> dict[int, list[str]]:
        """Every record of each partition."""
        found = defaultdict[int, list[str]](list)
        there = read_topic(cluster.lab_cluster, topic or self.topic)
        for (number, _), value in sorted(there.items()):
            found[number].append(value.decode())
        return dict(found)

    @property
    def quarantine(self) -> str:
        return f"{QUARANTINE}{self.topic}"

    @property
    def end(self) -> dict[str, Any]:
        """All that a way home leaves, and what its report says."""
        both = (self.primary, self.secondary)
        config = self.connectors.config(self.reverse)
        return {
            **told_of(self),
            "records": {each.name: self.in_order(each) for each in both},
            "quarantined": self.in_order(self.secondary, self.quarantine),
            "positions": positions_on(self.primary, self.group),
            "led_to": self.led_to,
            "connectors": self.connectors.states(self.forward, self.reverse),
            "filter": {k: v for k, v in config.items() if "transforms" in k or "predicates" in k},
            "denied": {each.name: denials(each, self.topic) for each in both},
        }

    def close(self) -> None:
        self.connectors.close()
        for cluster in (self.primary, self.secondary):
            forget(cluster, self.topic)
        self.secondary.delete_topics([self.quarantine])


def held(records: dict[int, list[str]]) -> Counter[str]:
    """Each value, wherever it stands."""
    return Counter(value for values in records.values() for value in values)
