"""Offset ranges read from real brokers: exactly these records, in order, or an error."""

import signal
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from random import Random

import pytest
from confluent_kafka.admin import AclOperation  # type: ignore[attr-defined, unused-ignore]

from drctl.gap.comparison import ScanFailed, Side
from drctl.kafka import log_reader
from drctl.kafka.log_reader import KafkaLogReader, LogSource
from drctl.model.errors import ConfigError
from drctl.model.topology import Chunk, OffsetRange, Record, Row, TopicRanges
from tests.conftest import NewTopic
from tests.kafka.conftest import Bench
from tests.kafka.test_read_only import everything
from tests.kafka.tls_broker import TlsCluster, free_ports
from tests.lab.cluster_under_test import ClusterUnderTest, Ending

pytestmark = pytest.mark.jvm

NOON = 1_700_000_000_000
MEGABYTE = 1 << 20


def reader_of(properties: Mapping[str, str], timeout_s: float = 20) -> KafkaLogReader:
    source = LogSource("primary", properties)
    return KafkaLogReader({Side.SOURCE: source}, timeout_s=timeout_s)


@pytest.fixture
def reader(primary: ClusterUnderTest) -> KafkaLogReader:
    return reader_of(primary.properties())


def read(reader: KafkaLogReader, ranges: TopicRanges) -> dict[tuple[str, int], list[Row]]:
    found: dict[tuple[str, int], list[Row]] = {}
    for chunk in reader.read(Side.SOURCE, ranges):
        found.setdefault((chunk.topic, chunk.partition), []).extend(chunk.rows)
    return found


def offsets(reader: KafkaLogReader, topic: str, *ranges: tuple[int, int]) -> list[int]:
    wanted = {topic: {0: tuple(OffsetRange(*r) for r in ranges)}}
    return [row[0] for row in read(reader, wanted).get((topic, 0), [])]


def numbered(count: int, partition: int = 0) -> list[Record]:
    return [Record(partition, 0, NOON + n, b"key-%d" % n, b"value-%d" % n) for n in range(count)]


def test_records_are_read_to_the_byte(
    reader: KafkaLogReader, primary: ClusterUnderTest, new_topic: NewTopic
) -> None:
    topic = new_topic(config={"retention.ms": "-1"})
    headers = (("a", b"1"), ("ä", None), ("a", b""), ("", b"\x00"))
    primary.produce(
        topic,
        [
            Record(0, 0, NOON, b"k", b"v"),
            Record(0, 1, NOON + 1, b"", b""),
            Record(0, 2, NOON + 2, None, None),
            Record(0, 3, NOON + 3, b"\x00\xff", b"x" * 300_000, headers),
        ],
    )
    (rows,) = read(reader, {topic: {0: (OffsetRange(0, 4),)}}).values()
    assert rows == [
        (0, NOON, b"k", b"v", ()),
        (1, NOON + 1, b"", b"", ()),
        (2, NOON + 2, None, None, ()),
        (3, NOON + 3, b"\x00\xff", b"x" * 300_000, tuple((n.encode(), v) for n, v in headers)),
    ]


def test_many_partitions_at_once_and_only_requested_ones(
    reader: KafkaLogReader, primary: ClusterUnderTest, new_topic: NewTopic
) -> None:
    topics = [new_topic(5, config={"retention.ms": "-1"}) for _ in range(3)]
    for topic in topics:
        primary.produce(topic, [r for p in range(5) for r in numbered(3_000, p)])
    ranges: TopicRanges = {
        topics[0]: {p: (OffsetRange(0, 3_000),) for p in range(5)},
        topics[1]: {1: (OffsetRange(10, 20), OffsetRange(2_990, 3_000)), 4: (OffsetRange(5, 5),)},
        topics[2]: {2: (OffsetRange(2_999, 3_000),), 3: ()},
    }
    found = read(reader, ranges)
    assert found.keys() == {*((topics[0], p) for p in range(5)), (topics[1], 1), (topics[2], 2)}
    for p in range(5):
        assert [row[:2] for row in found[topics[0], p]] == [(n, NOON + n) for n in range(3_000)]
    assert [row[0] for row in found[topics[1], 1]] == [*range(10, 20), *range(2_990, 3_000)]
    assert [row[2] for row in found[topics[2], 2]] == [b"key-2999"]


