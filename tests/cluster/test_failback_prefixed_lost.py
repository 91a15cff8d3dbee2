"""The primary is killed, and comes back, where MirrorMaker 2 gives copies other names.

The applications go out to `ALIAS.TOPIC` on the secondary by a failover of a primary that is dead,
and come home to `TOPIC`.
"""

import signal
from collections import Counter
from collections.abc import Iterator

import pytest

from drctl.lab.lab import Lab
from drctl.lab.waiting import Patience
from tests.cluster.conftest import NewDrctl
from tests.cluster.offsets_command import OffsetsCommand
from tests.cluster.own_links import positions_on
from tests.cluster.test_failback_prefixed import Prefixed
from tests.cluster.way_home import COPIED, GO, LATER, NEW, TAIL, named, steps_of
from tests.conftest import NewTopic

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(600)]


@pytest.fixture
def story(lab: Lab, new_drctl: NewDrctl, new_topic: NewTopic) -> Iterator[Prefixed]:
    made = Prefixed(lab, new_drctl, new_topic)
    try:
        made.name_them_at_home()
        made.lead_to("primary")
        yield made
    finally:
        lab.start("primary")
        made.close()


def test_out_of_a_dead_primary_into_the_copies_and_home_again(story: Prefixed) -> None:
    assert len(story.write("copied", COPIED, story.primary)) == COPIED
    assert Patience.of(60).wait_until(lambda: story.held(story.secondary) >= COPIED)
    read = story.read(story.group, story.primary, named("copied", COPIED))
    OffsetsCommand(story.drctl.config).json("track", "--once", *GO)
    story.replicate(False)
    assert len(story.write("tail", TAIL, story.primary)) == TAIL

    story.lab.signal("primary", signal.SIGKILL)
    lost = story.json("failover", "--mode", "unplanned", *GO, code=1)
    assert lost["status"] == "done"
    assert story.led_to == story.secondary.bootstrap
    assert story.connectors.states(story.forward) == ["STOPPED"]
    copies = story.secondary.end_offsets(story.copy)
    assert positions_on(story.secondary, story.group) == copies, "it had read all of them"
    assert len(story.write("new", NEW, story.secondary)) == NEW
    again = story.read(story.group, story.secondary, named("new", NEW))
    assert sorted(again) == sorted(named("new", NEW)), "it has read something twice"
    read += again

    story.lab.start("primary")
    done = story.json("failback", "--policy", "copy", *GO, code=0)
    assert done["status"] == "done", done
    assert done["rpo"] == {"records": 0, "at_least": 0, "at_most": 0, "seconds": 0, "exact": True}
    assert f"{TAIL} copy" in steps_of(done, "detail")["reconcile"]
    assert story.led_to == story.primary.bootstrap
    assert story.connectors.states(story.forward, story.reverse) == ["RUNNING", "STOPPED"]

    everything = named("copied", COPIED) | named("tail", TAIL) | named("new", NEW)
    for cluster in (story.primary, story.secondary):
        assert story.all_of(cluster) == Counter(everything), cluster.name
    later = set(story.write("later", LATER, story.primary))
    assert len(later) == LATER
    everything |= later
    assert Patience.of(60).wait_until(lambda: story.held(story.secondary) >= len(everything))
    assert story.all_of(story.secondary) == Counter(everything)
    read += story.read(story.group, story.primary, everything - set(read))
    assert set(read) == everything
