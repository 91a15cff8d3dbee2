"""Shipped runbooks for links whose clusters both run, on real clusters.

test_failover_killed.py runs `unplanned-failover`; tests/kafka/test_broker_runbooks.py runs those
about brokers.
"""

import json
from collections import Counter

import pytest

from tests.cluster.failover_stage import PARTITIONS, Stage, connect
from tests.cluster.followed_runbook import FollowedRunbook
from tests.cluster.isolated_links import READ, RECORDS, OwnLinks, at_work, positions
from tests.cluster.link_command import GO, soon, steps_of, yes
from tests.cluster.topic_acls import about, allow, revoke

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

SWITCHOVER = ("announce", "no-clients-left")
MIGRATION = ("one-topic", "clients-known", "keep-old")
"""The answers of people, in order."""
AFTER = 5


def test_two_links_fail_over_at_the_same_time(links: OwnLinks) -> None:
    """Each has a topic of its own: one is a switchover, the other a permanent move."""
    switched, migrated = links.make(), links.make()
    written = {stage: at_work(stage) for stage in (switched, migrated)}
    for_topic = ("--set", f"topic={migrated.topic}")
    with (
        switched.running(*line("planned-switchover", SWITCHOVER)) as first,
        migrated.running(*line("migrate-topic", MIGRATION, *for_topic)) as second,
    ):
        switched.ends(first)
        migrated.ends(second)
    for stage, answers in ((switched, SWITCHOVER), (migrated, MIGRATION)):
        was_carried_out(stage, answers)
        has_moved(stage, written[stage])


def line(runbook: str, answers: tuple[str, ...], *more: str) -> tuple[str, ...]:
    return ("runbook", "run", runbook, *more, *yes(*answers), *GO)


def was_carried_out(stage: Stage, answers: tuple[str, ...]) -> None:
    """Assert that every step was done, manual ones in place, and that nothing is reported lost."""
    report = stage.json("report", stage.newest_run, "--verify", code=0)
    assert report["ending"]["status"] == "done"
    assert {step["status"] for step in report["steps"]} <= {"done", "skipped"}
    steps = [step["id"] for step in report["steps"]]
    assert [step for step in steps if step in answers] == list(answers)
    assert steps.index("failover.enable-writes") < steps.index("verify")
    assert (report["rpo"]["records"], report["rpo"]["exact"], report["outstanding"]) == (
        0,
        True,
        [],
    )


def has_moved(stage: Stage, written: list[str]) -> None:
    """Assert that each record is there once, and that the application continues there."""
    assert stage.all_of(stage.target) == Counter(written)
    assert positions(stage) == dict.fromkeys(range(PARTITIONS), READ)
    assert stage.directs_to("secondary")
    assert stage.write(3, "refused") == [], "a fenced producer could write"
    after = stage.write(AFTER, "after", stage.target)
    assert len(after) == AFTER
    left = RECORDS - READ * PARTITIONS + AFTER
    read = stage.read(stage.target, most=left + 1, wait_for=left)
    assert len(read) == len(set(read)) == left
    assert set(after) < set(read) < {*written, *after}
    assert stage.all_of(stage.source) == Counter(written)


COPIER = "replicator"
"""A user without permissions on the target's topics of tests."""


def let_it_fail(stage: Stage) -> None:
    """The user as whom the connector writes loses its right, and records are written then."""
    override = "producer.override.sasl.jaas.config"
    allow(stage.target, COPIER, stage.topic)
    # Tasks of a running connector would replicate with the old configuration until replaced.
    stage.stop(stage.copies)
    with connect(stage.lab) as client:
        config = client.config(stage.copies)
        admin, copier = (stage.target.lab_cluster.password_file(u).name for u in ("admin", COPIER))
        login = config[override].replace('"admin"', f'"{COPIER}"')
        config[override] = login.replace(f":{admin}}}", f":{copier}}}")
        client.put_config(stage.copies, config)
        stage.resume(stage.copies)
        at_work(stage)
        assert revoke(stage.target, about(stage.topic, COPIER))
        assert len(stage.write(RECORDS, "after")) == RECORDS
        soon(lambda: any(t.state == "FAILED" for t in client.status(stage.copies).tasks))


@pytest.mark.nightly
def test_a_connector_fails_and_recovers(links: OwnLinks) -> None:
    stage = links.make()
    let_it_fail(stage)
    values = {"connector": stage.copies}
    words = {"NAME": "the owner"}
    followed = FollowedRunbook(
        stage.drctl, "connector-recovery", stage.link, stage.primary, values, words
    )

    def inspect() -> None:
        (shown,) = followed.type("inspect", 1)
        assert "Caused by: org.apache.kafka.common.errors.TopicAuthorization" in shown.stdout

    def save_positions() -> None:
        followed.type("save-positions")
        file = stage.drctl.folder / f"{stage.copies}-offsets.json"
        (kept,) = json.loads(file.read_text("utf-8"))["connectors"]
        assert len(kept["offsets"]) == PARTITIONS

    def remedy() -> None:
        # No offset was lost: the plan to start from scratch is refused.
        followed.type("remedy", 3)
        allow(stage.target, COPIER, stage.topic)

    def restart() -> None:
        refused, done, _ = followed.type("restart", 3, 0, 0)
        assert "--override cause=" in refused.stdout
        assert f"  {stage.copies}: 1 restart, running\n" in done.stdout

    document = followed.follow(
        inspect=inspect, save_positions=save_positions, remedy=remedy, restart=restart
    )
    assert set(steps_of(document, "status").values()) == {"done"}
    everything = stage.all_of(stage.source)
    assert len(everything) == 2 * RECORDS
    assert set(stage.all_of(stage.target)) == set(everything)


@pytest.mark.nightly
def test_a_rehearsal_changes_nothing(stage: Stage) -> None:
    written = at_work(stage)
    values = {"topic_prefix": "flights-"}
    followed = FollowedRunbook(stage.drctl, "drill", stage.link, stage.primary, values)

    def offsets() -> None:
        (shown,) = followed.type("offsets")
        assert "2 committed offsets of 1 group translated; no records are skipped" in shown.stdout

    def measure() -> None:
        _, drilled = followed.type("measure")
        assert drilled.stdout.startswith(f"Drill passed: link {stage.link}, drill ")

    def plan() -> None:
        """The rehearsal itself would have to end first."""
        (blocked,) = followed.type("plan", 3)
        assert "\nPrechecks: 1 fail, " in blocked.stdout
        assert f"runs-unfinished: runs of link {stage.link}: run 2" in blocked.stdout

    acts = {"offsets": offsets, "measure": measure, "plan": plan, "findings": lambda: None}
    document = followed.follow(**acts)
    assert set(steps_of(document, "status").values()) == {"done"}
    assert stage.all_of(stage.source) == stage.all_of(stage.target) == Counter(written)
    assert (stage.denials(stage.source), stage.states(stage.copies)) == (0, ["RUNNING"])
    assert stage.directs_to("primary")