def test_partitions_are_started_as_others_end(
    reader: KafkaLogReader,
    primary: ClusterUnderTest,
    new_topic: NewTopic,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = new_topic(6, config={"retention.ms": "-1"})
    primary.produce(topic, [r for p in range(5) for r in numbered(3_000, p)])
    ranges = {topic: {p: (OffsetRange(0, 3_000 if p < 5 else 0),) for p in (3, 0, 5, 4, 1, 2)}}
    monkeypatch.setattr(log_reader, "OFFSETS_AT_ONCE", 3_000)
    monkeypatch.setattr(log_reader, "PARTITIONS_AT_ONCE", 1)
    chunks = list(reader.read(Side.SOURCE, ranges))
    assert [p for p, _ in groupby(chunk.partition for chunk in chunks)] == [3, 0, 4, 1, 2]
    assert sum(len(chunk.rows) for chunk in chunks) == 15_000
    monkeypatch.setattr(log_reader, "PARTITIONS_AT_ONCE", 3)
    found = read(reader, ranges)
    assert {place: [row[0] for row in rows] for place, rows in found.items()} == {
        (topic, p): list(range(3_000)) for p in range(5)
    }


@pytest.mark.parametrize("seed", range(4))
def test_ranges_with_gaps_of_all_sizes(
    reader: KafkaLogReader, primary: ClusterUnderTest, new_topic: NewTopic, seed: int
) -> None:
    topic = new_topic(config={"retention.ms": "-1"})
    primary.produce(topic, numbered(5_000))
    edges = sorted([*Random(seed).sample(range(4_000), 20), 4_000, 4_003])
    ranges = list(zip(edges[::2], edges[1::2], strict=True))
    wanted = [offset for start, end in ranges for offset in range(start, end)]
    assert offsets(reader, topic, *ranges) == wanted


def test_records_appended_meanwhile_are_omitted(
    reader: KafkaLogReader, primary: ClusterUnderTest, new_topic: NewTopic
) -> None:
    topic = new_topic(2, config={"retention.ms": "-1"})
    primary.produce(topic, numbered(1_000))
    chunks = reader.read(
        Side.SOURCE, {topic: {0: (OffsetRange(0, 1_000),), 1: (OffsetRange(0, 0),)}}
    )
    first = next(chunks)
    primary.produce(topic, numbered(10) + numbered(10, 1))
    rest = [row for chunk in chunks for row in chunk.rows]
    assert [row[0] for row in [*first.rows, *rest]] == list(range(1_000))


def transactions(cluster: ClusterUnderTest, topic: str, *endings: Ending) -> None:
    """Pairs of records; a marker follows each pair that was a transaction."""
    for ending in endings:
        cluster.produce(topic, numbered(2), ending)


def test_neither_aborted_records_nor_markers(
    reader: KafkaLogReader, primary: ClusterUnderTest, new_topic: NewTopic
) -> None:
    topic = new_topic(config={"retention.ms": "-1"})
    transactions(primary, topic, "commit", "abort", "none", "commit", "abort")
    # 0 1 marker, 3 4 marker, 6 7, 8 9 marker, 11 12 marker
    assert offsets(reader, topic, (0, 14)) == [0, 1, 6, 7, 8, 9]
    assert offsets(reader, topic, (10, 14)) == []
    assert offsets(reader, topic, (2, 6)) == []
    assert offsets(reader, topic, (0, 3), (5, 7), (8, 11), (13, 14)) == [0, 1, 6, 8, 9]


def test_an_open_transaction_blocks_nothing(
    reader: KafkaLogReader, primary: ClusterUnderTest, new_topic: NewTopic
) -> None:
    topic = new_topic(config={"retention.ms": "-1"})
    transactions(primary, topic, "commit")
    primary.produce(topic, numbered(2), "open", transaction__timeout__ms="600000")
    transactions(primary, topic, "none")
    assert offsets(reader, topic, (0, 3)) == [0, 1]


def test_records_of_900_kilobytes_arrive_in_small_batches(
    reader: KafkaLogReader, primary: ClusterUnderTest, new_topic: NewTopic
) -> None:
    topic = new_topic(config={"retention.ms": "-1"})
    values = [Random(n).randbytes(900_000) for n in range(40)]
    primary.produce(topic, [Record(0, 0, NOON + n, None, v) for n, v in enumerate(values)])
    sizes = []
    rows: list[Row] = []
    for chunk in reader.read(Side.SOURCE, {topic: {0: (OffsetRange(0, 40),)}}):
        sizes.append(sum(len(row[3] or b"") for row in chunk.rows))
        rows += chunk.rows
    assert [row[3] for row in rows] == values
    assert max(sizes) <= 10 * MEGABYTE


def failure(reader: KafkaLogReader, topic: str, wanted: OffsetRange, partition: int = 0) -> str:
    with pytest.raises(ScanFailed) as failed:
        read(reader, {topic: {partition: (wanted,)}})
    assert "primary" in failed.value.message
    assert f"{topic}-{partition}" in failed.value.message
    return failed.value.message


def test_records_that_were_deleted_are_not_skipped(
    reader: KafkaLogReader, primary: ClusterUnderTest, new_topic: NewTopic
) -> None:
    topic = new_topic(config={"retention.ms": "-1"})
    primary.produce(topic, numbered(10))
    primary.delete_records(topic, 0, 4)
    assert offsets(reader, topic, (4, 10)) == [4, 5, 6, 7, 8, 9]
    assert "offset 3 was deleted" in failure(reader, topic, OffsetRange(3, 10))


def test_records_that_are_deleted_during_the_read(
    primary: ClusterUnderTest, new_topic: NewTopic
) -> None:
    topic = new_topic(config={"retention.ms": "-1"})
    values = [Random(n).randbytes(900_000) for n in range(60)]
    primary.produce(topic, [Record(0, 0, NOON + n, None, v) for n, v in enumerate(values)])
    chunks = reader_of({**primary.properties(), "queued.max.messages.kbytes": "1024"}).read(
        Side.SOURCE, {topic: {0: (OffsetRange(0, 60),)}}
    )
    next(chunks)
    primary.delete_records(topic, 0, 58)
    with pytest.raises(ScanFailed, match="was deleted"):
        list(chunks)


def test_a_log_that_ends_before_the_range(primary: ClusterUnderTest, new_topic: NewTopic) -> None:
    topic = new_topic(config={"retention.ms": "-1"})
    primary.produce(topic, numbered(10))
    hasty = reader_of(primary.properties(), timeout_s=1)
    assert "its log ends at offset 10, before 12" in failure(hasty, topic, OffsetRange(5, 12))


def test_a_deleted_topic(primary: ClusterUnderTest, new_topic: NewTopic) -> None:
    topic = new_topic(config={"retention.ms": "-1"})
    primary.delete_topics([topic])
    failure(reader_of(primary.properties(), timeout_s=2), topic, OffsetRange(0, 1))
    assert topic not in primary.admin.list_topics(timeout=10).topics


def test_a_user_who_may_not_read(cluster: TlsCluster, bench: Bench) -> None:
    topic = bench.create()
    bench.produce(topic, {"value": b"v", "timestamp": NOON})
    bench.allow("reader", topic, AclOperation.DESCRIBE)
    denied = reader_of(cluster.properties("reader"))
    assert "Topic authorization failed" in failure(denied, topic, OffsetRange(0, 1))


@pytest.fixture
def hanging(cluster: TlsCluster, bench: Bench) -> Iterator[str]:
    """A topic whose partition 1 is on a broker that hangs."""
    topic = bench.create(2, replicas=[[1], [2]])
    for partition in (0, 1):
        bench.produce(topic, *[{"value": b"v", "timestamp": NOON}] * 3, partition=partition)
    cluster.signal(2, signal.SIGSTOP)
    yield topic
    cluster.signal(2, signal.SIGCONT)


def test_a_leader_that_stops_responding(cluster: TlsCluster, hanging: str) -> None:
    hasty = reader_of(cluster.properties(), timeout_s=3)
    chunks = hasty.read(Side.SOURCE, {hanging: {p: (OffsetRange(0, 3),) for p in (0, 1)}})
    came: list[Chunk] = []
    with pytest.raises(ScanFailed, match=f"{hanging}-1: no data from its leader within 3 s"):
        came.extend(chunks)
    assert [(c.partition, row[0]) for c in came for row in c.rows] == [(0, 0), (0, 1), (0, 2)]


def test_the_cluster_is_down() -> None:
    nowhere = {"bootstrap.servers": f"127.0.0.1:{free_ports(1)[0]}"}
    assert "no data from its leader" in failure(reader_of(nowhere, 1), "topic", OffsetRange(0, 1))


def test_properties_that_librdkafka_refuses() -> None:
    wrong = {"bootstrap.servers": "127.0.0.1:1", "fetch.wait.max.ms": "soon"}
    with pytest.raises(ConfigError, match=r"fetch\.wait\.max\.ms"):
        read(reader_of(wrong), {"topic": {0: (OffsetRange(0, 1),)}})


def test_reading_changes_nothing(cluster: TlsCluster, bench: Bench) -> None:
    topic = bench.create(replicas=[[1]])  # the only broker with TLS
    bench.produce(topic, {"value": b"v", "timestamp": NOON})
    before = everything(cluster.properties())
    reader = reader_of({**cluster.tls_properties(), "group.id": "mine"})
    wanted: Sequence[int] = [0]
    assert offsets(reader, topic, (0, 1)) == wanted
    assert everything(cluster.properties()) == before
    assert "__consumer_offsets" not in {name for name, _ in before.partitions}
