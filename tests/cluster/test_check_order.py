"""`drctl failback --check-order` on real clusters, with a real MirrorMaker 2 in both directions.

The primary holds a tail that was never copied, the secondary has taken new records since, and the
way back is gone step by step, or out of step.
"""

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
import urllib3
from confluent_kafka import Consumer, TopicPartition

from drctl.kafka.acls import KafkaAclWriter
from drctl.kafka.connection import Connection
from drctl.lab.lab import Lab
from drctl.lab.mirrors import Direction
from drctl.lab.waiting import Patience
from drctl.model.repairs import Acl
from drctl.model.topology import Record
from tests.cli.conftest import DRCTL, Ran, clean_environment
from tests.cli.documents import check
from tests.cluster.conftest import NewDrctl
from tests.conftest import NewTopic
from tests.lab.cluster_under_test import QUIET, ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

COPIED, TAIL, NEW = 40, 10, 15
DELETED = 5
DEADLINE_S = 120.0
_TRANSFORMS = "org.apache.kafka.connect.transforms"
LEAVES_COPIES_OUT = {
    "transforms": "ours",
    "transforms.ours.type": f"{_TRANSFORMS}.Filter",
    "transforms.ours.predicate": "copied",
    "predicates": "copied",
    "predicates.copied.type": f"{_TRANSFORMS}.predicates.HasHeaderKey",
    "predicates.copied.name": "__drctl_provenance",
}


