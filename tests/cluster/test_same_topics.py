"""Both sites write the same topic, each copy is named after the site that it comes from.

One site is lost, and comes back: there is nothing to come home to, for every topic has one writer.
A group that read both topics there goes on away from it, and goes on there again.
"""

import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from uuid import uuid4

import pytest
from confluent_kafka import Consumer

from drctl.kafka.connection import Connection
from drctl.kafka.groups import KafkaGroupReader
from drctl.lab.cluster import read_topic
from drctl.lab.lab import Lab
from drctl.lab.waiting import Patience
from drctl.model.topology import Unavailable
from tests.cluster.conftest import NewDrctl
from tests.cluster.offsets_command import OffsetsCommand
from tests.cluster.own_connectors import Connectors, settings
from tests.cluster.rights import allow, forget
from tests.cluster.way_home import APP, COPIED, GO, NEW, PARTITIONS, TAIL, Journey, named
from tests.conftest import NewTopic
from tests.lab.cluster_under_test import QUIET, ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(600)]

Places = Mapping[tuple[str, int], int]


class SameTopics(Journey):
    """Both sites write the same topic; each copy has the name of the site that it comes from."""

    def __init__(self, lab: Lab, new_drctl: NewDrctl, new_topic: NewTopic) -> None:
        unique = uuid4().hex[:6]
        self.east, self.west = f"e{unique}", f"w{unique}"
        self.there, self.here, self.back = f"ab-{unique}", f"ba-{unique}", f"back-{unique}"
        self.connectors = Connectors(lab)
        topic = new_topic(PARTITIONS)
        sections = [
            {
                "kind": "mirrormaker2",
                "connect": self.connectors.url,
                "connectors": {"source": name},
                "rename": f"{alias}.${{topic}}",
            }
            for name, alias in ((self.there, self.east), (self.here, self.west))
        ]
        other = {
            "from": "secondary",
            "to": "primary",
            "topics": [topic],
            "groups": [f"reads-both-{unique}"],
            "replicator": sections[1],
        }
        groups = other["groups"]
        super().__init__(
            lab, new_drctl, topic, {self.back: other}, replicator=sections[0], groups=groups
        )
        (self.group,) = groups
        self.lead_to("primary")
        for name, source, target, one, two in (
            (self.there, "primary", "secondary", self.east, self.west),
            (self.here, "secondary", "primary", self.west, self.east),
        ):
            names = {"source__cluster__alias": one, "target__cluster__alias": two}
            config = settings(lab, source, target, rf"{topic}|.*\.{topic}", "Default", **names)
            self.connectors.create(name, config, running=True)
        for cluster in (self.primary, self.secondary):
            allow(cluster, APP, topic)
        allow(self.secondary, APP, f"{self.east}.{topic}")

    def copies_on(self, cluster: ClusterUnderTest) -> Counter[str]:
        """Every record that came from the other site."""
        alias = self.west if cluster is self.primary else self.east
        held = read_topic(cluster.lab_cluster, f"{alias}.{self.topic}")
        return Counter(value.decode() for value in held.values())

    def copied(self, cluster: ClusterUnderTest, number: int) -> bool:
        """Whether so many came to it."""
        alias = self.west if cluster is self.primary else self.east
        name = f"{alias}.{self.topic}"
        there = cluster.admin.list_topics(timeout=30).topics
        return name in there and sum(cluster.end_offsets(name).values()) >= number

    def copy_on(self, cluster: ClusterUnderTest) -> str:
        """What the other site's topic is called there."""
        return f"{self.west if cluster is self.primary else self.east}.{self.topic}"

    def read_both(self, cluster: ClusterUnderTest, wanted: set[str]) -> Counter[str]:
        """Read the site's own topic and the copy in the group, until it has these; commit."""
        own = {"group.id": self.group, "enable.auto.commit": False, "session.timeout.ms": 6000}
        consumer = Consumer(
            {**cluster.properties(), **own, "auto.offset.reset": "earliest"}, logger=QUIET
        )
        values: Counter[str] = Counter()

        def enough() -> bool:
            for message in consumer.consume(500, timeout=0.2):
                assert message.error() is None, message.error()
                values[(message.value() or b"").decode()] += 1
            return wanted <= set(values)

        try:
            consumer.subscribe([self.topic, self.copy_on(cluster)])
            assert Patience.of(60).wait_until(enough), sorted(wanted - set(values))
            consumer.commit(asynchronous=False)
        finally:
            consumer.close()
        return values

    def stands(self, cluster: ClusterUnderTest) -> Places:
        """Where the group does, by topic and partition."""
        with KafkaGroupReader(Connection(cluster.name, cluster.properties())) as reader:
            found = reader.committed((self.group,))[self.group]
        assert not isinstance(found, Unavailable), found
        return {(place.topic, place.partition): at.offset for place, at in found.items()}

    def ends(self, cluster: ClusterUnderTest, *topics: str) -> Places:
        """Where topics end."""
        return {
            (topic, number): end
            for topic in topics
            for number, end in cluster.end_offsets(topic).items()
        }

    def replicate(self, running: bool) -> None:
        (self.connectors.run if running else self.connectors.stop)(self.there)

    def close(self) -> None:
        self.lab.start("primary")
        self.connectors.close()
        forget(self.secondary, f"{self.east}.{self.topic}")
        for cluster in (self.primary, self.secondary):
            forget(cluster, self.topic)
            names = cluster.admin.list_topics(timeout=30).topics
            cluster.delete_topics(n for n in names if self.east in n or self.west in n)


