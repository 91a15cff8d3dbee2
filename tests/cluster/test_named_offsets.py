"""`drctl offsets translate` where copies name their offset on the source, on real clusters."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from uuid import uuid4

import pytest

from drctl.formats import migrator_headers, provenance
from drctl.formats.provenance import Provenance
from drctl.kafka.connection import Connection
from drctl.kafka.group_writer import KafkaGroupWriter
from drctl.model.groups import Committed
from drctl.model.topology import Record, TopicPartition
from tests.cluster.conftest import NewDrctl
from tests.cluster.offsets_command import OffsetsCommand
from tests.cluster.silent_source import alive_and_silent
from tests.conftest import NewTopic
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

START = 1_700_000_000_000
RECORDS, COPIED = 3_000, 2_900
OTHERS = 700
"""Records that somebody else wrote on the target: before the copies, among and behind them."""

Headers = tuple[tuple[str, bytes | None], ...]
Named = Callable[[str, str, int], Headers]


def migrated(cluster_id: str, _topic: str, offset: int) -> Headers:
    return (
        ("trace", None),
        (migrator_headers.ORIGIN_HEADER, migrator_headers.encode_origin(cluster_id)),
        (migrator_headers.OFFSET_HEADER, migrator_headers.encode_offset(offset)),
    )


def own(cluster_id: str, topic: str, offset: int) -> Headers:
    where = Provenance(cluster_id, topic, 0, offset, START + offset)
    return ((provenance.HEADER, provenance.encode(where)),)


def record(number: int, headers: Headers = ()) -> Record:
    """The same content and time at every offset: nothing but its header tells one from another."""
    return Record(0, number, START, b"k", b"v", headers)


class Stage:
    """A topic, its copies, and the link before and after its source was lost."""

    def __init__(
        self, alive: OffsetsCommand, silent: OffsetsCommand, source: ClusterUnderTest, topic: str
    ) -> None:
        self.alive, self.silent = alive, silent
        self._source, self._topic = source, topic

    def commit(self, prefix: str, offsets: Sequence[int]) -> None:
        """Of one group each."""
        wanted = {
            f"{prefix}-{offset}": {TopicPartition(self._topic, 0): Committed(offset)}
            for offset in offsets
        }
        with KafkaGroupWriter(Connection("primary", self._source.properties())) as writer:
            answers = writer.commit(wanted)
        assert {a for of in answers.values() for a in of.values()} == {None}


def rows(document: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """By source offset."""
    return {row["source_offset"]: row for row in document["rows"]}


@pytest.fixture
def stage(
    new_drctl: NewDrctl,
    new_topic: NewTopic,
    primary: ClusterUnderTest,
    secondary: ClusterUnderTest,
) -> Iterator[Any]:
    made: list[str] = []

    def make(named: Named, prefix: str, cluster_id: str = "") -> Stage:
        topic = new_topic(1, on=("primary",))
        made.append(f"copy.{topic}")
        # Broker time: no other method finds anything there.
        secondary.create_topic(made[-1], 1, {"message.timestamp.type": "LogAppendTime"})
        primary.produce(topic, map(record, range(RECORDS)))
        cluster_id = cluster_id or primary.admin.list_topics(timeout=20).cluster_id
        copies = [record(n, named(cluster_id, topic, n)) for n in range(COPIED)]
        others = [Record(0, 0, START, None, b"another's")] * OTHERS
        secondary.produce(
            made[-1], [*others, *copies[:1_000], *others, *copies[1_000:], *others], "commit"
        )
        link = {
            "topics": [topic],
            "groups": [f"{prefix}-.*"],
            "replicator": {"kind": "none", "rename": "copy.${topic}"},
        }
        alive, silent = alive_and_silent(new_drctl, (primary, secondary), link)
        return Stage(alive, silent, primary, topic)

    yield make
    secondary.delete_topics(made)


WANTED = {
    # Where a group has consumed nothing, what stands before the copies may be read, too.
    0: (0, 0),
    1: (OTHERS + 1, 0),
    1_000: (OTHERS + 1_000, 0),
    1_001: (2 * OTHERS + 1_001, 0),
    2_345: (2 * OTHERS + 2_345, 0),
    COPIED: (2 * OTHERS + COPIED, 0),
    # 100 records were not copied when the source was lost.
    RECORDS: (2 * OTHERS + COPIED, RECORDS - COPIED),
}


@pytest.mark.parametrize("named", [migrated, own])
def test_positions_are_exact_with_and_without_the_source(stage: Any, named: Named) -> None:
    prefix = f"app-{uuid4().hex[:8]}"
    found: Stage = stage(named, prefix)
    found.commit(prefix, list(WANTED))
    said = rows(found.alive.json("translate", code=1))
    assert {at: (r["target_offset"], r["rereads_at_most"]) for at, r in said.items()} == WANTED
    assert {(r["method"], r["blocked"]) for r in said.values()} == {("mapping", None)}
    # The copy of what this group wants next names no offset, if there is one.
    skips = {at: None if at == COPIED else 0 for at in WANTED}
    assert {at: r["skips_at_most"] for at, r in said.items()} == skips
    found.alive.json("track", "--once", "--execute", "--yes")
    silent = rows(found.silent.json("translate", code=5))
    for at, row in silent.items():
        assert row["target_offset"] == WANTED[at][0]
        likely = row["rereads_likely"]
        assert likely is None or likely <= min(WANTED[at][1], row["rereads_at_most"])
    # The anchors, against which headers are held now, tell some of them by themselves.
    assert {r["method"] for r in silent.values()} <= {"mapping", "anchor"}


def test_headers_of_another_cluster_are_not_believed(stage: Any) -> None:
    prefix = f"app-{uuid4().hex[:8]}"
    found: Stage = stage(migrated, prefix, cluster_id="4L6g3nShT-eMCtK--X86sw")
    found.commit(prefix, [500])
    row = rows(found.alive.json("translate", code=5))[500]
    assert row["target_offset"] is None
    assert "no evidence" in row["blocked"]
