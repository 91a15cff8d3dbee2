"""Groups are translated by their consumers' timestamps while the primary is dead.

Java consumers with an interceptor and drctl's own Python consumer write `__consumer_timestamps` to
the secondary. Confluent Replicator is proprietary: a MirrorMaker 2 connector replicates in its
place
(test_failover_kinds.py), and the interceptor writes the bytes of Confluent's.
"""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from drctl.consumer import TimestampsConsumer
from drctl.formats.consumer_timestamps import TOPIC
from drctl.kafka.java_properties import java_properties
from drctl.lab.waiting import Patience
from drctl.model.topology import Record
from tests.clients.applications import Applications, Client, compiled, group_of
from tests.cluster.failover_stage import PARTITIONS, Stage
from tests.cluster.lab_link import Site
from tests.cluster.link_command import GO, soon
from tests.cluster.test_failover_kinds import Kinds
from tests.kafka.timestamps_topic import remove_topic
from tests.lab.cluster_under_test import QUIET, ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

START_MS = 1_700_000_000_000
STEP_MS = 10
EQUAL = 4
"""Number of consecutive records with the same timestamp."""
CONSUMED, WRITTEN = 58, 80
"""Records of each partition: the last two consumed ones share their timestamp with the next two."""
FIRST_EQUAL = CONSUMED // EQUAL * EQUAL
OLDER = 31
"""Offset that one group commits although it has consumed further."""
LAYOUTS = (8, 12, 16)
"""Lengths of values: without a delta, and with a delta of 4 or 8 bytes."""


def time_of(number: int) -> int:
    return START_MS + number // EQUAL * STEP_MS


def fill(cluster: ClusterUnderTest, topic: str, start: int, end: int) -> None:
    """Write this many records to each partition."""
    places = [(p, n) for n in range(start, end) for p in range(PARTITIONS)]
    cluster.produce(topic, [Record(p, 0, time_of(n), None, b"%d-%d" % (p, n)) for p, n in places])


def committed(cluster: ClusterUnderTest, group: str) -> set[int]:
    """Return the group's committed offsets."""
    asked = cluster.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    return {part.offset for part in asked[group].result().topic_partitions or []}


class Groups:
    """Groups that consumed a part of the link's topic; their timestamps are on the secondary."""

    def __init__(self, stage: Stage, folder: Path) -> None:
        self.stage, self.topic, self.folder = stage, stage.topic, folder

    def consume_in_java(self) -> list[str]:
        """Read everything with Java; kill each application once its timestamps are written."""
        clients = [Client(f"java-{length}.consumer", self._java(length)) for length in LAYOUTS]
        names = [group_of(client, self.topic) for client in clients]
        (self.folder / "java").mkdir()
        at = self.stage.source.bootstrap
        running = Applications(None, self.folder, self.topic, at)
        running.java("applications", clients, compiled(self.folder / "java"), quick=False)
        try:
            running.wait(60, clients, "read")
            for name in names:
                soon(lambda name=name: committed(self.stage.source, name) == {CONSUMED})  # type: ignore[misc]
                soon(lambda name=name: self.written(name) == {time_of(CONSUMED - 1)})  # type: ignore[misc]
        finally:
            running.end()
        return names

    def _java(self, length: int) -> dict[str, str]:
        own, there = (java_properties(cluster.properties()) for cluster in self.stage.site.clusters)
        return {
            **own,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": "200",
            "interceptor.classes": "ConsumerTimestamps",
            "timestamps.value.bytes": str(length),
            **{f"timestamps.producer.{key}": value for key, value in there.items()},
        }

    def consume_in_python(self, name: str, commit: int = CONSUMED, **settings: object) -> str:
        """Read everything with drctl's consumer, and commit this offset.

        Args:
            settings: with two underscores for each dot; by default timestamps go to the
                secondary.
        """
        there = {} if settings.pop("on_source", False) else self.stage.target.properties()
        group = f"{name}-{self.topic}"
        consumer = TimestampsConsumer(
            {
                **self.stage.source.properties(),
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "timestamps.topic.replication.factor": 1,
                **{f"timestamps.producer.{key}": value for key, value in there.items()},
                **{key.replace("__", "."): value for key, value in settings.items()},
            },
            logger=QUIET,
        )
        consumer.subscribe([self.topic])
        read, patience = 0, Patience.of(60)
        while read < CONSUMED * PARTITIONS and patience.remaining:
            read += sum(message.error() is None for message in consumer.consume(100, 0.2))
        assert read == CONSUMED * PARTITIONS
        places = [TopicPartition(self.topic, number, commit) for number in range(PARTITIONS)]
        consumer.commit(offsets=places, asynchronous=False)
        consumer.close()
        return group

    def commit_on_target(self, group: str) -> None:
        """Commit as Replicator does once it has translated a group's offsets."""
        places = [TopicPartition(self.topic, number, CONSUMED) for number in range(PARTITIONS)]
        wanted = [ConsumerGroupTopicPartitions(group, places)]
        admin = self.stage.target.admin
        soon(lambda: not any(p.error for p in _altered(admin.alter_consumer_group_offsets(wanted))))
        assert committed(self.stage.target, group) == {CONSUMED}

    def written(self, group: str) -> set[int]:
        """Return its timestamps on the secondary."""
        return {row["timestamp_ms"] for row in self.rows(group)}

    def rows(self, group: str) -> list[dict[str, Any]]:
        words = ("dump-consumer-timestamps", "--cluster", "secondary", "--group", group)
        ran = self.stage.drctl(*words, "--output", "json")
        return [json.loads(line) for line in ran.stdout.splitlines()]

    def read_rest(self, group: str, first: int) -> dict[int, list[int]]:
        """Return the numbers that it reads on the target by partition, from this one on."""
        found: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}
        count = (WRITTEN - first) * PARTITIONS
        for value in self.stage.read_as(group, self.stage.target, 10_000, wait_for=count):
            partition, _, number = value.partition("-")
            found[int(partition)].append(int(number))
        return found


