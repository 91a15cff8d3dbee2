"""`drctl reconcile` on two real clusters: records are copied once, in order, despite kills."""

import json
import random
import stat
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drctl.formats import provenance
from drctl.kafka.connection import Connection
from drctl.kafka.reconcile_copier import KafkaSourceLog, TransactionalCopier
from drctl.kafka.reconcile_topics import ReconcileTopic
from drctl.model import errors
from drctl.model.topology import OffsetRange, Record, TopicPartition
from drctl.reconcile.export import record_of
from drctl.reconcile.progress import TOPIC
from tests.cluster.lab_link import Site
from tests.cluster.link_command import soon
from tests.cluster.reconcile_stage import NewStage, new_stages, origins, record, without_place
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

LARGE = bytes(range(256)) * 3600
"""A value of about 900 kB."""


@pytest.fixture
def stage(site: Site) -> Iterator[NewStage]:
    with new_stages(site) as make:
        yield make


TAIL = [
    record(10, headers=(("a", b"1"), ("a", None), ("b", b"")), key=None),
    record(11, key=b"", value=b""),
    record(12, value=None),
    record(13, value=LARGE),
    record(14, key=b"\xff\x00", value=b"\x00"),
    record(15),
    record(15),
]


def test_copies_are_identical_and_carry_their_origin(stage: NewStage) -> None:
    at = stage(2)
    both = [record(n, n % 2) for n in range(10)]
    at.primary.produce(at.topic, [*both, *TAIL])
    at.secondary.produce(at.topic, both)
    found = at.gap()
    plan = at.reconcile(found, "--policy", "copy")
    assert (plan["status"], plan["executed"]) == ("planned", False)
    assert plan["totals"]["due"] == len(TAIL)
    assert len(at.held(at.secondary)[0]) == 5, "the plan wrote something"
    done = at.execute(found, "--policy", "copy")
    assert (done["status"], done["totals"]["done"]) == ("done", len(TAIL))
    source, target = at.held(at.primary), at.held(at.secondary)
    for partition in (0, 1):
        assert without_place(target[partition]) == without_place(source[partition])
    first = next(r for r in target[0] if origins([r]))
    cluster_id = at.primary.admin.list_topics(timeout=20).cluster_id
    origin = provenance.Provenance(cluster_id, at.topic, 0, 5, TAIL[0].timestamp_ms)
    assert provenance.decode(first.headers[-1][1]) == origin
    again = at.execute(found, "--policy", "copy")
    assert (again["status"], again["executed"]) == ("done", False)
    assert at.held(at.secondary) == target
    at.gap(code=0)  # the copies equal the missing records: the result is complete and empty


@pytest.mark.nightly
def test_killed_repeatedly_it_copies_each_record_once_and_in_order(stage: NewStage) -> None:
    at = stage(3)
    value = bytes(2000)
    at.primary.produce(at.topic, (record(n, n % 3, value=value) for n in range(30_000)))
    found = at.gap()
    words: tuple[str, ...] = ("reconcile", found, "--policy", "copy", "--execute", "--yes")
    killed = 0
    while killed < 3:
        before = sum(at.secondary.end_offsets(at.topic).values())
        with at.drctl.running(*words) as process:

            def moved(before: int = before, process: Any = process) -> bool:
                gone = process.poll() is not None
                return gone or sum(at.secondary.end_offsets(at.topic).values()) > before + 50

            soon(moved)
            if process.poll() is not None:
                break
            process.kill()
            process.wait(20)
            killed += 1
        words = ("resume", "--link", at.topic, "--execute", "--yes")
    assert killed, "the run completed before it was killed"
    run = at.drctl.json(*words) if process.returncode else at.drctl.json("report")
    assert run["status"] == "done"
    done = at.reconcile(found, "--policy", "copy")
    assert (done["totals"]["done_before"], done["totals"]["due"]) == (30_000, 0)
    source, target = at.held(at.primary), at.held(at.secondary)
    for partition in range(3):
        assert origins(target[partition]) == list(range(10_000))
        assert without_place(target[partition]) == without_place(source[partition])


