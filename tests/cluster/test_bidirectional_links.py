"""Two clusters that replicate to each other: one is lost and recovers.

Each cluster has topics of its own. The primary's topic fails over and back by the runbook. The
secondary's topic is written throughout; its replication to the primary waits for the primary.
"""

import signal
from collections import Counter
from uuid import uuid4

import pytest

from drctl.lab.cluster import read_topic
from tests.cluster.failback_stage import COPIED, EVERYTHING, NEW, TAIL, MirrorMakerFailback, named
from tests.cluster.failover_stage import FORWARD, PARTITIONS
from tests.cluster.isolated_connectors import Connectors, mirror_of, settings
from tests.cluster.lab_link import Site
from tests.cluster.link_command import GO, soon, steps_of, yes
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

WEST = 40
BY_PEOPLE = ("healthy", "no-other-writers", "check-order", "no-clients-left", "hand-over-records")


class BothWays(MirrorMakerFailback):
    """A link in each direction; names are kept, and no topic is written on both clusters."""

    def __init__(self, site: Site) -> None:
        unique = uuid4().hex[:6]
        self.back, self.westward = f"west-{unique}", f"ba-{unique}"
        self.connectors = Connectors(site.lab)
        self.west = site.new_topic(PARTITIONS)
        other = {
            "from": "secondary",
            "to": "primary",
            "topics": [self.west],
            "groups": [f"west-app-{unique}"],
            "replicator": mirror_of(site.lab, self.westward),
            "fence": {"method": "acl", "principals": ["User:west-app"]},
        }
        super().__init__(site, {self.back: other})
        self.direct_to("primary")
        west = settings(site.lab, "secondary", "primary", self.west)
        self.connectors.create(self.westward, west, running=True)

    def write_west(self, prefix: str) -> None:
        """Write to the secondary's own topic; all records are acknowledged."""
        producer = self.secondary.producer()
        for number in range(WEST):
            producer.produce(self.west, value=f"{prefix}-{number}")
        assert producer.flush(30) == 0

    def west_records(self, cluster: ClusterUnderTest) -> Counter[str]:
        """Return every record of that topic."""
        held = read_topic(cluster.lab_cluster, self.west)
        return Counter(value.decode() for value in held.values())

    def west_came(self, number: int) -> None:
        """Wait until this many are on the primary."""
        soon(lambda: sum(self.primary.end_offsets(self.west).values()) >= number, "", 90)

    def close(self) -> None:
        self.lab.start("primary")
        self.connectors.close()
        super().close()


@pytest.fixture
def sites(site: Site) -> BothWays:
    return site.keep(BothWays(site))


@pytest.mark.nightly
def test_the_lost_cluster_recovers_and_the_opposite_link_only_waited(sites: BothWays) -> None:
    sites.write_copied()
    read = sites.read(sites.group, sites.primary, named("copied", COPIED))
    sites.write_west("before")
    sites.west_came(WEST)
    sites.replicate(False)
    sites.write("tail", TAIL, sites.primary)

    sites.lab.signal("primary", signal.SIGKILL)
    sites.write_west("alone")
    lost = sites.json("failover", "--mode", "unplanned", *GO, code=1)
    assert lost["status"] == "done"
    (fence,) = [what for what in lost["outstanding"] if "fence" in what]
    assert sites.directed_to == sites.secondary.bootstrap
    assert sites.states(*FORWARD.values()) == ["STOPPED"] * 3
    assert sites.states(sites.westward) == ["RUNNING"], "the other direction was stopped, too"
    sites.wrote("new", NEW, sites.secondary)
    read += sites.read(sites.group, sites.secondary, named("new", NEW))

    sites.lab.start("primary")
    sites.west_came(2 * WEST)
    runbook = ("runbook", "run", "failback", "--set", "policy=copy", *yes(*BY_PEOPLE))
    done = sites.completed_failback(*runbook)
    assert f"copy: {TAIL}" in steps_of(done, "detail")["failback.reconcile"]
    assert done["outstanding"] == []
    (shown,) = [each["facts"] for each in sites.entries("done", "failback.resolve-outstanding")]
    # The report and the journal describe the missing response differently.
    what = fence.removesuffix(": cluster primary does not answer")
    (by,) = [each for each in shown["settled"] if each.startswith(what)]
    assert f"(run {lost['run']}): primary was fenced before its records were searched" in by
    assert (len(shown["settled"]), shown["kept"]) == (len(lost["outstanding"]), [])
    sites.runs_forward()
    assert sites.states(sites.westward) == ["RUNNING"]

    west = named("before", WEST) | named("alone", WEST)
    sites.both_hold(EVERYTHING)
    for cluster in (sites.primary, sites.secondary):
        assert sites.west_records(cluster) == Counter(west), cluster.name
    read += sites.read_rest(read, EVERYTHING)
    assert set(read) == EVERYTHING
