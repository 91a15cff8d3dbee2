"""A reader on a healthy cluster."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from uuid import uuid4

import pytest
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AclOperation, NewTopic

from drctl.kafka.connection import Connection
from drctl.kafka.faults import not_described
from drctl.kafka.reader import KafkaClusterReader
from drctl.lab.cluster import cluster_id
from drctl.model.topology import PartitionOffsets, Record, TopicPartition, TopicState, Unavailable
from tests.kafka.conftest import Bench
from tests.kafka.tls_broker import wait_until
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = pytest.mark.jvm

DAY = 86_400_000
NOON = 1_700_000_000_000


@pytest.fixture(scope="module")
def bench(primary: ClusterUnderTest) -> Iterator[Bench]:
    """Writes to the primary of the lab, and cleans up."""
    opened = Bench(primary.properties())
    yield opened
    opened.clean_up()


@pytest.fixture
def reader(primary: ClusterUnderTest) -> Iterator[KafkaClusterReader]:
    """The administrator's reader of the primary of the lab."""
    with KafkaClusterReader(Connection("primary", primary.properties())) as opened:
        yield opened


@pytest.fixture(scope="module")
def limited(bench: Bench) -> tuple[str, ...]:
    """Topics that the user `orders-app` may read, only describe, or not even see."""
    names = tuple(bench.create() for _ in range(3))
    bench.allow("orders-app", names[0], AclOperation.READ, AclOperation.DESCRIBE_CONFIGS)
    bench.allow("orders-app", names[1], AclOperation.DESCRIBE)
    for name in names:
        bench.produce(name, {"value": b"v"})
    return names


def test_the_cluster_id(reader: KafkaClusterReader, primary: ClusterUnderTest) -> None:
    assert reader.name == "primary"
    assert reader.cluster_id() == cluster_id(primary.lab_cluster.root, "primary")


def test_topics_are_described(reader: KafkaClusterReader, bench: Bench) -> None:
    settings = {"cleanup.policy": "compact,delete", "message.timestamp.type": "LogAppendTime"}
    name = bench.create(3, settings)
    found = reader.topics([name, "no-such-topic", "no such name!"])
    assert found["no-such-topic"] is None
    assert found["no such name!"] is None
    state = found[name]
    assert isinstance(state, TopicState)
    assert state.partitions == {0: 1, 1: 1, 2: 1}
    assert state.compacted
    assert state.log_append_time
    assert state.config["min.insync.replicas"] == "1"
    assert len(state.config) > 20
    assert state.readable
    assert len(state.topic_id) == 22
    assert name in reader.topic_names()
    assert reader.topics([]) == {}


def test_topics_of_a_user_with_few_rights(
    primary: ClusterUnderTest, limited: tuple[str, ...]
) -> None:
    allowed, described, hidden = limited
    with KafkaClusterReader(Connection("primary", primary.properties("orders-app"))) as reader:
        found = reader.topics(limited)
        assert isinstance(found[allowed], TopicState)
        assert found[allowed].readable
        assert found[allowed].config["cleanup.policy"] == "delete"
        assert isinstance(found[described], TopicState)
        assert not found[described].readable
        assert found[described].config == {}
        assert found[hidden] == Unavailable(not_described(hidden))
        assert hidden not in reader.topic_names()

        partitions = [TopicPartition(name, 0) for name in limited]
        offsets = reader.offsets(partitions)
        assert offsets[partitions[0]] == PartitionOffsets(0, 1, 1)
        assert isinstance(offsets[partitions[2]], Unavailable)
        records = reader.records([(partition, 0) for partition in partitions])
        assert isinstance(records[partitions[0], 0], Record)
        assert records[partitions[1], 0] == Unavailable(f"not authorized to read topic {described}")
        times = reader.first_timestamps(dict.fromkeys(partitions[:2], 0))
        assert isinstance(times[partitions[0]], int)
        assert isinstance(times[partitions[1]], Unavailable)


