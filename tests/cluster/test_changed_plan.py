"""A plan that differs from the approved or shown one is refused; real clusters are unchanged."""

from pathlib import Path

import pytest

from tests.cli.documents import check
from tests.cluster.failover_stage import PARTITIONS, Stage
from tests.cluster.link_command import GO

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(240)]

RECORDS = 20


@pytest.fixture
def agreed_on(stage: Stage) -> Stage:
    stage.written(RECORDS)
    stage.read(stage.source, most=5)
    return stage


def assert_untouched(stage: Stage) -> None:
    """Assert that nothing of a failover happened: no ACL, no journal, no client moved."""
    assert stage.denials(stage.source) == 0
    assert stage.all_states() == {"RUNNING"}
    assert stage.directs_to("primary")
    assert stage.json("journal", code=0)["runs"] == []
    assert stage.journaled() == []


def refused(stage: Stage, *words: str) -> str:
    """Return the reason of the refusal."""
    ran = stage.run("failover", *words, "--output", "json")
    assert ran.code == 3, ran.stdout + ran.stderr
    error = check(ran.document())["error"]
    assert (error["code"], error["kind"]) == (3, "Refused")
    return str(error["message"])


def test_a_plan_that_differs_from_the_approved_one_is_refused(
    agreed_on: Stage, tmp_path: Path
) -> None:
    stage = agreed_on
    agreed = str(tmp_path / "agreed.json")
    plan = stage.json("failover", "--plan-out", agreed, code=0)
    again = stage.json("failover", "--expect-plan", agreed, code=0)
    assert again["fingerprint"] == plan["fingerprint"]
    (leaving,) = (each for each in plan["clients"] if each["step"] == "switch-endpoint-1")
    assert "they stay connected to primary until they are restarted" in leaving["message"]
    refusal = refused(stage, "--expect-plan", agreed, "--timeout", "5m", *GO)
    assert (
        refusal == f"the plan is not the one in {agreed}: step drain, its timeout: 600.0 -> 300.0"
    )

    stage.source.add_partitions(stage.topic, PARTITIONS + 1)
    for go in ((), GO):
        refusal = refused(stage, "--expect-plan", agreed, *go)
        # MirrorMaker 2 may add the partition on the target meanwhile; then that change is named,
        # too.
        assert refusal.startswith(f"the plan is not the one in {agreed}: ")
        assert "topics of primary: 1 topic," in refusal
        assert f" {PARTITIONS} partitions, " in refusal
        assert f" -> 1 topic, {PARTITIONS + 1} partitions, " in refusal
    assert_untouched(stage)


def test_clusters_that_change_during_the_prompt(agreed_on: Stage) -> None:
    stage = agreed_on
    words = ("failover", "--link", stage.link, "--execute")
    more = lambda: stage.source.add_partitions(stage.topic, PARTITIONS + 1)  # noqa: E731
    ended = stage.drctl.typed(*words, name="secondary", before=more)
    assert ended.code == 3, ended.stderr
    assert "the clusters have changed since the plan was made: topics of primary:" in ended.stderr
    assert_untouched(stage)
