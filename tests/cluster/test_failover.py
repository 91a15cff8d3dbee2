"""`drctl failover` and `resume` on real clusters, behind a real MirrorMaker 2: nothing is lost."""

import json
import os
import signal
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml
from confluent_kafka import Consumer, KafkaError

from drctl.lab.lab import Lab
from drctl.lab.waiting import Patience
from drctl.model.producer_ids import Advanced, highest
from drctl.model.topology import TopicPartition
from drctl.systems.kafka.producer_ids import KafkaProducerIdReader, KafkaProducerIdWriter
from tests.cli.conftest import DRCTL, Ran, clean_environment
from tests.cli.documents import check
from tests.cluster.conftest import NewDrctl
from tests.conftest import NewTopic
from tests.lab.cluster_under_test import QUIET, ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

APP = "orders-app"
PARTITIONS = 2
RECORDS = 200
LEFT = 30
GO = ("--execute", "--yes")
DEADLINE_S = 180.0


class Stage:
    """A topic that MirrorMaker 2 copies, an application that writes and one that reads it."""

    def __init__(self, lab: Lab, new_drctl: NewDrctl, new_topic: NewTopic) -> None:
        self.lab = lab
        self.topic = new_topic(PARTITIONS, mirrored=True)
        self.group = f"orders-app-{uuid4().hex[:8]}"
        self.reading = {"session.timeout.ms": "6000"}
        self.writing: dict[str, object] = {"delivery__timeout__ms": 15_000}
        self.source = ClusterUnderTest(lab.cluster("primary"))
        self.target = ClusterUnderTest(lab.cluster("secondary"))
        connectors = {name: f"mm2-{name}" for name in ("source", "checkpoint", "heartbeat")}
        connect = f"http://127.0.0.1:{lab.parts.settings.connect_port}"
        self.link = f"link-{uuid4().hex[:6]}"
        section = {
            "from": "primary",
            "to": "secondary",
            "topics": [self.topic],
            "groups": [self.group],
            "replicator": {
                "kind": "mirrormaker2",
                "connect": connect,
                "connectors": connectors,
                "rename": "${topic}",
            },
            "fence": {"method": "acl", "principals": [f"User:{APP}"]},
            "endpoints": [{"kind": "file", "path": "bootstrap"}],
        }
        self.drctl = new_drctl({self.link: section}, policy={"max_lag_records": 1_000_000})
        self.endpoint = self.drctl.folder / "bootstrap"
        self.endpoint.write_text(self.bootstrap("primary"), encoding="utf-8")

    def bootstrap(self, cluster: str) -> str:
        document = yaml.safe_load(self.drctl.config.read_text(encoding="utf-8"))
        return f"{document['clusters'][cluster]['bootstrap']}\n"

    def write(self, count: int, prefix: str, cluster: ClusterUnderTest | None = None) -> list[str]:
        """Write as the application; what was acknowledged."""
        producer = (cluster or self.source).producer(APP, **self.writing)
        acknowledged: list[str] = []

        def told(error: KafkaError | None, message: Any) -> None:
            if error is None:
                acknowledged.append(message.value().decode())

        for number in range(count):
            value = f"{prefix}-{number}"
            producer.produce(self.topic, key=str(number % 17), value=value, on_delivery=told)
        producer.flush(30)
        return acknowledged

    def leave_behind(self, count: int) -> None:
        """Write what is not replicated any more, and let drctl gap see it."""
        client = self.lab.parts.worker.client()
        try:
            client.pause("mm2-source")
            stopped = lambda: client.status("mm2-source").all_in("PAUSED")  # noqa: E731
            assert Patience.of(60).wait_until(stopped)
        finally:
            client.close()
        assert len(self.write(count, "behind")) == count
        assert self.json("gap", "--scope", "full", code=1)["totals"]["unreplicated"] == count

    def read(self, cluster: ClusterUnderTest, most: int, *, wait_for: int = 0) -> list[str]:
        """Read as the group does, from where it stands, and commit what was read."""
        consumer = Consumer(
            {
                **cluster.properties(),
                **self.reading,
                "group.id": self.group,
                "enable.auto.commit": False,
                # In partitions in which it never committed a group begins at the start anywhere.
                "auto.offset.reset": "earliest",
            },
            logger=QUIET,
        )
        values: list[str] = []

        def enough() -> bool:
            message = consumer.poll(0.2)
            if message is None:
                return False
            assert message.error() is None, message.error()
            values.append((message.value() or b"").decode())
            return len(values) >= most

        try:
            consumer.subscribe([self.topic])
            Patience.of(30).wait_until(lambda: enough() or 0 < wait_for <= len(values))
            if values:
                consumer.commit(asynchronous=False)
        finally:
            consumer.close()
        return values

    def copied(self, count: int) -> None:
        """Wait until the target holds so many."""

        def there() -> bool:
            return sum(self.target.end_offsets(self.topic).values()) >= count

        assert Patience.of(60).wait_until(there), self.target.end_offsets(self.topic)

    def modern(self) -> None:
        """Clients of KIP-848 and idempotent ones, of which the target knows nothing."""
        self.reading = {"group.protocol": "consumer"}
        self.writing["enable__idempotence"] = True
        with (
            KafkaProducerIdReader("secondary", self.target.properties()) as theirs,
            KafkaProducerIdWriter("primary", self.source.properties()) as ours,
        ):
            ahead = max(each for each in theirs.next_ids().values() if isinstance(each, int)) + 50
            assert all(isinstance(a, Advanced) and a.done for a in ours.advance(ahead).values())

    def highest_id(self) -> int:
        """Of those that the source's partitions remember."""
        places = [TopicPartition(self.topic, number) for number in range(PARTITIONS)]
        with KafkaProducerIdReader("primary", self.source.properties()) as reader:
            return highest(reader.in_use(places))

    def next_ids(self) -> list[int]:
        """What the target's brokers give."""
        with KafkaProducerIdReader("secondary", self.target.properties()) as reader:
            return [each for each in reader.next_ids().values() if isinstance(each, int)]

    def denials(self, cluster: ClusterUnderTest) -> int:
        """How many rules keep somebody from the topic."""
        from drctl.systems.kafka.acl_reader import KafkaAclReader

        with KafkaAclReader(cluster.name, cluster.properties()) as reader:
            found = reader.acls()
        rules = getattr(found, "rules", ())
        return sum(1 for rule in rules if rule.name == self.topic and rule.permission == "DENY")

    def states(self) -> set[str]:
        """Of all connectors."""
        client = self.lab.parts.worker.client()
        try:
            return {status.state for status in client.statuses().values()}
        finally:
            client.close()

    def line(self, *words: str) -> list[str]:
        return [str(DRCTL), "--config", str(self.drctl.config), *words, "--link", self.link]

    def run(self, *words: str) -> Ran:
        """To its end, as a shell does."""
        done = subprocess.run(
            self.line(*words),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=self.drctl.folder,
            env=clean_environment(),
            timeout=DEADLINE_S,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def json(self, *words: str, code: int) -> dict[str, Any]:
        ran = self.run(*words, "--output", "json")
        assert ran.code == code, ran.stdout + ran.stderr
        return check(ran.document())

    @contextmanager
    def running(self, *words: str) -> "Iterator[subprocess.Popen[bytes]]":
        """It, running; killed at the end if it still does."""
        with (self.drctl.folder / "said").open("wb") as said:
            process = subprocess.Popen(
                self.line(*words),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                cwd=self.drctl.folder,
                env=clean_environment(),
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait(30)

    def journaled(self) -> list[Mapping[str, Any]]:
        """The entries of the newest run, from this machine's copy."""
        files = sorted(self.drctl.folder.glob(".drctl/runs/*/journal.jsonl"))
        if not files:
            return []
        lines = files[-1].read_bytes().split(b"\n")
        found = []
        for line in lines:
            with suppress(ValueError):
                found.append(json.loads(line))
        return found


@pytest.fixture
def stage(lab: Lab, new_drctl: NewDrctl, new_topic: NewTopic) -> Iterator[Stage]:
    made = Stage(lab, new_drctl, new_topic)
    try:
        yield made
    finally:
        lab.start("primary")
        lab.replicate(True)


def loss_in(stage: Stage) -> dict[str, Any]:
    """What the report of the newest run says of it."""
    told: dict[str, Any] = stage.json("report", "--verify", code=0)["rpo"]
    return told


def values_of(result: dict[str, Any], name: str) -> list[Any]:
    return [step[name] for step in result["steps"]]


def test_a_planned_one_loses_nothing_and_skips_nothing(stage: Stage) -> None:
    stage.modern()
    written = stage.write(RECORDS, "before")
    stage.copied(RECORDS)
    read = stage.read(stage.source, most=90)
    in_use = stage.highest_id()
    assert in_use > max(stage.next_ids())
    plan = stage.json("failover", code=0)
    assert [step["id"] for step in plan["steps"]][-6:] == [
        "prepare-groups", "commit-offsets", "skip-producer-ids",
        "open-target", "switch-endpoint-1", "verify-clients",
    ]  # fmt: skip
    assert max(stage.next_ids()) < in_use, "a plan has skipped ids"
    assert stage.denials(stage.source) == 0, "a plan has written"
    assert stage.states() == {"RUNNING"}

    done = stage.json("failover", *GO, code=0)
    assert done["status"] == "done"
    assert set(values_of(done, "status")) <= {"done", "passed"}
    assert done["rpo"] == {"records": 0, "seconds": 0, "exact": True}
    assert 0 < done["rto_seconds"] < 120
    assert stage.states() == {"STOPPED"}
    assert stage.endpoint.read_text(encoding="utf-8") == stage.bootstrap("secondary")
    told = {step["id"]: step["detail"] for step in done["steps"]}
    assert told["prepare-groups"] == (
        "1 groups of KIP-848's protocol are ready on secondary, 1 of them new"
    )
    assert f"above {in_use:,}, the highest in use on primary; it cost" in told["skip-producer-ids"]
    assert min(stage.next_ids()) > in_use
    assert stage.write(5, "refused") == [], "the fence lets somebody through"
    written += stage.write(RECORDS, "after", stage.target)
    read += stage.read(stage.target, most=10_000, wait_for=2 * RECORDS - len(read))
    assert set(read) == set(written)

    again = stage.run("failover", *GO)
    assert again.code == 3, again.stdout
    shown = stage.json("journal", done["run"], code=0)
    assert next(entry["entry"] for entry in shown["runs"][0]["entries"]) == "began"
    assert shown["runs"][0]["status"] == "done"
    assert Path(done["report"]).is_file()


def test_what_cannot_be_drained_is_put_back(stage: Stage) -> None:
    """Replication is up, says Connect, and does not copy: everything is as before at the end."""
    stage.write(RECORDS, "before")
    stage.copied(RECORDS)
    client = stage.lab.parts.worker.client()
    client.pause("mm2-source")
    try:
        assert Patience.of(60).wait_until(lambda: client.status("mm2-source").all_in("PAUSED"))
        stage.write(50, "behind")
        overridden = ("--override", "replication-not-running=a drill")
        done = stage.json("failover", *overridden, "--patience", "8s", *GO, code=3)
    finally:
        client.resume("mm2-source")
        client.close()
    assert done["status"] == "refused"
    by_id = {step["id"]: step["status"] for step in done["steps"]}
    assert by_id["drain"] == "failed"
    assert by_id["fence-producers"] == "taken-back"
    assert by_id["open-target"] == "not-begun"
    assert stage.denials(stage.source) == 0
    assert len(stage.write(5, "again")) == 5


@pytest.mark.parametrize("step", ["fence-producers", "open-target"])
def test_a_process_that_is_killed_is_gone_on_with(stage: Stage, step: str) -> None:
    written = stage.write(RECORDS, "before")
    stage.copied(RECORDS)
    read = stage.read(stage.source, most=50)
    with stage.running("failover", *GO) as process:

        def announced() -> bool:
            assert process.poll() is None, (stage.drctl.folder / "said").read_text()
            entries = stage.journaled()
            return any(e["entry"] == "intend" and e["step"] == step for e in entries)

        assert Patience.of(90).wait_until(announced)
        os.kill(process.pid, signal.SIGKILL)
    shown = stage.run("resume")
    assert shown.code == 0, shown.stderr
    done = stage.json("resume", *GO, code=0)
    assert done["status"] == "done"
    written += stage.write(RECORDS, "after", stage.target)
    read += stage.read(stage.target, most=10_000, wait_for=2 * RECORDS - len(read))
    assert set(read) == set(written)
    effects = Counter(e["step"] for e in stage.journaled() if e["entry"] == "intend")
    assert effects["open-target"] == 1


def run_of(stage: Stage) -> str:
    """The newest run."""
    return str(stage.journaled()[0]["run"])


def test_a_second_engineer_is_refused_while_the_first_is_at_it(stage: Stage) -> None:
    stage.write(RECORDS, "before")
    stage.copied(RECORDS)
    with stage.running("failover", *GO) as process:
        assert Patience.of(90).wait_until(lambda: len(stage.journaled()) > 1)
        second = stage.run("failover", *GO)
        assert second.code == 3, second.stdout + second.stderr
        assert process.wait(DEADLINE_S) == 0, (stage.drctl.folder / "said").read_text()
    assert f"is held by run {run_of(stage)}" in second.stderr
    assert f"on {socket.gethostname()} (process {process.pid})" in second.stderr


def test_ctrl_c_stops_between_two_effects(stage: Stage) -> None:
    stage.write(RECORDS, "before")
    stage.copied(RECORDS)
    with stage.running("failover", *GO) as process:
        assert Patience.of(90).wait_until(
            lambda: any(e["entry"] == "intend" for e in stage.journaled())
        )
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_S) == 130
    assert stage.journaled()[-1]["entry"] == "interrupted"
    assert "drctl resume" in (stage.drctl.folder / "said").read_text()
    assert stage.json("resume", *GO, code=0)["status"] == "done"


def test_an_unplanned_one_needs_no_source_and_says_what_is_owed(stage: Stage) -> None:
    written = stage.write(RECORDS, "before")
    stage.copied(RECORDS)
    stage.leave_behind(LEFT)
    alive = stage.run("failover", "--mode", "unplanned", *GO)
    assert alive.code == 3
    assert "source-alive" in alive.stderr
    stage.lab.signal("primary", signal.SIGKILL)
    done = stage.json("failover", "--mode", "unplanned", *GO, code=1)
    assert done["status"] == "done"
    assert any("fence" in each for each in done["owed"])
    assert any("restart idempotent producers" in each for each in done["owed"])
    assert any("of KIP-848's protocol is not known" in each for each in done["owed"])
    assert done["rpo"]["exact"] is False
    assert stage.endpoint.read_text(encoding="utf-8") == stage.bootstrap("secondary")
    loss = loss_in(stage)
    assert (loss["at_least"], loss["exact"]) == (LEFT, False)
    assert loss["records"] >= LEFT
    evidence = "\n".join(loss["evidence"])
    for trace in ("drctl gap saw it", "offset syncs", "Connect keeps it for connector mm2-source"):
        assert trace in evidence
    more = stage.write(RECORDS, "after", stage.target)
    assert len(more) == RECORDS
    there = sum(stage.target.end_offsets(stage.topic).values())
    assert there == len(written) + len(more)
    stage.lab.start("primary")
    stage.json("gap", "--scope", "full", code=1)
    exact = loss_in(stage)
    assert (exact["records"], exact["exact"]) == (LEFT, True)
