"""A failback with MirrorMaker 2's default policy, which renames copies.

The group continued in `ALIAS.TOPIC` on the secondary, and the application writes there. New
records return to `TOPIC`; both clusters have each record once.
"""

import signal
from uuid import uuid4

import pytest

from tests.cluster.failback_stage import BACK, COPIED, EVERYTHING, NEW, TAIL, FailbackStage, named
from tests.cluster.failover_stage import PARTITIONS
from tests.cluster.groups import positions_on
from tests.cluster.isolated_connectors import ROUTER, Connectors, mirror_of, settings
from tests.cluster.lab_link import Site
from tests.cluster.link_command import GO, soon, steps_of
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(600)]


class Prefixed(FailbackStage):
    """`TOPIC` is `ALIAS.TOPIC` on the secondary."""

    def __init__(self, site: Site) -> None:
        unique, lab = uuid4().hex[:6], site.lab
        self.alias, self.forward, self.reverse = f"e{unique}", f"there-{unique}", f"home-{unique}"
        self.connectors = Connectors(lab)
        rename = f"{self.alias}.${{topic}}"
        replicator = mirror_of(lab, self.forward, self.reverse, rename=rename)
        topic = site.new_topic(PARTITIONS, on=("primary",))
        super().__init__(site, topic, replicator=replicator)
        self.allow_applications()
        there = settings(
            lab, "primary", "secondary", topic, "Default", source__cluster__alias=self.alias
        )
        self.connectors.create(self.forward, there, running=True)
        # The forward connector with source and target exchanged, as an engineer might configure it.
        back = settings(
            lab,
            "secondary",
            "primary",
            rf"{self.alias}\.{topic}",
            target__cluster__alias=self.alias,
        )
        self.connectors.create(self.reverse, back)
        soon(lambda: self.copy in self.topics(self.secondary))

    @property
    def copy(self) -> str:
        """The topic's name on the secondary."""
        return f"{self.alias}.{self.topic}"

    def name_on(self, cluster: ClusterUnderTest) -> str:
        return self.topic if cluster.name == "primary" else self.copy

    def topics(self, cluster: ClusterUnderTest) -> set[str]:
        return set(cluster.admin.list_topics(timeout=30).topics)

    def replicate(self, running: bool) -> None:
        (self.connectors.run if running else self.connectors.stop)(self.forward)

    def name_topics_on_primary(self) -> None:
        """Set the names as the refusal says."""
        self.connectors.configure(
            self.reverse,
            transforms="home",
            transforms__home__type=ROUTER,
            transforms__home__regex=rf"{self.alias}\.(.*)",
            transforms__home__replacement="$1",
        )

    def against(self) -> str:
        """Return the blockers of the failback."""
        plan = self.json(*BACK, code=3)
        return "; ".join(each["reason"] for each in plan["findings"])

    def close(self) -> None:
        self.lab.start("primary")
        self.connectors.close()
        for cluster in self.site.clusters:
            cluster.delete_topics(name for name in self.topics(cluster) if self.alias in name)
        self.secondary.delete_topics([self.topic])


@pytest.fixture
def story(site: Site) -> Prefixed:
    return site.keep(Prefixed(site))


def test_records_of_renamed_copies_fail_back_under_the_original_topic(story: Prefixed) -> None:
    story.lose_primary()
    read = story.read_new()

    assert f"{story.copy} goes to {story.copy}, not to {story.topic}" in story.against()
    story.name_topics_on_primary()
    assert story.json(*BACK, code=0)

    story.secondary.create_topic(story.topic)
    producer = story.secondary.producer()
    producer.produce(story.topic, value="beside")
    assert producer.flush(30) == 0
    assert f"{story.topic} (its copy: {story.copy})" in story.against()
    story.secondary.delete_topics([story.topic])
    soon(lambda: story.topic not in story.topics(story.secondary))

    story.kill_at("start-reverse-replication", *BACK, *GO)
    done = story.completed_failback("resume")
    assert f"copy: {TAIL}" in steps_of(done, "detail")["reconcile"]

    story.both_hold(EVERYTHING)
    story.keeps_running(EVERYTHING, read)
    story.check_order_afterwards()
    assert story.connectors.states(story.forward, story.reverse) == ["RUNNING", "STOPPED"]


def test_a_lost_primary_with_renamed_copies_fails_over_and_back(story: Prefixed) -> None:
    """An unplanned failover to `ALIAS.TOPIC`, and a failback to `TOPIC`."""
    story.name_topics_on_primary()
    story.direct_to("primary")
    story.write_copied()
    read = story.read(story.group, story.primary, named("copied", COPIED))
    story.drctl.offsets.json("track", "--once", *GO)
    story.replicate(False)
    story.wrote("tail", TAIL, story.primary)

    story.lab.signal("primary", signal.SIGKILL)
    lost = story.json("failover", "--mode", "unplanned", *GO, code=1)
    assert lost["status"] == "done"
    assert story.directed_to == story.secondary.bootstrap
    assert story.connectors.states(story.forward) == ["STOPPED"]
    copies = story.secondary.end_offsets(story.copy)
    assert positions_on(story.secondary, story.group) == copies, "the group had read all copies"
    story.wrote("new", NEW, story.secondary)
    again = story.read(story.group, story.secondary, named("new", NEW))
    assert sorted(again) == sorted(named("new", NEW)), "the group read a record twice"
    read += again

    story.lab.start("primary")
    done = story.completed_failback(*BACK)
    assert f"copy: {TAIL}" in steps_of(done, "detail")["reconcile"]
    assert story.connectors.states(story.forward, story.reverse) == ["RUNNING", "STOPPED"]
    story.both_hold(EVERYTHING)
    story.keeps_running(EVERYTHING, read)
