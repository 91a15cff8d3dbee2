"""`drctl gap --order` and `truncation`, `drctl duplicates`, and recreated topics."""

import json
import stat
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from drctl.model.topology import Record
from drctl.reconcile.export import record_of
from tests.cluster.lab_link import WAYS, NewDrctl, link_over
from tests.cluster.link_command import soon
from tests.conftest import NewTopic
from tests.gap.events import events
from tests.lab.cluster_under_test import ClusterUnderTest
from tests.parquet.reading import inversions_of

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

START = 1_700_000_000_000


def record(number: int, key: str = "k", **changes: Any) -> Record:
    held: dict[str, Any] = {"key": key.encode(), "value": f"v{number}".encode()}
    return Record(0, 0, START + number, **{**held, **changes})


EITHER = ("direct", pytest.param("spark", marks=pytest.mark.nightly))
"""Keys of `WAYS`; tests/spark compares Spark's results for order and events with the reference."""


def keeping(*topics: str) -> dict[str, Any]:
    return link_over(*topics, replicator={"kind": "offset-preserving"})


@pytest.fixture(scope="module")
def disordered(primary: ClusterUnderTest, secondary: ClusterUnderTest) -> Iterator[str]:
    """Records 2 and 3 of key `a` are swapped; `b` was overtaken; the last one is missing."""
    topic = f"test-order-{id(primary)}"
    sent = [record(0, "a"), record(1, "b"), record(2, "a"), record(3, "a"), record(9, "a")]
    for cluster, numbers in ((primary, (0, 1, 2, 3, 4)), (secondary, (1, 0, 3, 2))):
        cluster.create_topic(topic)
        cluster.produce(topic, [sent[n] for n in numbers])
    yield topic
    primary.delete_topics([topic])
    secondary.delete_topics([topic])


@pytest.mark.parametrize("way", EITHER)
def test_records_in_a_different_order(way: str, disordered: str, new_drctl: NewDrctl) -> None:
    drctl = new_drctl({"main": keeping(disordered)}, **WAYS[way])
    ended = drctl.gap("--scope", "full", "--order")
    assert ended.code == 1, ended.stderr
    found = ended.gap()
    assert found["order"]["inversions"] == 1
    assert found["inversions"] == [
        {
            "topic": disordered,
            "partition": 0,
            "offset": 3,
            "target_partition": 0,
            "target_offset": 2,
            "earlier_offset": 2,
            "earlier_target_offset": 3,
        }
    ]
    assert [asdict(each) for each in inversions_of(ended.out / "inversions")] == found["inversions"]
    (topic,) = found["topics"]
    assert topic["partitions"][0]["inversions"] == 1
    assert topic["topic_id"]
    assert topic["target_topic_id"] not in ("", topic["topic_id"])


def test_where_partition_order_counts(disordered: str, new_drctl: NewDrctl) -> None:
    drctl = new_drctl({"main": keeping(disordered)}, policy={"order": "per-partition"})
    ended = drctl.gap("--scope", "full", "--order", options=())
    assert ended.code == 1
    assert (
        "On secondary, 2 replicated records precede a record of the same partition that is earlier"
        in (" ".join(ended.stdout.split()))
    )
    assert ended.gap()["order"] == {
        **{"safe": 1, "conflicting": 0, "unkeyed": 0, "inversions": 2, "within": "partition"}
    }
    assert [i.offset for i in inversions_of(ended.out / "inversions")] == [1, 3]
    again = drctl.gap("--scope", "full", name="again")
    assert again.gap()["inversions"] is None
    assert not (again.out / "inversions").exists(), "the order was not requested"


def files_of(folder: Path) -> list[Record]:
    files = sorted(folder.glob("*.jsonl"))
    lines = [line for file in files for line in file.read_bytes().splitlines()]
    rows = [record_of(line) for line in lines]
    return [Record(r.place.partition, *r.row[:4]) for r in rows]