def test_conflicting_records_need_their_own_decision(stage: NewStage, tmp_path: Path) -> None:
    at = stage(1)
    tail = [record(1, key=b"hot"), record(2), record(3, key=b"hot"), record(4, key=None)]
    at.primary.produce(at.topic, tail)
    at.secondary.produce(at.topic, [record(1000, key=b"hot")])
    found = at.gap()
    refused = at.reconcile(found, "--policy", "copy", code=3)
    assert refused["totals"]["refused"] == 2
    some = at.execute(found, "--policy", "copy", code=4)
    assert (some["totals"]["done"], some["totals"]["refused"]) == (2, 2)
    assert origins(at.held(at.secondary)[0]) == [1, 3]
    out = tmp_path / "export"
    exported = at.execute(found, "--policy", "copy", "--conflicting", "export", "--out", str(out))
    assert exported["exported"] == str(out)
    files = sorted(out.iterdir())
    assert [stat.S_IMODE(path.stat().st_mode) for path in files] == [0o600, 0o600]
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["files"][0]["records"] == 2
    lines = (out / manifest["files"][0]["file"]).read_bytes().splitlines()
    rows = [record_of(line) for line in lines]
    back = [
        Record(r.place.partition, o, t, k, v, tuple((n.decode(), c) for n, c in h))
        for r in rows
        for o, t, k, v, h in [r.row]
    ]
    assert back == [r for r in at.held(at.primary)[0] if r.key == b"hot"]
    aside = at.execute(found, "--policy", "copy", "--conflicting", "quarantine")
    assert (aside["status"], aside["totals"]["done"]) == ("done", 2)
    kept = at.held(at.secondary, at.quarantine)[0]
    assert (without_place(kept), origins(kept)) == (without_place(back), [0, 2])
    assert origins(at.held(at.secondary)[0]) == [1, 3]


def test_a_discard_is_named_recorded_and_final(stage: NewStage) -> None:
    at = stage(1)
    at.primary.produce(at.topic, [record(1), record(2)])
    found = at.gap()
    at.drctl.json("reconcile", found, "--policy", "discard", "--execute", "--yes", code=2)
    words = (found, "--topic", f"{at.topic}=discard")
    at.reconcile(
        *words, "--execute", code=3
    )  # without a terminal nobody can type the cluster's name
    done = at.execute(*words)
    assert (done["status"], done["totals"]["done"]) == ("done", 2)
    lines = Path(done["journal"]).read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["entry"] for line in lines] == ["began", "intent", "outcome", "ended"]
    assert stat.S_IMODE(Path(done["journal"]).stat().st_mode) == 0o600
    assert at.held(at.secondary)[0] == []
    then = at.reconcile(found, "--policy", "copy")
    assert then["totals"]["due"] == 0
    assert then["lines"][0]["before"][0]["action"] == "discard"
    # Discarded records are still missing: a new result lists them again, beside a new record.
    at.primary.produce(at.topic, [record(3)])
    fresh = at.gap()
    after = at.execute(fresh, "--policy", "copy")
    totals = after["totals"]
    assert (after["status"], totals["done_before"], totals["done"]) == ("done", 2, 1)
    assert [each["action"] for each in after["lines"][0]["before"]] == ["discard"]
    assert origins(at.held(at.secondary)[0]) == [2]
    # If no other record is left, the decision is also stored for the new result.
    newest = at.gap()
    result = at.reconcile(newest, "--policy", "copy")
    assert (result["status"], result["totals"]["due"]) == ("planned", 0)
    noted = at.execute(newest, "--policy", "copy")
    assert (noted["status"], noted["totals"]["done"]) == ("done", 0)
    assert at.reconcile(newest, "--policy", "copy")["status"] == "done"
    override = "decided-before=they are wanted"
    again = at.execute(at.gap(), "--policy", "copy", "--override", override)
    assert again["totals"]["done"] == 2


def test_an_old_gap_result_is_refused(stage: NewStage) -> None:
    at = stage(1)
    at.primary.produce(at.topic, [record(n) for n in range(5)])
    found = at.gap()
    at.primary.produce(at.topic, [record(9)])
    refused = at.execute(found, "--policy", "copy", code=3)
    assert [o["precheck"] for o in refused["blockers"]] == ["source-moved"]
    fresh = at.gap()
    done = at.execute(fresh, "--policy", "copy")
    assert done["totals"]["done"] == 6
    # The older result was created before these copies.
    late = at.execute(found, "--policy", "copy", "--override", "source-moved=test", code=3)
    assert [o["precheck"] for o in late["blockers"] if not o["overridden"]] == ["copied-since"]
    assert origins(at.held(at.secondary)[0]) == list(range(6))


