"""A primary that lost its disks: reformatted, it is another cluster, and empty.

drctl's evidence of the old cluster (the journal, results of `drctl gap`) names an id that no
longer exists.
"""

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.cluster.failback_stage import (
    BACK,
    COPIED,
    HAD,
    LATER,
    NEW,
    REBUILD,
    TAIL,
    MirrorMakerFailback,
    named,
)
from tests.cluster.groups import positions_on
from tests.cluster.isolated_failbacks import held
from tests.cluster.lab_link import drctl_of, site_on
from tests.cluster.link_command import GO
from tests.cluster.reformatted_cluster import own_lab, reformat
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(900)]


class Formatted(MirrorMakerFailback):
    """On a lab of its own."""

    def lose_primary(self) -> None:
        """Clients continue on the secondary; unreplicated records are lost with the disks."""
        self.direct_to("primary")
        self.write_copied()
        assert self.run("gap", "--scope", "full").code == 0
        self.replicate(False)
        self.wrote("tail", TAIL, self.primary)

    @property
    def identity(self) -> str:
        """Return the primary's cluster id from its brokers."""
        return str(self.primary.admin.list_topics(timeout=30).cluster_id)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Formatted]:
    with own_lab(tmp_path / "lab") as lab:
        clusters = [ClusterUnderTest(lab.cluster(name)) for name in ("primary", "secondary")]
        new_drctl = drctl_of(*clusters, lambda: _made(tmp_path / uuid4().hex))
        with site_on(lab, *clusters, new_drctl) as site:
            made = Formatted(site)
            made.lose_primary()
            yield made


def test_an_empty_cluster_with_another_id_is_rebuilt_and_clients_fail_back(
    story: Formatted,
) -> None:
    had = named("copied", COPIED) | named("tail", TAIL)
    read = story.read(story.group, story.primary, had)
    story.drctl.offsets.json("track", "--once", *GO)
    before = story.identity
    story.lab.signal("primary", signal.SIGKILL)
    lost = story.json("failover", "--mode", "unplanned", *GO, code=1)
    assert lost["status"] == "done"
    assert story.directed_to == story.secondary.bootstrap
    story.wrote("new", NEW, story.secondary)
    read += story.read(story.group, story.secondary, named("new", NEW))

    story.lab.start("primary")
    reformat(story.lab, "primary")
    assert story.identity != before
    refused = story.refused(*BACK)
    assert "it has lost records" in refused
    assert f"drctl failback --link {story.link} --rebuild" in refused

    plan = story.json(*REBUILD, code=0)
    impact = next(each["impact"] for each in plan["findings"] if each["check"] == "source-lost")
    assert f"about {COPIED + NEW} records are copied from secondary" in impact
    story.completed_failback(*REBUILD)
    assert story.states("mm2-source", story.reverse) == ["RUNNING", "STOPPED"]

    assert held(story.alike()) == Counter(HAD)
    ends = story.primary.end_offsets(story.topic)
    assert positions_on(story.primary, story.group) == ends, (
        "the group had read everything on the secondary"
    )
    everything = HAD | story.wrote("later", LATER, story.primary)
    story.await_held(story.secondary, len(everything))
    assert held(story.alike()) == Counter(everything)
    read += story.read(story.group, story.primary, everything - set(read))
    assert sorted(read) == sorted(everything | had), "the group skipped a record, or read one twice"
