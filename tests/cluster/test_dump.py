"""`drctl dump-consumer-timestamps` on a real topic, by a person or a script."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest
import yaml

from drctl.formats.consumer_timestamps import (
    TOPIC,
    ConsumerTimestamp,
    GroupPartition,
    encode_key,
    encode_value,
)
from drctl.model.topology import Record
from tests.cli.conftest import clean_environment
from tests.cli.documents import check
from tests.cluster.command import Drctl
from tests.cluster.lab_link import cluster_section, link_over
from tests.cluster.test_read_only import everything
from tests.kafka.timestamps_topic import remove_topic
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = pytest.mark.jvm

NOON = 1_700_000_000_000
HOSTILE = "g-\x1b[2J\u202e\n"
COMMAND = "dump-consumer-timestamps"
PARTITIONS = 3


class Dumping:
    """Runs the command with one drctl.yaml."""

    def __init__(
        self, folder: Path, primary: ClusterUnderTest, secondary: ClusterUnderTest
    ) -> None:
        self.folder = folder
        self.primary = primary
        self.changed = True
        sections = {c.name: cluster_section(c) for c in (primary, secondary)}
        document = {"clusters": sections, "links": {"main": link_over(".*")}}
        self.config = folder / "drctl.yaml"
        self.config.write_text(yaml.safe_dump(document), encoding="utf-8")
        self.run = Drctl(folder, self.config, (COMMAND,))

    def fill(self) -> None:
        """Recreate the topic with only these records."""
        remove_topic(self.primary)
        self.primary.create_topic(TOPIC, PARTITIONS, {"retention.ms": "-1"})
        self.write(GroupPartition("a", "orders", 0), stamp(1))
        self.write(GroupPartition("a", "orders", 0), stamp(2, 3, 8))
        self.write(GroupPartition("a", "orders", 1), stamp(3, -1, 4))
        self.write(GroupPartition("b", "orders", 0), stamp(4), partition=1)
        self.write(GroupPartition("c", "orders", 0), stamp(5), partition=1)
        self.write(GroupPartition("c", "orders", 0), None, partition=1)
        self.write(GroupPartition(HOSTILE, "öl", 7), stamp(6), partition=2)
        self.changed = False

    def rows(self, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
        ran = self.run("--output", "json", *arguments)
        assert ran.code == code, ran.stderr
        return [check(json.loads(line)) for line in ran.stdout.splitlines()]

    @contextmanager
    def following(self, group: str) -> Iterator[tuple["subprocess.Popen[bytes]", IO[bytes]]]:
        """Follow the topic, and return what it shows of a new group."""
        with self.run.running("--follow", "--group", group, "-o", "json") as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert b"0 partitions" in process.stderr.readline()
            yield process, process.stdout

    def write(self, key: GroupPartition | bytes, value: bytes | None, partition: int = 0) -> None:
        data = key if isinstance(key, bytes) else encode_key(key)
        producer = self.primary.producer()
        producer.produce(TOPIC, key=data, value=value, partition=partition)
        assert producer.flush(20) == 0


def stamp(seconds: float, delta: int | None = None, delta_bytes: int = 0) -> bytes:
    return encode_value(ConsumerTimestamp(NOON + round(seconds * 1000), delta, delta_bytes))


@pytest.fixture(scope="module")
def shared(
    primary: ClusterUnderTest, secondary: ClusterUnderTest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Dumping]:
    yield Dumping(tmp_path_factory.mktemp("dump"), primary, secondary)
    remove_topic(primary)


@pytest.fixture
def dumping(shared: Dumping) -> Dumping:
    """The topic has what `fill` writes; tests only read it."""
    if shared.changed:
        shared.fill()
    return shared


@pytest.fixture
def changing(dumping: Dumping) -> Dumping:
    """The same for tests that change the topic, which is recreated for the next test."""
    dumping.changed = True
    return dumping


def places(rows: list[dict[str, Any]]) -> list[tuple[str, str, int]]:
    return [(row["group"], row["topic"], row["partition"]) for row in rows]


def test_the_newest_record_of_each_partition(dumping: Dumping) -> None:
    rows = dumping.rows()
    assert places(rows) == [
        ("a", "orders", 0),
        ("a", "orders", 1),
        ("b", "orders", 0),
        (HOSTILE, "öl", 7),
    ]
    first, second = rows[:2]
    assert (first["timestamp_ms"], first["delta"]) == (NOON + 2000, 3)
    assert first["value_hex"] == stamp(2, 3, 8).hex()
    assert first["record"] == {"partition": 0, "offset": 1}
    assert (second["timestamp_ms"], second["delta"]) == (NOON + 3000, -1)
    assert all(row["written_at_ms"] > NOON for row in rows)


def test_every_record(dumping: Dumping) -> None:
    rows = dumping.rows("--all")
    assert sorted(places(rows)) == sorted(
        [("a", "orders", 0)] * 2
        + [("a", "orders", 1), ("b", "orders", 0)]
        + [("c", "orders", 0)] * 2
        + [(HOSTILE, "öl", 7)]
    )
    deleted = [row for row in rows if row["value_hex"] is None]
    assert [(row["group"], row["timestamp_ms"]) for row in deleted] == [("c", None)]


def test_filters(dumping: Dumping) -> None:
    assert places(dumping.rows("--group", "b", "--group", "c")) == [("b", "orders", 0)]
    assert places(dumping.rows("--topic", "öl")) == [(HOSTILE, "öl", 7)]
    assert dumping.rows("--group", "a", "--topic", "öl") == []


def test_the_table_on_a_terminal(dumping: Dumping) -> None:
    ran = dumping.run("--cluster", "primary")
    assert ran.code == 0
    assert all(line.isprintable() for line in ran.stdout.splitlines())
    heading, first, *_ = ran.stdout.splitlines()
    assert heading.split() == [
        *("GROUP", "TOPIC", "PARTITION", "LAST", "CONSUMED", "(UTC)", "DELTA", "WRITTEN", "(UTC)")
    ]
    assert first.split()[:6] == ["a", "orders", "0", "2023-11-14", "22:13:22.000", "3"]
    assert r"g-\x1b[2J\xe2\x80\xae\x0a" in ran.stdout
    assert "4 partitions in topic __consumer_timestamps of primary" in ran.stderr


def test_nothing_is_changed(
    dumping: Dumping, primary: ClusterUnderTest, secondary: ClusterUnderTest
) -> None:
    before = everything(primary)
    dumping.rows("--all")
    after = everything(primary)
    assert (after.groups, after.acls, after.configs) == (before.groups, before.acls, before.configs)
    assert after.logs.keys() == before.logs.keys()
    assert all(after.logs[p] == before.logs[p] for p in after.logs if p[0] == TOPIC)
    assert dumping.run("--cluster", "secondary").code == 5
    assert TOPIC not in secondary.admin.list_topics(timeout=20).topics


def test_a_cluster_without_the_topic(dumping: Dumping) -> None:
    ran = dumping.run("--cluster", "secondary")
    assert (ran.code, ran.stdout) == (5, "")
    assert "topic __consumer_timestamps does not exist on secondary" in ran.stderr
    assert "hint: use --cluster with the cluster that the consumers read from" in ran.stderr
    error = check(dumping.run("--cluster", "secondary", "-o", "json").document())["error"]
    assert (error["code"], error["kind"]) == (5, "Unknown")


def test_a_user_who_may_not_read_it(dumping: Dumping, primary: ClusterUnderTest) -> None:
    path = dumping.config
    text = path.read_text(encoding="utf-8")
    document = yaml.safe_load(text)
    document["clusters"]["primary"] = cluster_section(primary, "orders-app")
    try:
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        ran = dumping.run()
    finally:
        path.write_text(text, encoding="utf-8")
    assert ran.code == 5
    assert "not authorized to describe topic __consumer_timestamps" in ran.stderr
    assert "hint: grant READ and DESCRIBE" in ran.stderr


def test_a_closed_pipe_ends_it_quietly(dumping: Dumping) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        dumping.run.line("-o", "json"),
        stdout=write,
        stderr=subprocess.PIPE,
        env=clean_environment(),
        check=False,
    )
    os.close(write)
    assert done.returncode == 130
    assert b"Exception" not in done.stderr


def test_follow_shows_new_records_until_it_is_interrupted(changing: Dumping) -> None:
    with changing.following("new") as (process, shown):
        for second in (1, 2):
            changing.write(GroupPartition("other", "orders", 0), stamp(second), partition=1)
            changing.write(GroupPartition("new", "orders", 0), stamp(second), partition=2)
            row = check(json.loads(shown.readline()))
            assert (row["group"], row["timestamp_ms"]) == ("new", NOON + second * 1000)
        changing.write(GroupPartition("new", "orders", 0), None, partition=2)
        assert json.loads(shown.readline())["value_hex"] is None
        process.send_signal(signal.SIGINT)
        rest, stderr = process.communicate(timeout=60)
    assert (process.returncode, rest) == (130, b"")
    assert b"Traceback" not in stderr


def test_follow_detects_new_partitions_and_ends_when_the_topic_is_deleted(
    changing: Dumping, primary: ClusterUnderTest
) -> None:
    with changing.following("late") as (process, shown):
        primary.add_partitions(TOPIC, PARTITIONS + 1)
        changing.write(GroupPartition("late", "orders", 0), stamp(9), partition=PARTITIONS)
        assert json.loads(shown.readline())["record"] == {"partition": PARTITIONS, "offset": 0}
        remove_topic(primary)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 5
    assert b"topic __consumer_timestamps of primary" in stderr
    assert b"Traceback" not in stderr


def test_undecodable_records_are_shown_and_counted(changing: Dumping) -> None:
    sound, other = GroupPartition("a", "orders", 0), GroupPartition("a", "orders", 1)
    for value in (stamp(1), b"12345678901", stamp(2)):
        changing.write(sound, value)
    for value in (stamp(1), b""):
        changing.write(other, value)
    changing.write(b"\xff\xff\xff\xff\x00", stamp(1), partition=1)
    for everything_too in ((), ("--all",)):
        rows = changing.rows(*everything_too, code=1)
        wrong = [row for row in rows if "error" in row]
        assert len(wrong) == 3
        by_value = {row["value_hex"]: row for row in wrong}
        eleven = by_value[b"12345678901".hex()]
        assert eleven["error"] == "consumer timestamp: 11 bytes; known lengths are 8, 12 and 16"
        assert (eleven["group"], eleven["partition"], eleven["timestamp_ms"]) == ("a", 0, None)
        assert by_value[""]["key_hex"] == encode_key(other).hex()
        no_key = by_value[stamp(1).hex()]
        assert (no_key["group"], no_key["key_hex"]) == (None, "ffffffff00")
    newest = [row for row in changing.rows("--group", "a", code=1) if "error" not in row]
    # The newest record of the other partition is undecodable: an older one is not shown for it.
    assert [(row["partition"], row["timestamp_ms"]) for row in newest] == [(0, NOON + 2000)]
    ran = changing.run()
    assert ran.code == 1
    assert ran.stdout.count("undecodable  partition") == 3
    assert "3 records could not be decoded" in ran.stderr


def test_an_open_transaction_is_reported(changing: Dumping, primary: ClusterUnderTest) -> None:
    before = len(changing.rows("--all"))
    primary.produce(TOPIC, [Record(1, 0, -1, b"k", b"v")], ending="open")
    changing.write(GroupPartition("z", "orders", 0), stamp(1), partition=1)
    try:
        ran = changing.run("--all", "-o", "json")
        assert ran.code == 5
        assert len(ran.stdout.splitlines()) == before
        assert "open transaction" in ran.stderr
    finally:
        primary.close()