def prechecks(found: dict[str, Any]) -> list[tuple[str, int]]:
    return [(o["precheck"], o["partition"]) for o in found["blockers"] if not o["overridden"]]


def test_records_that_forward_replication_copied_since_are_not_written_twice(
    stage: NewStage,
) -> None:
    at = stage(2)
    at.primary.produce(at.topic, [record(n, n % 2) for n in range(6)])
    found = at.gap()
    # Forward replication ran again for a while; the source is unchanged.
    there = [record(n, n % 2) for n in range(6)]
    at.secondary.produce(at.topic, there)
    for policy in ("copy", "quarantine"):
        refused = at.execute(found, "--policy", policy, code=3)
        assert prechecks(refused) == [("already-on-target", 0), ("already-on-target", 1)]
        assert refused["totals"]["done"] == 0
    at.drctl.json(
        *("reconcile", found, "--policy", "copy", "--override", "already-on-target=x"), code=2
    )
    assert sum(map(len, at.held(at.secondary).values())) == len(there)
    at.gap(code=0)


def test_a_newer_record_of_a_safe_key_is_not_overwritten(stage: NewStage) -> None:
    at = stage(1)
    at.primary.produce(at.topic, [record(n) for n in range(5)])
    found = at.gap()
    # Applications write records of other keys, which block nothing.
    at.secondary.produce(at.topic, [record(100 + n) for n in range(5)])
    assert at.reconcile(found, "--policy", "copy")["status"] == "planned"
    at.secondary.produce(at.topic, [record(200, key=b"k3")])
    refused = at.execute(found, "--policy", "copy", code=3)
    assert prechecks(refused) == [("target-moved", 0)]
    assert refused["blockers"][0]["reason"].startswith("records that were safe to copy")
    assert origins(at.held(at.secondary)[0]) == []
    fresh = at.gap()
    assert at.reconcile(fresh, "--policy", "copy", code=3)["totals"]["refused"] == 1
    done = at.execute(found, "--policy", "copy", "--override", "target-moved=nobody reads k3")
    assert done["totals"]["done"] == 5
    assert origins(at.held(at.secondary)[0]) == list(range(5))


def test_with_partition_order_all_readers_of_a_result_agree(stage: NewStage) -> None:
    at = stage(1, order="per-partition")
    at.primary.produce(at.topic, [record(n) for n in range(10)])
    # Missing records before later copies, and missing records at the end, which nothing follows.
    at.secondary.produce(at.topic, [record(n) for n in (0, 1, 2, 3, 6, 7)])
    found = at.gap()
    order = json.loads((Path(found) / "gap.json").read_text())["order"]
    assert (order["within"], order["safe"], order["conflicting"]) == ("partition", 2, 2)
    asked = at.drctl("failback", "--check-order", "--gap", found, "--output", "json")
    records = asked.document()["records"]
    assert (records["safe"], records["conflicting"], records["unkeyed"]) == (2, 2, 0)
    plan = at.reconcile(found, "--policy", "copy", code=3)
    assert (plan["totals"]["due"], plan["totals"]["refused"]) == (2, 2)
    done = at.execute(found, "--policy", "copy", "--conflicting", "quarantine")
    assert done["totals"]["done"] == 4
    assert origins(at.held(at.secondary)[0]) == [8, 9]
    assert origins(at.held(at.secondary, at.quarantine)[0]) == [4, 5]


def test_records_deleted_since_are_named(stage: NewStage) -> None:
    at = stage(1)
    at.primary.produce(at.topic, [record(n) for n in range(6)])
    found = at.gap()
    at.primary.delete_records(at.topic, 0, 2)
    refused = at.execute(found, "--policy", "copy", code=3)
    assert [o["precheck"] for o in refused["blockers"]] == ["source-moved"]
    words = (found, "--policy", "copy", "--override", "source-moved=retention")
    done = at.execute(*words, code=1)
    assert done["gone"] == [{"topic": at.topic, "partition": 0, "records": 2, "offsets": [[0, 1]]}]
    assert origins(at.held(at.secondary)[0]) == [2, 3, 4, 5]