def test_records_that_truncation_would_destroy_are_exported_first(
    new_topic: NewTopic,
    new_drctl: NewDrctl,
    primary: ClusterUnderTest,
    secondary: ClusterUnderTest,
    tmp_path: Path,
) -> None:
    topic = new_topic()
    primary.produce(topic, [record(n) for n in range(10)])
    secondary.produce(topic, [record(n) for n in (*range(5), 6)])
    drctl = new_drctl({"main": keeping(topic)})
    words = ("truncation", "--scope", "full", "--export", str(tmp_path / "safe"))
    ended = drctl.gap(*words)
    assert ended.code == 1, ended.stderr
    lost = ended.document()["truncation"]
    assert lost["export"] == {
        **{"folder": str(tmp_path / "safe"), "records": 4, "gone": 0},
        **{"others": None, "others_gone": 0, "appended": 0},
    }
    (partition,) = lost["partitions"]
    assert (partition["cut_from"], partition["end"], partition["records"]) == (5, 10, 4)
    assert partition["bytes"] == 4 * 3
    kept = files_of(tmp_path / "safe")
    assert [r.offset for r in kept] == [5, 7, 8, 9]
    assert [r.value for r in kept] == [b"v5", b"v7", b"v8", b"v9"]
    assert stat.S_IMODE((tmp_path / "safe").stat().st_mode) == 0o700
    manifest = json.loads((tmp_path / "safe" / "manifest.json").read_text())
    assert manifest["files"][0]["records"] == 4
    again = drctl.gap(*words, name="again")
    assert again.code == 2
    assert "is not an empty folder" in again.document()["error"]["message"]
    shown = drctl.gap(*words[:3], name="text", options=())
    assert "5-9" in shown.stdout
    assert 'id="truncation"' in (shown.out / "gap.html").read_text(encoding="utf-8")


def test_superseded_and_expired_records_are_exported_on_request(
    new_topic: NewTopic,
    new_drctl: NewDrctl,
    primary: ClusterUnderTest,
    secondary: ClusterUnderTest,
    tmp_path: Path,
) -> None:
    expiring, compacted = new_topic(), new_topic(target_config={"cleanup.policy": "compact"})
    primary.produce(expiring, [record(n) for n in range(10)])
    secondary.produce(expiring, [record(n) for n in range(8)])
    secondary.delete_records(expiring, 0, 6)
    sent = [record(0, "x"), record(1, "x"), record(2, "y")]
    primary.produce(compacted, sent)
    secondary.produce(compacted, sent[1:2])
    drctl = new_drctl({"main": keeping(expiring, compacted)})
    safe = tmp_path / "safe"
    words = ("truncation", "--scope", "full", "--export", str(safe), "--include-superseded")
    ended = drctl.gap(*words)
    assert ended.code == 1, ended.stderr
    lost = ended.document()["truncation"]
    assert (lost["records"], lost["others"]) == (3, 7)
    assert lost["export"] == {
        **{"folder": str(safe), "records": 3, "gone": 0},
        **{"others": 7, "others_gone": 0, "appended": 0},
    }
    assert exported(safe) == {expiring: [b"v8", b"v9"], compacted: [b"v2"]}
    assert exported(safe / "others") == {
        expiring: [b"v%d" % n for n in range(6)],
        compacted: [b"v0"],
    }
    manifest = json.loads((safe / "others" / "manifest.json").read_text())
    assert manifest["classes"] == ["superseded", "expired"]
    assert sum(file["records"] for file in manifest["files"]) == 7


def exported(folder: Path) -> dict[str, list[bytes | None]]:
    """Return the values of an export by topic."""
    found: dict[str, list[bytes | None]] = {}
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_bytes().splitlines():
            row = record_of(line)
            found.setdefault(row.place.topic, []).append(row.row[3])
    return found


