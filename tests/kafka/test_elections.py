"""Leaders lost and elected on three real brokers: drctl reports exactly the lost records.

Broker 2 lags, broker 3 leads alone and dies, broker 2 returns without the records it missed.
"""

import io
import json
import signal
import threading
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import NewTopic

from drctl.cli.main import run
from drctl.elections.cluster_state import Replica
from drctl.kafka.connection import Connection
from drctl.kafka.elections import KafkaElectionReader
from drctl.lab.lab import Lab
from drctl.lab.waiting import Patience
from drctl.model.topology import Record, TopicPartition
from tests.cli.conftest import Ran
from tests.cli.documents import check
from tests.lab.cluster_under_test import QUIET, ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

RECOVERY_S = 60.0
BEFORE, MISSED = 100, 80
REASON = ("--override", "unclean=the owner gave it up")


@dataclass(frozen=True)
class Elect:
    """Runs `drctl elect` with a drctl.yaml of one cluster."""

    config: Path

    def __call__(self, *words: str) -> Ran:
        return self.any("elect", *words)

    def any(self, *words: str) -> Ran:
        """Run another command of drctl with the same drctl.yaml."""
        stdout, stderr = io.StringIO(), io.StringIO()
        with chdir(self.config.parent), redirect_stdout(stdout), redirect_stderr(stderr):
            code = run(["--config", str(self.config), *words])
        return Ran(code, stdout.getvalue(), stderr.getvalue())

    def json(self, *words: str, code: int = 0) -> dict[str, Any]:
        """The document on stdout, checked against its schema."""
        ran = self(*words, "--output", "json")
        assert ran.code == code, ran.stdout + ran.stderr
        return check(ran.document())


@pytest.fixture(scope="module")
def elect(three: ClusterUnderTest, tmp_path_factory: pytest.TempPathFactory) -> Elect:
    config = tmp_path_factory.mktemp("drctl") / "drctl.yaml"
    properties = three.lab_cluster.public_properties("admin")
    cluster = {
        "bootstrap": properties.pop("bootstrap.servers"),
        "properties": {
            **properties,
            "sasl.password": f"${{file:{three.lab_cluster.password_file('admin')}}}",
        },
    }
    config.write_text(yaml.safe_dump({"clusters": {"primary": cluster}}), encoding="utf-8")
    return Elect(config)


@dataclass(frozen=True)
class Topics:
    """Topics named by their fate; each has one partition."""

    lost: str
    """On brokers 2 and 3."""
    alone: str
    """On broker 3."""
    preferred: str
    """On brokers 3, 1 and 2; broker 3 is the preferred leader."""


@pytest.fixture(scope="module")
def topics(three: ClusterUnderTest) -> Topics:
    made = Topics(*(f"{name}-{uuid4().hex[:6]}" for name in ("lost", "alone", "home")))
    new = [
        NewTopic(made.lost, 1, replica_assignment=[[2, 3]], config={"min.insync.replicas": "1"}),
        NewTopic(made.alone, 1, replica_assignment=[[3]]),
        NewTopic(made.preferred, 1, replica_assignment=[[3, 1, 2]]),
    ]
    for future in three.admin.create_topics(new, operation_timeout=30).values():
        future.result()
    return made


def write(three: ClusterUnderTest, topic: str, first: int, count: int) -> None:
    """Write records, acknowledged by all replicas in sync."""
    rows = [Record(0, 0, 0, b"k", str(n).encode()) for n in range(first, first + count)]
    three.produce(topic, rows, acks="all")


def commit(three: ClusterUnderTest, group: str, place: Place) -> None:
    """Commit an offset; a new coordinator needs a moment."""

    def taken() -> bool:
        wanted = ConsumerGroupTopicPartitions(group, [place])
        (future,) = three.admin.alter_consumer_group_offsets([wanted]).values()
        return all(each.error is None for each in future.result().topic_partitions)

    assert Patience.of(RECOVERY_S).wait_until(taken)


def values(three: ClusterUnderTest, topic: str) -> list[int]:
    """All records of the topic."""
    settings = {"group.id": "tests-never-joined", "auto.offset.reset": "earliest"}
    consumer = Consumer({**three.properties(), **settings}, logger=QUIET)
    try:
        consumer.assign([Place(topic, 0, 0)])
        end = consumer.get_watermark_offsets(Place(topic, 0), timeout=30)[1]
        found: list[int] = []
        while len(found) < end:
            message = consumer.poll(30)
            assert message is not None
            assert message.error() is None
            found.append(int(message.value() or b"-1"))
        return found
    finally:
        consumer.close()


