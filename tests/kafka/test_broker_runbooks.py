"""Runbooks about brokers, followed to their end on three real ones."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import TopicPartition as Place

from drctl.lab.cluster import Broker
from drctl.lab.lab import Lab
from drctl.model.topology import Record
from tests.cluster.command import Drctl
from tests.cluster.followed_runbook import FollowedRunbook
from tests.cluster.lab_link import cluster_section, link_over
from tests.cluster.link_command import soon, steps_of
from tests.kafka.members import commit
from tests.kafka.test_three_brokers import RECOVERY_S, await_whole, create, health
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(600)]

BEFORE, MISSED = 40, 30
START_MS = 1_700_000_000_000


class Desk:
    """A link from the three brokers to the shared lab's secondary, and its operator."""

    def __init__(self, three: ClusterUnderTest, target: ClusterUnderTest, folder: Path) -> None:
        self._three, self._target, self._folder = three, target, folder

    def drctl(self, *topics: str) -> Drctl:
        clusters = {"primary": self._three, "secondary": self._target}
        sections = {name: cluster_section(each) for name, each in clusters.items()}
        # The journal is shared by all users of these clusters: each topic gets its own link.
        links = {topics[0]: link_over(*topics, replicator={"kind": "none"})}
        config = self._folder / "drctl.yaml"
        config.write_text(yaml.safe_dump({"clusters": sections, "links": links}), encoding="utf-8")
        return Drctl(self._folder, config)

    def runbook(self, name: str, *topics: str, **values: str) -> FollowedRunbook:
        given = {"cluster": "primary", "bootstrap": self._three.bootstrap, **values}
        words = {"TOPIC": topics[0], "NAME": "the owner"}
        return FollowedRunbook(self.drctl(*topics), name, topics[0], self._three, given, words)

    def found(self, check: str, *topics: str) -> dict[str, Any]:
        """Return doctor's findings on the three brokers."""
        drctl = self.drctl(*topics)
        rows: list[dict[str, Any]] = drctl("doctor", "-o", "json").document()["checks"]
        return next(r for r in rows if (r["check"], r["subject"]) == (check, "cluster primary"))


@pytest.fixture
def desk(three: ClusterUnderTest, secondary: ClusterUnderTest, tmp_path: Path) -> Desk:
    return Desk(three, secondary, tmp_path)


@pytest.fixture(autouse=True)
def whole_at_the_end(brokers: Lab, three: ClusterUnderTest) -> Iterator[None]:
    yield
    brokers.start("primary")
    await_whole(three)


@pytest.fixture
def back_in_its_rack(brokers: Lab) -> Iterator[None]:
    """Start broker 3 with its own settings next time."""
    yield
    if brokers.parts.part("primary-3").process() is not None:
        brokers.signal("primary-3", signal.SIGKILL)


def write(cluster: ClusterUnderTest, topic: str, first: int, count: int) -> None:
    """Write the same records to any cluster."""
    rows = [Record(0, n, START_MS + n, b"k", b"%d" % n) for n in range(first, first + count)]
    cluster.produce(topic, rows, acks="all")


def leader(three: ClusterUnderTest, topic: str) -> int:
    return int(three.admin.list_topics(timeout=30).topics[topic].partitions[0].leader)


def until(seen: Callable[[], object]) -> None:
    soon(seen, seconds=RECOVERY_S)


