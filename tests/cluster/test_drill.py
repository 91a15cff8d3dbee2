"""`drctl drill` on real clusters with a real MirrorMaker 2: measured and cleaned up.

Nothing else is affected; also after a crash, and after its source was killed.
"""

import signal
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType  # type: ignore[attr-defined, unused-ignore]

from drctl.drill.cleaning import drill_of
from drctl.drill.clients import SOURCE, TARGET
from drctl.drill.inventory import NEVER
from drctl.kafka.acls import KafkaAclWriter
from drctl.kafka.connection import Connection
from drctl.kafka.drill import DrillWriter, count_ids
from drctl.lab.lab import Lab
from drctl.model.fencing import Denied, Topics, denials
from tests.cluster.drill_consumer import witness
from tests.cluster.drill_stage import GO, SMALL, WAIT_S, Stage, records_topic
from tests.cluster.lab_link import NewDrctl, site_on
from tests.cluster.link_command import soon
from tests.conftest import NewTopic
from tests.kafka.members import commit
from tests.lab.cluster_under_test import DEADLINE_S, ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

SLACK_S = 3.0
"""A busy host may observe an event this much later."""


@pytest.fixture(scope="module")
def stage(
    lab: Lab, primary: ClusterUnderTest, secondary: ClusterUnderTest, new_drctl: NewDrctl
) -> Iterator[Stage]:
    with site_on(lab, primary, secondary, new_drctl) as site:
        yield site.keep(Stage(site))


def verdicts(stage: Stage) -> list[str]:
    history = stage.json("history", code=0)
    assert history["damaged_lines"] == 0
    return [each["verdict"] for each in history["drills"]]


@pytest.mark.nightly
def test_a_killed_drill_is_cleaned_up_by_the_next_drill(stage: Stage) -> None:
    refused = stage.run("--records", "200")
    assert refused.code == 3
    assert "replicates topics that match flights.*" in refused.document()["error"]["message"]
    alone = stage.json(*SMALL, *stage.fault("kill-worker"), code=3)
    assert "no other can take over its tasks" in alone["error"]["message"]
    agreed = stage.drills.parent.parent / "agreed.json"
    plan = stage.json(*SMALL, "--plan-out", str(agreed), code=0)
    left_out = ["advance-producer-ids", "stop-replication", "confirm-stop"]
    assert [each["id"] for each in plan["left_out"]] == left_out
    assert stage.left() == set(), "the plan created something"
    before = stage.everything_else()

    died = stage.killed_at("enable-writes")
    mess = stage.left()
    assert {drill_of(name) for name in mess} == {died}
    assert len(mess) >= 2
    shown = stage.json("clean", code=1)
    assert {name for name in mess if any(name in line for line in shown["left"])} == mess
    assert stage.left() == mess, "the listing deleted something"

    unplanned = (*GO, *stage.fault("kill-source"), "--expect-plan", str(agreed))
    another = stage.json(*unplanned, code=3)
    assert "drill-planned -> drill-unplanned" in another["error"]["message"]
    assert stage.left() == mess, "a refused plan changed something"
    done = stage.json(*GO, "--max-rto", "3m", "--expect-plan", str(agreed), code=0)
    assert stage.left() == set()
    assert stage.everything_else() == before
    assert (done["verdict"], done["reasons"], done["mode"]) == ("passed", [], "planned")
    assert {each["status"] for each in done["steps"]} <= {"done", "skipped"}
    assert 0 < done["rto"]["write_seconds"] <= done["rto"]["seconds"] < 180
    assert done["rpo"]["acknowledged"] >= 200
    assert (done["rpo"]["missing"], done["rpo"]["duplicated"]) == (0, 0)
    assert done["translation"]["finished"] >= 100
    assert (done["translation"]["reread"], done["translation"]["skipped"]) == (0, 0)
    assert done["untouched"]["differences"] == []
    assert done["untouched"]["compared"] > 10
    assert done["untouched"]["unavailable"] == []
    # The lab's administrator may read everything: only what drills never compare is left out.
    assert done["untouched"]["not_compared"] == list(NEVER)
    # The topic, its copy and the probe record; the group on both clusters; the ACLs of two fences.
    assert len(done["cleaned"]["deleted"]) >= 5
    assert done["cleaned"]["left"] == []
    assert verdicts(stage) == ["interrupted", "passed"]
    assert "1 of 2 drills passed" in (stage.drills / "history.html").read_text("utf-8")
    assert stage.json("clean", "--execute", "--yes", code=0)["deleted"] == []