def test_offsets_after_deletions_with_open_transactions_and_of_missing_topics(
    reader: KafkaClusterReader, bench: Bench
) -> None:
    name = bench.create(3)
    for partition in (0, 1):
        bench.produce(name, *({"value": b"v"} for _ in range(10)), partition=partition)
    deleted = bench.admin.delete_records([KafkaPartition(name, 0, 4)])
    for future in deleted.values():
        future.result()
    producer = bench.producer(**{"transactional.id": uuid4().hex})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(name, b"undecided", partition=1)
    producer.flush(20)

    found = reader.offsets([TopicPartition(name, n) for n in range(4)])
    assert found[TopicPartition(name, 0)] == PartitionOffsets(4, 10, 10)
    assert found[TopicPartition(name, 1)] == PartitionOffsets(0, 10, 11)
    assert found[TopicPartition(name, 2)] == PartitionOffsets(0, 0, 0)
    assert found[TopicPartition(name, 3)] == Unavailable(f"partition {name}-3 does not exist")
    assert reader.first_timestamps({TopicPartition(name, 1): 10}) == {}
    behind = reader.records([(TopicPartition(name, 1), 10)])
    assert behind[TopicPartition(name, 1), 10] == Unavailable(
        "offset 10 is not before the last stable offset 10"
    )
    producer.abort_transaction(20)


def test_first_timestamps_skip_uncommitted_records(
    reader: KafkaClusterReader, bench: Bench
) -> None:
    name = bench.create(3)
    producer = bench.producer(**{"transactional.id": uuid4().hex})
    producer.init_transactions(30)
    for number in range(2):
        producer.begin_transaction()
        producer.produce(name, b"v", partition=0, timestamp=NOON + number)
        producer.flush(20)
        if number == 0:
            producer.abort_transaction(20)
        else:
            producer.commit_transaction(20)
    bench.produce(name, {"value": b"v", "timestamp": NOON + 7}, partition=1)
    transacted, plain, empty = (TopicPartition(name, number) for number in range(3))
    wait_until(
        lambda: reader.offsets([transacted])[transacted] == PartitionOffsets(0, 4, 4),
        "both transactions are decided",
    )

    assert reader.first_timestamps({transacted: 0, plain: 0, empty: 0}) == {
        transacted: NOON + 1,
        plain: NOON + 7,
    }
    # Only a transaction marker follows the last record of the first topic.
    assert reader.first_timestamps({transacted: 3, plain: 99}) == {}


def test_first_timestamps_before_the_log_start(reader: KafkaClusterReader, bench: Bench) -> None:
    partition = TopicPartition(bench.create(), 0)
    bench.produce(
        partition.topic, *({"value": b"v", "timestamp": NOON + number} for number in range(5))
    )
    for future in bench.admin.delete_records([KafkaPartition(*partition, 3)]).values():
        future.result()
    assert reader.first_timestamps({partition: 1}) == {partition: NOON + 3}


def test_max_timestamps(reader: KafkaClusterReader, bench: Bench) -> None:
    name = bench.create(3)
    for partition in (0, 2):
        out_of_order = ({"value": b"v", "timestamp": NOON + n} for n in (3, 9, 4))
        bench.produce(name, *out_of_order, partition=partition)
    for future in bench.admin.delete_records([KafkaPartition(name, 2, 3)]).values():
        future.result()
    full, empty, emptied = (TopicPartition(name, number) for number in range(3))
    assert reader.max_timestamps([full, empty, emptied]) == {full: NOON + 9, empty: -1, emptied: -1}


def test_records_are_read_back_to_the_byte(reader: KafkaClusterReader, bench: Bench) -> None:
    partition = TopicPartition(bench.create(), 0)
    bench.produce(
        partition.topic,
        {"key": b"k", "value": b"v", "timestamp": NOON},
        {"key": b"", "value": b"", "timestamp": NOON + 1},
        {"key": None, "value": None, "timestamp": NOON + 2},
        {
            "key": b"\x00\xff",
            "value": b"x" * 500_000,
            "timestamp": NOON + 3,
            "headers": [("a", b"1"), ("ä", None), ("a", b""), ("", b"\x00")],
        },
    )
    found = reader.records([(partition, offset) for offset in (3, 0, 1, 2, 4, 0)])
    assert found[partition, 0] == Record(0, 0, NOON, b"k", b"v")
    assert found[partition, 1] == Record(0, 1, NOON + 1, b"", b"")
    assert found[partition, 2] == Record(0, 2, NOON + 2, None, None)
    headers = (("a", b"1"), ("ä", None), ("a", b""), ("", b"\x00"))
    assert found[partition, 3] == Record(0, 3, NOON + 3, b"\x00\xff", b"x" * 500_000, headers)
    assert found[partition, 4] == Unavailable("offset 4 is not before the end offset 4")
    assert len(found) == 5


