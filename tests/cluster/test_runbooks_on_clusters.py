"""The shipped runbooks that move clients while both clusters run, on real ones.

test_failover_killed.py runs `unplanned-failover`.
"""

from collections import Counter

import pytest

from tests.cluster.failover_stage import PARTITIONS, Stage
from tests.cluster.isolated_links import READ, RECORDS, OwnLinks, at_work, positions
from tests.cluster.link_command import GO, yes

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

SWITCHOVER = ("announce", "no-clients-left")
MIGRATION = ("one-topic", "clients-known", "keep-old")
"""What people answer, in their order."""
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
    told = stage.json("report", stage.newest_run, "--verify", code=0)
    assert told["ending"]["status"] == "done"
    assert {step["status"] for step in told["steps"]} <= {"done", "skipped"}
    steps = [step["id"] for step in told["steps"]]
    assert [step for step in steps if step in answers] == list(answers)
    assert steps.index("failover.enable-writes") < steps.index("verify")
    assert (told["rpo"]["records"], told["rpo"]["exact"], told["outstanding"]) == (0, True, [])


def has_moved(stage: Stage, written: list[str]) -> None:
    """Assert that each record is there once, and that the application continues there."""
    assert stage.all_of(stage.target) == Counter(written)
    assert positions(stage) == dict.fromkeys(range(PARTITIONS), READ)
    assert stage.leads_to("secondary")
    assert stage.write(3, "refused") == [], "the fence lets somebody through"
    after = stage.write(AFTER, "after", stage.target)
    assert len(after) == AFTER
    left = RECORDS - READ * PARTITIONS + AFTER
    read = stage.read(stage.target, most=left + 1, wait_for=left)
    assert len(read) == len(set(read)) == left
    assert set(after) < set(read) < {*written, *after}
    assert stage.all_of(stage.source) == Counter(written)
