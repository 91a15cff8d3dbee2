"""`drctl offsets track` on real clusters: exit codes, stdout, stderr, and its use."""

import json
import signal
import subprocess
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any
from uuid import uuid4

import pytest

from drctl.lab.lab import Lab
from drctl.lab.waiting import Patience
from drctl.model.topology import Record
from drctl.offsets.tracking_log import TRACKED_OFFSETS_TOPIC
from tests.cli.documents import check
from tests.cluster.groups import commit_offsets
from tests.cluster.lab_link import NewDrctl, link_over
from tests.cluster.link_command import soon
from tests.cluster.test_interrupts import has_leaders
from tests.kafka.tls_broker import free_ports
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

PARTITIONS = 2
RECORDS = 500
FOREIGN = 7
"""Records of another producer at the start of the target, so that all offsets differ."""

ONCE = ("track", "--once")
GO = ("--execute", "--yes")
NOON = 1_700_000_000_000


class Stage:
    """A topic on both clusters, groups on the source, and a drctl."""

    def __init__(
        self, new_drctl: NewDrctl, clusters: tuple[ClusterUnderTest, ClusterUnderTest]
    ) -> None:
        self.source, self.target = clusters
        self.topic = f"tracked-{uuid4().hex[:8]}"
        self.prefix = f"app-{uuid4().hex[:8]}"
        link = link_over(self.topic, groups=[f"{self.prefix}-.*"])
        self.drctl = new_drctl({"main": link}).offsets
        for cluster, foreign in ((self.source, 0), (self.target, FOREIGN)):
            cluster.create_topic(self.topic, PARTITIONS)
            cluster.produce(self.topic, [*records(foreign, "foreign"), *records(RECORDS)])

    def commit(self, groups: Mapping[str, Mapping[int, int]]) -> None:
        named = {f"{self.prefix}-{name}": at for name, at in groups.items()}
        commit_offsets(self.source, self.topic, named)

    def once(self, *words: str, code: int = 0) -> dict[str, Any]:
        return self.drctl.json(*ONCE, *words, code=code)

    def noted(self) -> tuple[int, int]:
        """Move the groups, and track once."""
        totals = self.once(*GO)["totals"]
        return totals["moved"], totals["written"]

    def translated(self) -> dict[tuple[str, int], dict[str, Any]]:
        """Return drctl's translation while the source is dead."""
        document = self.drctl.json("translate", code=5)
        assert document["source_unreachable"]
        return {
            (row["group"].removeprefix(f"{self.prefix}-"), row["partition"]): row
            for row in document["rows"]
        }

    def tracking_end(self) -> int:
        if TRACKED_OFFSETS_TOPIC not in self.target.admin.list_topics(timeout=20).topics:
            return -1
        return self.target.end_offsets(TRACKED_OFFSETS_TOPIC)[0]


def records(count: int, what: str = "v") -> list[Record]:
    """Return this many records per partition; some have equal timestamps."""
    return [
        Record(number, -1, NOON + n // 3, b"k%d" % (n % 20), f"{what}{n}".encode())
        for n in range(count)
        for number in range(PARTITIONS)
    ]


@pytest.fixture
def stage(
    new_drctl: NewDrctl, primary: ClusterUnderTest, secondary: ClusterUnderTest
) -> Iterator[Stage]:
    made = Stage(new_drctl, (primary, secondary))
    yield made
    for cluster in (primary, secondary):
        cluster.delete_topics([made.topic])


@pytest.fixture
def dead_primary(lab: Lab, primary: ClusterUnderTest) -> Iterator[Callable[[], None]]:
    """Kill the primary when called; it runs again after the test."""
    yield lambda: lab.signal("primary", signal.SIGKILL)
    lab.start("primary")
    soon(lambda: has_leaders(primary))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--every", "5s"], "--every and --listen require --execute"),
        (["--listen", "127.0.0.1:1"], "--every and --listen require --execute"),
        (["--once", "--every", "5s"], "--once cannot be combined"),
        (["--yes"], "--yes requires --execute"),
        (["--every", "soon", "--execute", "--yes"], "--every: 'soon' is not a duration"),
        (["--listen", "nowhere", "--execute", "--yes"], "not an address"),
        (["--link", "mian"], "mian"),
    ],
)
def test_option_conflicts(stage: Stage, words: list[str], message: str) -> None:
    before = stage.tracking_end()
    ran = stage.drctl("track", *words)
    assert (ran.code, ran.stdout) == (2, "")
    assert message in ran.stderr
    assert stage.tracking_end() == before