@pytest.mark.nightly
def test_a_killed_source_shows_the_lost_records(
    stage: Stage, primary: ClusterUnderTest, secondary: ClusterUnderTest
) -> None:
    """Replication was stopped before: ground truth is what plain consumers saw on both clusters."""
    before, known = len(verdicts(stage)), stage.known()
    words = (*GO, "--warm-up", "8s", *stage.fault("kill-source"))
    with stage.running(*words) as process:
        topic = records_topic(stage.new(known))
        with witness(primary, topic) as here, witness(secondary, topic) as there:
            # The first 200 records are written before; later ones come from the running
            # applications.
            soon(lambda: len(there.of(SOURCE)) > 220, "nothing is copied", WAIT_S)
            stage.lab.signal("connect", signal.SIGSTOP)
            still_at = time.monotonic()
            soon(stage.source_is_dead, "it lives", WAIT_S)
            died_at = time.monotonic()
            # Consumers on the target must not wait for a hanging worker.
            stage.lab.signal("connect", signal.SIGCONT)
            # Once the fault is removed the backlog is replicated, until the topic is deleted.
            soon(lambda: not stage.source_is_dead(), "it stays dead", WAIT_S)
            back_at = time.monotonic()
            done = stage.ended(process, code=1)
    without_source(stage, done, "kill-source")
    assert len(verdicts(stage)) == before + 1

    rpo, copied = done["rpo"], {name for name in there.of(SOURCE) if there.seen[name] < back_at}
    assert rpo["missing"] == rpo["acknowledged"] - len(copied) > 0
    lost = here.of(SOURCE) - copied
    assert set(rpo["examples"]) <= lost
    assert 0 < rpo["seconds"] < died_at - still_at + SLACK_S
    first = min(at for value, at in there.seen.items() if value.startswith(TARGET))
    assert done["rto"]["write_seconds"] == pytest.approx(first - died_at, abs=SLACK_S)
    # A checkpoint does not show whether the group was reset backwards before the source died.
    found = done["translation"]
    assert (found["finished"], found["reread"], found["skipped"]) == (100, 100, 0)
    assert found["promised"] is None
    assert any(each.endswith("it re-read 100 of 100 records") for each in done["reasons"])


def without_source(stage: Stage, done: dict[str, Any], fault: str) -> None:
    """Assert that the drill completed without the source and left nothing."""
    assert (done["mode"], done["inject"]) == ("unplanned", fault)
    statuses = {each["id"]: each["status"] for each in done["steps"]}
    assert statuses["fence-producers"] == "outstanding"
    assert statuses["enable-writes"] == statuses["verify-clients"] == "done"
    assert done["rto"]["since"] == "last-write"
    assert done["cleaned"]["left"] == []
    assert (done["untouched"]["differences"], done["untouched"]["unavailable"]) == ([], [])
    assert stage.left() == set()


@pytest.mark.nightly
def test_a_source_that_accepts_connections_and_never_answers_is_abandoned(stage: Stage) -> None:
    done = stage.json(*GO, *stage.fault("pause-source"), code=1)
    without_source(stage, done, "pause-source")
    assert done["translation"]["skipped"] == 0
    # MirrorMaker 2 writes delayed offset syncs with its commits: fewer records may be read again.
    assert 0 < done["translation"]["reread"] <= done["translation"]["finished"]
    assert done["translation"]["finished"] >= 100
    assert not stage.source_hangs()


