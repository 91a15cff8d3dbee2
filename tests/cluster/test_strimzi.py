"""Strimzi's operators undo fences and stops: what drctl reports before and after a failover."""

import pytest

from tests.cluster.failover_stage import Stage, connect
from tests.cluster.isolated_links import OwnLinks
from tests.cluster.link_command import GO, soon
from tests.cluster.strimzi import Operators

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

NAME = "primary->secondary-{}.MirrorSourceConnector"
MANAGED = "connectors-managed-elsewhere"


def moved(stage: Stage) -> dict[str, dict[str, str]]:
    """Return what `drctl status` reports of a link whose clients moved, by subject."""
    found = stage.json("status", code=1)["planned"]["blockers"]
    return {each["subject"]: each for each in found if each["check"] == "clients-moved"}


@pytest.mark.nightly
def test_what_operators_undo_is_said_before_and_behind_a_failover(links: OwnLinks) -> None:
    stage = links.make(NAME)
    stage.written(50)
    (refused,) = (
        each for each in stage.json("failover", code=3)["refused"] if each["precheck"] == MANAGED
    )
    assert f"Strimzi manages {stage.copies}" in refused["reason"]
    with connect(stage.lab) as worker:
        operators = Operators(stage.source, worker, stage.copies)
        stage.json("failover", "--override", f"{MANAGED}=seen", *GO, code=0)
        (before,) = moved(stage).values()
        assert "is fenced: its ACLs deny writes" in before["evidence"]

        with operators.at_work():
            soon(lambda: operators.deleted and operators.resumed)
            soon(lambda: worker.status(stage.copies).all_in("RUNNING"))
            said = moved(stage)
        assert said["fence of cluster primary"]["reason"] == (
            "1 of 1 ACLs that deny writes are missing"
        )
        copying = said[f"connector {stage.copies}"]
        assert copying["reason"].startswith("it is RUNNING, but clients have been on secondary")
        assert "Strimzi resumes it" in copying["remedy"]
