"""`drctl failback --check-order` on real clusters, with a real MirrorMaker 2 in both directions.

The primary has unreplicated records, the secondary has new ones, and the failback is done step by
step, in and out of order.
"""

import signal
import time
from contextlib import AbstractContextManager
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import TopicPartition

from drctl.kafka.acls import KafkaAclWriter
from drctl.kafka.connection import Connection
from drctl.lab.scenarios import stage
from drctl.model.repairs import Acl
from drctl.model.topology import Record
from tests.cluster.failback_stage import BACK
from tests.cluster.failover_stage import Link, connect, mirror_maker
from tests.cluster.lab_link import Site
from tests.cluster.link_command import GO, soon
from tests.kafka.members import commit, member
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

COPIED, TAIL, NEW = 40, 10, 15
DELETED = 5
_TRANSFORMS = "org.apache.kafka.connect.transforms"
LEAVES_COPIES_OUT = {
    "transforms": "ours",
    "transforms.ours.type": f"{_TRANSFORMS}.Filter",
    "transforms.ours.predicate": "copied",
    "predicates": "copied",
    "predicates.copied.type": f"{_TRANSFORMS}.predicates.HasHeaderKey",
    "predicates.copied.name": "__drctl_provenance",
}


class ManualFailback(Link):
    """A link whose primary was lost, and its failback."""

    deadline_s = 120.0

    def __init__(self, site: Site) -> None:
        topic = site.new_topic(mirrored=True)
        self.reverse = f"mm2-back-{uuid4().hex[:6]}"
        common = {"topics": [topic], "groups": [f"app-of-{topic}"]}
        beside = {
            self.name("home"): {**common, "from": "secondary", "to": "primary"},
            self.name("bare"): {**common, "from": "primary", "to": "secondary"},
        }
        replicator = mirror_maker(site.lab, self.reverse)
        super().__init__(site, topic, beside, replicator=replicator, groups=common["groups"])
        (self.group,) = common["groups"]
        self.direct_to("secondary")

    def name(self, link: str) -> str:
        """Return the name of another link over the same topic."""
        return f"{link}-{self.reverse}"

    def lose_primary(self) -> None:
        """Write replicated records, unreplicated ones on the primary, new ones on the secondary."""
        self.copy_some()
        self.lab.replicate(False)
        self.write(self.primary, "tail", TAIL)
        self.write(self.secondary, "new", NEW)

    def copy_some(self) -> None:
        """Write records that both clusters have."""
        self.write(self.primary, "copied", COPIED - self.end(self.primary))
        soon(lambda: self.end(self.secondary) >= COPIED)

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

    def fence(self) -> None:
        rule = Acl(self.topic, "LITERAL", "User:orders-app", "*", "WRITE", "DENY")
        with KafkaAclWriter(Connection("primary", self.primary.properties())) as writer:
            assert set(writer.deny([rule]).values()) == {None}

    def deploy_reverse(self, **settings: str) -> None:
        """Create the connector of the reverse direction, stopped and without offsets."""
        with connect(self.lab) as client:
            nothing = {**stage.configuration(self.lab), **settings, "topics": f"none-{self.topic}"}
            client.put_config(self.reverse, nothing)
            client.stop(self.reverse)
            known = lambda: client.statuses().get(self.reverse)  # noqa: E731
            soon(lambda: known() and known().state == "STOPPED" and not known().tasks)
            client.put_config(self.reverse, {**nothing, "topics": self.topic})

    def seed(self, boundary: int) -> None:
        """Set the start offsets: MirrorMaker 2 stores the last offset that it replicated."""
        place = {"cluster": "secondary", "topic": self.topic, "partition": 0}
        with connect(self.lab) as client:
            at = {"partition": place, "offset": {"offset": boundary - 1}}
            client.alter_offsets(self.reverse, [at])

    def start_reverse(self, until: int) -> None:
        """Run it until the primary has this many records."""
        with connect(self.lab) as client:
            client.resume(self.reverse)
        soon(lambda: self.end(self.primary) >= until)

    def gap(self, link: str = "", code: int = 1) -> str:
        """Run `drctl gap`; return the folder of its result."""
        found = self.drctl.json("gap", "--link", link or self.link, code=code)
        return str(found["out"])

    def says_order(self, code: int) -> str:
        """Return `--check-order` as text."""
        return self.refused("failback", "--check-order", code=code)

    def order(self, code: int, link: str = "") -> "Order":
        words = ("failback", "--link", link or self.link, "--check-order")
        return Order(self.drctl.json(*words, code=code))

    def read_in(self, cluster: ClusterUnderTest) -> AbstractContextManager[Any]:
        """Run a consumer of the group."""
        return member(cluster.properties(), self.group, self.topic)

    def commit(self, cluster: ClusterUnderTest, offset: int) -> None:
        """Commit an offset of the group, as a hurried engineer might."""
        commit(cluster.properties(), self.group, TopicPartition(self.topic, 0, offset))

    def close(self) -> None:
        self.lab.signal("primary", signal.SIGCONT)
        stage.remove(self.lab, self.reverse)
        self.lab.replicate(True)