def look(three: ClusterUnderTest, topic: str) -> Any:
    """A partition's state, with the log end offsets of its replicas."""
    place = TopicPartition(topic, 0)
    with KafkaElectionReader(Connection("primary", three.properties(), timeout_s=10)) as reader:
        link_reader = reader.look([topic], [place])
    found = link_reader.find(place)
    assert found is not None
    ends = {node: link_reader.log_ends.get(Replica(place, node)) for node in found.replicas}
    return found, ends


def await_in_sync(three: ClusterUnderTest, topic: str, *nodes: int) -> None:
    def so() -> bool:
        return set(look(three, topic)[0].in_sync) == set(nodes)

    assert Patience.of(RECOVERY_S).wait_until(so), look(three, topic)


@dataclass(frozen=True)
class Outputs:
    """What drctl printed at each stage."""

    headless: dict[str, Any]
    shown: dict[str, Any]
    text: Ran
    refused: dict[str, Any]
    planned: dict[str, Any]
    unconfirmed_plan: Ran
    unconfirmed: Ran
    elected: dict[str, Any]
    again: dict[str, Any]
    waited: Ran
    kept: list[int]


@pytest.fixture(scope="module")
def story(brokers: Lab, three: ClusterUnderTest, topics: Topics, elect: Elect) -> Outputs:
    write(three, topics.lost, 0, BEFORE)
    brokers.signal("primary-2", signal.SIGKILL)
    await_in_sync(three, topics.lost, 3)
    write(three, topics.lost, BEFORE, MISSED)
    commit(three, "reader", Place(topics.lost, 0, BEFORE + MISSED))
    brokers.signal("primary-3", signal.SIGKILL)
    headless = without_controller(elect, topics.lost)
    brokers.start("primary-2")
    assert Patience.of(RECOVERY_S).wait_until(lambda: look(three, topics.lost)[0].leader is None), (
        look(three, topics.lost)
    )
    unclean = ("unclean", "--topic", topics.lost, "--partition", "0")
    shown = elect.json("show", code=1)
    refused = elect.json(*unclean, code=3)
    planned: dict[str, Any] = {}

    def every_group_is_read() -> bool:
        planned.update(elect.json(*unclean, *REASON))
        return not planned["notes"]

    assert Patience.of(RECOVERY_S).wait_until(every_group_is_read), planned["notes"]
    text, unconfirmed_plan = elect("show"), elect(*unclean)
    unconfirmed = elect(*unclean, *REASON, "--execute")
    elected = elect.json(*unclean, *REASON, "--execute", "--yes")
    kept = values(three, topics.lost)
    again = elect.json(*unclean, *REASON, code=3)
    back = threading.Thread(target=brokers.start, args=("primary-3",))
    back.start()
    waited = elect("wait", "--timeout", f"{RECOVERY_S:.0f}s")
    back.join()
    return Outputs(
        headless,
        shown,
        text,
        refused,
        planned,
        unconfirmed_plan,
        unconfirmed,
        elected,
        again,
        waited,
        kept,
    )


def without_controller(elect: Elect, topic: str) -> dict[str, Any]:
    """The state after the remaining controller has noticed that it has no majority."""
    found: dict[str, Any] = {}

    def so() -> bool:
        found.update(elect.json("show", "--topic", topic, code=1))
        return found["controller"] is None

    assert Patience.of(RECOVERY_S).wait_until(so)
    return found


def row(document: dict[str, Any], topic: str) -> dict[str, Any]:
    key = "leaderless" if "leaderless" in document else "lines"
    found: dict[str, Any] = next(each for each in document[key] if each["topic"] == topic)
    return found


def test_without_a_quorum_a_dead_leader_is_detected(story: Outputs, topics: Topics) -> None:
    assert story.headless["controller"] is None
    assert story.headless["brokers"]["alive"] == [1]
    (only,) = story.headless["leaderless"]
    assert only["leader"] == 3, "the dead broker is no longer the leader"


def test_brokers_and_their_logs(story: Outputs, topics: Topics) -> None:
    lost = row(story.shown, topics.lost)
    assert story.shown["controller"] in (1, 2)
    assert lost["leader"] is None
    replicas = {each["broker"]: each for each in lost["replicas"]}
    assert replicas[2]["alive"]
    assert not replicas[2]["in_sync"]
    assert replicas[2]["log_end"] == BEFORE
    assert not replicas[3]["alive"]
    assert replicas[3]["log_end"] is None
    assert topics.alone in {each["topic"] for each in story.shown["leaderless"]}
    assert (story.text.code, "without a leader" in story.text.stdout) == (1, True)