def test_nothing_is_written_without_confirmation(stage: Stage) -> None:
    stage.commit({"a": {0: 100, 1: 500}})
    before = stage.tracking_end()
    document = stage.once()
    assert not document["executed"]
    assert document["topic_existed"] == (before >= 0)
    assert document["totals"] == {
        "groups": 1, "committed_offsets": 2, "moved": 2, "without_records": 0, "written": 2,
        "deleted": 0, "unverified": 0, "source_connectors": 0,
    }  # fmt: skip
    ran = stage.drctl("track")
    assert ran.code == 0
    assert "2 changed: would write 2 tracked offsets, delete 0" in ran.stdout
    assert "To write: drctl offsets track --link main --execute" in ran.stdout
    refused = stage.drctl(*ONCE, "--execute", "--output", "json")
    assert refused.code == 3
    error = check(refused.document())["error"]
    assert "not confirmed: write to cluster secondary" in error["message"]
    typed = stage.drctl.typed(*ONCE, "--execute", name="primary")
    assert typed.code == 3
    assert stage.tracking_end() == before
    typed = stage.drctl.typed(*ONCE, "--execute", name="secondary")
    assert typed.code == 0, typed.stderr
    assert (
        "2 changed, 2 written, 0 deleted; written to topic __drctl_anchors on secondary"
        in typed.stdout
    )
    assert stage.tracking_end() >= before + 3


def test_the_primary_is_lost(stage: Stage, dead_primary: Callable[[], None]) -> None:
    positions = {"a": {0: 100, 1: 499}, "b": {0: 500, 1: 500}, "c": {0: 0, 1: 1}, "d": {0: 321}}
    stage.commit(positions)
    assert stage.noted() == (7, 7)
    assert stage.noted() == (0, 0)
    stage.commit({"a": {0: 20}, "d": {0: 322}})  # group a moves back
    assert stage.noted() == (2, 2)
    wanted = {**positions, "a": {0: 20, 1: 499}, "d": {0: 322}}
    dead_primary()
    rows = stage.translated()
    assert {key: row["source_offset"] for key, row in rows.items()} == {
        (name, number): offset
        for name, partitions in wanted.items()
        for number, offset in partitions.items()
    }
    for (name, number), row in rows.items():
        offset = row["source_offset"]
        # The group has consumed nothing: it may also read what precedes the copies on the target.
        expected = offset + FOREIGN if offset else 0
        assert (row["method"], row["target_offset"]) == ("tracked-offset", expected), (
            name,
            number,
            row,
        )
        assert row["skips_at_most"] == 0
        assert row["blocked"] is None
        assert row["rereads_at_most"] == RECORDS + FOREIGN - expected, (
            "not all records up to the end of the target"
        )
        assert row["rereads_likely"] == (0 if offset else None)
        assert row["skips_only_if"].startswith("the group was reset backwards after ")
        assert 0 <= row["age_seconds"] < 120
    error = stage.drctl(*ONCE, *GO, "--output", "json")
    assert error.code == 5
    assert check(error.document())["error"]["kind"] == "Unreachable"
    assert "primary" in error.document()["error"]["message"]


