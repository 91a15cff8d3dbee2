"""A primary that was lost with its disks: formatted anew, it is another cluster, and is empty.

What drctl has kept of the cluster that it was (the journal, results of `drctl gap`) names an id
that nobody has any more.
"""

import signal
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from drctl.lab.cluster import read_topic
from drctl.lab.lab import Lab
from drctl.lab.waiting import Patience
from tests.cluster.conftest import drctl_of
from tests.cluster.formatting import format_anew, own_lab
from tests.cluster.offsets_command import OffsetsCommand
from tests.cluster.own_links import positions_on
from tests.cluster.test_failback import Story
from tests.cluster.way_home import COPIED, GO, LATER, NEW, PARTITIONS, TAIL, named
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(900)]

REBUILD = ("failback", "--rebuild")


class Formatted(Story):
    """On a lab of its own."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        clusters = {n: ClusterUnderTest(lab.cluster(n)) for n in ("primary", "secondary")}
        new_drctl = drctl_of(
            clusters["primary"], clusters["secondary"], lambda: _made(folder / uuid4().hex)
        )

        def new_topic(partitions: int = 1, **_: object) -> str:
            name = f"flights-{uuid4().hex[:8]}"
            for each in ("secondary", "primary"):
                clusters[each].create_topic(name, partitions)
            return name

        super().__init__(lab, new_drctl, new_topic)

    def lose_the_primary(self) -> None:
        """Its clients go on at the secondary; what was never copied dies with its disks."""
        self.lead_to("primary")
        assert len(self.write("copied", COPIED, self.primary)) == COPIED
        assert Patience.of(60).wait_until(lambda: self.held(self.secondary) >= COPIED)
        assert self.run("gap", "--scope", "full").code == 0
        self.replicate(False)
        assert len(self.write("tail", TAIL, self.primary)) == TAIL

    def logs(self, cluster: ClusterUnderTest) -> dict[int, list[bytes]]:
        """Every record, in the order of its partition."""
        found: dict[int, list[bytes]] = defaultdict(list)
        for place, value in sorted(read_topic(cluster.lab_cluster, self.topic).items()):
            found[place[0]].append(value)
        return found

    @property
    def identity(self) -> str:
        """Of the primary, as its brokers say."""
        return str(self.primary.admin.list_topics(timeout=30).cluster_id)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Formatted]:
    with own_lab(tmp_path / "lab") as lab:
        made = Formatted(lab, tmp_path)
        made.lose_the_primary()
        yield made


def test_a_cluster_of_another_id_on_empty_disks_is_filled_and_clients_come_home(
    story: Formatted,
) -> None:
    had = named("copied", COPIED) | named("tail", TAIL)
    read = story.read(story.group, story.primary, had)
    OffsetsCommand(story.drctl.config).json("track", "--once", *GO)
    before = story.identity
    story.lab.signal("primary", signal.SIGKILL)
    lost = story.json("failover", "--mode", "unplanned", *GO, code=1)
    assert lost["status"] == "done"
    assert story.led_to == story.secondary.bootstrap
    assert len(story.write("new", NEW, story.secondary)) == NEW
    read += story.read(story.group, story.secondary, named("new", NEW))

    story.lab.start("primary")
    format_anew(story.lab, "primary")
    assert story.identity != before
    refused = story.run("failback", "--policy", "copy")
    assert refused.code == 3, refused.stdout + refused.stderr
    assert "it has lost records that it had" in refused.stdout
    assert f"drctl failback --link {story.link} --rebuild" in refused.stdout

    plan = story.json(*REBUILD, code=0)
    cost = next(each["cost"] for each in plan["findings"] if each["check"] == "source-lost")
    assert f"about {COPIED + NEW} records are copied from secondary" in cost
    done = story.json(*REBUILD, *GO, code=0)
    assert done["status"] == "done", done
    assert done["rpo"] == {"records": 0, "at_least": 0, "at_most": 0, "seconds": 0, "exact": True}
    assert story.led_to == story.primary.bootstrap
    assert story.states("mm2-source", story.reverse) == ["RUNNING", "STOPPED"]

    home, away = story.logs(story.primary), story.logs(story.secondary)
    assert home == away
    assert len(home) == PARTITIONS
    everything = named("copied", COPIED) | named("new", NEW)
    assert sum(map(len, home.values())) == len(everything)
    ends = story.primary.end_offsets(story.topic)
    assert positions_on(story.primary, story.group) == ends, "it has read everything, away"
    later = set(story.write("later", LATER, story.primary))
    assert len(later) == LATER
    everything |= later
    assert Patience.of(60).wait_until(lambda: story.held(story.secondary) >= len(everything))
    assert story.logs(story.secondary) == story.logs(story.primary)
    read += story.read(story.group, story.primary, everything - set(read))
    assert sorted(read) == sorted(everything | had), "a group has skipped, or read twice"
