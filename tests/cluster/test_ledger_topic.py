"""A ledger on the surviving cluster: written only where somebody said so, twice."""

from itertools import count

import pytest

from tests.cluster.command import PROMPT, Drctl, Ended
from tests.cluster.filling import Clock, rows, written
from tests.cluster.site import NewDrctl, NewHalf, link_over, new_prefix
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

RUNS = map("run-{}".format, count())
READ_ONLY = "is only read; to update it, add --execute"


@pytest.fixture(scope="module")
def topic(half: NewHalf) -> str:
    """A hundred records; the last five are not on the target."""
    return half(100, 95)


@pytest.fixture(scope="module")
def ledger() -> str:
    return f"__ledger-{new_prefix()}"


@pytest.fixture(scope="module")
def drctl(topic: str, ledger: str, new_drctl: NewDrctl) -> Drctl:
    link = link_over(topic)
    return new_drctl({"main": link}, ledger={"cluster": "secondary", "topic": ledger})


def run(drctl: Drctl, *options: str) -> Ended:
    return drctl.gap("--ledger", *options, name=next(RUNS))


def exists(cluster: ClusterUnderTest, topic: str) -> bool:
    return topic in cluster.admin.list_topics(timeout=20).topics


def test_nobody_said_that_it_may_be_written(
    drctl: Drctl, ledger: str, secondary: ClusterUnderTest
) -> None:
    ended = run(drctl)
    assert ended.code == 1, ended.stderr
    assert READ_ONLY in ended.stderr
    document = ended.document()
    assert document["totals"]["unreplicated"] == 5
    assert document["ledger"]["offsets_known"] == 0
    assert not document["ledger"]["kept"]
    assert not exists(secondary, ledger)
    assert not (drctl.folder / ".drctl" / "ledger.db").exists()


def test_nobody_is_there_to_confirm(drctl: Drctl, ledger: str, secondary: ClusterUnderTest) -> None:
    ended = run(drctl, "--execute")
    assert ended.code == 3
    error = ended.document()["error"]
    assert error["kind"] == "Refused"
    assert "secondary" in error["message"]
    assert ledger in error["message"]
    assert "--yes" in error["hint"]
    assert not exists(secondary, ledger)


@pytest.mark.parametrize("words", [["--execute"], ["--ledger", "--yes"], ["--yes", "--execute"]])
def test_what_does_not_go_together(drctl: Drctl, words: list[str]) -> None:
    ended = drctl.gap(*words, name=next(RUNS))
    assert ended.code == 2
    assert "requires --" in ended.document()["error"]["message"]


def test_another_name_is_typed(drctl: Drctl, ledger: str, secondary: ClusterUnderTest) -> None:
    running = drctl.start("--ledger", "--execute", name=next(RUNS), terminal=True)
    running.await_said(PROMPT)
    running.type("primary")
    ended = running.wait()
    assert ended.code == 3
    assert "'primary' instead of 'secondary'" in ended.document()["error"]["message"]
    assert not exists(secondary, ledger)


def test_the_second_run_reads_nothing(
    drctl: Drctl, ledger: str, secondary: ClusterUnderTest
) -> None:
    first, second = (run(drctl, "--execute", "--yes") for _ in range(2))
    assert first.code == second.code == 1, second.stderr
    assert READ_ONLY not in first.stderr + second.stderr
    one, other = first.document(), second.document()
    assert one["ledger"]["where"] == f"topic {ledger} of secondary"
    assert [d["ledger"]["offsets_known"] for d in (one, other)] == [0, 195]
    assert one["ledger"]["kept"]
    assert one["topics"] == other["topics"]
    assert exists(secondary, ledger)
    assert not (drctl.folder / ".drctl" / "ledger.db").exists()


def test_it_is_used_where_it_may_not_be_written(
    drctl: Drctl,
    topic: str,
    ledger: str,
    clock: Clock,
    primary: ClusterUnderTest,
    secondary: ClusterUnderTest,
) -> None:
    primary.produce(topic, written(rows(10, start=100), clock))
    before = secondary.end_offsets(ledger)
    ended = run(drctl)
    document = ended.document()
    assert document["totals"]["unreplicated"] == 15
    assert document["ledger"]["offsets_known"] == 195
    assert not document["ledger"]["kept"]
    assert READ_ONLY in ended.stderr
    assert secondary.end_offsets(ledger) == before


def test_the_name_is_typed(drctl: Drctl, ledger: str, secondary: ClusterUnderTest) -> None:
    before = secondary.end_offsets(ledger)
    running = drctl.start("--ledger", "--execute", name=next(RUNS), terminal=True)
    running.await_said(PROMPT)
    assert secondary.end_offsets(ledger) == before
    running.type("secondary")
    ended = running.wait()
    assert ended.code == 1, ended.stderr
    assert ended.document()["ledger"]["kept"]
    assert secondary.end_offsets(ledger)[0] > before[0]