def test_a_recreated_topic_is_not_taken_for_the_old_one(stage: NewStage) -> None:
    at = stage(1)
    at.primary.produce(at.topic, [record(n) for n in range(3)])
    found = at.gap()
    at.primary.delete_topics([at.topic])
    at.primary.create_topic(at.topic)
    at.primary.produce(at.topic, [record(n + 100) for n in range(3)])
    refused = at.execute(found, "--policy", "copy", code=3)
    assert "recreated" in [blocker["precheck"] for blocker in refused["blockers"]]
    assert at.held(at.secondary)[0] == []


def test_aborted_records_are_ignored_and_replication_continues(
    stage: NewStage, secondary: ClusterUnderTest
) -> None:
    at = stage(1)
    at.primary.produce(at.topic, [record(1)])
    ReconcileTopic(Connection("secondary", secondary.properties())).make()
    source = KafkaSourceLog("primary", at.primary.properties())
    place = TopicPartition(at.topic, 0)
    connection = Connection("secondary", secondary.properties(), 10)
    began = time.monotonic()
    with (
        closing(source.read(at.topic, {0: [OffsetRange(0, 1)]})) as pieces,
        TransactionalCopier(connection, at.topic) as copier,
    ):
        (row,) = next(pieces).rows
        copier.begin()
        copier.append(place, [row] * 20_000, [b"first"] * 20_000)
        copier.abort()
        copier.begin()
        copier.append(place, [row], [b"second"])
        copier.settle()
        copier.commit()
    assert time.monotonic() - began < 10, "the abort had to wait for a timeout"
    assert [r.headers for r in at.held(secondary)[0]] == [((provenance.HEADER, b"second"),)]


@pytest.mark.parametrize("number", [0, 1500, 2999])
@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"max_message_bytes": "100000"}, "too large"),
        ({"message_timestamp_before_max_ms": "86400000"}, "rejects the timestamp"),
    ],
)
def test_a_record_that_the_target_rejects_stops_the_run(
    stage: NewStage, number: int, config: dict[str, str], reason: str
) -> None:
    at = stage(2)
    now = round(time.time() * 1000)
    records = [replace(record(n, n % 2), timestamp_ms=now) for n in range(3000)]
    value = random.Random(number).randbytes(200_000)
    records[number] = replace(records[number], timestamp_ms=now - 2 * 86_400_000, value=value)
    at.primary.produce(at.topic, records)
    found = at.gap()
    at.secondary.configure(at.topic, **config)
    refused = at.execute(found, "--policy", "copy", code=3)
    assert reason in refused["failure"]
    assert at.held(at.secondary) == {0: [], 1: []}
    at.secondary.configure(
        at.topic, max_message_bytes="1048588", message_timestamp_before_max_ms=str((1 << 63) - 1)
    )
    assert at.execute(found, "--policy", "copy")["totals"]["done"] == 3000
    copied = at.held(at.secondary)
    assert [origins(copied[partition]) for partition in (0, 1)] == [list(range(1500))] * 2


def test_a_second_engineer_fences_the_first(stage: NewStage, secondary: ClusterUnderTest) -> None:
    at = stage(1)
    at.primary.produce(at.topic, [record(1)])
    connection = Connection("secondary", secondary.properties(), 10)
    ReconcileTopic(Connection("secondary", secondary.properties())).make()
    source = KafkaSourceLog("primary", at.primary.properties())
    place = TopicPartition(at.topic, 0)
    with (
        closing(source.read(at.topic, {0: [OffsetRange(0, 1)]})) as pieces,
        TransactionalCopier(connection, at.topic) as first,
    ):
        (row,) = next(pieces).rows
        first.begin()
        first.append(place, [row], [b"first"])
        assert first.settle() == {place: 0}
        with TransactionalCopier(connection, at.topic) as second:
            with pytest.raises(errors.Fenced):
                first.commit()
            first.abort()
            second.begin()
            second.append(place, [row], [b"second"])
            second.settle()
            second.commit()
    assert [r.headers for r in at.held(secondary)[0]] == [((provenance.HEADER, b"second"),)]
    assert TOPIC in secondary.admin.list_topics(timeout=20).topics