class WayBack:
    """A link whose primary was lost, and what brings it back."""

    def __init__(self, lab: Lab, new_drctl: NewDrctl, new_topic: NewTopic) -> None:
        self.lab = lab
        self.primary = ClusterUnderTest(lab.cluster("primary"))
        self.secondary = ClusterUnderTest(lab.cluster("secondary"))
        self.topic = new_topic(mirrored=True)
        self.reverse = f"mm2-back-{uuid4().hex[:6]}"
        self.url = f"http://127.0.0.1:{lab.parts.settings.connect_port}"
        self.connect = lab.parts.worker.client()
        self.group = f"app-of-{self.topic}"
        common = {"topics": [self.topic], "groups": [self.group]}
        old = {name: f"mm2-{name}" for name in ("source", "checkpoint", "heartbeat")}
        there = {
            **common,
            "from": "primary",
            "to": "secondary",
            "replicator": {
                "kind": "mirrormaker2",
                "connect": self.url,
                "connectors": old,
                "reverse": {"connect": self.url, "connectors": {"source": self.reverse}},
            },
            "fence": {"method": "acl", "principals": ["User:orders-app"]},
            "endpoints": [{"kind": "file", "path": "bootstrap"}],
        }
        back = {**common, "from": "secondary", "to": "primary"}
        bare = {**common, "from": "primary", "to": "secondary"}
        self.drctl = new_drctl({"main": there, "home": back, "bare": bare})
        self.lead_to("secondary")

    def lose_the_primary(self) -> None:
        """Copied records on both sides, a tail on the primary only, new ones on the secondary."""
        self.copy_some()
        self.lab.replicate(False)
        self.write(self.primary, "tail", TAIL)
        self.write(self.secondary, "new", NEW)

    def copy_some(self) -> None:
        """What both sides have."""
        self.write(self.primary, "copied", COPIED - self.end(self.primary))
        assert Patience.of(60).wait_until(lambda: self.end(self.secondary) >= COPIED)

    def write(self, cluster: ClusterUnderTest, prefix: str, count: int, *, ago_ms: int = 0) -> None:
        now = int(time.time() * 1000) - ago_ms
        cluster.produce(
            self.topic,
            [
                Record(0, 0, now + n, f"{prefix}-{n}".encode(), f"value of {prefix}-{n}".encode())
                for n in range(count)
            ],
        )

    def end(self, cluster: ClusterUnderTest) -> int:
        return cluster.end_offsets(self.topic)[0]

    def lead_to(self, cluster: str) -> None:
        """Where the endpoint sends clients."""
        addresses = getattr(self, cluster).bootstrap
        (self.drctl.folder / "bootstrap").write_text(f"{addresses}\n", encoding="utf-8")

    def fence(self) -> None:
        rule = Acl(self.topic, "LITERAL", "User:orders-app", "*", "WRITE", "DENY")
        with KafkaAclWriter(Connection("primary", self.primary.properties())) as writer:
            assert set(writer.deny([rule]).values()) == {None}

    def deploy_reverse(self, **settings: str) -> None:
        """The connector of the way back: there, stopped, and it has never copied anything."""
        nothing = {**self._reverse_config(), **settings, "topics": f"none-{self.topic}"}
        self.connect.put_config(self.reverse, nothing)
        self.connect.stop(self.reverse)
        assert Patience.of(60).wait_until(lambda: self._state() == "STOPPED")
        self.connect.put_config(self.reverse, {**nothing, "topics": self.topic})

    def seed(self, boundary: int) -> None:
        """Let the way back begin there: MirrorMaker 2 keeps the last offset that it copied."""
        partition = {"cluster": "secondary", "topic": self.topic, "partition": 0}
        body = {"offsets": [{"partition": partition, "offset": {"offset": boundary - 1}}]}
        answer = urllib3.request(
            "PATCH", f"{self.url}/connectors/{self.reverse}/offsets", json=body
        )
        assert answer.status == 200, answer.data

    def start_reverse(self, until: int) -> None:
        """Let it run until the primary holds so many records."""
        self.connect.resume(self.reverse)
        assert Patience.of(60).wait_until(lambda: self.end(self.primary) >= until)

    def run(self, *words: str) -> Ran:
        done = subprocess.run(
            [str(DRCTL), "--config", str(self.drctl.config), *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=self.drctl.folder,
            env=clean_environment(),
            timeout=DEADLINE_S,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def gap(self, link: str = "main", code: int = 1) -> str:
        """The folder of a new result."""
        ran = self.run("gap", "--link", link, "--output", "json")
        assert ran.code == code, ran.stdout + ran.stderr
        return str(ran.document()["out"])

    def said(self, code: int) -> str:
        """What a person reads."""
        ran = self.run("failback", "--link", "main", "--check-order")
        assert ran.code == code, ran.stdout + ran.stderr
        return ran.stdout

    def order(self, code: int, link: str = "main") -> "Order":
        ran = self.run("failback", "--link", link, "--check-order", "--output", "json")
        assert ran.code == code, ran.stdout + ran.stderr
        return Order(check(ran.document()))

    @contextmanager
    def read_in(self, cluster: ClusterUnderTest) -> Iterator[None]:
        """Somebody reads in the group."""
        consumer = Consumer({**cluster.properties(), "group.id": self.group}, logger=QUIET)
        consumer.subscribe([self.topic])
        joined = lambda: bool((consumer.poll(0.1), consumer.assignment())[1])  # noqa: E731
        try:
            assert Patience.of(60).wait_until(joined)
            yield
        finally:
            consumer.close()

    def commit(self, cluster: ClusterUnderTest, offset: int) -> None:
        """The group's position is put somewhere, as by a hurried engineer."""
        consumer = Consumer({**cluster.properties(), "group.id": self.group}, logger=QUIET)
        try:
            (done,) = consumer.commit(
                offsets=[TopicPartition(self.topic, 0, offset)], asynchronous=False
            )
            assert done.error is None, done.error
        finally:
            consumer.close()

    def close(self) -> None:
        if self.reverse in self.connect.connectors():
            self.connect.delete(self.reverse)
        self.connect.close()
        self.lab.replicate(True)

    def _state(self) -> str:
        statuses = self.connect.statuses()
        known = statuses.get(self.reverse)
        return known.state if known is not None and not known.tasks else ""

    def _reverse_config(self) -> dict[str, str]:
        """As administrator: the lab's replicator may not write to the primary."""
        ends = self.lab.cluster("secondary"), self.lab.cluster("primary")
        configurations = Direction(self.lab.parts.settings, *ends).configurations()
        config = dict(next(c for name, c in configurations if name.startswith("mm2-source")))
        for cluster in ends:
            user, admin = (cluster.password_file(u).name for u in ("replicator", "admin"))
            config = {k: v.replace(f":{user}}}", f":{admin}}}") for k, v in config.items()}
        return {
            **{
                k: v.replace('username="replicator"', 'username="admin"') for k, v in config.items()
            },
            "sync.topic.configs.enabled": "false",
        }


class Order:
    """What `--check-order` said."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.next = document["next"]
        self.verdict = document["verdict"]
        self.observed = "".join(step["observed"][0] for step in document["steps"])

    def why(self, step: str) -> str:
        (found,) = (s["why"] for s in self.document["steps"] if s["id"] == step)
        return str(found)


@pytest.fixture
def way(lab: Lab, new_drctl: NewDrctl, new_topic: NewTopic) -> Iterator[WayBack]:
    made = WayBack(lab, new_drctl, new_topic)
    try:
        yield made
    finally:
        lab.signal("primary", signal.SIGCONT)
        made.close()


def test_each_step_in_order_is_ok_and_names_the_next(way: WayBack) -> None:
    way.copy_some()
    way.lead_to("primary")
    peace = way.order(0)
    assert (peace.document["state"], peace.next) == ("nothing-to-fail-back", None), peace.document
    assert "replication primary -> secondary runs" in peace.document["why"]
    assert "Verdict: ok: there is nothing to fail back" in way.said(0)
    way.lead_to("secondary")
    way.lose_the_primary()
    # As retention does, whose segments end elsewhere on each cluster.
    way.primary.delete_records(way.topic, 0, DELETED)
    way.deploy_reverse(**LEAVES_COPIES_OUT)
    open_ = way.order(0)
    assert (open_.observed[:5], open_.next) == ("ndnnn", "a"), open_.document
    assert open_.document["records"]["safe"] is None
    assert open_.document["next_name"] == "source-fenced"

    # Somebody looks early: applications of the old primary may still write to it, and do.
    way.gap()
    looked = way.order(0)
    assert (looked.observed[:5], looked.next) == ("ndnnn", "a"), looked.document
    assert "to be repeated once step a is done" in looked.why("c")
    way.write(way.primary, "tail", 1)
    assert way.order(0).next == "a"
    way.fence()
    again = way.order(0)
    assert (again.observed, again.next) == ("ddnnnnnnnnn", "c"), again.document
    assert "the comparison is to be repeated: " in again.why("c")
    assert again.document["records"]["safe"] is None

    tail = TAIL + 1
    folder = way.gap()
    found = way.order(0)
    assert (found.observed, found.next) == ("ddddnnnnnnn", "e"), found.document
    records = found.document["records"]
    assert (records["safe"], records["conflicting"], records["unkeyed"]) == (tail, 0, 0)
    assert records["examples"][0]["key"].startswith("tail-")

    newest = way.run("reconcile", "--link", "main", "--policy", "copy")
    assert f" reconcile {folder} --policy copy --execute" in " ".join(newest.stdout.split())
    done = way.run("reconcile", "--link", "main", "--policy", "copy", "--execute", "--yes")
    assert done.code == 0, done.stdout + done.stderr
    decided = way.order(0)
    assert (decided.observed, decided.next) == ("dddddndnnnn", "f"), decided.document
    assert f"{tail} copied" in decided.why("e")

    way.seed(COPIED)
    assert "its position is the boundary" in way.order(0).why("f")
    way.start_reverse(COPIED + tail + NEW)
    way.gap("home", code=0)
    caught_up = way.order(0)
    assert (caught_up.observed, caught_up.next) == ("ddddddddnnn", "i"), caught_up.document
    assert way.end(way.primary) == COPIED + tail + NEW, "a copy has come back"


def test_what_is_out_of_order_is_named(way: WayBack) -> None:
    way.lose_the_primary()
    way.deploy_reverse()
    way.fence()
    way.gap()
    assert way.order(0).next == "e"

    way.lead_to("primary")
    early = way.order(3)
    assert (early.verdict, early.next) == ("violated", "e"), early.document
    assert early.observed[8] == "d"
    way.lead_to("secondary")

    way.write(way.primary, "behind the fence", 3)
    # Since when a fence stands that a person has set, nobody can tell.
    moved = way.order(0)
    assert (moved.verdict, moved.next, moved.observed[:4]) == ("ok", "c", "ddnn")
    assert "if the fence stood by then already, somebody writes past it" in moved.why("c")
    assert f"ended at {COPIED + TAIL}, and ends at {COPIED + TAIL + 3} now" in moved.why("c")
    way.gap()
    assert way.order(0).next == "e"

    way.lab.signal("primary", signal.SIGSTOP)
    hung = way.order(5)
    way.lab.signal("primary", signal.SIGCONT)
    assert (hung.verdict, hung.next, hung.observed[:6]) == ("unknown", "a", "uduuuu")
    assert "did not answer" in hung.why("a")

    way.lab.replicate(True)
    silent = way.order(3)
    assert (silent.verdict, silent.next, silent.observed[1]) == ("violated", "b", "n")
    assert "mm2-source is RUNNING" in silent.why("b")

    copied = COPIED + NEW + TAIL + 3
    assert Patience.of(60).wait_until(lambda: way.end(way.secondary) >= copied)
    way.lab.replicate(False)
    after = way.order(3)
    assert (after.next, after.observed[:4]) == ("c", "ddnn"), after.document
    assert "something has copied it, behind whatever is newer there" in after.why("c")

    way.gap(code=0)
    behind = way.order(3)
    assert (behind.verdict, behind.next, behind.observed[:7]) == ("violated", "f", "dddddnd")
    assert f"stand behind new ones of secondary ({way.topic}-0)" in behind.why("f")
    assert "--rebuild --override source-whole=REASON" in behind.why("f")
    plan = way.run("failback", "--link", "main", "--policy", "copy")
    assert plan.code == 3, plan.stdout + plan.stderr
    assert "--rebuild --override source-whole=REASON" in plan.stdout + plan.stderr


@pytest.mark.nightly
def test_a_way_back_that_begins_at_the_beginning(way: WayBack) -> None:
    way.lose_the_primary()
    way.deploy_reverse()
    way.fence()
    way.gap()
    assert "begins at the beginning" in way.order(0).why("f")
    way.start_reverse(COPIED + TAIL + COPIED + NEW)
    again = way.order(3)
    assert (again.verdict, again.next) == ("violated", "f"), again.document
    assert f"began at the beginning of {way.topic}-0" in again.why("f")
    said = way.run("failback", "--link", "main", "--check-order")
    assert said.code == 3
    assert "Verdict: violated" in said.stdout


def test_what_is_half_done_or_began_too_early(way: WayBack) -> None:
    way.lose_the_primary()
    way.deploy_reverse(**LEAVES_COPIES_OUT)
    blind = way.order(5, "bare")
    assert (blind.verdict, blind.observed[:2]) == ("unknown", "uu"), blind.document
    way.fence()
    way.write(way.primary, "new", 3, ago_ms=60_000)
    folder = way.gap()
    found = way.order(0).document["records"]
    assert (found["safe"], found["conflicting"]) == (TAIL, 3)

    half = way.run("reconcile", folder, "--policy", "copy", "--execute", "--yes")
    assert half.code != 0, "three of them conflict"
    partly = way.order(0)
    assert (partly.observed, partly.next) == ("ddddnnnnnnn", "e"), partly.document
    assert f"it is half done: {TAIL} of {TAIL + 3}" in partly.why("e")

    with way.read_in(way.secondary):
        way.commit(way.primary, COPIED)
        unseen = way.order(0)
        assert f"whether they were committed since cannot be told: {way.group}" in unseen.why("i")

    way.seed(COPIED)
    way.start_reverse(COPIED + TAIL + 3 + NEW)
    early = way.order(3)
    assert (early.verdict, early.next) == ("violated", "e"), early.document
    assert early.observed[5] == "d"
    with way.read_in(way.secondary):
        way.commit(way.primary, COPIED + TAIL + 3 + 5)
        hurried = way.order(3)
        assert (hurried.verdict, hurried.next) == ("violated", "i"), hurried.document
        assert f"{way.group} reads on secondary" in hurried.why("i")
    said = way.run("failback", "--link", "main", "--check-order")
    assert "step f has happened, and e, which it needs, has not" in " ".join(said.stdout.split())
