"""Ctrl-C, SIGTERM and dying brokers while both clusters are read."""

import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from drctl.lab.lab import Lab
from tests.cluster.command import Ended, Running, alive, command_lines
from tests.cluster.lab_link import WAYS, NewDrctl, NewHalf, cluster_section, link_over, slow
from tests.cluster.link_command import soon
from tests.cluster.scenario import partitions_of
from tests.cluster.secret_exposure import passwords
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

SCAN_S = {"direct": 8, "spark": 25}
READING = "reading both clusters"


@pytest.fixture(scope="module")
def topic(half: NewHalf) -> str:
    """Some records, one of them not on the target."""
    return half(20, 19)


Slowly = Callable[[str, str], Running]


@pytest.fixture
def slowly(
    primary: ClusterUnderTest, secondary: ClusterUnderTest, topic: str, new_drctl: NewDrctl
) -> Iterator[Slowly]:
    """Start a drctl that reads for `SCAN_S` in one of `WAYS`; remove everything of it."""
    link = link_over(topic)
    started: list[Running] = []

    def start(way: str, name: str) -> Running:
        clusters = {c.name: slow(cluster_section(c), SCAN_S[way]) for c in (primary, secondary)}
        drctl = new_drctl({"main": link}, clusters=clusters, **WAYS[way])
        started.append(drctl.start(name=name, terminal=True))
        return started[-1]

    yield start
    for running in started:
        running.kill()


def left_nothing(running: Running, ended: Ended) -> None:
    """Assert that there is no process, no result and no partial result."""
    soon(lambda: not any(map(alive, running.seen)), seconds=20)
    assert not list(ended.out.rglob("*"))


@pytest.mark.parametrize("way", WAYS)
def test_ctrl_c_and_sigterm_while_reading(
    slowly: Slowly, way: str, primary: ClusterUnderTest, secondary: ClusterUnderTest
) -> None:
    pressed, terminated = slowly(way, "ctrl-c"), slowly(way, "sigterm")
    for running in (pressed, terminated):
        running.await_stderr(READING, times=30)
        assert any("java" in p.name() for p in running.family()) == (way == "spark")
    seen = command_lines()
    assert str(pressed.out) in seen
    for password in passwords(primary, secondary):
        assert password not in seen
    pressed.press_ctrl_c()
    terminated.signal(signal.SIGTERM)
    for running in (pressed, terminated):
        ended = running.wait(60)
        assert ended.code == 130, ended.stderr
        assert ended.document()["error"]["kind"] == "Interrupted"
        assert "Traceback" not in ended.stderr
        left_nothing(running, ended)


@pytest.mark.nightly
def test_a_broker_that_dies_during_a_read(
    slowly: Slowly, lab: Lab, primary: ClusterUnderTest
) -> None:
    """The primary's broker: Kafka Connect stores its state on the secondary."""
    reading = []
    for way in ("spark", "direct"):  # the one that takes longer starts first
        reading.append(slowly(way, f"killed-{way}"))
        reading[-1].await_stderr(READING)
        reading[-1].family()
    lab.signal("primary", signal.SIGKILL)
    try:
        ends = [running.wait(200) for running in reading]
    finally:
        lab.start("primary")
        soon(lambda: has_leaders(primary))
    for running, ended in zip(reading, ends, strict=True):
        assert ended.code == 5, ended.stderr
        error = ended.document()["error"]
        assert "primary" in error["message"]
        assert error["hint"]
        assert "Traceback" not in ended.stderr
        left_nothing(running, ended)


def has_leaders(cluster: ClusterUnderTest) -> bool:
    topics = cluster.admin.list_topics(timeout=10).topics.values()
    return all(p.leader >= 0 for t in topics for p in t.partitions.values())


@pytest.mark.parametrize("way", ["direct", pytest.param("spark", marks=pytest.mark.nightly)])
def test_records_that_are_deleted_during_a_read(
    primary: ClusterUnderTest,
    secondary: ClusterUnderTest,
    half: NewHalf,
    new_drctl: NewDrctl,
    way: str,
) -> None:
    topic = half(20, 19)
    sections: dict[str, Any] = dict(WAYS[way])
    if way == "direct":
        sections["clusters"] = {c.name: slow(cluster_section(c), 5) for c in (primary, secondary)}
    running = new_drctl({"main": link_over(topic)}, **sections).start(terminal=True)
    try:
        # The offsets are frozen before Spark starts.
        running.await_stderr(READING if way == "direct" else "starting Spark")
        primary.delete_records(topic, 0, 5)
        secondary.delete_records(topic, 0, 3)
        ended = running.wait()
    finally:
        running.kill()
    assert ended.code == 1, ended.stderr
    (partition,) = partitions_of(ended.document(), topic)
    assert partition["source_range"] == [5, 20]
    assert partition["target_range"] == [3, 19]
    assert partition["ranges"] == [[19, 19]]
    assert partition["read_from_source"] == 15