def remade(cluster: ClusterUnderTest, topic: str, records: list[Record]) -> None:
    """Recreate the topic with the same records."""
    cluster.delete_topics([topic])
    soon(lambda: topic not in cluster.admin.list_topics(timeout=30).topics)
    cluster.create_topic(topic)
    cluster.produce(topic, records)


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_topic_recreated_with_the_same_records_is_detected_by_its_id(
    side: str,
    new_topic: NewTopic,
    new_drctl: NewDrctl,
    primary: ClusterUnderTest,
    secondary: ClusterUnderTest,
) -> None:
    topic = new_topic()
    all_of_it = [record(n) for n in range(4)]
    primary.produce(topic, all_of_it)
    secondary.produce(topic, all_of_it[:3])
    drctl = new_drctl({topic: link_over(topic, replicator={"kind": "none"})})
    ended = drctl.gap()
    assert ended.code == 1, ended.stderr
    planned = drctl.json("reconcile", str(ended.out), "--policy", "copy")
    assert planned["blockers"] == []
    if side == "source":
        remade(primary, topic, all_of_it)
    else:
        remade(secondary, topic, all_of_it[:3])
    refused = drctl.json("reconcile", str(ended.out), "--policy", "copy", code=3)
    (blocker,) = refused["blockers"]
    assert (blocker["precheck"], blocker["overridden"]) == ("recreated", False)
    assert f"topic {topic} on the {side} was recreated" in blocker["reason"]
    order = drctl("failback", "--check-order", "--gap", str(ended.out), "--output", "json")
    assert f"topic {topic} of" in order.stdout
    assert "was recreated: id" in order.stdout


@pytest.fixture(scope="module")
def crashed(secondary: ClusterUnderTest) -> Iterator[str]:
    """A connector wrote events 0 to 29, crashed, and resumed at 24; deletions left tombstones."""
    topic = f"test-events-{id(secondary)}"
    secondary.create_topic(topic, 2)
    first = events("postgresql", range(30), schema=True)
    again = events("postgresql", range(24, 40), schema=True, sent_ms=60_000)
    sent = [*first, *again, (b"7", None), (b"7", None)]
    secondary.produce(topic, [Record(0, 0, START + n, *pair) for n, pair in enumerate(sent)])
    other = events("postgresql", range(50, 55))
    secondary.produce(topic, [Record(1, 0, START + n, *pair) for n, pair in enumerate(other)])
    yield topic
    secondary.delete_topics([topic])


@pytest.mark.parametrize("way", EITHER)
def test_events_that_a_crashed_connector_sent_twice(
    way: str, crashed: str, new_drctl: NewDrctl
) -> None:
    command = new_drctl({"main": keeping("x")}, **WAYS[way])
    words = ("duplicates", "--identity", "debezium", "--cluster", "secondary", "--topic", crashed)
    found = command.json(*words, code=1)
    assert found["complete"]
    assert found["totals"] == {
        "records": 53,
        "events": 51,
        "repeated": 6,
        "tombstones": 2,
        "unidentified": 0,
    }
    first, second = found["partitions"]
    assert (first["first_repeated"]["offset"], first["last_repeated"]) == (30, 35)
    assert first["first_repeated"]["first_offset"] == 24
    assert "connector=postgresql" in first["first_repeated"]["identity"]
    assert second["first_repeated"] is None


def test_events_without_an_identity_are_not_ok(
    new_topic: NewTopic, new_drctl: NewDrctl, primary: ClusterUnderTest
) -> None:
    topic = new_topic()
    pairs = [*events("mongodb", range(3)), (b"1", b'{"flattened": true}')]
    primary.produce(topic, [Record(0, 0, START + n, *pair) for n, pair in enumerate(pairs)])
    command = new_drctl({"main": keeping("x")})
    ran = command("duplicates", "--identity", "debezium", "--topic", topic)
    assert ran.code == 5
    assert "Not complete: no duplicates among 3 events." in ran.stdout
    missing = command(
        "duplicates", "--identity", "debezium", "--topic", "nowhere", "--output", "json"
    )
    assert missing.code == 2


def test_in_flight_records_arrive_during_stabilization(
    new_topic: NewTopic, new_drctl: NewDrctl, primary: ClusterUnderTest, secondary: ClusterUnderTest
) -> None:
    topic, sent = new_topic(), [record(n) for n in range(5)]
    primary.produce(topic, sent)
    secondary.produce(topic, sent[:3])
    drctl = new_drctl({"main": keeping(topic)})
    running = drctl.start("--scope", "full", "--stabilize", "8s")
    running.await_stderr("waiting for records in flight")
    secondary.produce(topic, sent[3:])
    primary.produce(topic, [record(5)])
    ended = running.wait()
    assert ended.code == 0, ended.stderr
    assert ended.gap()["topics"][0]["partitions"][0]["source_range"] == [0, 5]
    assert drctl.gap("--scope", "full", name="behind").gap()["totals"]["unreplicated"] == 1
