"""Out and home again by the site's own means: a command fences, a name and a proxy lead clients.

On the way out the command closes the primary; it stays closed while the clients are away, and on
the way home the same command lets them in again. What is fenced on the secondary a person does:
the command was written for the primary.
"""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from drctl.lab.lab import Lab
from drctl.lab.waiting import Patience
from tests.cluster import fence_program
from tests.cluster.conftest import NewDrctl
from tests.cluster.front import Front, front
from tests.cluster.own_homes import OwnHome
from tests.cluster.test_failover_means import TO_PRIMARY, TO_SECONDARY, address_of
from tests.cluster.way_home import APP, COPIED, GO, LATER, NEW, PARTITIONS, named, steps_of
from tests.conftest import NewTopic
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [
    pytest.mark.jvm,
    pytest.mark.endpoints,
    pytest.mark.nightly,
    pytest.mark.timeout(600),
]

BY_PEOPLE = ("fence-producers", "stop-consumers")


class BySite(OwnHome):
    """A home whose fence and endpoints drctl reaches only as the site says."""

    def __init__(
        self, lab: Lab, new_drctl: NewDrctl, topic: str, folder: Path, opened: ExitStack
    ) -> None:
        ends = [ClusterUnderTest(lab.cluster(name)) for name in ("primary", "secondary")]
        self.front: Front = opened.enter_context(front(folder, *ends))
        self.fence = sys.executable, str(Path(fence_program.__file__))
        self.file = folder / "fence.json"
        self.file.touch(mode=0o600)
        given = {"properties": ends[0].properties(), "topic": topic, "user": APP}
        self.file.write_text(json.dumps(given), encoding="utf-8")
        words = {"command": "set", "undo": "lift", "verify": "shown"}
        by_name, by_proxy = self.front.endpoints
        super().__init__(
            lab,
            new_drctl,
            topic,
            fence={
                "method": "command",
                **{key: [*self.fence, word, str(self.file)] for key, word in words.items()},
            },
            endpoints=[by_name, {**by_proxy, "bootstrap": self.front.through_proxy}],
        )

    @property
    def fenced(self) -> bool:
        """What the site's command says of the primary."""
        shown = [*self.fence, "shown", str(self.file)]
        return subprocess.run(shown, timeout=30, check=False).returncode == 0

    def leads_to(self, cluster: ClusterUnderTest) -> bool:
        """Whether the name and the proxy both do."""
        states = TO_PRIMARY if cluster.name == "primary" else TO_SECONDARY
        return (self.front.by_name, self.front.states) == (address_of(cluster), states)


@pytest.fixture
def site(lab: Lab, new_drctl: NewDrctl, new_topic: NewTopic, tmp_path: Path) -> Iterator[BySite]:
    with ExitStack() as opened:
        made = BySite(lab, new_drctl, new_topic(PARTITIONS), tmp_path, opened)
        try:
            yield made
        finally:
            made.close()


def test_the_command_that_closed_the_primary_lets_the_clients_in_again(site: BySite) -> None:
    assert len(site.write("copied", COPIED, site.primary)) == COPIED
    read = site.read(site.group, site.primary, named("copied", COPIED))
    out = site.json("failover", *GO, code=0)
    assert out["status"] == "done"
    assert site.fenced
    assert site.leads_to(site.secondary)
    assert site.write("shut-out", 1, site.primary) == []
    assert len(site.write("new", NEW, site.secondary)) == NEW
    read += site.read(site.group, site.secondary, named("new", NEW))
    assert sorted(read) == sorted(named("copied", COPIED) | named("new", NEW))

    answers = [word for each in BY_PEOPLE for word in ("--answer", f"{each}=yes")]
    home = site.json("failback", "--policy", "copy", *answers, *GO, code=0)
    assert home["rpo"] == {"records": 0, "at_least": 0, "at_most": 0, "seconds": 0, "exact": True}
    order = [step["id"] for step in home["steps"] if step["status"] == "done"]
    assert order.index("open-target") < order.index("let-in") < order.index("switch-endpoint-1")
    assert not site.fenced
    assert site.leads_to(site.primary)
    told = steps_of(home, "detail")
    assert told["switch-endpoint-2"].endswith(
        "; a client that connects through it is on primary"
    ), told["switch-endpoint-2"]

    everything = named("copied", COPIED) | named("new", NEW)
    later = set(site.write("later", LATER, site.primary))
    assert len(later) == LATER
    everything |= later
    assert Patience.of(60).wait_until(lambda: site.held(site.secondary) >= len(everything))
    for cluster in (site.primary, site.secondary):
        assert site.all_of(cluster) == Counter(everything), cluster.name
    read += site.read(site.group, site.primary, later)
    assert sorted(read) == sorted(everything), "a group has skipped, or read twice"
