"""`drctl failback` on real clusters, with a real MirrorMaker 2 in both directions: the way home.

The primary was lost with a tail that was never copied. The secondary has taken new records since,
and takes more while the way home is gone.
"""

import json
import os
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaError

from drctl.lab.lab import Lab
from drctl.lab.reading import read_topic
from drctl.lab.scenarios import way_back
from drctl.lab.waiting import Patience
from tests.cli.conftest import DRCTL, Ran, clean_environment
from tests.cli.documents import check
from tests.cluster.conftest import NewDrctl
from tests.conftest import NewTopic
from tests.lab.cluster_under_test import QUIET, ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(900)]

APP = "orders-app"
PARTITIONS = 2
COPIED, TAIL, NEW, LATER = 60, 20, 40, 30
GO = ("--execute", "--yes")
DEADLINE_S = 240.0


class Story:
    """A link whose primary was lost and is back, and applications on the secondary."""

    def __init__(self, lab: Lab, new_drctl: NewDrctl, new_topic: NewTopic) -> None:
        self.lab = lab
        self.primary = ClusterUnderTest(lab.cluster("primary"))
        self.secondary = ClusterUnderTest(lab.cluster("secondary"))
        self.topic = new_topic(PARTITIONS, mirrored=True)
        self.group = f"orders-app-{uuid4().hex[:8]}"
        self.reverse = f"mm2-home-{uuid4().hex[:6]}"
        url = f"http://127.0.0.1:{lab.parts.settings.connect_port}"
        self.link = f"link-{uuid4().hex[:6]}"
        section = {
            "from": "primary",
            "to": "secondary",
            "topics": [self.topic],
            "groups": [self.group],
            "replicator": {
                "kind": "mirrormaker2",
                "connect": url,
                "connectors": {k: f"mm2-{k}" for k in ("source", "checkpoint", "heartbeat")},
                "reverse": {"connect": url, "connectors": {"source": self.reverse}},
            },
            "fence": {"method": "acl", "principals": [f"User:{APP}"]},
            "endpoints": [{"kind": "file", "path": "bootstrap"}],
        }
        self.drctl = new_drctl({self.link: section})
        self.lead_to("secondary")
        way_back.deploy(lab, self.topic, self.reverse)

    def lose_the_primary(self) -> None:
        """Copied records on both sides, a tail on the primary only, new ones on the secondary."""
        self.write("copied", COPIED, self.primary)
        assert Patience.of(60).wait_until(lambda: self.held(self.secondary) >= COPIED)
        self.lab.replicate(False)
        self.write("tail", TAIL, self.primary)
        self.write("new", NEW, self.secondary)

    def write(self, prefix: str, count: int, cluster: ClusterUnderTest) -> list[str]:
        """Write as the application; what was acknowledged."""
        acknowledged: list[str] = []

        def told(error: KafkaError | None, message: Any) -> None:
            if error is None:
                acknowledged.append(message.value().decode())

        producer = cluster.producer(APP, delivery__timeout__ms=10_000)
        for number in range(count):
            # Keys of their own: no record is older than another of its key.
            value = f"{prefix}-{number}"
            producer.produce(self.topic, key=value, value=value, on_delivery=told)
        producer.flush(30)
        return acknowledged

    @contextmanager
    def writing(self) -> "Iterator[list[str]]":
        """An application that goes on writing to the secondary until it is refused."""
        acknowledged: list[str] = []
        stop = threading.Event()

        def work() -> None:
            number = 0
            while not stop.is_set():
                written = self.write(f"live{number}", 5, self.secondary)
                acknowledged.extend(written)
                number += 1
                if len(written) < 5:
                    return
                stop.wait(0.5)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            yield acknowledged
        finally:
            stop.set()
            thread.join(60)

    def read(self, group: str, cluster: ClusterUnderTest, wanted: set[str]) -> list[str]:
        """Read as the group does, from where it stands, until it has all of these; commit."""
        settings = {"group.id": group, "enable.auto.commit": False, "session.timeout.ms": 6000}
        consumer = Consumer(
            {**cluster.properties(), **settings, "auto.offset.reset": "earliest"}, logger=QUIET
        )
        values: list[str] = []

        def enough() -> bool:
            for message in consumer.consume(500, timeout=0.2):
                assert message.error() is None, message.error()
                values.append((message.value() or b"").decode())
            return wanted <= set(values)

        try:
            consumer.subscribe([self.topic])
            assert Patience.of(60).wait_until(enough), sorted(wanted - set(values))
            consumer.commit(asynchronous=False)
        finally:
            consumer.close()
        return values

    def all_of(self, cluster: ClusterUnderTest) -> Counter[str]:
        """Every record, by a plain consumer."""
        held = read_topic(cluster.lab_cluster, self.topic)
        return Counter(value.decode() for value in held.values())

    def held(self, cluster: ClusterUnderTest) -> int:
        return sum(cluster.end_offsets(self.topic).values())

    def lead_to(self, cluster: str) -> None:
        (self.drctl.folder / "bootstrap").write_text(
            f"{getattr(self, cluster).bootstrap}\n", encoding="utf-8"
        )

    @property
    def led_to(self) -> str:
        return (self.drctl.folder / "bootstrap").read_text(encoding="utf-8").strip()

    def states(self, *names: str) -> list[str]:
        client = self.lab.parts.worker.client()
        try:
            return [client.status(name).state for name in names]
        finally:
            client.close()

    def line(self, *words: str) -> list[str]:
        return [str(DRCTL), "--config", str(self.drctl.config), *words, "--link", self.link]

    def run(self, *words: str) -> Ran:
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

    def kill_at(self, step: str, *words: str) -> None:
        """Run it, and kill it as soon as its journal announces a step."""
        with (self.drctl.folder / "said").open("wb") as said:
            process = subprocess.Popen(
                self.line(*words),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                cwd=self.drctl.folder,
                env=clean_environment(),
            )

        def announced() -> bool:
            assert process.poll() is None, (self.drctl.folder / "said").read_text()
            return any(e["entry"] == "intend" and e["step"] == step for e in self.journaled())

        try:
            assert Patience.of(120).wait_until(announced)
            os.kill(process.pid, signal.SIGKILL)
        finally:
            process.kill()
            process.wait(30)

    def journaled(self) -> list[Mapping[str, Any]]:
        """The entries of the newest run, from this machine's copy."""
        found = []
        for file in sorted(self.drctl.folder.glob(".drctl/runs/*/journal.jsonl"))[-1:]:
            for line in file.read_bytes().split(b"\n"):
                with suppress(ValueError):
                    found.append(json.loads(line))
        return found

    def close(self) -> None:
        way_back.remove(self.lab, self.reverse)
        self.lab.replicate(True)


