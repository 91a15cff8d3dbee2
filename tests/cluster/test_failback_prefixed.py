"""The way home where MirrorMaker 2 gives copies other names, as its default policy does.

The group went on in `ALIAS.TOPIC` on the secondary, and the application writes there. What is new
comes home to `TOPIC`; both sites hold each record once.
"""

from collections import Counter
from collections.abc import Iterator
from uuid import uuid4

import pytest

from drctl.lab.lab import Lab
from drctl.lab.waiting import Patience
from tests.cluster.conftest import NewDrctl
from tests.cluster.own_connectors import ROUTER, Connectors, settings
from tests.cluster.rights import allow, forget
from tests.cluster.way_home import (
    APP,
    COPIED,
    GO,
    LATER,
    NEW,
    PARTITIONS,
    TAIL,
    Journey,
    named,
    steps_of,
)
from tests.conftest import NewTopic
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(600)]


class Prefixed(Journey):
    """`TOPIC` is called `ALIAS.TOPIC` on the secondary."""

    def __init__(self, lab: Lab, new_drctl: NewDrctl, new_topic: NewTopic) -> None:
        unique = uuid4().hex[:6]
        self.alias, self.forward, self.reverse = f"e{unique}", f"there-{unique}", f"home-{unique}"
        self.connectors = Connectors(lab)
        replicator = {
            "kind": "mirrormaker2",
            "connect": self.connectors.url,
            "connectors": {"source": self.forward},
            "rename": f"{self.alias}.${{topic}}",
            "reverse": {"connect": self.connectors.url, "connectors": {"source": self.reverse}},
        }
        topic = new_topic(PARTITIONS, on=("primary",))
        super().__init__(lab, new_drctl, topic, replicator=replicator)
        for cluster in (self.primary, self.secondary):
            allow(cluster, APP, self.name_on(cluster))
        there = settings(
            lab, "primary", "secondary", topic, "Default", source__cluster__alias=self.alias
        )
        self.connectors.create(self.forward, there, running=True)
        # As somebody would who only turns the other one round.
        back = settings(
            lab,
            "secondary",
            "primary",
            rf"{self.alias}\.{topic}",
            target__cluster__alias=self.alias,
        )
        self.connectors.create(self.reverse, back)
        assert Patience.of(60).wait_until(lambda: self.copy in self.topics(self.secondary))

    @property
    def copy(self) -> str:
        """What the topic is called on the secondary."""
        return f"{self.alias}.{self.topic}"

    def name_on(self, cluster: ClusterUnderTest) -> str:
        return self.topic if cluster.name == "primary" else self.copy

    def topics(self, cluster: ClusterUnderTest) -> set[str]:
        return set(cluster.admin.list_topics(timeout=30).topics)

    def replicate(self, running: bool) -> None:
        (self.connectors.run if running else self.connectors.stop)(self.forward)

    def name_them_at_home(self) -> None:
        """As the refusal says."""
        self.connectors.configure(
            self.reverse,
            transforms="home",
            transforms__home__type=ROUTER,
            transforms__home__regex=rf"{self.alias}\.(.*)",
            transforms__home__replacement="$1",
        )

    def against(self) -> str:
        """What stands against the way home."""
        plan = self.json("failback", "--policy", "copy", code=3)
        return "; ".join(each["reason"] for each in plan["findings"])

    def close(self) -> None:
        self.connectors.close()
        for cluster in (self.primary, self.secondary):
            forget(cluster, self.name_on(cluster))
            cluster.delete_topics(name for name in self.topics(cluster) if self.alias in name)
        self.secondary.delete_topics([self.topic])


@pytest.fixture
def story(lab: Lab, new_drctl: NewDrctl, new_topic: NewTopic) -> Iterator[Prefixed]:
    made = Prefixed(lab, new_drctl, new_topic)
    try:
        made.lose_the_primary()
        yield made
    finally:
        made.close()


def test_records_come_home_from_the_copies_under_the_topics_own_name(story: Prefixed) -> None:
    read = story.read(story.group, story.secondary, named("copied", COPIED) | named("new", NEW))

    assert f"{story.copy} would come to {story.copy}, not to {story.topic}" in story.against()
    story.name_them_at_home()
    assert story.json("failback", "--policy", "copy", code=0)

    story.secondary.create_topic(story.topic)
    producer = story.secondary.producer()
    producer.produce(story.topic, value="beside")
    assert producer.flush(30) == 0
    assert f"{story.topic} (beside {story.copy})" in story.against()
    story.secondary.delete_topics([story.topic])
    assert Patience.of(30).wait_until(lambda: story.topic not in story.topics(story.secondary))

    story.kill_at("bring-home", "failback", "--policy", "copy", *GO)
    done = story.json("resume", *GO, code=0)
    assert done["status"] == "done", done
    assert done["rpo"] == {"records": 0, "at_least": 0, "at_most": 0, "seconds": 0, "exact": True}
    assert story.led_to == story.primary.bootstrap
    assert f"{TAIL} copy" in steps_of(done, "detail")["reconcile"]

    everything = named("copied", COPIED) | named("tail", TAIL) | named("new", NEW)
    for cluster in (story.primary, story.secondary):
        assert story.all_of(cluster) == Counter(everything), cluster.name
    later = set(story.write("later", LATER, story.primary))
    assert len(later) == LATER
    everything |= later
    assert Patience.of(60).wait_until(lambda: story.held(story.secondary) >= len(everything))
    assert story.all_of(story.secondary) == Counter(everything)
    story.judged_at_home()
    assert story.connectors.states(story.forward, story.reverse) == ["RUNNING", "STOPPED"]
    read += story.read_on(read, everything)
    assert set(read) == everything
