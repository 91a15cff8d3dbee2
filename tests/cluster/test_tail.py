"""The tail with a real MirrorMaker 2, whose position comes from a real Connect worker."""

from collections.abc import Iterator
from contextlib import closing
from itertools import count
from typing import Any

import pytest

from drctl.connect.client import ConnectReader
from drctl.lab.lab import Lab
from tests.cluster.command import Drctl, Ended
from tests.cluster.filling import Clock, rows, written
from tests.cluster.isolated_connectors import mirror_of
from tests.cluster.lab_link import NewDrctl, link_over
from tests.cluster.link_command import soon
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

COPIED = 15_000
RUNS = map("run-{}".format, count())


@pytest.fixture(scope="module")
def topic(
    lab: Lab, primary: ClusterUnderTest, secondary: ClusterUnderTest, clock: Clock
) -> Iterator[str]:
    """15,000 replicated records, and 300 written while MirrorMaker 2 was paused."""
    name = "flights-tail"
    for cluster in (primary, secondary):
        cluster.create_topic(name)
    primary.produce(name, written(rows(COPIED, times=0.1), clock))
    soon(lambda: secondary.end_offsets(name) == {0: COPIED}, seconds=90)
    soon(lambda: kept_offset(lab, name) == COPIED - 1)
    lab.replicate(False)
    primary.produce(name, written(rows(300, start=COPIED, times=0.1), clock))
    yield name
    lab.replicate(True)
    for cluster in (primary, secondary):
        cluster.delete_topics([name])


def kept_offset(lab: Lab, topic: str) -> int | None:
    with closing(ConnectReader(lab.parts.worker.url)) as connect:
        entries = connect.offsets("mm2-source")
    found = [e["offset"]["offset"] for e in entries if e["partition"].get("topic") == topic]
    return found[0] if found else None


@pytest.fixture(scope="module")
def drctl(lab: Lab, topic: str, new_drctl: NewDrctl) -> Drctl:
    return new_drctl({"main": link(topic, mirror_of(lab, "mm2-source"))})


def link(topic: str, replicator: dict[str, Any]) -> dict[str, Any]:
    return link_over(topic, replicator=replicator)


def run(drctl: Drctl, *options: str, **settings: Any) -> Ended:
    return drctl.gap(*options, name=next(RUNS), **settings)


def test_only_the_tail_is_read_and_its_evidence_is_stated(drctl: Drctl) -> None:
    ended = run(drctl, "--scope", "tail")
    assert ended.code == 1, ended.stderr
    document = ended.document()
    (partition,) = document["topics"][0]["partitions"]
    assert partition["ranges"] == [[COPIED, COPIED + 299]]
    assert partition["source_range"] == [COPIED - 10_000, COPIED + 300]
    assert partition["target_range"] == [COPIED - 10_000, COPIED]
    assert document["totals"]["read_from_source"] == 10_300
    assert document["totals"]["only_on_target"] == 0
    window = partition["window"]
    assert (window["position"], window["whole"]) == (COPIED, False)
    assert window["evidence"] == f"connector mm2-source reports offset {COPIED - 1} as copied"
    assert document["scope"] == "tail"


def test_assumptions_are_stated(drctl: Drctl) -> None:
    ended = run(drctl, "--scope", "tail", options=())
    assert "300 records of topic flights-tail are not replicated to secondary" in ended.stdout
    assert "Whether records before the tail are replicated" in " ".join(ended.stdout.split())
    assert "scope tail: 20,300 offsets of 1 partition to read" in ended.stderr


def test_without_a_connect_worker_offset_syncs_are_used(topic: str, new_drctl: NewDrctl) -> None:
    unreachable = {"connect": "http://127.0.0.1:1", "connectors": {"source": "mm2-source"}}
    for replicator in ({}, unreachable):
        section = {"kind": "mirrormaker2", **replicator}
        ended = run(new_drctl({"main": link(topic, section)}), "--scope", "tail")
        assert ended.code == 1, ended.stderr
        (partition,) = ended.document()["topics"][0]["partitions"]
        assert partition["ranges"] == [[COPIED, COPIED + 299]]
        assert partition["source_range"][0] > 0
        assert "the last offset sync is of offset" in partition["window"]["evidence"]


def test_a_long_time_limit_reads_everything(drctl: Drctl) -> None:
    ended = run(drctl, "--timeout", "10m")
    assert ended.code == 1, ended.stderr
    assert ended.document()["scope"] == "full"
    assert ended.document()["totals"]["read_from_source"] == COPIED + 300


def test_a_short_time_limit_reads_the_tail_and_is_not_complete(drctl: Drctl) -> None:
    ended = run(drctl, "--timeout", "0.01s")
    assert ended.code == 5, ended.stderr
    document = ended.document()
    assert (document["scope"], document["complete"]) == ("tail", False)
    assert document["totals"]["unreplicated"] == 300
    (left_out,) = document["not_compared"]
    assert f"only offsets from {COPIED - 10_000} on were read" in left_out["reason"]


def test_records_lost_before_the_position_make_the_tail_longer(
    drctl: Drctl, topic: str, secondary: ClusterUnderTest
) -> None:
    """Somebody moved the connector's offsets: a gap that nothing else shows."""
    secondary.delete_records(topic, 0, COPIED - 5000)
    ended = run(drctl, "--scope", "tail")
    (partition,) = ended.document()["topics"][0]["partitions"]
    assert partition["window"]["whole"]
    assert partition["source_range"] == [0, COPIED + 300]
    assert ended.document()["totals"]["expired"] == COPIED - 5000
    assert ended.document()["totals"]["unreplicated"] == 300


def test_an_unknown_position(topic: str, new_drctl: NewDrctl) -> None:
    ended = run(new_drctl({"main": link(topic, {"kind": "none"})}), "--scope", "tail")
    assert ended.code == 5
    error = ended.document()["error"]
    assert "cannot determine the tail" in error["message"]
    assert "--scope full" in error["hint"]


def test_a_connector_that_does_not_exist(lab: Lab, topic: str, new_drctl: NewDrctl) -> None:
    replicator = mirror_of(lab, "mm2-sauce")
    ended = run(new_drctl({"main": link(topic, replicator)}), "--scope", "tail")
    assert ended.code == 2
    assert "mm2-sauce" in ended.document()["error"]["message"]


def test_scope_tail_excludes_a_ledger(drctl: Drctl) -> None:
    ended = run(drctl, "--scope", "tail", "--ledger")
    assert ended.code == 2
    assert "--ledger" in ended.document()["error"]["message"]
