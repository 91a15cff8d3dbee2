"""`drctl failback` on real clusters, with a real MirrorMaker 2 in both directions: the way home.

The primary was lost with a tail that was never copied. The secondary has taken new records since,
and takes more while the way home is gone.
"""

import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from drctl.lab.lab import Lab
from drctl.lab.scenarios import stage
from drctl.lab.waiting import Patience
from tests.cluster import dying_reconcile_program
from tests.cluster.conftest import NewDrctl
from tests.cluster.way_home import (
    COPIED,
    DEADLINE_S,
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

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(900)]


DELETED = 3
_DYING = (sys.executable, "-P", str(Path(dying_reconcile_program.__file__)))


class Story(Journey):
    """MirrorMaker 2 keeps the names of topics."""

    def __init__(self, lab: Lab, new_drctl: NewDrctl, new_topic: NewTopic) -> None:
        self.reverse = f"mm2-home-{uuid4().hex[:6]}"
        url = f"http://127.0.0.1:{lab.parts.settings.connect_port}"
        replicator = {
            "kind": "mirrormaker2",
            "connect": url,
            "connectors": {k: f"mm2-{k}" for k in ("source", "checkpoint", "heartbeat")},
            "reverse": {"connect": url, "connectors": {"source": self.reverse}},
        }
        topic = new_topic(PARTITIONS, mirrored=True)
        super().__init__(lab, new_drctl, topic, replicator=replicator)
        stage.deploy(lab, topic, self.reverse)

    def close(self) -> None:
        stage.remove(self.lab, self.reverse)
        self.lab.replicate(True)


@pytest.fixture
def story(lab: Lab, new_drctl: NewDrctl, new_topic: NewTopic) -> Iterator[Story]:
    made = Story(lab, new_drctl, new_topic)
    try:
        made.lose_the_primary()
        yield made
    finally:
        made.close()


def test_the_way_home_loses_nothing_copies_nothing_twice_and_skips_nothing(story: Story) -> None:
    # The group has read new records, and will not have read what is brought over behind them.
    read = story.read(story.group, story.secondary, named("copied", COPIED) | named("new", NEW))
    forward = ("mm2-source", "mm2-checkpoint", "mm2-heartbeat")

    plan = story.json("failback", code=0)
    assert [step["id"] for step in plan["steps"]][:4] == [
        "order", "take-stock", "close-primary", "old-replication",
    ]  # fmt: skip
    assert story.write("still-open", 1, story.primary) == ["still-open-0"], "a plan has fenced"
    assert story.states(story.reverse, *forward) == ["STOPPED"] * 4

    undecided = story.json("failback", *GO, code=4)
    assert steps_of(undecided, "status")["judge-records"] == "failed"
    assert (
        f"nothing is said of {TAIL + 1} records" in steps_of(undecided, "detail")["judge-records"]
    )
    assert story.write("closed", 1, story.primary) == [], "the primary is not closed"
    assert story.held(story.secondary) == COPIED + NEW
    known = story.run("failback")
    assert known.code == 3, known.stdout
    assert f"nothing is said of {TAIL + 1} records" in known.stdout

    with story.writing() as live:
        story.kill_at("reconcile", "failback", "--policy", "copy", *GO)
        story.move_to_another_machine()
        story.kill_at("bring-home", "resume", *GO)
        assert story.led_to == story.secondary.bootstrap
        done = story.json("resume", *GO, code=0)
    assert done["status"] == "done", done
    assert done["rpo"] == {"records": 0, "at_least": 0, "at_most": 0, "seconds": 0, "exact": True}
    assert 0 < done["rto_seconds"] < 120
    assert story.led_to == story.primary.bootstrap
    effects = Counter(e["step"] for e in story.journaled() if e["entry"] == "intend")
    assert (effects["reconcile"], effects["open-target"]) == (1, 1)

    everything = named("copied", COPIED) | named("tail", TAIL) | named("new", NEW)
    everything |= {"still-open-0", *live}
    for cluster in (story.primary, story.secondary):
        assert story.all_of(cluster) == Counter(everything), cluster.name
    later = set(story.write("later", LATER, story.primary))
    everything |= later
    assert len(later) == LATER
    assert Patience.of(60).wait_until(
        lambda: story.all_of(story.secondary).total() >= len(everything)
    )
    assert story.all_of(story.secondary) == Counter(everything)
    assert story.states(*forward) == ["RUNNING"] * 3
    assert story.states(story.reverse) == ["STOPPED"]
    read += story.read_on(read, everything)
    assert set(read) == everything

    story.judged_at_home()
    again = story.run("failback", "--policy", "copy")
    assert again.code == 3
    assert "there is nobody to lead home" in again.stdout


@pytest.mark.nightly
def test_a_transaction_that_a_killed_run_left_open_is_waited_for(story: Story) -> None:
    """Elsewhere, what was decided on is compared anew: while it is open, that is not complete."""
    words = ("failback", "--policy", "copy", *GO)
    program = (*_DYING, "before", "commit", "1")
    with story.running(*words, program=program) as process:
        assert process.wait(DEADLINE_S) == -signal.SIGKILL, story.said
    story.move_to_another_machine()
    done = story.run("resume", *GO, "--output", "json")
    assert done.code == 0, done.stdout + done.stderr
    assert "a transaction is open in" in done.stderr
    everything = named("copied", COPIED) | named("tail", TAIL) | named("new", NEW)
    for cluster in (story.primary, story.secondary):
        assert story.all_of(cluster) == Counter(everything), cluster.name


@pytest.mark.nightly
def test_what_the_primary_has_deleted_and_the_secondary_has_not_is_no_new_record(
    story: Story,
) -> None:
    """Retention goes by segments, which end elsewhere on each cluster."""
    before = story.all_of(story.primary)
    for partition in range(PARTITIONS):
        story.primary.delete_records(story.topic, partition, DELETED)
    left = story.all_of(story.primary)
    assert (before - left).total() == PARTITIONS * DELETED
    done = story.json("failback", "--policy", "copy", *GO, code=0)
    assert done["rpo"] == {"records": 0, "at_least": 0, "at_most": 0, "seconds": 0, "exact": True}
    new = Counter(named("new", NEW))
    assert story.all_of(story.primary) == left + new
    assert story.all_of(story.secondary) == before + new
    story.judged_at_home()


def test_the_old_replication_that_ran_for_a_while_is_not_buried(story: Story) -> None:
    """It has appended the tail behind new records: what is new cannot be told by its place."""
    stage.remove(story.lab, story.reverse)
    missing = story.run("failback", "--policy", "copy")
    assert missing.code == 3, missing.stdout
    assert f"the workers have no {story.reverse}" in missing.stdout
    stage.deploy(story.lab, story.topic, story.reverse)

    story.lab.replicate(True)
    everything = COPIED + NEW + TAIL
    assert Patience.of(60).wait_until(lambda: story.held(story.secondary) >= everything)
    ended = story.json("failback", "--policy", "copy", *GO, code=4)
    assert steps_of(ended, "status")["find-missing"] == "failed"
    assert "stand behind new ones of secondary" in steps_of(ended, "detail")["find-missing"]
    assert story.states("mm2-source", story.reverse) == ["STOPPED", "STOPPED"]
    assert story.write("closed", 1, story.primary) == []
    assert story.led_to == story.secondary.bootstrap
