"""`drctl doctor` on offset-preserving mirrors on real clusters: healthy ones, and each fault."""

import secrets
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drctl.model.groups import OFFSETS_TOPIC
from drctl.model.topology import Record
from tests.cli.documents import check
from tests.clients.brokers import Cluster
from tests.cluster.command import Drctl
from tests.cluster.failover_stage import PARTITIONS, consumed
from tests.cluster.lab_link import Site, cluster_section, link_over
from tests.cluster.test_failover_kinds import Kind, Kinds
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

RECORDS = 40
JUDGED = ("copies-differ", "leader-epochs-differ", "unexpected-writers", "offsets-topic-parity")


@pytest.fixture
def mirrored(site: Site, tmp_path: Path) -> Kind:
    """A topic that a plain client copies to the same offsets, and a group that has read it."""
    kind = site.keep(Kinds(site, tmp_path)).make("offset-preserving")
    assert len(kind.stage.write(RECORDS, "before")) == RECORDS
    kind.copied(RECORDS)
    assert kind.stage.read(kind.stage.source, most=10)
    return kind


def examined(drctl: Drctl) -> dict[str, dict[str, Any]]:
    """Return the findings of the checks under test, by check."""
    rows = check(drctl("--output", "json", "doctor").document())["checks"]
    found = {row["check"]: row for row in rows if row["check"] in JUDGED}
    assert set(found) == set(JUDGED)
    assert {row["check"] for row in rows if row["status"] == "fail"} <= set(JUDGED)
    return found


def faults(found: dict[str, dict[str, Any]]) -> dict[str, tuple[str, str]]:
    """Return status and evidence of what is not ok, by check."""
    return {
        name: (row["status"], row["evidence"])
        for name, row in found.items()
        if row["status"] != "ok"
    }


def append(cluster: ClusterUnderTest, topic: str, count: int, **settings: object) -> None:
    """Write to partition 0 with the current time."""
    cluster.produce(topic, [Record(0, -1, 0, None, b"v%d" % n) for n in range(count)], **settings)


def test_copies_and_another_writer(mirrored: Kind) -> None:
    stage = mirrored.stage
    sound = examined(stage.drctl)
    assert faults(sound) == {}
    reasons = {name: row["reason"] for name, row in sound.items()}
    assert reasons["copies-differ"] == f"{PARTITIONS} samples are identical"
    assert reasons["leader-epochs-differ"] == f"{PARTITIONS} samples have the same leader epoch"
    assert "same number of partitions on both" in reasons["offsets-topic-parity"]
    assert mirrored.copier is not None
    mirrored.copier.halt()

    end = stage.target.end_offsets(stage.topic)[0]
    append(stage.target, stage.topic, 1)
    found = examined(stage.drctl)
    assert faults(found) == {"copies-differ": ("fail", f"{stage.topic}-0")}
    assert found["copies-differ"]["reason"] == "1 copy is longer than its original"

    append(stage.source, stage.topic, 2)
    assert faults(examined(stage.drctl)) == {
        "copies-differ": ("fail", f"{stage.topic}-0 offset {end}")
    }
    append(stage.target, stage.topic, 1, enable__idempotence=True)
    found = examined(stage.drctl)
    assert found["unexpected-writers"]["status"] == "warn"
    assert f" in {stage.topic}-0, " in found["unexpected-writers"]["evidence"]


@pytest.mark.nightly
def test_leader_epochs_after_an_election(mirrored: Kind, site: Site) -> None:
    stage = mirrored.stage
    site.lab.signal("primary", signal.SIGKILL)
    site.lab.start("primary")
    assert len(stage.write(RECORDS, "after")) == RECORDS
    mirrored.copied(2 * RECORDS)
    found = examined(stage.drctl)
    ends = stage.source.end_offsets(stage.topic)
    ((name, (status, evidence)),) = faults(found).items()
    assert (name, status) == ("leader-epochs-differ", "warn")
    for number, end in ends.items():
        place = f"{stage.topic}-{number} offset {end - 1}: "
        (sample,) = (each for each in evidence.split("; ") if each.startswith(place))
        epochs = sample.removeprefix(place).split(", ")
        assert epochs[1] == "0 on secondary"
        assert int(epochs[0].removesuffix(" on primary")) > 0


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster whose `__consumer_offsets` has two partitions; the lab's have five."""
    address = f"127.{secrets.randbelow(250) + 2}.{secrets.randbelow(250)}.2"
    cluster = Cluster("other", tmp_path / "other", address, address)
    cluster.start()
    try:
        cluster.wait()
        yield cluster
    finally:
        cluster.kill()


def test_another_number_of_partitions_of_consumer_offsets(site: Site, other: Cluster) -> None:
    topic = site.new_topic(1, on=("primary",))
    append(site.primary, topic, 1)
    other.create(topic)
    other.expect(topic, [f"app-{topic}"], [])
    consumed(site.primary, f"app-{topic}", [topic], lambda values: len(values) == 1)
    sections = {
        "primary": cluster_section(site.primary),
        "other": {"bootstrap": other.properties["bootstrap.servers"]},
    }
    by_kind = {}
    for kind in ("offset-preserving", "none"):
        link = {**link_over(topic, replicator={"kind": kind}), "to": "other"}
        drctl = site.new_drctl({"main": link}, clusters=sections)
        rows = check(drctl("--output", "json", "doctor").document())["checks"]
        (by_kind[kind],) = (row for row in rows if row["check"] == "offsets-topic-parity")
    assert [row["status"] for row in by_kind.values()] == ["fail", "ok"]
    assert {row["evidence"] for row in by_kind.values()} == {"5 partitions on primary, 2 on other"}
    assert OFFSETS_TOPIC in by_kind["offset-preserving"]["subject"]
