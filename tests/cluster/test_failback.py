"""`drctl failback` on real clusters, with a real MirrorMaker 2 in both directions.

The primary was lost with unreplicated records. The secondary has new records, and receives more
during the failback.
"""

import json
import re
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from drctl.lab.scenarios import stage
from drctl.model.topology import TopicPartition
from tests.cluster.failback_stage import (
    BACK,
    COPIED,
    EVERYTHING,
    HAD,
    NEW,
    TAIL,
    MirrorMakerFailback,
    named,
)
from tests.cluster.failover_stage import FORWARD, PARTITIONS
from tests.cluster.killing import dying
from tests.cluster.lab_link import Site
from tests.cluster.link_command import GO, steps_of
from tests.kafka.hanging import hang, unverified
from tests.soak.engineer import abort_suggested

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(900)]


DELETED = 3


@pytest.fixture
def story(site: Site) -> MirrorMakerFailback:
    made = site.keep(MirrorMakerFailback(site))
    made.lose_primary()
    return made


def test_a_failback_loses_duplicates_and_skips_nothing(story: MirrorMakerFailback) -> None:
    read = story.read_new()

    plan = story.json("failback", code=0)
    assert [step["id"] for step in plan["steps"]][:4] == [
        "order", "snapshot-state", "fence-primary", "stop-forward-replication",
    ]  # fmt: skip
    assert story.write("still-open", 1, story.primary) == ["still-open-0"], (
        "the plan fenced the primary"
    )
    assert story.states(story.reverse, *FORWARD.values()) == ["STOPPED"] * 4

    undecided = story.json("failback", *GO, code=4)
    assert steps_of(undecided, "status")["classify-records"] == "failed"
    assert f"no policy for {TAIL + 1} records" in steps_of(undecided, "detail")["classify-records"]
    assert story.write("closed", 1, story.primary) == [], "the primary is not fenced"
    assert story.held(story.secondary) == COPIED + NEW
    assert f"no policy for {TAIL + 1} records" in story.refused("failback")

    with story.live() as live:
        story.kill_at("reconcile", *BACK, *GO)
        story.move_to_another_machine()
        story.kill_at("start-reverse-replication", "resume", *GO)
        assert story.directed_to == story.secondary.bootstrap
        done = story.completed_failback("resume")
    assert 0 < done["rto_seconds"] < 120
    effects = Counter(e["step"] for e in story.entries("intend"))
    assert (effects["reconcile"], effects["enable-writes"]) == (1, 1)

    everything = EVERYTHING | {"still-open-0", *live}
    story.both_hold(everything)
    story.keeps_running(everything, read)
    story.runs_forward()

    story.check_order_afterwards()
    assert "no clients to fail back" in story.refused(*BACK)


@pytest.mark.nightly
def test_an_open_transaction_of_a_killed_run_is_awaited(story: MirrorMakerFailback) -> None:
    """On another host the records are compared again; that is incomplete while it is open."""
    with story.running(*BACK, *GO, program=dying("reconcile", "before", "commit:1")) as process:
        story.ends(process, -signal.SIGKILL)
    story.move_to_another_machine()
    done = story.run("resume", *GO, "--output", "json")
    assert done.code == 0, done.stdout + done.stderr
    assert "a transaction is open in" in done.stderr
    story.both_hold(EVERYTHING)


@pytest.mark.nightly
def test_a_hanging_transaction_is_named_and_not_awaited(
    story: MirrorMakerFailback, tmp_path: Path
) -> None:
    at_ms, place = int(time.time() * 1000), TopicPartition(story.topic, 0)
    properties = story.primary.properties()
    with unverified(story.primary):
        hang(properties, place, at_ms, producer_id=977, values=[b"hanging"], epoch=4)
    gap, doctor = story.run("gap"), story.run("doctor", "--output", "json")
    assert gap.code == 5
    assert "`drctl doctor` has the command that aborts it" in " ".join(gap.stdout.split())
    assert f"abort --topic {story.topic} --partition 0 --start-offset" in doctor.stdout
    ended = story.json(*BACK, *GO, code=5)
    message = steps_of(ended, "detail")["find-missing"]
    assert "hanging transaction: 1 offset from " in message
    start = re.search(r"abort --topic \S+ --partition 0 --start-offset (\d+)", message)
    assert start is not None, message
    abort_suggested(json.dumps(ended), story.lab, tmp_path)
    story.completed_failback("resume")
    story.both_hold(EVERYTHING)


@pytest.mark.nightly
def test_records_that_only_the_primary_deleted_are_not_new_records(
    story: MirrorMakerFailback,
) -> None:
    """Retention deletes whole segments, which end at different offsets on each cluster."""
    before = story.all_of(story.primary)
    for partition in range(PARTITIONS):
        story.primary.delete_records(story.topic, partition, DELETED)
    left = story.all_of(story.primary)
    assert (before - left).total() == PARTITIONS * DELETED
    story.completed_failback(*BACK)
    new = Counter(named("new", NEW))
    assert story.all_of(story.primary) == left + new
    assert story.all_of(story.secondary) == before + new
    story.check_order_afterwards()


def test_a_temporary_restart_of_forward_replication_is_detected(story: MirrorMakerFailback) -> None:
    """It has appended unreplicated records after new ones: offsets no longer tell them apart."""
    stage.remove(story.lab, story.reverse)
    assert f"Connect has no {story.reverse}" in story.refused(*BACK)
    stage.deploy(story.lab, story.topic, story.reverse)

    story.lab.replicate(True)
    story.await_held(story.secondary, COPIED + NEW + TAIL)
    ended = story.json(*BACK, *GO, code=4)
    assert steps_of(ended, "status")["find-missing"] == "failed"
    assert "follow new records of secondary" in steps_of(ended, "detail")["find-missing"]
    assert story.states("mm2-source", story.reverse) == ["STOPPED", "STOPPED"]
    assert story.write("closed", 1, story.primary) == []
    assert story.directed_to == story.secondary.bootstrap


@pytest.mark.nightly
def test_a_primary_that_already_follows_needs_a_shorter_failback(site: Site) -> None:
    """After a planned failover that starts reverse replication, nothing is replicated twice."""
    journey = site.keep(MirrorMakerFailback(site, after_failover=True))
    journey.direct_to("primary")
    journey.write_copied()
    read = journey.read(journey.group, journey.primary, named("copied", COPIED))
    plan = journey.json("failover", code=0)
    order = [step["id"] for step in plan["steps"]]
    assert order.index("set-reverse-start-offsets") < order.index("enable-writes")
    assert order[-1] == "start-reverse-replication"

    done = journey.json("failover", *GO, code=0)
    assert journey.group_denials(journey.primary) == 2, "there is not one deny ACL with its marker"
    assert set(steps_of(done, "status").values()) <= {"done", "skipped"}
    journey.wrote("new", NEW, journey.secondary)
    journey.await_held(journey.primary, len(HAD))
    journey.both_hold(HAD)
    read += journey.read(journey.group, journey.secondary, named("new", NEW))

    early = journey.refused(*BACK)
    assert "is writing to primary, which must not change during the comparison" in early
    journey.stop(journey.reverse)
    journey.completed_failback(*BACK)
    assert journey.group_denials(journey.primary) == 0
    assert journey.group_denials(journey.secondary) == 2
    journey.keeps_running(HAD, read)
