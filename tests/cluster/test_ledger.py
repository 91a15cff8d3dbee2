"""A run with a ledger says what a run without one says, and reads what is new only."""

import signal
from itertools import count
from typing import Any

import pytest
from confluent_kafka import KafkaException

from drctl.lab.lab import Lab
from tests.cluster.command import Drctl, Ended
from tests.cluster.filling import Clock, copies, fill, holding, rows, written
from tests.cluster.link_command import soon
from tests.cluster.site import NewDrctl, NewHalf, link_over
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def topic(half: NewHalf) -> str:
    """A hundred records; the last five are not on the target."""
    return half(100, 95)


@pytest.fixture(scope="module")
def drctl(topic: str, new_drctl: NewDrctl) -> Drctl:
    return new_drctl({"main": link_over(topic)})


RUNS = map("run-{}".format, count())


def run(drctl: Drctl, *options: str) -> Ended:
    return drctl.gap(*options, name=next(RUNS))


def answers(drctl: Drctl) -> dict[str, Any]:
    """What a run with the ledger says, which is what a run without it says."""
    with_ledger, without = run(drctl, "--ledger"), run(drctl, "--scope", "full")
    assert with_ledger.code == without.code, with_ledger.stderr
    document, full = with_ledger.document(), without.document()
    assert full["ledger"] is None
    for name in ("totals", "topics", "not_compared", "complete", "scope"):
        assert document[name] == full[name], name
    return document


def test_the_first_run_reads_everything(drctl: Drctl) -> None:
    document = answers(drctl)
    assert document["totals"]["unreplicated"] == 5
    assert document["ledger"]["offsets_known"] == 0
    assert document["ledger"]["oldest_ms"] is None
    assert document["ledger"]["kept"]


def test_the_next_one_reads_nothing(drctl: Drctl) -> None:
    ledger = answers(drctl)["ledger"]
    assert ledger["offsets_known"] == 195
    assert ledger["forgotten"] == []


def test_what_is_new_is_read(
    drctl: Drctl, topic: str, primary: ClusterUnderTest, secondary: ClusterUnderTest, clock: Clock
) -> None:
    primary.produce(topic, written(rows(10, start=100), clock))
    secondary.produce(topic, written(copies(rows(15, start=95)), clock))
    document = answers(drctl)
    assert document["totals"]["unreplicated"] == 0
    assert document["totals"]["read_from_source"] == 110
    assert document["ledger"]["offsets_known"] == 195


def test_records_that_were_deleted_are_not_remembered(
    drctl: Drctl, topic: str, primary: ClusterUnderTest
) -> None:
    primary.delete_records(topic, 0, 20)
    document = answers(drctl)
    assert document["totals"]["only_on_target"] == 20
    assert document["ledger"]["offsets_known"] == 110


def test_another_leader_with_the_same_log_is_believed(
    drctl: Drctl, topic: str, lab: Lab, primary: ClusterUnderTest
) -> None:
    """The primary's, for Kafka Connect keeps its own state on the secondary."""
    lab.signal("primary", signal.SIGKILL)
    lab.start("primary")

    def back() -> bool:
        try:
            return primary.end_offsets(topic) == {0: 110}
        except KafkaException:
            return False  # it leads nothing yet

    soon(back)
    ledger = answers(drctl)["ledger"]
    assert ledger["offsets_known"] == 200
    assert ledger["forgotten"] == []


def test_a_topic_that_was_made_anew_is_read_anew(
    drctl: Drctl, topic: str, primary: ClusterUnderTest, clock: Clock
) -> None:
    primary.delete_topics([topic])
    soon(lambda: topic not in primary.admin.list_topics(timeout=20).topics)
    fill(primary, {topic: holding(*rows(100))}, clock)
    document = answers(drctl)
    assert document["totals"]["only_on_target"] == 10
    assert [f["reason"] for f in document["ledger"]["forgotten"]] == ["the topic was recreated"]
    assert answers(drctl)["ledger"]["offsets_known"] == 210


def test_a_compacted_topic_is_read_each_time(
    drctl: Drctl, topic: str, secondary: ClusterUnderTest
) -> None:
    secondary.configure(topic, cleanup_policy="compact")
    answers(drctl)
    assert answers(drctl)["ledger"]["offsets_known"] == 100, "the source's log only"


def test_a_ledger_that_is_none_is_named(drctl: Drctl) -> None:
    (drctl.folder / ".drctl" / "ledger.db").write_bytes(b"no database" * 1000)
    ended = run(drctl, "--ledger")
    assert ended.code == 2
    error = ended.document()["error"]
    assert "ledger.db" in error["message"]
    assert "can be deleted at any time" in error["hint"]
