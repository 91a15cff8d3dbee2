"""Ctrl-C, SIGTERM and dying brokers while both sides are being read."""

import signal
from collections.abc import Callable, Iterator

import psutil
import pytest

from drctl.lab.lab import Lab
from drctl.lab.waiting import Patience
from tests.cluster.command import Ended, Running, command_lines
from tests.cluster.conftest import SPARK, WAYS, NewDrctl, cluster_section, new_prefix, slow
from tests.cluster.filling import Clock, copies, fill, holding, rows
from tests.cluster.scenario import partitions_of
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

SCAN_S = {"direct": 8, "spark": 25}
READING = "reading both sides"


@pytest.fixture(scope="module")
def topic(primary: ClusterUnderTest, secondary: ClusterUnderTest, clock: Clock) -> str:
    """Some records, one of them not on the target."""
    name = f"{new_prefix()}slow"
    fill(primary, {name: holding(*rows(20))}, clock)
    fill(secondary, {name: holding(*copies(rows(19)))}, clock)
    return name


Slowly = Callable[[str, str], Running]


@pytest.fixture
def slowly(
    primary: ClusterUnderTest, secondary: ClusterUnderTest, topic: str, new_drctl: NewDrctl
) -> Iterator[Slowly]:
    """Starts a drctl that reads for `SCAN_S` in one of `WAYS`; nothing of it stays."""
    link = {"from": "primary", "to": "secondary", "topics": [topic]}
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
    """No process, no result, no half of one."""
    assert Patience.of(20).wait_until(lambda: not any(map(alive, running.seen)))
    assert not list(ended.out.rglob("*"))


def alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def passwords(*clusters: ClusterUnderTest) -> list[str]:
    return [c.properties()["sasl.password"] for c in clusters]


@pytest.mark.parametrize("way", WAYS)
def test_ctrl_c_and_sigterm_while_reading(
    slowly: Slowly, way: str, primary: ClusterUnderTest, secondary: ClusterUnderTest
) -> None:
    pressed, told = slowly(way, "ctrl-c"), slowly(way, "sigterm")
    for running in (pressed, told):
        running.await_said(READING, times=30)
        assert any("java" in p.name() for p in running.family()) == (way == "spark")
    seen = command_lines()
    assert str(pressed.out) in seen
    for password in passwords(primary, secondary):
        assert password not in seen
    pressed.press_ctrl_c()
    told.signal(signal.SIGTERM)
    for running in (pressed, told):
        ended = running.wait(60)
        assert ended.code == 130, ended.stderr
        assert ended.document()["error"]["kind"] == "Interrupted"
        assert "Traceback" not in ended.stderr
        left_nothing(running, ended)


@pytest.mark.nightly
def test_a_broker_that_dies_while_it_is_read(
    slowly: Slowly, lab: Lab, primary: ClusterUnderTest
) -> None:
    """The primary's: Kafka Connect keeps its own state on the secondary."""
    reading = []
    for way in ("spark", "direct"):  # the one that reads longer first
        reading.append(slowly(way, f"killed-{way}"))
        reading[-1].await_said(READING)
        reading[-1].family()
    lab.signal("primary", signal.SIGKILL)
    try:
        ends = [running.wait(200) for running in reading]
    finally:
        lab.start("primary")
        back = Patience.of(60).wait_until(lambda: has_leaders(primary))
        assert back
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


@pytest.mark.nightly
def test_records_that_are_deleted_before_they_are_read(
    primary: ClusterUnderTest, secondary: ClusterUnderTest, clock: Clock, new_drctl: NewDrctl
) -> None:
    topic = f"{new_prefix()}moving"
    fill(primary, {topic: holding(*rows(20))}, clock)
    fill(secondary, {topic: holding(*copies(rows(19)))}, clock)
    link = {"from": "primary", "to": "secondary", "topics": [topic]}
    running = new_drctl({"main": link}, spark=SPARK).start(terminal=True)
    try:
        running.await_said("starting Spark")  # the offsets are frozen by then
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


def test_records_that_are_deleted_while_they_are_read_without_spark(
    primary: ClusterUnderTest, secondary: ClusterUnderTest, clock: Clock, new_drctl: NewDrctl
) -> None:
    topic = f"{new_prefix()}moving"
    fill(primary, {topic: holding(*rows(20))}, clock)
    fill(secondary, {topic: holding(*copies(rows(19)))}, clock)
    clusters = {c.name: slow(cluster_section(c), 5) for c in (primary, secondary)}
    link = {"from": "primary", "to": "secondary", "topics": [topic]}
    running = new_drctl({"main": link}, clusters=clusters).start(terminal=True)
    try:
        running.await_said(READING)
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
