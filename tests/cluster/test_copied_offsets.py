"""Positions of a source that is silent, from what a real broker wrote to `__consumer_offsets`."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, TopicPartition

from drctl.formats import consumer_offsets
from drctl.kafka.connection import Connection
from drctl.kafka.group_writer import KafkaGroupWriter
from drctl.model import topology
from drctl.model.groups import Committed
from drctl.model.topology import Record
from drctl.offsets.anchor_log import ANCHORS_TOPIC
from tests.cluster.conftest import NewDrctl
from tests.cluster.offsets_command import OffsetsCommand
from tests.cluster.silent_source import alive_and_silent
from tests.conftest import NewTopic
from tests.lab.cluster_under_test import DEADLINE_S, QUIET, ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

NOON = 1_700_000_000_000
RECORDS, COPIED, DELETED = 300, 280, 20


class Stage:
    """A topic and its mirror, and a copy of the topic of positions."""

    def __init__(self, source: ClusterUnderTest, target: ClusterUnderTest, topic: str) -> None:
        self.source, self.target, self.topic = source, target, topic
        self.prefix = f"app-{uuid4().hex[:8]}"
        self.copy = f"copy-{uuid4().hex[:8]}.__consumer_offsets"
        self.alive: OffsetsCommand
        self.silent: OffsetsCommand

    def configure(self, new_drctl: NewDrctl) -> None:
        replicator = {"kind": "offset-preserving", "copied_offsets_topic": self.copy}
        link = {"topics": [self.topic], "groups": [f"{self.prefix}-.*"], "replicator": replicator}
        self.alive, self.silent = alive_and_silent(new_drctl, (self.source, self.target), link)

    def commit(self, **offsets: int) -> None:
        wanted = {
            f"{self.prefix}-{name}": {topology.TopicPartition(self.topic, 0): Committed(offset)}
            for name, offset in offsets.items()
        }
        with KafkaGroupWriter(Connection("primary", self.source.properties())) as writer:
            answers = writer.commit(wanted)
        assert {a for of in answers.values() for a in of.values()} == {None}

    def mirror_positions(self) -> None:
        """Copy everything that the source's own topic of positions holds now."""
        ends = self.source.end_offsets(consumer_offsets.TOPIC)
        if self.copy not in self.target.admin.list_topics(timeout=DEADLINE_S).topics:
            self.target.create_topic(self.copy, len(ends), {"cleanup.policy": "compact"})
        self.target.produce(self.copy, self._positions(ends))

    def rows(self, **settings: Any) -> dict[str, dict[str, Any]]:
        document = self.silent.json("translate", code=5)
        assert document["source_unreachable"]
        assert document["missing_evidence"] == settings.get("missing", [])
        return {r["group"].removeprefix(f"{self.prefix}-"): r for r in document["rows"]}

    def _positions(self, ends: dict[int, int]) -> Iterator[Record]:
        consumer = Consumer(
            {
                **self.source.properties(),
                "group.id": "tests-never-joined",
                "enable.partition.eof": True,
            },
            logger=QUIET,
        )
        try:
            waiting = {number for number, end in ends.items() if end}
            consumer.assign([TopicPartition(consumer_offsets.TOPIC, n, 0) for n in waiting])
            while waiting:
                message = consumer.poll(DEADLINE_S)
                assert message is not None
                if message.error():
                    waiting.discard(message.partition())
                else:
                    time = message.timestamp()[1]
                    yield Record(message.partition(), 0, time, message.key(), message.value())
        finally:
            consumer.close()


@pytest.fixture
def stage(
    new_drctl: NewDrctl, new_topic: NewTopic, primary: ClusterUnderTest, secondary: ClusterUnderTest
) -> Iterator[Stage]:
    found = Stage(primary, secondary, new_topic(1))
    found.configure(new_drctl)
    records = [Record(0, 0, NOON + n, b"k%d" % (n % 7), b"v%d" % n) for n in range(RECORDS)]
    primary.produce(found.topic, records)
    secondary.produce(found.topic, records[:COPIED])
    secondary.delete_records(found.topic, 0, DELETED)
    yield found
    secondary.delete_topics([found.copy])


def test_positions_of_a_silent_source(stage: Stage) -> None:
    stage.commit(ahead=RECORDS, middle=100, back=250, early=5, gone=33)
    stage.mirror_positions()
    stage.commit(back=90)
    stage.source.admin.delete_consumer_groups([f"{stage.prefix}-gone"])[
        f"{stage.prefix}-gone"
    ].result(DEADLINE_S)
    stage.mirror_positions()
    rows = stage.rows()
    assert {name: row["source_offset"] for name, row in rows.items()} == {
        "ahead": RECORDS, "middle": 100, "back": 90, "early": 5,
    }  # fmt: skip
    assert {name: row["target_offset"] for name, row in rows.items()} == {
        "ahead": COPIED, "middle": 100, "back": 90, "early": DELETED,
    }  # fmt: skip
    for row in rows.values():
        # Nothing was noted of the source's records: that offsets are kept is not proven.
        assert (row["method"], row["skips_at_most"]) == ("identity", None)
        assert row["skips_only_if"].startswith("the mirror does not preserve offsets, or the group")
        assert f"the position is told by {stage.copy}" in row["evidence"]
        assert 0 <= row["age_seconds"] < 600


def test_anchors_prove_that_offsets_are_kept(stage: Stage) -> None:
    stage.commit(middle=100, ahead=RECORDS)
    stage.alive.json("track", "--once", "--execute", "--yes")
    stage.commit(middle=150, early=5)  # after the last pass
    stage.mirror_positions()
    rows = stage.rows()
    said = {name: (row["target_offset"], row["rereads_at_most"]) for name, row in rows.items()}
    firm = {"middle": 150, "ahead": COPIED, "early": DELETED}
    assert said == {name: (at, COPIED - at) for name, at in firm.items()}
    assert {row["rereads_likely"] for row in rows.values()} == {0}
    assert {name: row["skips_at_most"] for name, row in rows.items()} == {
        "middle": 0, "ahead": 0, "early": DELETED - 5,
    }  # fmt: skip
    assert rows["middle"]["method"] == "identity"
    assert "1 records stand where their anchors say" in rows["middle"]["evidence"]
    assert ANCHORS_TOPIC in stage.target.admin.list_topics(timeout=DEADLINE_S).topics


def test_a_copy_that_is_not_there(stage: Stage) -> None:
    stage.commit(middle=100)
    why = f"{stage.copy}, the copy of the source's positions: it does not exist"
    assert stage.rows(missing=[why]) == {}
