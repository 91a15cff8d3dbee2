"""A ledger on the surviving cluster: written only if requested and confirmed."""

from collections.abc import Callable
from itertools import count

import pytest

from tests.cluster.command import PROMPT, Drctl, Ended
from tests.cluster.filling import Clock, rows, written
from tests.cluster.lab_link import NewDrctl, NewHalf, link_over, new_prefix
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

RUNS = map("run-{}".format, count())
READ_ONLY = "is only read; to update it, add --execute"


@pytest.fixture
def topic(half: NewHalf) -> str:
    """A hundred records; the last five are not on the target."""
    return half(100, 95)


@pytest.fixture
def ledger() -> str:
    return f"__ledger-{new_prefix()}"


@pytest.fixture
def drctl(topic: str, ledger: str, new_drctl: NewDrctl) -> Drctl:
    link = link_over(topic)
    return new_drctl({"main": link}, ledger={"cluster": "secondary", "topic": ledger})


def run(drctl: Drctl, *options: str) -> Ended:
    return drctl.gap("--ledger", *options, name=next(RUNS))


def typed(drctl: Drctl, name: str, ends: Callable[[], object]) -> Ended:
    """Type this name at the prompt; nothing is written before."""
    before = ends()
    running = drctl.start("--ledger", "--execute", name=next(RUNS), terminal=True)
    running.await_stderr(PROMPT)
    assert ends() == before
    running.type(name)
    return running.wait()


def exists(cluster: ClusterUnderTest, topic: str) -> bool:
    return topic in cluster.admin.list_topics(timeout=20).topics


def test_it_is_created_only_if_requested_and_confirmed(
    drctl: Drctl, ledger: str, secondary: ClusterUnderTest
) -> None:
    ended = run(drctl)
    assert ended.code == 1, ended.stderr
    assert READ_ONLY in ended.stderr
    document = ended.document()
    assert document["totals"]["unreplicated"] == 5
    assert document["ledger"]["offsets_known"] == 0
    assert not document["ledger"]["kept"]
    assert not (drctl.folder / ".drctl" / "ledger.db").exists()

    unconfirmed = run(drctl, "--execute")
    assert unconfirmed.code == 3
    error = unconfirmed.document()["error"]
    assert error["kind"] == "Refused"
    assert "secondary" in error["message"]
    assert ledger in error["message"]
    assert "--yes" in error["hint"]

    other_name = typed(drctl, "primary", lambda: exists(secondary, ledger))
    assert other_name.code == 3
    assert "'primary' instead of 'secondary'" in other_name.document()["error"]["message"]
    assert not exists(secondary, ledger)


def test_the_next_run_reads_only_new_records(
    drctl: Drctl,
    topic: str,
    ledger: str,
    clock: Clock,
    primary: ClusterUnderTest,
    secondary: ClusterUnderTest,
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

    primary.produce(topic, written(rows(10, start=100), clock))
    before = secondary.end_offsets(ledger)
    not_written = run(drctl)
    document = not_written.document()
    assert document["totals"]["unreplicated"] == 15
    assert document["ledger"]["offsets_known"] == 195
    assert not document["ledger"]["kept"]
    assert READ_ONLY in not_written.stderr
    assert secondary.end_offsets(ledger) == before

    confirmed = typed(drctl, "secondary", lambda: secondary.end_offsets(ledger))
    assert confirmed.code == 1, confirmed.stderr
    assert confirmed.document()["ledger"]["kept"]
    assert secondary.end_offsets(ledger)[0] > before[0]