@pytest.fixture
def same(lab: Lab, new_drctl: NewDrctl, new_topic: NewTopic) -> Iterator[SameTopics]:
    made = SameTopics(lab, new_drctl, new_topic)
    try:
        yield made
    finally:
        made.close()


def test_a_lost_site_has_nothing_to_come_home_to_and_its_group_skips_nothing(
    same: SameTopics,
) -> None:
    primary, secondary, topic = same.primary, same.secondary, same.topic
    east = set(same.write("east", COPIED, primary))
    west = set(same.write("west", COPIED, secondary))
    for cluster in (primary, secondary):
        assert Patience.of(60).wait_until(lambda c=cluster: same.copied(c, COPIED)), cluster.name
    read = same.read_both(primary, east | west)
    before = same.stands(primary)
    assert before == same.ends(primary, topic, same.copy_on(primary))
    assert not same.stands(secondary)
    note = ("track", "--once", "--link", same.link, *GO)
    OffsetsCommand(same.drctl.config).json(*note)
    same.replicate(False)
    east |= set(same.write("tail", TAIL, primary))

    same.lab.signal("primary", signal.SIGKILL)
    lost = same.json("failover", "--mode", "unplanned", *GO, code=1)
    assert lost["status"] == "done"
    copy = same.copy_on(secondary)
    assert same.stands(secondary) == same.ends(secondary, copy), "one link moves one topic"
    moved = set(same.write("moved", NEW, secondary))
    west |= moved
    away = same.read_both(secondary, moved)
    assert set(away) == west, "what the other link copies it had no position in"
    stood = same.stands(secondary)

    same.lab.start("primary")
    refused = same.run("failback", "--policy", "copy")
    assert refused.code == 2
    assert f"calls topics {same.west}.TOPIC there" in refused.stderr
    same.replicate(True)
    assert Patience.of(90).wait_until(lambda: same.copied(primary, COPIED + NEW))
    assert Patience.of(60).wait_until(lambda: same.copied(secondary, COPIED + TAIL))
    assert same.all_of(primary) == same.copies_on(secondary) == Counter(east)
    assert same.all_of(secondary) == same.copies_on(primary) == Counter(west)
    for link in (same.link, same.back):
        assert same.run("gap", "--scope", "full", link=link).code == 0

    assert same.stands(primary) == before, "nobody moved it while it was away"
    assert same.stands(secondary) == stood
    home = same.read_both(primary, named("tail", TAIL) | moved)
    assert home == Counter(named("tail", TAIL) | moved)
    assert set(read) | set(home) == east | west
    assert same.stands(primary) == same.ends(primary, topic, same.copy_on(primary))