@pytest.mark.nightly
def test_concurrent_changes_by_others_are_named(
    stage: Stage, new_topic: NewTopic, primary: ClusterUnderTest, secondary: ClusterUnderTest
) -> None:
    topic, group, known = new_topic(on=("primary",)), f"idle-{uuid4().hex[:8]}", stage.known()
    commit(primary.properties(), group, TopicPartition(topic, 0, 0))
    with stage.running(*GO) as process:
        drill = stage.new(known)
        soon(lambda: stage.announced(drill, "preflight"), "it does not begin", WAIT_S)
        primary.configure(topic, retention_ms="7654321")
        commit(primary.properties(), group, TopicPartition(topic, 0, 7))
        threads = broker_threads(secondary, "11")
        try:
            done = stage.ended(process, code=1)
        finally:
            broker_threads(secondary, None)
    changed = [
        f"primary: offset of group {group} in {topic}-0: 0 -> 7",
        f"primary: setting of topic {topic} retention.ms: -1 -> 7654321",
        *(f"secondary: setting of broker {n} background.threads: 10 -> 11" for n in threads),
    ]
    assert sorted(done["untouched"]["differences"]) == sorted(changed)
    assert done["untouched"]["unavailable"] == []
    assert done["verdict"] == "not-passed"
    assert set(done["reasons"]) == {f"changed: {each}" for each in changed}
    assert done["cleaned"]["left"] == []


def broker_threads(cluster: ClusterUnderTest, count: str | None) -> list[int]:
    """Set the number of request threads of every broker, or restore it; return the brokers."""
    how = AlterConfigOpType.SET if count else AlterConfigOpType.DELETE
    entry = ConfigEntry("background.threads", count or "", incremental_operation=how)
    brokers = sorted(cluster.admin.list_topics(timeout=DEADLINE_S).brokers)
    for node in brokers:
        one = ConfigResource(ResourceType.BROKER, str(node), incremental_configs=[entry])
        for future in cluster.admin.incremental_alter_configs([one]).values():
            future.result()
    return brokers


@pytest.mark.nightly
def test_a_planned_drill_needs_connect(stage: Stage) -> None:
    """A planned failover's prerequisite is missing: nobody loses records for a dead worker."""
    before = stage.everything_else()
    done = stage.json(*GO, *stage.fault("stop-connect"), code=1)
    assert (done["verdict"], done["mode"]) == ("failed", "planned")
    assert (done["rto"], done["rpo"], done["translation"]) == (None, None, None)
    (reason,) = done["reasons"]
    assert reason.startswith("step preflight: connect-unreachable: Connect: it does not answer")
    first, *others = done["steps"]
    assert (first["id"], first["status"]) == ("preflight", "failed")
    assert {each["status"] for each in others} == {"not-started"}
    assert done["cleaned"]["left"] == []
    assert done["untouched"]["differences"] == [], "the connectors did not resume"
    assert stage.left() == set()
    assert stage.everything_else() == before


def test_a_source_frozen_by_a_killed_drill_resumes_after_drill_clean(stage: Stage) -> None:
    died = stage.killed_when(stage.source_hangs, *stage.fault("pause-source"))
    shown = stage.json("clean", code=1)
    assert shown["left"][0] == f"fault pause-source of lab component primary, by drill {died}"
    assert stage.source_hangs(), "the listing changed something"
    stage.json("clean", "--execute", "--yes", code=0)
    assert not stage.source_hangs()
    assert stage.left() == set()
    assert verdicts(stage)[-1] == "interrupted"
    assert stage.json("clean", code=0)["left"] == []


def test_a_producer_is_refused_by_its_fence(primary: ClusterUnderTest, new_topic: NewTopic) -> None:
    """The producer is no super user: an RTO is counted from its first refused record."""
    topic = new_topic(on=("primary",), mirrored=True)
    writer = DrillWriter("primary", primary.properties("orders-app"), topic, SOURCE)
    writer.write(20)
    writer.start(50)
    rules = denials(["User:orders-app"], [Topics(topic)], [Denied.WRITE])
    with KafkaAclWriter(Connection("primary", primary.properties())) as acls:
        assert set(acls.deny(rules).values()) == {None}
        try:
            soon(lambda: writer.log.refused_at is not None)
            writer.stop(wait=True)
        finally:
            acls.restore(rules)
    # Delivery reports of acknowledged records may arrive after the first refused one.
    assert len(writer.log.acknowledged) >= 20
    assert writer.log.refused >= 1
    there = count_ids("primary", primary.properties(), topic)
    assert writer.log.acknowledged.keys() <= there.keys()
    assert set(there.values()) == {1}