class Order:
    """The result of `--check-order`."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.next = document["next"]
        self.verdict = document["verdict"]
        self.observed = "".join(step["observed"][0] for step in document["steps"])

    def why(self, step: str) -> str:
        (found,) = (s["why"] for s in self.document["steps"] if s["id"] == step)
        return str(found)


@pytest.fixture
def way(site: Site) -> ManualFailback:
    return site.keep(ManualFailback(site))


def test_each_step_in_order_is_ok_and_names_the_next_step(way: ManualFailback) -> None:
    way.copy_some()
    way.direct_to("primary")
    peace = way.order(0)
    assert (peace.document["state"], peace.next) == ("nothing-to-fail-back", None), peace.document
    assert "replication primary -> secondary runs" in peace.document["why"]
    assert "Verdict: ok: there is nothing to fail back" in way.says_order(0)
    way.direct_to("secondary")
    way.lose_primary()
    # Retention deletes whole segments, which end at different offsets on each cluster.
    way.primary.delete_records(way.topic, 0, DELETED)
    way.deploy_reverse(**LEAVES_COPIES_OUT)
    open_ = way.order(0)
    assert (open_.observed[:5], open_.next) == ("ndnnn", "a"), open_.document
    assert open_.document["records"]["safe"] is None
    assert open_.document["next_name"] == "source-fenced"

    # A comparison before the fence: applications may still write to the old primary.
    way.gap()
    looked = way.order(0)
    assert (looked.observed[:5], looked.next) == ("ndnnn", "a"), looked.document
    assert "repeat it after step a" in looked.why("c")
    way.write(way.primary, "tail", 1)
    assert way.order(0).next == "a"
    way.fence()
    again = way.order(0)
    assert (again.observed, again.next) == ("ddnnnnnnnnn", "c"), again.document
    assert "repeat the comparison: " in again.why("c")
    assert again.document["records"]["safe"] is None

    tail = TAIL + 1
    folder = way.gap()
    found = way.order(0)
    assert (found.observed, found.next) == ("ddddnnnnnnn", "e"), found.document
    records = found.document["records"]
    assert (records["safe"], records["conflicting"], records["unkeyed"]) == (tail, 0, 0)
    assert records["examples"][0]["key"].startswith("tail-")

    newest = way.run("reconcile", "--policy", "copy")
    assert f" reconcile {folder} --policy copy --execute" in " ".join(newest.stdout.split())
    way.json("reconcile", "--policy", "copy", *GO, code=0)
    decided = way.order(0)
    assert (decided.observed, decided.next) == ("dddddndnnnn", "f"), decided.document
    assert f"{tail} copied" in decided.why("e")

    way.seed(COPIED)
    assert "start offsets are at the boundary" in way.order(0).why("f")
    way.start_reverse(COPIED + tail + NEW)
    way.gap(way.name("home"), code=0)
    caught_up = way.order(0)
    assert (caught_up.observed, caught_up.next) == ("ddddddddnnn", "i"), caught_up.document
    assert way.end(way.primary) == COPIED + tail + NEW, "a copy was replicated back"


def test_steps_out_of_order_are_named(way: ManualFailback) -> None:
    way.lose_primary()
    way.deploy_reverse()
    way.fence()
    way.gap()
    assert way.order(0).next == "e"

    way.direct_to("primary")
    early = way.order(3)
    assert (early.verdict, early.next) == ("violated", "e"), early.document
    assert early.observed[8] == "d"
    way.direct_to("secondary")

    way.write(way.primary, "behind the fence", 3)
    # The time at which a person set the fence is unknown.
    moved = way.order(0)
    assert (moved.verdict, moved.next, moved.observed[:4]) == ("ok", "c", "ddnn")
    assert "if the fence was already set, find the producer" in moved.why("c")
    assert f"ended at {COPIED + TAIL}, now at {COPIED + TAIL + 3}" in moved.why("c")
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
    soon(lambda: way.end(way.secondary) >= copied)
    way.lab.replicate(False)
    after = way.order(3)
    assert (after.next, after.observed[:4]) == ("c", "ddnn"), after.document
    assert "something else copied it after newer records" in after.why("c")

    way.gap(code=0)
    behind = way.order(3)
    assert (behind.verdict, behind.next, behind.observed[:7]) == ("violated", "f", "dddddnd")
    assert f"follow new records of secondary in {way.topic}-0" in behind.why("f")
    assert "--rebuild --override source-intact=REASON" in behind.why("f")
    assert "--rebuild --override source-intact=REASON" in way.refused(*BACK)


@pytest.mark.nightly
def test_a_reverse_replication_that_starts_at_the_beginning(way: ManualFailback) -> None:
    way.lose_primary()
    way.deploy_reverse()
    way.fence()
    way.gap()
    assert "starts from the beginning" in way.order(0).why("f")
    way.start_reverse(COPIED + TAIL + COPIED + NEW)
    again = way.order(3)
    assert (again.verdict, again.next) == ("violated", "f"), again.document
    assert f"started from the beginning of {way.topic}-0" in again.why("f")
    assert "Verdict: violated" in way.says_order(3)


@pytest.mark.nightly
def test_steps_that_are_incomplete_or_started_too_early(way: ManualFailback) -> None:
    way.lose_primary()
    way.deploy_reverse(**LEAVES_COPIES_OUT)
    blind = way.order(5, way.name("bare"))
    assert (blind.verdict, blind.observed[:2]) == ("unknown", "uu"), blind.document
    way.fence()
    way.write(way.primary, "new", 3, ago_ms=60_000)
    folder = way.gap()
    found = way.order(0).document["records"]
    assert (found["safe"], found["conflicting"]) == (TAIL, 3)

    half = way.drctl("reconcile", folder, "--policy", "copy", *GO)
    assert half.code != 0, "the three conflicting records were decided, too"
    partly = way.order(0)
    assert (partly.observed, partly.next) == ("ddddnnnnnnn", "e"), partly.document
    decided = "in progress: unreplicated records with a decision"
    assert f"{decided}: {TAIL} of {TAIL + 3}" in partly.why("e")

    with way.read_in(way.secondary):
        way.commit(way.primary, COPIED)
        unseen = way.order(0)
        assert f"before or after the failover: {way.group}" in unseen.why("i")

    way.seed(COPIED)
    way.start_reverse(COPIED + TAIL + 3 + NEW)
    early = way.order(3)
    assert (early.verdict, early.next) == ("violated", "e"), early.document
    assert early.observed[5] == "d"
    with way.read_in(way.secondary):
        way.commit(way.primary, COPIED + TAIL + 3 + 5)
        hurried = way.order(3)
        assert (hurried.verdict, hurried.next) == ("violated", "i"), hurried.document
        assert f"{way.group} is active on secondary" in hurried.why("i")
    assert "step f happened before step e" in way.says_order(3)