def from_each(first: int) -> dict[int, list[int]]:
    """Return the numbers of each partition from this one on."""
    return {number: [*range(first, WRITTEN)] for number in range(PARTITIONS)}


def _altered(asked: dict[str, Any]) -> list[TopicPartition]:
    return [part for done in asked.values() for part in done.result().topic_partitions]


@pytest.mark.nightly
def test_groups_resume_by_the_timestamps_that_their_consumers_wrote(
    site: Site, tmp_path: Path
) -> None:
    kinds = site.keep(Kinds(site, tmp_path))
    kind = kinds.make("confluent-replicator", groups=[".*-test-.*"])
    stage, groups = kind.stage, Groups(kind.stage, tmp_path)
    for cluster in site.clusters:
        site.opened.callback(remove_topic, cluster)
    site.secondary.create_topic(TOPIC, 3, {"cleanup.policy": "compact"})
    fill(stage.source, stage.topic, 0, CONSUMED)
    java = groups.consume_in_java()
    python = groups.consume_in_python("python")
    few = groups.consume_in_python("few", OLDER, timestamps__topic__max__per__partition=8)
    alone = groups.consume_in_python("alone", on_source=True)
    translated = groups.consume_in_python("translated", on_source=True)
    groups.commit_on_target(translated)
    not_translated = stage.json("status", code=0)["groups"]["not_translated"]
    assert {row["group"] for row in not_translated} == {alone}
    deltas = {name: {row["delta"] for row in groups.rows(name)} for name in (*java, python)}
    assert [*deltas.values()] == [{None}, {CONSUMED - FIRST_EQUAL}, {CONSUMED - FIRST_EQUAL}, {0}]
    fill(stage.source, stage.topic, CONSUMED, WRITTEN)
    kind.copied(WRITTEN * PARTITIONS)
    site.lab.signal("primary", signal.SIGKILL)
    kinds.open.callback(site.lab.start, "primary")

    rows = stage.json("offsets", "translate", code=5)["rows"]
    by_time = {*java, python, few}
    methods = {(row["group"], row["method"]) for row in rows}
    times = {(name, "consumer-timestamp") for name in by_time}
    assert methods == {*times, (translated, "target-offset")}
    assert len(rows) == len(methods) * PARTITIONS
    for row in rows:
        assert row["rereads_at_most"] == WRITTEN - row["target_offset"], row
        assert "the group was reset backwards after " in row["skips_only_if"], row

    done = stage.json("failover", "--mode", "unplanned", *GO, code=1)
    assert done["status"] == "done", done
    steps = {step["id"]: step["detail"] for step in done["steps"]}
    expected = (
        f"{PARTITIONS * len(by_time)} offsets of {len(by_time)} groups committed and read back"
    )
    assert expected in steps["commit-offsets"]
    for name in (*java, python):
        assert groups.read_rest(name, FIRST_EQUAL) == from_each(FIRST_EQUAL), name
    (first,) = committed(stage.target, few)
    assert first <= OLDER
    assert groups.read_rest(few, first) == from_each(first)
    assert committed(stage.target, translated) == {CONSUMED}
    assert committed(stage.target, alone) == set(), "its timestamps are only on the dead primary"
