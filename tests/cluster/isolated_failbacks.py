"""A failback with a topic and connectors that nothing else in the lab uses."""

from collections import Counter
from typing import Any

from confluent_kafka import TopicPartition

from drctl.reconcile.policy import QUARANTINE
from tests.cluster.end_state import report_of
from tests.cluster.failback_stage import COPIED, TAIL, FailbackStage, named
from tests.cluster.failover_stage import PARTITIONS
from tests.cluster.groups import positions_on
from tests.cluster.isolated_connectors import Connectors, mirror_of, settings
from tests.cluster.lab_link import Site
from tests.kafka.members import commit

OLDER = 6
"""Unreplicated records whose keys have newer records on the secondary."""
READ = 5
"""New records of each partition that the group reads after the replicated ones."""
POLICIES = ("--policy", "copy", "--conflicting", "quarantine")


class OwnFailback(FailbackStage):
    """A topic and connectors that nothing else in the lab uses.

    Attributes:
        unread: records that the group has not read on the secondary, and will not read there.
    """

    unread: set[str]

    def __init__(self, site: Site, topic: str = "", **link: Any) -> None:
        topic = topic or site.new_topic(PARTITIONS)
        self.connectors = Connectors(site.lab)
        self.forward, self.reverse = f"there-{topic}", f"home-{topic}"
        replicator = mirror_of(site.lab, self.forward, self.reverse)
        super().__init__(site, topic, **{"replicator": replicator, **link})
        self.allow_applications()
        there = settings(site.lab, "primary", "secondary", topic, tasks__max="1")
        self.connectors.create(self.forward, there, running=True)
        back = settings(site.lab, "secondary", "primary", topic, tasks__max="1")
        self.connectors.create(self.reverse, back)

    def replicate(self, running: bool) -> None:
        (self.connectors.run if running else self.connectors.stop)(self.forward)

    def lose_primary(self) -> None:
        """Write some unreplicated records older than records of their keys on the secondary.

        The group has read some of the new records; reconciled ones come after them.
        """
        super().lose_primary()
        self.wrote("older", OLDER, self.primary, keys="flight")
        self.wrote("newer", OLDER, self.secondary, keys="flight")
        held = self.in_order(self.secondary)
        read = {n: sum(each in named("copied", COPIED) for each in held[n]) + READ for n in held}
        assert len(read) == PARTITIONS
        places = [TopicPartition(self.topic, number, at) for number, at in read.items()]
        commit(self.secondary.properties(), self.group, *places)
        self.unread = {value for n, at in read.items() for value in held[n][at:]}
        self.unread |= named("tail", TAIL)

    @property
    def quarantine(self) -> str:
        return f"{QUARANTINE}{self.topic}"

    @property
    def shows(self) -> dict[str, Any]:
        """Return everything that a failback changes first."""
        return {
            "records": {each.name: self.in_order(each) for each in self.site.clusters},
            "denied": {each.name: self.denials(each) for each in self.site.clusters},
            "connectors": self.connectors.states(self.forward, self.reverse),
            "directed_to": self.directed_to,
        }

    @property
    def end(self) -> dict[str, Any]:
        """Return the state after a failback and its report."""
        config = self.connectors.config(self.reverse)
        return {
            **report_of(self),
            **self.shows,
            "quarantined": self.in_order(self.secondary, self.quarantine),
            "positions": positions_on(self.primary, self.group),
            "filter": {k: v for k, v in config.items() if "transforms" in k or "predicates" in k},
        }

    def close(self) -> None:
        self.lab.start("primary")
        self.connectors.close()
        self.secondary.delete_topics([self.quarantine])


def held(records: dict[int, list[str]]) -> Counter[str]:
    """Return each value with its places."""
    return Counter(value for values in records.values() for value in values)
