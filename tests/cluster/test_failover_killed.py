"""A planned failover that is killed at every step ends as one that nobody interrupted.

Each time it is gone on with where no run has kept anything. Each has a topic and a connector of
its own, with the same records.
"""

from collections import Counter

import pytest

from tests.cluster import switch
from tests.cluster.ended import end_of
from tests.cluster.failover_stage import PARTITIONS, Stage
from tests.cluster.killing import MOMENTS, killed_in_each
from tests.cluster.link_command import GO
from tests.cluster.own_links import READ, RECORDS, OwnLinks, at_work

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(900)]

LATER = 5


def switched_by_command(links: OwnLinks) -> tuple[Stage, switch.Switch]:
    """At work; its clients are sent on by a command that takes no longer than it has to."""
    stage = links.make(endpoints=[switch.endpoint()])
    at_work(stage)
    by = switch.Switch(stage.drctl.folder)
    by.lead_to("primary")
    by.go()
    stage.endpoint = by.file
    return stage, by


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_in_every_step_it_ends_as_one_that_nobody_interrupted(
    links: OwnLinks, moment: str
) -> None:
    (left_alone, _), (killed, by) = switched_by_command(links), switched_by_command(links)
    steps = [step["id"] for step in killed.json("failover", code=0)["steps"]]
    assert steps[-2:] == ["switch-endpoint-1", "verify-clients"]

    with left_alone.running("failover", *GO) as alone:
        of_the_run = [""] if moment == "before" else []
        killed_in_each(killed, moment, [*steps, *of_the_run], "failover", *GO)
        done = killed.json("resume", *GO, code=0)
        assert (done["status"], done["rpo"]["records"]) == ("done", 0)
        left_alone.ends(alone)

    end = end_of(left_alone)
    assert end_of(killed) == end
    assert (end["standing"], end["writes"], end["owed"]) == ("done", "target", {})
    assert [*end["steps"]] == steps
    assert end["lost"] == {"at_least": 0, "exact": True}
    assert end["positions"] == dict.fromkeys(range(PARTITIONS), READ)
    assert (end["connector"], sum(end["ends"].values())) == ("STOPPED", RECORDS)
    assert (end["endpoint"], end["denied"]) == ("secondary", 0)
    assert killed.denials(killed.source) == left_alone.denials(left_alone.source) > 0

    entries = killed.journaled()
    assert [e["seq"] for e in entries] == list(range(1, len(entries) + 1))
    assert Counter(e["step"] for e in killed.entries("intend")) == Counter(steps)
    assert len(killed.entries("resumed")) == len(steps) + len(of_the_run)
    assert by.switched == ["secondary"]
    assert killed.write(LATER, "refused") == []
    assert len(killed.write(LATER, "after", killed.target)) == LATER
