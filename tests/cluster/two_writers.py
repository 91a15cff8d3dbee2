"""Two clusters whose applications write the same topic; MirrorMaker 2 runs both ways.

A header marks copies: each connector skips records that have it, and adds it.
"""

import signal
from collections import Counter
from typing import Any, NamedTuple
from uuid import uuid4

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from tests.cluster.failback_stage import FailbackStage
from tests.cluster.failover_stage import PARTITIONS
from tests.cluster.isolated_connectors import Connectors, mirror_of, settings
from tests.cluster.lab_link import Site
from tests.cluster.link_command import GO, soon
from tests.lab.cluster_under_test import QUIET, ClusterUnderTest

SITE = "site"
"""Name of the header that marks copies."""

_KAFKA = "org.apache.kafka.connect"
TRANSFORMS = {
    "transforms": "skip,mark",
    "transforms.skip.type": f"{_KAFKA}.transforms.Filter",
    "transforms.skip.predicate": "copied",
    "predicates": "copied",
    "predicates.copied.type": f"{_KAFKA}.transforms.predicates.HasHeaderKey",
    "predicates.copied.name": SITE,
    "transforms.mark.type": f"{_KAFKA}.transforms.InsertHeader",
    "transforms.mark.header": SITE,
    "transforms.mark.value.literal": "null",
    "header.converter": f"{_KAFKA}.converters.ByteArrayConverter",
}


class Seen(NamedTuple):
    """A record as a plain consumer reads it."""

    value: str
    copied: bool


def read_all(cluster: ClusterUnderTest, topic: str) -> dict[int, list[Seen]]:
    """Return every committed record by partition, without any code of drctl."""
    properties = {"group.id": uuid4().hex, "isolation.level": "read_committed"}
    consumer = Consumer(
        {**cluster.properties(), **properties, "enable.partition.eof": True}, logger=QUIET
    )
    try:
        numbers = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        consumer.assign([TopicPartition(topic, n, OFFSET_BEGINNING) for n in numbers])
        found: dict[int, list[Seen]] = {number: [] for number in numbers}
        open_ends = set(numbers)

        def ended() -> bool:
            for message in consumer.consume(500, timeout=0.2):
                number = message.partition()
                assert number is not None
                if message.error() is not None:
                    open_ends.discard(number)  # the end of a partition
                    continue
                names = [name for name, _ in message.headers() or ()]
                value = (message.value() or b"").decode()
                found[number].append(Seen(value, SITE in names))
            return not open_ends

        soon(ended, f"{topic} of {cluster.name} has no end", 60)
        return found
    finally:
        consumer.close()


class TwoWriters(FailbackStage):
    """A topic that both clusters write, and a link in each direction."""

    def __init__(self, site: Site, **more: Any) -> None:
        unique, lab = uuid4().hex[:6], site.lab
        self.there, self.back = f"east-{unique}", f"west-{unique}"
        self.west = f"link-west-{unique}"
        self.connectors = Connectors(lab)
        topic = site.new_topic(PARTITIONS)
        same = {"topics": [topic], "origin_header": SITE}
        other = {
            "from": "secondary",
            "to": "primary",
            "groups": [f"west-app-{unique}"],
            "replicator": mirror_of(lab, self.back, rename="${topic}"),
            **same,
        }
        replicator = mirror_of(lab, self.there, rename="${topic}")
        super().__init__(site, topic, {self.west: other}, replicator=replicator, **same, **more)
        self.direct_to("primary")
        self.allow_applications()
        for name, source, target in (
            (self.there, "primary", "secondary"),
            (self.back, "secondary", "primary"),
        ):
            config = {**settings(lab, source, target, topic, tasks__max="1"), **TRANSFORMS}
            self.connectors.create(name, config, running=True)

    def replicate(self, running: bool) -> None:
        (self.connectors.run if running else self.connectors.stop)(self.there)

    def kill_primary(self) -> None:
        self.lab.signal("primary", signal.SIGKILL)

    def gap(self, link: str, code: int) -> dict[str, Any]:
        """Return the counts of `drctl gap` on a link."""
        ran = self.run("gap", "--scope", "full", "--output", "json", link=link)
        assert ran.code == code, ran.stdout + ran.stderr
        return dict(ran.document()["totals"])

    def reconcile(self, link: str, *words: str) -> None:
        ran = self.run("reconcile", "--policy", "copy", *words, *GO, link=link)
        assert ran.code == 0, ran.stdout + ran.stderr

    def values(self, cluster: ClusterUnderTest) -> Counter[str]:
        return Counter(each.value for log in read_all(cluster, self.topic).values() for each in log)

    def await_values(self, cluster: ClusterUnderTest, number: int) -> None:
        """Wait until this many records are there; end offsets also count transaction markers."""
        soon(lambda: self.values(cluster).total() >= number, f"{cluster.name}: fewer", 90)

    def both_sites_hold(self, records: set[str]) -> None:
        """Assert that each record is exactly once on both clusters."""
        for cluster in self.site.clusters:
            assert self.values(cluster) == Counter(records), cluster.name

    def keep_order(self) -> None:
        """Assert that the records of each origin have the same order on both clusters."""
        east, west = (read_all(each, self.topic) for each in self.site.clusters)
        for here, there in ((east, west), (west, east)):
            assert here.keys() == there.keys()
            for number, log in here.items():
                own = [each.value for each in log if not each.copied]
                assert own == [each.value for each in there[number] if each.copied], number

    def close(self) -> None:
        self.lab.start("primary")
        self.connectors.close()
