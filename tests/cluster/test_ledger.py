"""A run with a ledger has the same result as one without, and reads only new records."""

import signal
from itertools import count
from typing import Any

import pytest
from confluent_kafka import KafkaException

from drctl.lab.lab import Lab
from tests.cluster.command import Drctl, Ended
from tests.cluster.filling import Clock, copies, fill, holding, rows, written
from tests.cluster.lab_link import NewDrctl, NewHalf, link_over
from tests.cluster.link_command import soon
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]


@pytest.fixture
def topic(half: NewHalf) -> str:
    """A hundred records; the last five are not on the target."""
    return half(100, 95)


@pytest.fixture
def drctl(topic: str, new_drctl: NewDrctl) -> Drctl:
    return new_drctl({"main": link_over(topic)})


RUNS = map("run-{}".format, count())


def run(drctl: Drctl, *options: str) -> Ended:
    return drctl.gap(*options, name=next(RUNS))


def answers(drctl: Drctl) -> dict[str, Any]:
    """Return the result of a run with the ledger, equal to one without."""
    with_ledger, without = run(drctl, "--ledger"), run(drctl, "--scope", "full")
    assert with_ledger.code == without.code, with_ledger.stderr
    document, full = with_ledger.document(), without.document()
    assert full["ledger"] is None
    for name in ("totals", "topics", "not_compared", "complete", "scope"):
        assert document[name] == full[name], name
    return document


def test_only_new_or_changed_records_are_read(
    drctl: Drctl,
    topic: str,
    lab: Lab,
    primary: ClusterUnderTest,
    secondary: ClusterUnderTest,
    clock: Clock,
) -> None:
    first = answers(drctl)
    assert first["totals"]["unreplicated"] == 5
    assert first["ledger"]["offsets_known"] == 0
    assert first["ledger"]["oldest_ms"] is None
    assert first["ledger"]["kept"]
    unchanged = answers(drctl)["ledger"]
    assert (unchanged["offsets_known"], unchanged["discarded"]) == (195, [])

    primary.produce(topic, written(rows(10, start=100), clock))
    secondary.produce(topic, written(copies(rows(15, start=95)), clock))
    longer = answers(drctl)
    assert longer["totals"]["unreplicated"] == 0
    assert longer["totals"]["read_from_source"] == 110
    assert longer["ledger"]["offsets_known"] == 195

    primary.delete_records(topic, 0, 20)
    shorter = answers(drctl)
    assert shorter["totals"]["only_on_target"] == 20
    assert shorter["ledger"]["offsets_known"] == 110, "the target's offsets are not known"

    restart_leader(lab, primary, topic, end=110)
    another_leader = answers(drctl)["ledger"]
    assert (another_leader["offsets_known"], another_leader["discarded"]) == (200, [])

    primary.delete_topics([topic])
    soon(lambda: topic not in primary.admin.list_topics(timeout=20).topics)
    fill(primary, {topic: holding(*rows(100))}, clock)
    recreated = answers(drctl)
    assert recreated["totals"]["only_on_target"] == 10
    assert [f["reason"] for f in recreated["ledger"]["discarded"]] == ["the topic was recreated"]
    assert answers(drctl)["ledger"]["offsets_known"] == 210

    secondary.configure(topic, cleanup_policy="compact")
    answers(drctl)
    assert answers(drctl)["ledger"]["offsets_known"] == 100, "the source's log alone must be known"


def restart_leader(lab: Lab, primary: ClusterUnderTest, topic: str, end: int) -> None:
    """Restart it with its log; Kafka Connect stores its state on the secondary."""
    lab.signal("primary", signal.SIGKILL)
    lab.start("primary")

    def back() -> bool:
        try:
            return primary.end_offsets(topic) == {0: end}
        except KafkaException:
            return False  # it does not lead any partition yet

    soon(back)


def test_a_damaged_ledger_is_named(drctl: Drctl) -> None:
    (drctl.folder / ".drctl").mkdir()
    (drctl.folder / ".drctl" / "ledger.db").write_bytes(b"no database" * 1000)
    ended = run(drctl, "--ledger")
    assert ended.code == 2
    error = ended.document()["error"]
    assert "ledger.db" in error["message"]
    assert "can be deleted at any time" in error["hint"]