def test_a_recreated_topic(stage: Stage, dead_primary: Callable[[], None]) -> None:
    stage.commit({"a": {0: 100, 1: 50}})
    assert stage.noted() == (2, 2)
    stage.source.delete_topics([stage.topic])
    known = stage.source.admin.list_topics
    soon(lambda: stage.topic not in known(timeout=20).topics)
    stage.source.create_topic(stage.topic, PARTITIONS)
    recreated = [Record(0, -1, NOON + 1_000_000, b"k", b"anew%d" % n) for n in range(200)]
    stage.source.produce(stage.topic, recreated)
    stage.target.produce(stage.topic, recreated)
    stage.commit({"a": {0: 100}})
    totals = stage.once(*GO)["totals"]
    assert (totals["moved"], totals["unverified"]) == (1, 1)
    document = stage.drctl.json("translate", code=0)
    assert [r["partition"] for r in document["rows"] if r["target_offset"] is not None] == [0]
    dead_primary()
    row = stage.translated()["a", 0]
    assert (row["method"], row["target_offset"]) == ("tracked-offset", RECORDS + FOREIGN + 100)
    assert row["skips_at_most"] == 0


def lines(process: "subprocess.Popen[bytes]", wanted: Callable[[Any], bool]) -> dict[str, Any]:
    """Return the next document that matches."""
    assert process.stdout is not None
    patience = Patience.of(90)
    document = None
    while patience.remaining:
        line = process.stdout.readline()
        assert line, "the tracker ended"
        document = check(json.loads(line))
        if wanted(document):
            return document
    raise AssertionError(f"no matching document; the last one was {document}")


def time_of(document: dict[str, Any]) -> float:
    """Return the time of a document by the age of its evidence, seconds UTC."""
    known = datetime.fromisoformat(document["known_until"]).timestamp()
    return known + float(document["age_seconds"])


@pytest.mark.nightly
def test_two_trackers_during_the_loss_of_the_primary(
    stage: Stage, lab: Lab, dead_primary: Callable[[], None], primary: ClusterUnderTest
) -> None:
    stage.commit({"a": {0: 100, 1: 100}})
    (port,) = free_ports(1)
    words = ("track", "--every", "0.3s", *GO, "--output", "json")
    address = f"127.0.0.1:{port}"
    secret = primary.properties()["sasl.password"]
    with (
        stage.drctl.running(*words, "--listen", address) as one,
        stage.drctl.running(*words) as other,
    ):
        for process in (one, other):
            lines(process, lambda d: d["complete"] and d["totals"]["committed_offsets"] == 2)
        for offset in (150, 120, 130):
            stage.commit({"a": {0: offset}})
            lines(one, lambda d: d["complete"])
        quiet = [
            lines(p, lambda d: d["complete"] and not d["totals"]["written"]) for p in (one, other)
        ]
        assert {d["totals"]["moved"] for d in quiet} == {0}
        taken = stage.drctl("track", *GO, "--listen", address)
        assert taken.code == 2
        assert "Address already in use" in taken.stderr
        dead_primary()
        first, second = (lines(one, lambda d: d["failed"] is not None) for _ in range(2))
        assert first["failed"]["code"] == 5
        assert "primary" in first["failed"]["message"]
        assert (
            first["known_until"] <= second["known_until"]
        )  # the second tracker may have made a later pass
        assert time_of(first) < time_of(second)
        row = stage.translated()["a", 0]
        assert (row["method"], row["target_offset"]) == ("tracked-offset", 130 + FOREIGN)
        page = urllib.request.urlopen(f"http://{address}/metrics", timeout=10).read().decode()
        assert 'drctl_offsets_track_failures_total{link="main",source="primary"' in page
        assert secret not in page
        lab.start("primary")
        for process in (one, other):
            lines(process, lambda d: d["complete"])
        for process, number in ((one, signal.SIGTERM), (other, signal.SIGINT)):
            process.send_signal(number)
            _, stderr = process.communicate(timeout=30)
            assert process.returncode == 130, stderr
            assert b"interrupted" in stderr
            assert b"Traceback" not in stderr
            assert secret.encode() not in stderr
