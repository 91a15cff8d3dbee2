"""An unplanned failover that is killed at every step ends as one that nobody interrupted.

The one that nobody interrupts is the shipped runbook's. Each has a topic and a connector of its
own, with the same records, and both look at the same dead primary.
"""

import signal
from collections import Counter
from pathlib import Path

import pytest

from drctl.lab.lab import Lab
from tests.cluster.ended import end_of
from tests.cluster.failover_stage import PARTITIONS
from tests.cluster.killing import killed_at_a_new_step, move
from tests.cluster.link_command import GO
from tests.cluster.own_links import READ, RECORDS, OwnLinks, at_work

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(600)]

LEFT = 20
STEPS = (
    "preflight", "take-stock", "fence-producers", "request-stop", "prepare-groups",
    "skip-producer-ids", "measure-loss", "stop-replication", "commit-offsets",
    "open-target", "switch-endpoint-1", "confirm-stop", "verify-clients",
)  # fmt: skip
BEHIND = STEPS[7:9]
"""Killed in one of these it continues elsewhere: nothing is open yet, and the loss is measured.

What it is measured by, a result of `drctl gap`, is on the first machine alone.
"""
ANSWERED = ("--answer", "decide=yes", "--answer", "cannot-return=yes")


def plain(step: str) -> str:
    """What a step of the sequence is called without the runbook; nothing where it is a person's."""
    name = step.removeprefix("failover.")
    return name if name in STEPS else ""


def test_killed_at_every_step_it_ends_as_one_that_nobody_interrupted(
    lab: Lab, links: OwnLinks, tmp_path: Path
) -> None:
    left_alone, killed = links.make(), links.make()
    for stage in (left_alone, killed):
        at_work(stage)
        stage.drctl.offsets.json("track", "--once", *GO)
        stage.leave_behind(LEFT)
    lab.signal("primary", signal.SIGKILL)

    elsewhere = tmp_path / "elsewhere"
    by_runbook = ("runbook", "run", "unplanned-failover", *ANSWERED, *GO)
    with left_alone.running(*by_runbook) as alone:
        seen = list[str]()
        words: tuple[str, ...] = ("failover", "--mode", "unplanned", *GO)
        while step := killed_at_a_new_step(killed, words, seen):
            seen.append(step)
            words = ("resume", *GO)
            if step in BEHIND and not elsewhere.exists():
                move(killed, elsewhere)
        left_alone.ends(alone, 1)
    # Steps that are done at once may be over before the signal comes.
    assert {"preflight", "open-target"} <= set(seen)
    assert len(seen) >= len(STEPS) - 4, seen

    end = end_of(left_alone, plain)
    assert end_of(killed, plain) == end
    assert (end["standing"], end["writes"], end["denied"]) == ("done", "target", 0)
    assert set(end["steps"]) == set(STEPS)
    assert end["positions"] == dict.fromkeys(range(PARTITIONS), READ)
    assert end["lost"] == {"at_least": LEFT, "exact": False}
    assert end["endpoint"] == killed.target.bootstrap
    assert (end["connector"], sum(end["ends"].values())) == ("STOPPED", RECORDS)
    assert killed.drctl.folder == elsewhere
    entries = killed.journaled()
    assert [e["seq"] for e in entries] == list(range(1, len(entries) + 1))
    assert len(killed.entries("resumed")) == len(seen)
    effects = Counter(e["step"] for e in killed.entries("intend"))
    assert (effects["open-target"], effects["switch-endpoint-1"]) == (1, 1)
    assert len(killed.write(5, "after", killed.target)) == 5