@pytest.mark.usefixtures("back_in_its_rack")
def test_a_failed_broker_returns(
    brokers: Lab, three: ClusterUnderTest, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes back in another rack, by mistake, which doctor finds."""
    topics = create(three, [3, 1, 2], min_insync_replicas="2"), create(three, [3, 2])
    topic, pair = topics
    write(three, topic, 0, BEFORE)
    assert desk.found("rack-spread", *topics)["status"] == "ok"
    brokers.signal("primary-3", signal.SIGKILL)
    until(lambda: len(health(three, [topic]).brokers) == 2)
    followed = desk.runbook("broker-failure", *topics)

    def still_writable() -> None:
        (shown,) = followed.type("still-writable")
        rejecting = {each for each in topics if each in shown.stdout}
        assert rejecting == {pair}

    def cause() -> None:
        assert brokers.parts.part("primary-3").process() is None

    def start() -> None:
        ours = Broker._properties
        rack = {"broker.rack": "rack-2"}
        with monkeypatch.context() as patch:
            patch.setattr(Broker, "_properties", lambda self: {**ours(self), **rack})
            brokers.start("primary-3")
        until(lambda: len(health(three, [topic]).brokers) == 3)
        (shown,) = followed.type("start")
        assert " partitions, all have a leader\n" in shown.stdout

    def in_sync() -> None:
        until(lambda: not followed.type("in-sync")[0].stdout.strip())
        await_whole(three)

    def preferred_leaders() -> None:
        assert (leader(three, topic), leader(three, pair)) == (1, 2)
        planned, done = followed.type("preferred-leaders")
        assert planned.stdout.startswith("Preferred election on cluster primary: 2 to elect\n")
        assert done.stdout.startswith("Preferred election on cluster primary: 2 elected\n")

    acts = (still_writable, cause, start, in_sync, preferred_leaders)
    document = followed.follow(**{act.__name__: act for act in acts})
    assert set(steps_of(document, "status").values()) == {"done"}
    assert (leader(three, topic), leader(three, pair)) == (3, 3)
    for check in ("leader-skew", "replicas-out-of-sync", "partitions-under-min-isr"):
        assert desk.found(check, *topics)["status"] == "ok", check
    racks = desk.found("rack-spread", *topics)
    assert racks["status"] == "warn"
    assert racks["reason"] == f"all replicas of 1 partition are in one rack: {pair}-0"


class Lost:
    """Broker 2 lags, broker 3 leads alone and dies, broker 2 returns without what it missed."""

    def __init__(self, brokers: Lab, three: ClusterUnderTest) -> None:
        self.topic = create(three, [2, 3], min_insync_replicas="1")
        write(three, self.topic, 0, BEFORE)
        brokers.signal("primary-2", signal.SIGKILL)
        until(lambda: leader(three, self.topic) == 3)
        write(three, self.topic, BEFORE, MISSED)
        # The committed offset is the only evidence of the end of the lost log.
        commit(three.properties(), f"of-{self.topic}", Place(self.topic, 0, BEFORE + MISSED))
        brokers.signal("primary-3", signal.SIGKILL)
        brokers.start("primary-2")
        until(lambda: leader(three, self.topic) < 0)


def test_an_in_sync_replica_returns(
    brokers: Lab, three: ClusterUnderTest, secondary: ClusterUnderTest, desk: Desk
) -> None:
    """Nothing is lost, and no decision is needed."""
    topic = Lost(brokers, three).topic
    secondary.create_topic(topic)
    write(secondary, topic, 0, BEFORE + MISSED)
    followed = desk.runbook("all-replicas-down", topic, wait="2m")

    def which() -> None:
        (shown,) = followed.type("which", 1)
        assert topic in shown.stdout

    def no_elections() -> None:
        (shown,) = followed.type("no-elections")
        assert "unclean.leader.election.enable=false" in shown.stdout

    def start_in_sync() -> None:
        brokers.start("primary-3")
        followed.type("start-in-sync")
        assert leader(three, topic) == 3

    def decide() -> None:
        (refused,) = followed.type("decide", 3)
        assert "broker 3 leads it" in refused.stdout

    document = followed.follow(
        which=which,
        no_elections=no_elections,
        start_in_sync=start_in_sync,
        decide=decide,
        give_up=lambda: None,
    )
    assert set(steps_of(document, "status").values()) == {"done"}
    assert three.end_offsets(topic) == {0: BEFORE + MISSED}


def test_no_replica_with_every_record_returns(
    brokers: Lab, three: ClusterUnderTest, secondary: ClusterUnderTest, desk: Desk
) -> None:
    """The owner gives up what only the lost one had; the target still has its copies."""
    topic = Lost(brokers, three).topic
    secondary.create_topic(topic)
    write(secondary, topic, 0, BEFORE + MISSED)
    followed = desk.runbook("all-replicas-down", topic, wait="5s")

    def decide() -> None:
        (shown,) = followed.type("decide", 3)
        assert f"at least {MISSED} offsets, {BEFORE} to {BEFORE + MISSED - 1}" in shown.stdout

    def give_up() -> None:
        (done,) = followed.type("give-up")
        assert done.stdout.startswith("Unclean election on cluster primary: 1 elected\n")
        assert f"groups with offsets beyond the end of the log: of-{topic}" in done.stdout

    document = followed.follow(
        which=lambda: followed.type("which", 1),
        no_elections=lambda: followed.type("no-elections"),
        start_in_sync=lambda: followed.type("start-in-sync", 1),
        decide=decide,
        give_up=give_up,
    )
    steps = steps_of(document, "status")
    assert steps.pop("leaders") == "skipped"
    assert set(steps.values()) == {"done"}
    found = steps_of(document, "detail")["compare"]
    assert found.endswith(f"replicated to the target; {MISSED} records are only on the target")
    assert (leader(three, topic), three.end_offsets(topic)) == (2, {0: BEFORE})
    assert secondary.end_offsets(topic) == {0: BEFORE + MISSED}