def test_compacted_or_aborted_records_are_not_replaced_by_the_next(
    reader: KafkaClusterReader, bench: Bench
) -> None:
    partition = TopicPartition(bench.create(), 0)
    producer = bench.producer(**{"transactional.id": uuid4().hex})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(partition.topic, b"aborted", partition=0)
    producer.flush(20)
    producer.abort_transaction(20)
    wait_until(
        lambda: reader.offsets([partition])[partition] == PartitionOffsets(0, 2, 2),
        "the transaction is aborted",
    )
    bench.produce(partition.topic, {"value": b"next"})
    found = reader.records([(partition, 0), (partition, 1), (partition, 2)])
    assert found[partition, 0] == Unavailable("no committed record has offset 0")
    assert found[partition, 1] == Unavailable("no committed record has offset 1")
    assert isinstance(found[partition, 2], Record)


@contextmanager
def written_to(bench: Bench, topic: str) -> Iterator[None]:
    """A client writes to its first partition all the time, without transactions."""
    enough = Event()

    def write() -> None:
        producer = bench.producer(**{"linger.ms": "0"})
        while not enough.is_set():
            producer.produce(topic, value=b"more", partition=0)
            producer.flush(20)

    writing = Thread(target=write)
    writing.start()
    try:
        yield
    finally:
        enough.set()
        writing.join(30)


def test_a_partition_that_is_written_to_has_an_end(
    reader: KafkaClusterReader, bench: Bench
) -> None:
    topic = bench.create()
    bench.produce(topic, *({"value": b"%d" % number} for number in range(50)))
    with written_to(bench, topic):
        found = reader.following({TopicPartition(topic, 0): 10}, 1_000_000)
    records = found[TopicPartition(topic, 0)]
    assert isinstance(records, tuple), records
    assert [record.offset for record in records] == list(range(10, 10 + len(records)))
    assert len(records) >= 40


def test_records_written_meanwhile_are_no_open_transaction(
    reader: KafkaClusterReader, bench: Bench
) -> None:
    topic, seen = bench.create(), list[PartitionOffsets | Unavailable]()
    place = TopicPartition(topic, 0)
    with written_to(bench, topic):
        while len(seen) < 300:
            seen.append(reader.offsets([place])[place])
    found = [each for each in seen if isinstance(each, PartitionOffsets)]
    assert len(found) == len(seen)
    assert found[-1].end > found[0].end
    assert [each for each in found if each.last_stable != each.end] == []


def test_hundreds_of_partitions_at_once(reader: KafkaClusterReader, bench: Bench) -> None:
    names = [f"many-{uuid4().hex[:8]}-{number}" for number in range(10)]
    created = bench.admin.create_topics(
        [NewTopic(name, 20, 1) for name in names], operation_timeout=30
    )
    for future in created.values():
        future.result()
    partitions = [TopicPartition(name, number) for name in names for number in range(20)]
    producer = bench.producer()
    for partition in partitions:
        for size in (1, 20_000):
            producer.produce(partition.topic, b"x" * size, partition=partition.partition)
    assert producer.flush(60) == 0

    started = time.monotonic()
    assert all(isinstance(state, TopicState) for state in reader.topics(names).values())
    assert set(reader.offsets(partitions).values()) == {PartitionOffsets(0, 2, 2)}
    newest = reader.max_timestamps(partitions)
    first = reader.first_timestamps(dict.fromkeys(partitions, 0))
    assert newest.keys() == first.keys() == set(partitions)
    assert all(isinstance(stamp, int) for stamp in (*newest.values(), *first.values()))
    # One after the other, this would take much longer.
    assert time.monotonic() - started < 20
    for future in bench.admin.delete_topics(names, operation_timeout=30).values():
        future.result()


def test_nothing_is_printed_and_the_log_is_available(
    primary: ClusterUnderTest, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "drctl.kafka"):
        properties = {**primary.properties(), "debug": "broker"}
        with KafkaClusterReader(Connection("primary", properties)) as reader:
            reader.cluster_id()
            reader.records([(TopicPartition("no-such-topic", 0), 0)])
    assert caplog.records
    assert primary.properties()["sasl.password"] not in caplog.text
    assert capfd.readouterr() == ("", "")


def test_closing_twice_and_using_it_again(primary: ClusterUnderTest) -> None:
    reader = KafkaClusterReader(Connection("primary", primary.properties()))
    assert reader.cluster_id() == cluster_id(primary.lab_cluster.root, "primary")
    reader.close()
    reader.close()
    assert reader.cluster_id() == cluster_id(primary.lab_cluster.root, "primary")
    reader.close()
