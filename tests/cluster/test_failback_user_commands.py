"""Failover and failback with a user-supplied fence, a DNS name and a proxy.

The command fences the primary in the failover; the fence stays while clients are away, and the
same command lifts it in the failback. A person fences the secondary: the command is for the
primary.
"""

import subprocess
from pathlib import Path

import pytest

from tests.cluster.dns_and_proxy import Front, fence_of, front
from tests.cluster.failback_stage import BACK, COPIED, HAD, NEW, named
from tests.cluster.failover_stage import APP, PARTITIONS
from tests.cluster.isolated_failbacks import OwnFailback
from tests.cluster.lab_link import Site
from tests.cluster.link_command import GO, NOTHING_LOST, steps_of, yes
from tests.cluster.test_failover_fence_and_endpoints import TO_PRIMARY, TO_SECONDARY, address_of
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.endpoints, pytest.mark.nightly, pytest.mark.timeout(600)]

BY_PEOPLE = ("fence-producers", "stop-consumers")


class ByUserCommands(OwnFailback):
    """A failback whose fence and endpoints are user-supplied."""

    def __init__(self, site: Site, folder: Path) -> None:
        self.front: Front = site.opened.enter_context(front(folder, *site.clusters))
        topic, self.file = site.new_topic(PARTITIONS), folder / "fence.json"
        self.fence, fence = fence_of(site.primary, topic, APP, self.file)
        by_name, by_proxy = self.front.endpoints
        through = {**by_proxy, "bootstrap": self.front.through_proxy}
        super().__init__(site, topic, fence=fence, endpoints=[by_name, through])

    @property
    def fenced(self) -> bool:
        """Whether the user-supplied command reports the primary as fenced."""
        shown = [*self.fence, "shown", str(self.file)]
        return subprocess.run(shown, timeout=30, check=False).returncode == 0

    def directs_to(self, cluster: ClusterUnderTest) -> bool:
        """Whether both the name and the proxy direct clients to the cluster."""
        states = TO_PRIMARY if cluster.name == "primary" else TO_SECONDARY
        return (self.front.by_name, self.front.states) == (address_of(cluster), states)


@pytest.fixture
def by_site(site: Site, tmp_path: Path) -> ByUserCommands:
    return site.keep(ByUserCommands(site, tmp_path))


def test_the_command_that_fenced_the_primary_lifts_the_fence(by_site: ByUserCommands) -> None:
    site = by_site
    site.wrote("copied", COPIED, site.primary)
    read = site.read(site.group, site.primary, named("copied", COPIED))
    out = site.json("failover", *GO, code=0)
    assert out["status"] == "done"
    assert site.fenced
    assert site.directs_to(site.secondary)
    assert site.write("shut-out", 1, site.primary) == []
    site.wrote("new", NEW, site.secondary)
    read += site.read(site.group, site.secondary, named("new", NEW))
    assert sorted(read) == sorted(HAD)

    failed_back = site.json(*BACK, *yes(*BY_PEOPLE), *GO, code=0)
    assert failed_back["rpo"] == NOTHING_LOST
    order = [step["id"] for step in failed_back["steps"] if step["status"] == "done"]
    assert (
        order.index("enable-writes") < order.index("lift-fence") < order.index("switch-endpoint-1")
    )
    assert not site.fenced
    assert site.directs_to(site.primary)
    details = steps_of(failed_back, "detail")
    assert details["switch-endpoint-2"].endswith(
        "; a client that connects through it is on primary"
    ), details["switch-endpoint-2"]

    site.keeps_running(HAD, read, again=False)
