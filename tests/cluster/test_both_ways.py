"""Two sites that copy to each other: one is lost, and comes back.

Where each has topics of its own, the primary's topic goes to the secondary and home again, by the
runbook. The secondary's topic goes on being written all the while; what copies it to the primary
waits for the primary.
"""

import signal
from collections import Counter
from collections.abc import Iterator
from uuid import uuid4

import pytest

from drctl.lab.cluster import read_topic
from drctl.lab.lab import Lab
from drctl.lab.scenarios import stage
from drctl.lab.waiting import Patience
from tests.cluster.conftest import NewDrctl
from tests.cluster.own_connectors import Connectors, settings
from tests.cluster.way_home import (
    COPIED,
    GO,
    NEW,
    PARTITIONS,
    TAIL,
    Journey,
    named,
    steps_of,
)
from tests.conftest import NewTopic
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

WEST = 40
BY_PEOPLE = ("healthy", "nobody-else", "looked-at", "nobody-left", "left-behind")
FORWARD = ("mm2-source", "mm2-checkpoint", "mm2-heartbeat")


class BothWays(Journey):
    """A link in each direction; names are kept, and no topic is written at both sites."""

    def __init__(self, lab: Lab, new_drctl: NewDrctl, new_topic: NewTopic) -> None:
        unique = uuid4().hex[:6]
        self.back, self.westward, self.reverse = f"west-{unique}", f"ba-{unique}", f"home-{unique}"
        self.connectors = Connectors(lab)
        url = self.connectors.url
        self.west = new_topic(PARTITIONS)
        topic = new_topic(PARTITIONS, mirrored=True)
        replicator = {
            "kind": "mirrormaker2",
            "connect": url,
            "connectors": {k: f"mm2-{k}" for k in ("source", "checkpoint", "heartbeat")},
            "reverse": {"connect": url, "connectors": {"source": self.reverse}},
        }
        other = {
            "from": "secondary",
            "to": "primary",
            "topics": [self.west],
            "groups": [f"west-app-{unique}"],
            "replicator": {
                "kind": "mirrormaker2",
                "connect": url,
                "connectors": {"source": self.westward},
            },
            "fence": {"method": "acl", "principals": ["User:west-app"]},
        }
        super().__init__(lab, new_drctl, topic, {self.back: other}, replicator=replicator)
        self.lead_to("primary")
        west = settings(lab, "secondary", "primary", self.west)
        self.connectors.create(self.westward, west, running=True)
        stage.deploy(lab, topic, self.reverse)

    def write_west(self, prefix: str) -> None:
        """Write to the secondary's own topic, and see it acknowledged."""
        producer = self.secondary.producer()
        for number in range(WEST):
            producer.produce(self.west, value=f"{prefix}-{number}")
        assert producer.flush(30) == 0

    def west_on(self, cluster: ClusterUnderTest) -> Counter[str]:
        """Every record of that topic."""
        held = read_topic(cluster.lab_cluster, self.west)
        return Counter(value.decode() for value in held.values())

    def west_came(self, number: int) -> bool:
        """Whether so many are on the primary."""
        ends = self.primary.end_offsets(self.west)
        return sum(ends.values()) >= number

    def close(self) -> None:
        if not self.lab.parts.part("primary-1").process():
            self.lab.start("primary")
        self.connectors.close()
        stage.remove(self.lab, self.reverse)
        self.lab.replicate(True)


@pytest.fixture
def sites(lab: Lab, new_drctl: NewDrctl, new_topic: NewTopic) -> Iterator[BothWays]:
    made = BothWays(lab, new_drctl, new_topic)
    try:
        yield made
    finally:
        made.close()


def test_the_lost_site_comes_back_and_the_other_direction_only_waited(sites: BothWays) -> None:
    sites.write("copied", COPIED, sites.primary)
    read = sites.read(sites.group, sites.primary, named("copied", COPIED))
    sites.write_west("before")
    assert Patience.of(60).wait_until(lambda: sites.held(sites.secondary) >= COPIED)
    assert Patience.of(60).wait_until(lambda: sites.west_came(WEST))
    sites.replicate(False)
    sites.write("tail", TAIL, sites.primary)

    sites.lab.signal("primary", signal.SIGKILL)
    sites.write_west("alone")
    lost = sites.json("failover", "--mode", "unplanned", *GO, code=1)
    assert lost["status"] == "done"
    (fence,) = [what for what in lost["owed"] if "fence" in what]
    assert sites.led_to == sites.secondary.bootstrap
    assert sites.connectors.states(*FORWARD) == ["STOPPED"] * 3
    assert sites.connectors.states(sites.westward) != ["STOPPED"], "nobody asked for that"
    assert len(sites.write("new", NEW, sites.secondary)) == NEW
    read += sites.read(sites.group, sites.secondary, named("new", NEW))

    sites.lab.start("primary")
    assert Patience.of(90).wait_until(lambda: sites.west_came(2 * WEST))
    answers = (f"--answer={each}=yes" for each in BY_PEOPLE)
    runbook = ("runbook", "run", "failback", "--set", "policy=copy", *answers)
    done = sites.json(*runbook, *GO, code=0)
    assert done["status"] == "done"
    assert done["rpo"] == {"records": 0, "at_least": 0, "at_most": 0, "seconds": 0, "exact": True}
    assert f"{TAIL} copy" in steps_of(done, "detail")["home.reconcile"]
    assert done["owed"] == []
    (shown,) = [
        e["facts"]
        for e in sites.journaled()
        if e["entry"] == "done" and e["step"] == "home.settle-owed"
    ]
    # The journal says in whose words the cluster did not answer; the report says it once.
    what = fence.removesuffix(": cluster primary does not answer")
    (by,) = [each for each in shown["settled"] if each.startswith(what)]
    assert f"(run {lost['run']}): primary was closed before its records were found" in by
    assert (len(shown["settled"]), shown.get("kept", [])) == (len(lost["owed"]), [])
    assert sites.led_to == sites.primary.bootstrap
    assert sites.connectors.states(*FORWARD, sites.westward) == ["RUNNING"] * 4
    assert sites.connectors.states(sites.reverse) == ["STOPPED"]

    everything = named("copied", COPIED) | named("tail", TAIL) | named("new", NEW)
    west = named("before", WEST) | named("alone", WEST)
    for cluster in (sites.primary, sites.secondary):
        assert sites.all_of(cluster) == Counter(everything), cluster.name
        assert sites.west_on(cluster) == Counter(west), cluster.name
    read += sites.read_on(read, everything)
    assert set(read) == everything