def test_an_unclean_election_needs_a_reason_on_real_brokers(story: Outputs, topics: Topics) -> None:
    (line,) = story.refused["lines"]
    assert (line["action"], [each["precheck"] for each in line["blockers"]]) == (
        "refuse",
        ["unclean"],
    )
    assert "at least 80 offsets, 100 to 179" in story.unconfirmed_plan.stdout
    assert (story.unconfirmed_plan.code, "--execute" in story.unconfirmed_plan.stdout) == (3, False)


def test_no_election_without_the_typed_confirmation(story: Outputs) -> None:
    assert story.unconfirmed.code == 3
    assert "not confirmed: write to cluster primary: elects out-of-sync leaders of 1" in (
        story.unconfirmed.stderr
    )
    assert "loses at least 80 offsets, 100 to 179" in story.unconfirmed.stderr


def test_the_loss_stated_is_the_loss_measured(story: Outputs, topics: Topics) -> None:
    (line,) = story.planned["lines"]
    assert (line["action"], line["expected_leader"]) == ("elect", 2)
    lost = {"from": BEFORE, "before": BEFORE + MISSED, "offsets": MISSED}
    assert line["loss"]["lost"] == lost, story.planned["notes"]
    assert line["loss"]["groups_beyond_log_end"] == [{"group": "reader", "offset": BEFORE + MISSED}]
    (done,) = story.elected["lines"]
    assert (done["outcome"], done["leader_now"]) == ("elected", 2)
    assert done["measured"] == {
        "truncated_at": BEFORE,
        "unknown_reason": "",
        "lost": lost,
        "as_predicted": True,
    }
    assert story.kept == list(range(BEFORE)), "records after the end of the elected log are left"


def test_the_election_is_in_the_journal(story: Outputs, elect: Elect) -> None:
    run = story.elected["run"]
    journal = elect.config.parent / ".drctl" / "runs" / run / "journal.jsonl"
    assert str(journal) in story.elected["journal"]
    entries = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
    assert [each["entry"] for each in entries] == ["began", "intend", "done", "ended"]
    assert entries[0]["plan"]["overrides"] == {"unclean": "the owner gave it up"}
    assert entries[2]["facts"]["elected"][0]["cut"] == BEFORE
    ran = elect.any("journal", run, "--cluster", "primary", "--output", "json")
    (shown,) = check(ran.document())["runs"]
    assert [each["entry"] for each in shown["entries"]] == ["began", "intend", "done", "ended"]


def test_a_live_leader_is_not_replaced(story: Outputs) -> None:
    (line,) = story.again["lines"]
    assert [each["precheck"] for each in line["blockers"]] == ["has-leader"]


def test_waiting_reports_returned_brokers_and_loses_nothing(story: Outputs, topics: Topics) -> None:
    assert story.waited.code == 0, story.waited.stdout + story.waited.stderr
    assert "broker 3 answers" in story.waited.stderr
    assert f"{topics.alone}-0: broker 3 leads it" in story.waited.stderr


def test_the_old_leader_truncates_its_log_when_it_returns(
    story: Outputs, three: ClusterUnderTest, topics: Topics
) -> None:
    await_in_sync(three, topics.lost, 2, 3)
    assert look(three, topics.lost)[1] == {2: BEFORE, 3: BEFORE}


def test_preferred_leaders_are_restored(
    story: Outputs, three: ClusterUnderTest, topics: Topics, elect: Elect
) -> None:
    await_in_sync(three, topics.preferred, 1, 2, 3)
    assert look(three, topics.preferred)[0].leader != 3
    words = ("preferred", "--topic", topics.preferred)
    (line,) = elect.json(*words)["lines"]
    assert (line["action"], line["expected_leader"]) == ("elect", 3)
    ran = elect.json(*words, "--execute", "--yes")
    (done,) = ran["lines"]
    assert (done["outcome"], done["leader_now"]) == ("elected", 3)
    assert look(three, topics.preferred)[0].leader == 3
    assert "__drctl_journal of primary" in ran["journal"], (
        "with all brokers alive the journal must be on the cluster"
    )
    assert elect.json(*words)["lines"] == []
