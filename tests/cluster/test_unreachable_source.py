"""Offsets of an unreachable source: from its copied offsets topic, tracking, provenance."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from drctl.formats import consumer_offsets, migrator_headers, provenance
from drctl.formats.provenance import Provenance
from drctl.model.topology import Record
from drctl.offsets.consumed import SPACING
from drctl.offsets.tracking_log import TRACKED_OFFSETS_TOPIC
from tests.cluster.command import DEADLINE_S
from tests.cluster.lab_link import Site
from tests.cluster.logs import read_logs
from tests.cluster.unreachable_source import Silent

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

NOON = 1_700_000_000_000
RECORDS, COPIED, DELETED = 300, 280, 20


class Mirrored(Silent):
    """An offset-preserving mirror, and a copy of the offsets topic."""

    def __init__(self, site: Site) -> None:
        self.copy = f"copy-{uuid4().hex[:8]}.__consumer_offsets"
        replicator = {"kind": "offset-preserving", "copied_offsets_topic": self.copy}
        super().__init__(site, site.new_topic(1), replicator=replicator)
        records = [Record(0, 0, NOON + n, b"k%d" % (n % 7), b"v%d" % n) for n in range(RECORDS)]
        self.source.produce(self.topic, records)
        self.target.produce(self.topic, records[:COPIED])
        self.target.delete_records(self.topic, 0, DELETED)

    def mirror_positions(self) -> None:
        """Copy the current content of the source's offsets topic."""
        ends = self.source.end_offsets(consumer_offsets.TOPIC)
        if self.copy not in self.target.admin.list_topics(timeout=DEADLINE_S).topics:
            self.target.create_topic(self.copy, len(ends), {"cleanup.policy": "compact"})
        log = read_logs(self.source, [consumer_offsets.TOPIC])[consumer_offsets.TOPIC]
        self.target.produce(self.copy, [r for held in log.records.values() for r in held])

    def close(self) -> None:
        self.target.delete_topics([self.copy])


@pytest.fixture
def mirrored(site: Site) -> Mirrored:
    return site.keep(Mirrored(site))


def test_positions_of_an_unreachable_source(mirrored: Mirrored) -> None:
    mirrored.commit(ahead=RECORDS, middle=100, back=250, early=5, gone=33)
    mirrored.mirror_positions()
    mirrored.commit(back=90)
    mirrored.source.admin.delete_consumer_groups([f"{mirrored.prefix}-gone"])[
        f"{mirrored.prefix}-gone"
    ].result(DEADLINE_S)
    mirrored.mirror_positions()
    rows = mirrored.rows()
    assert {name: row["source_offset"] for name, row in rows.items()} == {
        "ahead": RECORDS, "middle": 100, "back": 90, "early": 5,
    }  # fmt: skip
    assert {name: row["target_offset"] for name, row in rows.items()} == {
        "ahead": COPIED, "middle": 100, "back": 90, "early": DELETED,
    }  # fmt: skip
    for row in rows.values():
        # No source records were tracked: preserved offsets are not proven.
        assert (row["method"], row["skips_at_most"]) == ("identity", None)
        assert row["skips_only_if"].startswith("the mirror does not preserve offsets, or the group")
        assert f"committed offset from {mirrored.copy}" in row["evidence"]
        assert 0 <= row["age_seconds"] < 600


def test_tracked_offsets_prove_offset_preservation(mirrored: Mirrored) -> None:
    mirrored.commit(middle=100, ahead=RECORDS)
    mirrored.track()
    mirrored.commit(middle=150, early=5)  # after the last pass
    mirrored.mirror_positions()
    rows = mirrored.rows()
    translated = {
        name: (row["target_offset"], row["rereads_at_most"]) for name, row in rows.items()
    }
    firm = {"middle": 150, "ahead": COPIED, "early": DELETED}
    assert translated == {name: (at, COPIED - at) for name, at in firm.items()}
    assert {row["rereads_likely"] for row in rows.values()} == {0}
    assert {name: row["skips_at_most"] for name, row in rows.items()} == {
        "middle": 0, "ahead": 0, "early": DELETED - 5,
    }  # fmt: skip
    assert rows["middle"]["method"] == "identity"
    assert "offsets are preserved: 1 record" in rows["middle"]["evidence"]
    assert TRACKED_OFFSETS_TOPIC in mirrored.target.admin.list_topics(timeout=DEADLINE_S).topics


def test_a_missing_copy(mirrored: Mirrored) -> None:
    mirrored.commit(middle=100)
    why = f"{mirrored.copy} (copy of __consumer_offsets): it does not exist"
    assert mirrored.rows(missing=[why]) == {}


BEHIND, SINCE = 7_000, 500


