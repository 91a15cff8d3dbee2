"""`drctl offsets translate` on links of every kind, without a replicator: the test fills both."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest

from drctl.model.topology import Record
from drctl.offsets.translating import NEVER
from tests.cluster.command import Drctl
from tests.cluster.groups import commit_offsets
from tests.cluster.lab_link import Site, link_over
from tests.kafka.members import member, share_member
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

START = 1_700_000_000_000
RECORDS = 200
SHIFT = 7
"""Number of records on the target before the copies."""


def records(partition: int, numbers: Sequence[int]) -> list[Record]:
    return [Record(partition, 0, START + n // 10, b"k%d" % (n % 9), b"v%d" % n) for n in numbers]


class Stage:
    """A link with one topic, and groups with names of their own."""

    def __init__(
        self,
        drctl: Drctl,
        clusters: tuple[ClusterUnderTest, ClusterUnderTest],
        topic: str,
        prefix: str,
    ) -> None:
        self.drctl = drctl
        self.source, self.target = clusters
        self.topic = topic
        self.prefix = prefix

    def commit(self, group: str, *offsets: int) -> str:
        """Commit offsets for the partitions from 0 on; return the group's name."""
        name = f"{self.prefix}-{group}"
        commit_offsets(self.source, self.topic, {name: dict(enumerate(offsets))})
        return name

    def translated(self, *words: str, code: int = 0) -> dict[str, Any]:
        return self.drctl.json("translate", "--group-regex", f"{self.prefix}-.*", *words, code=code)

    def rows(self, *words: str, code: int = 0) -> dict[tuple[str, int], dict[str, Any]]:
        found = self.translated(*words, code=code)["rows"]
        return {(r["group"].removeprefix(f"{self.prefix}-"), r["partition"]): r for r in found}


@pytest.fixture
def stage(site: Site) -> Iterator[Any]:
    """Create stages; their topics on the target are deleted."""
    made: list[str] = []

    def make(replicator: Mapping[str, Any], partitions: int = 1, shift: int = SHIFT) -> Stage:
        topic, prefix = site.new_topic(partitions, on=("primary",)), f"app-{uuid4().hex[:8]}"
        replicator = {"rename": "copy.${topic}", **replicator}
        link = link_over(topic, groups=[f"{prefix}-.*"], replicator=replicator)
        made.append(f"copy.{topic}")
        site.secondary.create_topic(made[-1], partitions)
        for partition in range(partitions):
            site.primary.produce(topic, records(partition, range(RECORDS)))
            early = [Record(partition, 0, START - 1000, None, b"early")] * shift
            there = [*early, *records(partition, range(RECORDS - 50))]
            site.secondary.produce(made[-1], there)
        return Stage(site.new_drctl({"main": link}).offsets, site.clusters, topic, prefix)

    yield make
    site.secondary.delete_topics(made)


def test_records_are_found_under_other_names_and_offsets(stage: Any) -> None:
    found: Stage = stage({"kind": "none"}, 2)
    found.commit("behind", 100, 1)
    found.commit("end", RECORDS)
    secondary = [Record(0, 0, START + 5_000, None, b"since the failover")]
    found.target.produce(f"copy.{found.topic}", secondary)
    rows = found.rows()
    behind, end = rows["behind", 0], rows["end", 0]
    assert (behind["target_offset"], behind["rereads_at_most"]) == (100 + SHIFT, 0)
    assert (behind["method"], behind["skips_at_most"]) == ("record-match", 0)
    assert behind["target_topic"] == f"copy.{found.topic}"
    assert rows["behind", 1]["target_offset"] == 1 + SHIFT
    # 50 records were never copied: the group resumes after the last copy, before later writes.
    assert (end["target_offset"], end["skips_at_most"]) == (RECORDS - 50 + SHIFT, 0)
    assert rows["end", 1]["blocked"] == NEVER
    assert rows["end", 1]["target_offset"] is None


def test_preserved_offsets(stage: Any) -> None:
    found: Stage = stage({"kind": "offset-preserving"}, shift=0)
    found.commit("g", 120)
    row = found.rows()["g", 0]
    assert (row["target_offset"], row["method"], row["rereads_at_most"]) == (120, "identity", 0)


def test_offsets_that_are_declared_preserved_but_are_not(stage: Any) -> None:
    found: Stage = stage({"kind": "offset-preserving"})
    name = found.commit("g", 120)
    row = found.rows()["g", 0]
    assert (row["target_offset"], row["method"]) == (120 + SHIFT, "record-match")
    document = found.drctl.json("explain", name, found.topic, "0")
    identity = {m["method"]: m for m in document["methods"]}["identity"]
    assert identity["answer"] is None
    assert "not preserved" in identity["why"]


def test_blocked_rows(stage: Any) -> None:
    found: Stage = stage({"kind": "none"})
    found.source.add_partitions(found.topic, 2)
    found.source.produce(found.topic, records(1, range(5)))
    found.commit("more", 10, 3)
    busy = found.commit("busy", 10)
    sharing = f"{found.prefix}-sharing"
    with members(found, busy, sharing):
        document = found.translated(code=1)
        rows = {(r["group"], r["partition"]): r for r in document["rows"]}
        assert "1 partition" in rows[f"{found.prefix}-more", 1]["blocked"]
        assert rows[f"{found.prefix}-more", 0]["blocked"] is None
        assert "on the target, with 1 member" in rows[busy, 0]["blocked"]
        assert rows[busy, 0]["target_offset"] == 10 + SHIFT
        assert [g["group"] for g in document["not_translatable"]] == [sharing]
    shown = found.drctl("translate", "--group-regex", f"{found.prefix}-.*")
    assert shown.code == 1
    assert "To check" in shown.stdout
    assert "drctl offsets explain" in shown.stdout


@contextmanager
def members(found: Stage, busy: str, sharing: str) -> Iterator[None]:
    """One group is active on the target and shares a topic on the source."""
    topic = f"copy.{found.topic}"
    with (
        member(found.target.properties(), busy, topic),
        share_member(found.source.properties(), sharing, found.topic),
    ):
        yield


def test_without_evidence_only_a_given_timestamp_is_used(stage: Any) -> None:
    found: Stage = stage({"kind": "none"})
    found.target.configure(f"copy.{found.topic}", message_timestamp_type="LogAppendTime")
    found.commit("g", 100)
    row = found.rows(code=5)["g", 0]
    assert row["target_offset"] is None
    assert "no evidence" in row["blocked"]
    row = found.rows("--timestamp", "2023-11-14T22:13:20", code=1)["g", 0]
    assert (row["target_offset"], row["method"], row["skips_at_most"]) == (SHIFT, "timestamp", None)


def test_a_missing_topic(stage: Any) -> None:
    found: Stage = stage({"kind": "none"})
    found.target.delete_topics([f"copy.{found.topic}"])
    found.commit("g", 100)
    row = found.rows(code=1)["g", 0]
    assert "does not exist on the target" in row["blocked"]
    assert row["target_topic"] is None


def test_an_unknown_position(stage: Any) -> None:
    found: Stage = stage({"kind": "none"})
    ran = found.drctl("explain", f"{found.prefix}-nobody", found.topic, "0")
    assert ran.code == 2
    assert f"group {found.prefix}-nobody has no offset" in ran.stderr
    ran = found.drctl("translate", "--group-regex", "(")
    assert ran.code == 2
    assert "'(': invalid regular expression" in ran.stderr
