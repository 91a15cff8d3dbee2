"""`drctl offsets translate` compared with MirrorMaker 2's own translation.

Plain consumers find the exact offset: after the copy of the last consumed record.
"""

import random
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

import pytest
import yaml

from bench.mirror_maker import MirrorMaker, mirror_maker
from drctl.lab.lab import Lab
from drctl.model.topology import Record, TopicPartition
from tests.cluster.command import Drctl
from tests.cluster.groups import commit_offsets
from tests.cluster.isolated_connectors import mirror_of
from tests.cluster.lab_link import NewDrctl, cluster_section, link_over
from tests.cluster.link_command import soon
from tests.cluster.logs import read_logs
from tests.conftest import NewTopic
from tests.kafka.tls_broker import free_ports
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

PARTITIONS = 2
RECORDS = 3_000
GROUPS = 6
DEADLINE_S = 60
CHECKPOINT = "mm2-checkpoint"


class Mirror:
    """A mirrored topic, lagging groups, and drctl."""

    def __init__(
        self,
        lab: Lab,
        drctl: Drctl,
        own: MirrorMaker,
        clusters: tuple[ClusterUnderTest, ClusterUnderTest],
        topic: str,
    ) -> None:
        self.lab = lab
        self.drctl = drctl
        self.own = own
        self.source, self.target = clusters
        self.topic = topic
        self.prefix = f"orders-app-{uuid4().hex[:8]}"
        self.positions: dict[tuple[str, int], int] = {}
        self._held: dict[tuple[str, int, int], dict[int, bytes]] = {}

    def write(self, count: int, *, replicas: bool = True) -> None:
        """Write distinct records in bursts with equal timestamps."""
        before = sum(self.source.end_offsets(self.topic).values())
        records = [
            Record(n % PARTITIONS, 0, 1_700_000_000_000 + n // 100, b"k%d" % (n % 50), b"v%d" % n)
            for n in range(before, before + count)
        ]
        self.source.produce(self.topic, records)
        if replicas:
            self.await_copies()

    def await_copies(self) -> None:
        """Wait until the target has as many."""

        soon(lambda: self.target.end_offsets(self.topic) == self.source.end_offsets(self.topic))

    def commit(self, group: str, partition: int, offset: int) -> None:
        """Commit an offset, as a consumer does."""
        commit_offsets(self.source, self.topic, {f"{self.prefix}-{group}": {partition: offset}})
        self.positions[f"{self.prefix}-{group}", partition] = offset

    def await_checkpoints(self, group: str) -> None:
        """Wait until MirrorMaker 2 has checkpoints of that group."""
        wanted = {TopicPartition(self.topic, p) for g, p in self.positions if g.endswith(group)}
        name = f"{self.prefix}-{group}"
        soon(lambda: wanted <= self.own.translated(name).keys())

    def rows(self, *, code: int = 0) -> dict[tuple[str, int], dict[str, Any]]:
        """Return drctl's translation by group and partition."""
        document = self.drctl.json("translate", "--group-regex", f"{self.prefix}-.*", code=code)
        return {
            (r["group"], r["partition"]): r
            for r in document["rows"]
            if not (r["blocked"] or "").startswith("never committed")
        }

    def explained(self, group: str, partition: int) -> dict[str, dict[str, Any]]:
        """Return the result of each method by name."""
        name = f"{self.prefix}-{group}"
        document = self.drctl.json("explain", name, self.topic, str(partition))
        return {m["method"]: m for m in document["methods"]}

    def exact(self, partition: int, offset: int) -> int:
        """Return the offset after the copy of the last consumed record; all values differ."""
        value = self.held(self.source, partition)[offset - 1]
        theirs = self.held(self.target, partition)
        return next(found for found in sorted(theirs) if theirs[found] == value) + 1

    def transaction(self, count: int, name: str, *, aborts: bool) -> None:
        """Write a transaction to the first partition."""
        producer = self.source.producer(transactional__id=f"{self.prefix}-{name}")
        producer.init_transactions(DEADLINE_S)
        producer.begin_transaction()
        for number in range(count):
            producer.produce(self.topic, key=name, value=f"{name}-{number}", partition=0)
        assert producer.flush(DEADLINE_S) == 0
        (producer.abort_transaction if aborts else producer.commit_transaction)(DEADLINE_S)

    def held(self, cluster: ClusterUnderTest, partition: int) -> Mapping[int, bytes]:
        """Return values by offset."""
        place = cluster.name, partition, cluster.end_offsets(self.topic)[partition]
        if place not in self._held:
            # Includes aborted records, which MirrorMaker 2 replicates by default.
            log = read_logs(cluster, [self.topic], "read_uncommitted")[self.topic]
            self._held[place] = {r.offset: r.value or b"" for r in log.records[partition]}
        return self._held[place]


@pytest.fixture(scope="module")
def own(secondary: ClusterUnderTest) -> Iterator[MirrorMaker]:
    with mirror_maker(secondary.properties(), "primary") as started:
        yield started


@pytest.fixture
def mirror(
    lab: Lab,
    own: MirrorMaker,
    new_drctl: NewDrctl,
    new_topic: NewTopic,
    primary: ClusterUnderTest,
    secondary: ClusterUnderTest,
) -> Mirror:
    topic = new_topic(PARTITIONS, mirrored=True)
    connectors = {"source": "mm2-source", "checkpoint": "mm2-checkpoint"}
    replicator = {**mirror_of(lab, "mm2-source"), "connectors": connectors}
    link = link_over(topic, groups=["orders-app-.*"], replicator=replicator)
    drctl = new_drctl({"main": link}).offsets
    return Mirror(lab, drctl, own, (primary, secondary), topic)


def test_never_too_far_and_never_worse_than_mirrormaker(mirror: Mirror) -> None:
    mirror.write(RECORDS)
    chosen = random.Random(1)
    for number in range(GROUPS):
        for partition in range(PARTITIONS):
            offset = chosen.choice([1, 2, RECORDS // PARTITIONS, chosen.randrange(1, 1500)])
            mirror.commit(f"g{number}", partition, offset)
    mirror.write(500)  # MirrorMaker 2 writes later syncs only with later records
    mirror.await_checkpoints("g0")
    # MirrorMaker 2 replicates aborted records: a group that passed them must pass the copies.
    copies = mirror.target.end_offsets(mirror.topic)[0] + 31
    mirror.transaction(31, "aborted", aborts=True)
    soon(lambda: mirror.target.end_offsets(mirror.topic)[0] == copies)
    mirror.commit("passed", 0, mirror.source.end_offsets(mirror.topic)[0] - 1)
    rows = mirror.rows()
    assert rows.keys() == mirror.positions.keys()
    for (group, partition), offset in mirror.positions.items():
        exact = mirror.exact(partition, offset)
        row = rows[group, partition]
        assert (row["target_offset"], row["rereads_at_most"]) == (exact, 0), row
        assert row["skips_at_most"] == 0
    for number in range(2):
        own = mirror.own.translated(f"{mirror.prefix}-g{number}")
        for place, theirs in own.items():
            offset = mirror.positions[f"{mirror.prefix}-g{number}", place.partition]
            exact = mirror.exact(place.partition, offset)
            explained = mirror.explained(f"g{number}", place.partition)
            ours = explained["offset-sync"]["answer"]
            assert (
                theirs
                <= ours["target_offset"]
                <= exact
                <= (ours["target_offset"] + ours["rereads_at_most"])
            )


def test_a_group_that_was_reset_backwards(mirror: Mirror) -> None:
    """If MirrorMaker 2 has not read it since, or cannot translate it, the checkpoint remains."""
    mirror.write(RECORDS)
    mirror.commit("back", 0, 1_400)
    mirror.write(500)
    mirror.await_checkpoints("back")
    connect = mirror.lab.parts.worker.client()
    try:
        connect.stop(CHECKPOINT)
        soon(lambda: not connect.status(CHECKPOINT).tasks)
        mirror.commit("back", 0, 10)
        name = f"{mirror.prefix}-back"
        exact = mirror.exact(0, 10)
        theirs = mirror.own.translated(name)[TopicPartition(mirror.topic, 0)]
        assert theirs > exact, "MirrorMaker 2's own offset skips no records here"
        assert mirror.rows()[name, 0]["target_offset"] == exact
        checkpoint = mirror.explained("back", 0)["checkpoint"]
        assert checkpoint["answer"] is None
        assert "was reset" in checkpoint["why"]
    finally:
        connect.resume(CHECKPOINT)
        connect.close()


def test_a_recreated_target_topic(mirror: Mirror) -> None:
    mirror.write(RECORDS)
    mirror.commit("anew", 0, 1_400)
    mirror.write(500)
    mirror.await_checkpoints("anew")
    mirror.target.delete_topics([mirror.topic])
    mirror.target.create_topic(mirror.topic, PARTITIONS)
    mirror.write(600, replicas=False)

    def copied() -> bool:
        return min(mirror.target.end_offsets(mirror.topic).values()) >= 250

    soon(copied)
    last = mirror.source.end_offsets(mirror.topic)[0] - 20
    mirror.commit("anew", 0, last)
    name = f"{mirror.prefix}-anew"
    theirs = mirror.own.translated(name)[TopicPartition(mirror.topic, 0)]
    exact = mirror.exact(0, last)
    assert theirs > exact, "MirrorMaker 2's own offset skips no records here"
    row = mirror.rows()[name, 0]
    assert (row["target_offset"], row["method"]) == (exact, "record-match")
    assert mirror.explained("anew", 0)["checkpoint"]["answer"] is None


@pytest.mark.nightly
@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_a_group_passes_copies_of_aborted_records(
    mirror: Mirror,
    new_drctl: NewDrctl,
    primary: ClusterUnderTest,
    secondary: ClusterUnderTest,
    level: str,
) -> None:
    """MirrorMaker 2 replicates them by default; with a reachable source and with a lost one."""
    connect = mirror.lab.parts.worker.client()
    config = connect.config("mm2-source")
    try:
        if level == "read_committed":
            connect.put_config("mm2-source", {**config, "source.consumer.isolation.level": level})
        mirror.write(400)
        aborted = 31
        mirror.transaction(aborted, "first", aborts=True)  # 200 to 230, and its end
        mirror.transaction(10, "second", aborts=False)  # 232 to 241, and its end
        mirror.transaction(aborted, "third", aborts=True)  # 243 to 273, and its end
        copies = 200 + 10 + 2 * aborted * (level == "read_uncommitted")
        soon(lambda: mirror.target.end_offsets(mirror.topic)[0] == copies)
        ours, theirs = (mirror.held(cluster, 0) for cluster in (primary, secondary))
        at = {value: offset for offset, value in theirs.items()}
        assert len(at) == copies
        positions = (215, 231, 232, 240, 243, 260, 274, 275)
        exact = {
            position: max(at.get(ours.get(n, b""), -1) for n in range(position)) + 1
            for position in positions
        }
        for position in positions:
            mirror.commit(f"at-{position}", 0, position)
        mirror.drctl.json("track", "--once", "--execute", "--yes")
        mirror.await_checkpoints("at-275")

        found = mirror.rows()
        for position in positions:
            row = found[f"{mirror.prefix}-at-{position}", 0]
            assert row["target_offset"] == exact[position], row
            assert row["skips_at_most"] == 0
            assert row["rereads_at_most"] <= (0 if level == "read_uncommitted" else aborted), row
            for explained in mirror.explained(f"at-{position}", 0).values():
                answer = explained["answer"]
                if answer and answer["skips_at_most"] == 0:
                    again = exact[position] - answer["target_offset"]
                    assert 0 <= again <= answer["rereads_at_most"], explained

        gone = {**cluster_section(primary), "bootstrap": f"127.0.0.1:{free_ports(1)[0]}"}
        clusters = {"primary": gone, "secondary": cluster_section(secondary)}
        document = yaml.safe_load(mirror.drctl.config.read_text(encoding="utf-8"))
        lost = new_drctl(document["links"], clusters=clusters).offsets
        translated = lost.json("translate", "--group-regex", f"{mirror.prefix}-.*", code=5)["rows"]
        rows = {row["group"]: row for row in translated if row["partition"] == 0}
        for position in positions:
            row = rows[f"{mirror.prefix}-at-{position}"]
            again = exact[position] - row["target_offset"]
            assert 0 <= again <= min(aborted, row["rereads_at_most"]), row
            assert row["rereads_at_most"] == copies - row["target_offset"]
            assert again <= row["rereads_likely"], row
    finally:
        connect.put_config("mm2-source", config)
        connect.close()