@pytest.fixture
def story(lab: Lab, new_drctl: NewDrctl, new_topic: NewTopic) -> Iterator[Story]:
    made = Story(lab, new_drctl, new_topic)
    try:
        made.lose_the_primary()
        yield made
    finally:
        made.close()


def steps_of(result: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {step["id"]: step[name] for step in result["steps"]}


def named(prefix: str, count: int) -> set[str]:
    return {f"{prefix}-{number}" for number in range(count)}


def test_the_way_home_loses_nothing_copies_nothing_twice_and_skips_nothing(story: Story) -> None:
    # The group has read new records, and will not have read what is brought over behind them.
    read = story.read(story.group, story.secondary, named("copied", COPIED) | named("new", NEW))
    forward = ("mm2-source", "mm2-checkpoint", "mm2-heartbeat")

    plan = story.json("failback", code=0)
    assert [step["id"] for step in plan["steps"]][:4] == [
        "order", "take-stock", "close-primary", "old-replication",
    ]  # fmt: skip
    assert story.write("still-open", 1, story.primary) == ["still-open-0"], "a plan has fenced"
    assert story.states(story.reverse, *forward) == ["STOPPED"] * 4

    undecided = story.json("failback", *GO, code=4)
    assert steps_of(undecided, "status")["judge-records"] == "failed"
    assert (
        f"nothing is said of {TAIL + 1} records" in steps_of(undecided, "detail")["judge-records"]
    )
    assert story.write("closed", 1, story.primary) == [], "the primary is not closed"
    assert story.held(story.secondary) == COPIED + NEW

    with story.writing() as live:
        story.kill_at("bring-home", "failback", "--policy", "copy", *GO)
        assert story.led_to == story.secondary.bootstrap
        done = story.json("resume", *GO, code=0)
    assert done["status"] == "done", done
    assert done["rpo"] == {"records": 0, "seconds": 0, "exact": True}
    assert 0 < done["rto_seconds"] < 120
    assert story.led_to == story.primary.bootstrap
    effects = Counter(e["step"] for e in story.journaled() if e["entry"] == "intend")
    assert (effects["reconcile"], effects["open-target"]) == (1, 1)

    everything = named("copied", COPIED) | named("tail", TAIL) | named("new", NEW)
    everything |= {"still-open-0", *live}
    for cluster in (story.primary, story.secondary):
        assert story.all_of(cluster) == Counter(everything), cluster.name
    later = set(story.write("later", LATER, story.primary))
    everything |= later
    assert len(later) == LATER
    assert Patience.of(60).wait_until(
        lambda: story.all_of(story.secondary).total() >= len(everything)
    )
    assert story.all_of(story.secondary) == Counter(everything)
    assert story.states(*forward) == ["RUNNING"] * 3
    assert story.states(story.reverse) == ["STOPPED"]
    read += story.read(story.group, story.primary, everything - set(read))
    assert set(read) == everything

    again = story.run("failback", "--policy", "copy")
    assert again.code == 3
    assert "there is nobody to lead home" in again.stdout


def test_the_old_replication_that_ran_for_a_while_is_not_buried(story: Story) -> None:
    """It has appended the tail behind new records: what is new cannot be told by its place."""
    way_back.remove(story.lab, story.reverse)
    missing = story.run("failback", "--policy", "copy")
    assert missing.code == 3, missing.stdout
    assert f"the workers have no {story.reverse}" in missing.stdout
    way_back.deploy(story.lab, story.topic, story.reverse)

    story.lab.replicate(True)
    everything = COPIED + NEW + TAIL
    assert Patience.of(60).wait_until(lambda: story.held(story.secondary) >= everything)
    ended = story.json("failback", "--policy", "copy", *GO, code=4)
    assert steps_of(ended, "status")["find-missing"] == "failed"
    assert "stand behind new ones of secondary" in steps_of(ended, "detail")["find-missing"]
    assert story.states("mm2-source", story.reverse) == ["STOPPED", "STOPPED"]
    assert story.write("closed", 1, story.primary) == []
    assert story.led_to == story.secondary.bootstrap