def test_groups_resume_at_the_newest_recorded_copy(site: Site) -> None:
    """They had consumed thousands of unreplicated records when the source died."""

    def record(number: int) -> Record:
        return Record(0, number, NOON + number // 3, b"k%d" % (number % 50), b"v%d" % number)

    at = Silent(site, site.new_topic(1))
    at.source.produce(at.topic, map(record, range(12_000)))
    at.target.produce(at.topic, map(record, range(BEHIND)))
    late = [Record(0, 0, NOON + 10**9 + n, None, b"since%d" % n) for n in range(SINCE)]
    at.target.produce(at.topic, late)
    at.commit(end=6_500, middle=9_000, copied=BEHIND)
    at.track()
    positions = {"end": 12_000, "middle": 9_500, "copied": BEHIND}
    at.commit(end=12_000, middle=9_500)
    assert at.track()["totals"]["moved"] == 2
    rows = at.by_group(at.silent.json("translate", code=5))
    assert {name: row["source_offset"] for name, row in rows.items()} == positions
    for name, row in rows.items():
        lag = positions[name] - BEHIND
        assert (row["method"], row["skips_at_most"], row["blocked"]) == ("tracked-offset", 0, None)
        again = BEHIND - row["target_offset"]
        assert again >= 0, row
        assert row["rereads_at_most"] == BEHIND + SINCE - row["target_offset"]
        likely = min(again + lag, row["rereads_at_most"])
        assert likely <= row["rereads_likely"] <= SPACING * lag, row
    assert rows["copied"]["target_offset"] == BEHIND


MANY, NAMED = 3_000, 2_900
OTHERS = 700
"""Records of another producer on the target: before, between and after the copies."""

Headers = tuple[tuple[str, bytes | None], ...]
Named = Callable[[str, str, int], Headers]


def migrated(cluster_id: str, _topic: str, offset: int) -> Headers:
    return (
        ("trace", None),
        (migrator_headers.ORIGIN_HEADER, migrator_headers.encode_origin(cluster_id)),
        (migrator_headers.OFFSET_HEADER, migrator_headers.encode_offset(offset)),
    )


def own(cluster_id: str, topic: str, offset: int) -> Headers:
    where = Provenance(cluster_id, topic, 0, offset, NOON + offset)
    return ((provenance.HEADER, provenance.encode(where)),)


def named_record(number: int, headers: Headers = ()) -> Record:
    """Return a record with the same content and time at every offset; only its header differs."""
    return Record(0, number, NOON, b"k", b"v", headers)


class Naming(Silent):
    """Copies under another name, each with a header of its source offset."""

    def __init__(self, site: Site, named: Named, cluster_id: str = "") -> None:
        topic = site.new_topic(1, on=("primary",))
        replicator = {"kind": "none", "rename": "copy.${topic}"}
        super().__init__(site, topic, replicator=replicator)
        # With append times no other method finds a record on the target.
        self.target.create_topic(f"copy.{topic}", 1, {"message.timestamp.type": "LogAppendTime"})
        self.source.produce(topic, map(named_record, range(MANY)))
        cluster_id = cluster_id or self.source.admin.list_topics(timeout=20).cluster_id
        copies = [named_record(n, named(cluster_id, topic, n)) for n in range(NAMED)]
        others = [Record(0, 0, NOON, None, b"another's")] * OTHERS
        there = [*others, *copies[:1_000], *others, *copies[1_000:], *others]
        self.target.produce(f"copy.{topic}", there, "commit")

    def close(self) -> None:
        self.target.delete_topics([f"copy.{self.topic}"])


def by_offset(document: dict[str, Any]) -> dict[int, dict[str, Any]]:
    return {row["source_offset"]: row for row in document["rows"]}


WANTED = {
    # A group that has consumed nothing may also read what precedes the copies.
    0: (0, 0),
    1: (OTHERS + 1, 0),
    1_000: (OTHERS + 1_000, 0),
    1_001: (2 * OTHERS + 1_001, 0),
    2_345: (2 * OTHERS + 2_345, 0),
    NAMED: (2 * OTHERS + NAMED, 0),
    # The last 100 records were not replicated when the source was lost.
    MANY: (2 * OTHERS + NAMED, MANY - NAMED),
}


@pytest.mark.parametrize("named", [migrated, own])
def test_positions_are_exact_with_and_without_the_source(site: Site, named: Named) -> None:
    at = site.keep(Naming(site, named))
    at.commit(**{f"at-{offset}": offset for offset in WANTED})
    alive = by_offset(at.alive.json("translate", code=1))
    assert {at: (r["target_offset"], r["rereads_at_most"]) for at, r in alive.items()} == WANTED
    assert {(r["method"], r["blocked"]) for r in alive.values()} == {("mapping", None)}
    # The next record of this group has no copy with a source offset, if it has a copy at all.
    skips = {at: None if at == NAMED else 0 for at in WANTED}
    assert {at: r["skips_at_most"] for at, r in alive.items()} == skips
    at.track()
    silent = by_offset(at.silent.json("translate", code=5))
    for offset, row in silent.items():
        assert row["target_offset"] == WANTED[offset][0]
        likely = row["rereads_likely"]
        assert likely is None or likely <= min(WANTED[offset][1], row["rereads_at_most"])
    # Tracked offsets confirm the headers, and translate some groups without them.
    assert {r["method"] for r in silent.values()} <= {"mapping", "tracked-offset"}


def test_headers_of_another_cluster_are_ignored(site: Site) -> None:
    at = site.keep(Naming(site, migrated, cluster_id="4L6g3nShT-eMCtK--X86sw"))
    at.commit(one=500)
    row = at.by_group(at.alive.json("translate", code=5))["one"]
    assert row["target_offset"] is None
    assert "no evidence" in row["blocked"]
