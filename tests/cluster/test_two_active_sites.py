"""Both clusters write the same topic; each copy has its origin's prefix.

One cluster is lost and recovers. Every topic has one writer, so there is nothing to fail back. A
group that read both topics there moves away and returns.
"""

import signal
from collections import Counter
from uuid import uuid4

import pytest

from tests.cluster.failback_stage import BACK, COPIED, NEW, TAIL, FailbackStage, named
from tests.cluster.failover_stage import APP, PARTITIONS, consumed
from tests.cluster.groups import places_on
from tests.cluster.isolated_connectors import Connectors, mirror_of, settings
from tests.cluster.isolated_failbacks import held
from tests.cluster.lab_link import Site
from tests.cluster.link_command import GO, soon
from tests.cluster.topic_acls import allow, forget
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(600)]


class SameTopics(FailbackStage):
    """Both clusters write the same topic; each copy has the prefix of its origin."""

    def __init__(self, site: Site) -> None:
        unique, lab = uuid4().hex[:6], site.lab
        self.east, self.west = f"e{unique}", f"w{unique}"
        self.there, self.here, self.back = f"ab-{unique}", f"ba-{unique}", f"back-{unique}"
        self.connectors = Connectors(lab)
        topic, groups = site.new_topic(PARTITIONS), [f"reads-both-{unique}"]
        there, here = (
            mirror_of(lab, name, rename=f"{alias}.${{topic}}")
            for name, alias in ((self.there, self.east), (self.here, self.west))
        )
        other = {"from": "secondary", "to": "primary", "topics": [topic], "groups": groups}
        beside = {self.back: {**other, "replicator": here}}
        super().__init__(site, topic, beside, replicator=there, groups=groups)
        (self.group,) = groups
        self.direct_to("primary")
        for name, source, target, one, two in (
            (self.there, "primary", "secondary", self.east, self.west),
            (self.here, "secondary", "primary", self.west, self.east),
        ):
            names = {"source__cluster__alias": one, "target__cluster__alias": two}
            config = settings(lab, source, target, rf"{topic}|.*\.{topic}", "Default", **names)
            self.connectors.create(name, config, running=True)
        self.allow_applications()
        allow(self.secondary, APP, f"{self.east}.{topic}")

    def copy_on(self, cluster: ClusterUnderTest) -> str:
        """Return the name of the other cluster's topic on this one."""
        return f"{self.west if cluster is self.primary else self.east}.{self.topic}"

    def copies_on(self, cluster: ClusterUnderTest) -> Counter[str]:
        """Return every record that came from the other cluster."""
        return held(self.in_order(cluster, self.copy_on(cluster)))

    def copied(self, cluster: ClusterUnderTest, number: int) -> None:
        """Wait until this many were replicated to it."""
        name = self.copy_on(cluster)

        def there() -> bool:
            known = cluster.admin.list_topics(timeout=30).topics
            return name in known and sum(cluster.end_offsets(name).values()) >= number

        soon(there, f"{name} is not copied", 90)

    def read_both(self, cluster: ClusterUnderTest, wanted: set[str]) -> Counter[str]:
        """Read the cluster's own topic and the copy as the group until it has these; commit."""
        own = {"session.timeout.ms": 6000}
        topics = [self.topic, self.copy_on(cluster)]
        enough = lambda got: wanted <= set(got)  # noqa: E731
        values, came = consumed(cluster, self.group, topics, enough, **own)
        assert came, sorted(wanted - set(values))
        return Counter(values)

    def committed(self, cluster: ClusterUnderTest) -> dict[tuple[str, int], int]:
        """Return the group's committed offsets by topic and partition."""
        return places_on(cluster, self.group)

    def ends_of(self, cluster: ClusterUnderTest, *topics: str) -> dict[tuple[str, int], int]:
        """Return the end offsets of topics."""
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
            names = cluster.admin.list_topics(timeout=30).topics
            cluster.delete_topics(n for n in names if self.east in n or self.west in n)


@pytest.fixture
def same(site: Site) -> SameTopics:
    return site.keep(SameTopics(site))


def test_a_recovered_cluster_needs_no_failback_and_its_group_skips_nothing(
    same: SameTopics,
) -> None:
    primary, secondary, topic = same.primary, same.secondary, same.topic
    east = same.wrote("east", COPIED, primary)
    west = same.wrote("west", COPIED, secondary)
    for cluster in (primary, secondary):
        same.copied(cluster, COPIED)
    read = same.read_both(primary, east | west)
    before = same.committed(primary)
    assert before == same.ends_of(primary, topic, same.copy_on(primary))
    assert not same.committed(secondary)
    note = ("track", "--once", "--link", same.link, *GO)
    same.drctl.offsets.json(*note)
    same.replicate(False)
    east |= same.wrote("tail", TAIL, primary)

    same.lab.signal("primary", signal.SIGKILL)
    lost = same.json("failover", "--mode", "unplanned", *GO, code=1)
    assert lost["status"] == "done"
    copy = same.copy_on(secondary)
    assert same.committed(secondary) == same.ends_of(secondary, copy), (
        "the failover of one link moved offsets in another topic"
    )
    moved = same.wrote("moved", NEW, secondary)
    west |= moved
    away = same.read_both(secondary, moved)
    assert set(away) == west, "the group did not read the other topic from the start"
    moved_offsets = same.committed(secondary)

    same.lab.start("primary")
    assert f"renames TOPIC to {same.west}.TOPIC" in same.refused(*BACK, code=2)
    same.replicate(True)
    same.copied(primary, COPIED + NEW)
    same.copied(secondary, COPIED + TAIL)
    assert same.all_of(primary) == same.copies_on(secondary) == Counter(east)
    assert same.all_of(secondary) == same.copies_on(primary) == Counter(west)
    for link in (same.link, same.back):
        assert same.run("gap", "--scope", "full", link=link).code == 0

    assert same.committed(primary) == before, "the group's offsets on the primary have changed"
    assert same.committed(secondary) == moved_offsets
    on_primary = same.read_both(primary, named("tail", TAIL) | moved)
    assert on_primary == Counter(named("tail", TAIL) | moved)
    assert set(read) | set(on_primary) == east | west
    assert same.committed(primary) == same.ends_of(primary, topic, same.copy_on(primary))
