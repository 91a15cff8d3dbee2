"""The consumer that writes consumer timestamps, on real brokers: what it writes, and failures."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined, unused-ignore]

from drctl.formats.consumer_timestamps import (
    TOPIC,
    ConsumerTimestamp,
    GroupPartition,
    decode_key,
    decode_value,
)
from drctl.kafka.connection import Connection
from drctl.kafka.log_reader import KafkaRangeReader, LogSource
from drctl.kafka.reader import KafkaClusterReader
from drctl.kafka.timestamps_consumer import TimestampsConsumer
from drctl.lab.waiting import Patience
from drctl.model.topology import Record
from drctl.offsets.consumer_timestamps import freeze, read_frozen
from tests.conftest import NewTopic
from tests.docs.pages import page
from tests.kafka.conftest import QUIET
from tests.kafka.timestamps_topic import remove_topic
from tests.kafka.tls_broker import free_ports
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = pytest.mark.jvm

PARTITIONS = 4
EACH = 500
Noted = dict[GroupPartition, ConsumerTimestamp]
NewConsumer = Callable[..., TimestampsConsumer]


@pytest.fixture(scope="module")
def cleaned(primary: ClusterUnderTest) -> Iterator[None]:
    """Delete the topic after these tests."""
    yield
    remove_topic(primary)


@pytest.fixture
def group() -> str:
    return f"group-{uuid4().hex[:8]}"


@pytest.fixture
def start_ms() -> int:
    return int(time.time()) * 1000 - 3_600_000


@pytest.fixture
def filled(primary: ClusterUnderTest, new_topic: NewTopic, start_ms: int) -> str:
    """A topic with its own timestamps: the last digit is the partition."""
    name = new_topic(PARTITIONS, config={"retention.ms": "-1"})
    primary.produce(
        name,
        [
            Record(p, 0, start_ms + n * 10 + p, None, b"%d" % n)
            for n in range(EACH)
            for p in range(PARTITIONS)
        ],
    )
    return name


@pytest.fixture
def new_consumer(primary: ClusterUnderTest, group: str, cleaned: None) -> NewConsumer:
    def make(**settings: Any) -> TimestampsConsumer:
        config: dict[str, Any] = {
            **primary.properties(),
            "group.id": group,
            "auto.offset.reset": "earliest",
            "timestamps.topic.replication.factor": 1,
            **{name.replace("__", "."): value for name, value in settings.items()},
        }
        return TimestampsConsumer(config, logger=QUIET)

    return make


def noted(cluster: ClusterUnderTest) -> Noted:
    """The newest value of each key in the topic."""
    found: Noted = {}
    properties = cluster.properties()
    with KafkaClusterReader(Connection("primary", properties)) as reader:
        extent = freeze(reader)
        for chunk in read_frozen(
            KafkaRangeReader(LogSource("primary", properties)), extent, lambda _done: None
        ):
            for _, _, key, value, _ in chunk.rows:
                decoded = decode_value(value)
                assert decoded is not None
                found[decode_key(key)] = decoded
    return found


def committed(cluster: ClusterUnderTest, group: str) -> dict[int, int]:
    """Committed offsets by partition."""
    asked = cluster.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    parts = asked[group].result().topic_partitions or []
    return {part.partition: part.offset for part in parts}


def read(consumer: Consumer, count: int) -> int:
    """Read at most this many records; fewer if none arrive for a while."""
    got, patience = 0, Patience.of(40)
    while got < count and patience.remaining:
        messages = consumer.consume(min(100, count - got), 0.2)
        assert not [m for m in messages if m.error()]
        got += len(messages)
    return got


def expected(offsets: dict[int, int], start_ms: int, group: str, topic: str) -> Noted:
    """The timestamp of the last consumed record before each committed offset."""
    return {
        GroupPartition(group, topic, p): ConsumerTimestamp(start_ms + (offset - 1) * 10 + p, 0, 8)
        for p, offset in offsets.items()
        if offset > 0
    }


def of_group(found: Noted, group: str) -> Noted:
    return {key: value for key, value in found.items() if key.group == group}


@pytest.mark.parametrize("how", ["auto", "sync", "async", "message", "offsets"])
def test_each_way_to_commit(
    primary: ClusterUnderTest,
    new_consumer: NewConsumer,
    filled: str,
    group: str,
    start_ms: int,
    how: str,
) -> None:
    called: list[int] = []
    consumer = new_consumer(
        enable__auto__commit=how == "auto", on_commit=lambda error, parts: called.append(len(parts))
    )
    consumer.subscribe([filled])
    assert read(consumer, 700) == 700
    message = None
    while message is None:
        message = consumer.poll(1)
    if how == "sync":
        assert consumer.commit(asynchronous=False)
    elif how == "async":
        assert consumer.commit() is None
    elif how == "message":
        consumer.commit(message=message, asynchronous=False)
    elif how == "offsets":
        consumer.commit(offsets=[TopicPartition(filled, message.partition() or 0, 3)])
    consumer.close()
    offsets = committed(primary, group)
    assert offsets
    assert of_group(noted(primary), group) == expected(offsets, start_ms, group, filled)
    # The application's own callback is still called.
    assert bool(called) == (how in {"auto", "async", "offsets"})


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_rebalance(
    primary: ClusterUnderTest,
    new_consumer: NewConsumer,
    filled: str,
    group: str,
    start_ms: int,
    strategy: str,
) -> None:
    """Partitions move between two consumers; the topic has the last commit."""
    seen: list[str] = []
    first = new_consumer(partition__assignment__strategy=strategy)
    first.subscribe(
        [filled],
        on_assign=lambda _c, parts: seen.append(f"assigned {len(parts)}"),
        on_revoke=lambda _c, parts: seen.append(f"revoked {len(parts)}"),
    )
    assert read(first, 400) == 400
    second = new_consumer(partition__assignment__strategy=strategy)
    second.subscribe([filled])
    got, patience = 400, Patience.of(60)
    while not second.assignment():
        assert patience.remaining
        got += len(first.consume(1, 0.1)) + len(second.consume(1, 0.1))
    assert any(word.startswith("revoked") for word in seen)
    assert len(first.assignment()) + len(second.assignment()) <= PARTITIONS
    # Timestamps of revoked partitions are written at once, while both consumers run.
    moved = {part.partition for part in second.assignment()}
    assert moved

    def written() -> bool:
        keys = {key.partition for key in of_group(noted(primary), group)}
        return bool(keys & moved)

    while not written():
        assert patience.remaining
        got += len(first.consume(10, 0.1)) + len(second.consume(10, 0.1))
    while got < PARTITIONS * EACH:
        assert patience.remaining
        got += len(first.consume(100, 0.1)) + len(second.consume(100, 0.1))
    first.close()
    second.close()
    offsets = committed(primary, group)
    assert offsets == dict.fromkeys(range(PARTITIONS), EACH)
    assert of_group(noted(primary), group) == expected(offsets, start_ms, group, filled)


def test_the_topic_is_created_as_replicator_creates_it(
    primary: ClusterUnderTest, new_consumer: NewConsumer, filled: str
) -> None:
    remove_topic(primary)
    consumer = new_consumer()
    consumer.subscribe([filled])
    assert read(consumer, 10) == 10
    consumer.close()
    topics = primary.admin.list_topics(timeout=20).topics
    assert len(topics[TOPIC].partitions) == 50
    resource = ConfigResource(ResourceType.TOPIC, TOPIC)
    config = primary.admin.describe_configs([resource])[resource].result()
    assert config["cleanup.policy"].value == "compact"


def test_the_documented_example(
    primary: ClusterUnderTest, filled: str, group: str, start_ms: int, cleaned: None
) -> None:
    """As on the page, apart from names and addresses."""
    (example,) = page("docs/howto/python-consumer.md").blocks("python")
    for name, ours in (
        ('"bootstrap.servers": "broker1:9092"', "**PROPERTIES"),
        ('"billing"', repr(group)),
        ('"orders"', repr(filled)),
        ('"timestamps.topic.replication.factor": 3', '"timestamps.topic.replication.factor": 1'),
    ):
        assert example.count(name) == 1, name
        example = example.replace(name, ours)
    handled: list[Message] = []
    patience = Patience.of(60)

    def running() -> bool:
        return len(handled) < PARTITIONS * EACH and bool(patience.remaining)

    names = {"PROPERTIES": primary.properties(), "running": running, "handle": handled.append}
    exec(compile(example, "docs/howto/python-consumer.md", "exec"), names)
    assert len(handled) == PARTITIONS * EACH
    offsets = dict.fromkeys(range(PARTITIONS), EACH)
    assert of_group(noted(primary), group) == expected(offsets, start_ms, group, filled)


def murmur2(data: bytes) -> int:
    """The hash of Java's producer."""
    m, h = 0x5BD1E995, 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & 0xFFFFFFFF
        h = h * m & 0xFFFFFFFF ^ (k ^ k >> 24) * m & 0xFFFFFFFF
    if rest := data[whole:]:
        h = (h ^ int.from_bytes(rest, "little")) * m & 0xFFFFFFFF
    h = (h ^ h >> 13) * m & 0xFFFFFFFF
    return (h ^ h >> 15) & 0x7FFFFFFF


def test_keys_are_in_the_partitions_that_java_chooses(
    primary: ClusterUnderTest, new_consumer: NewConsumer, filled: str, group: str
) -> None:
    consumer = new_consumer()
    consumer.subscribe([filled])
    assert read(consumer, PARTITIONS * EACH) == PARTITIONS * EACH
    consumer.close()
    properties = primary.properties()
    places = {}
    with KafkaClusterReader(Connection("primary", properties)) as reader:
        extent = freeze(reader)
        range_reader = KafkaRangeReader(LogSource("primary", properties))
        for chunk in read_frozen(range_reader, extent, lambda _done: None):
            for _, _, key, _, _ in chunk.rows:
                assert key is not None
                if decode_key(key).group == group:
                    places[key] = chunk.partition
    assert len(places) == PARTITIONS
    assert places == {key: murmur2(key) % 50 for key in places}


def test_a_dead_timestamps_cluster_does_not_delay_the_consumer(
    primary: ClusterUnderTest,
    new_consumer: NewConsumer,
    filled: str,
    group: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (port,) = free_ports(1)
    consumer = new_consumer(
        auto__commit__interval__ms=50,
        timestamps__producer__bootstrap__servers=f"127.0.0.1:{port}",
        timestamps__close__timeout__ms=300,
    )
    consumer.subscribe([filled])
    got, slowest, patience = 0, 0.0, Patience.of(60)
    while got < PARTITIONS * EACH and patience.remaining:
        began = time.monotonic()
        message = consumer.poll(0.5)
        if message is not None:
            assert message.error() is None
            got += 1
            slowest = max(slowest, time.monotonic() - began - 0.5)
    assert got == PARTITIONS * EACH
    assert slowest < 0.5
    consumer.commit(asynchronous=False)
    began = time.monotonic()
    with caplog.at_level(logging.WARNING, "drctl.consumer"):
        consumer.close()
    assert time.monotonic() - began < 10
    assert committed(primary, group) == dict.fromkeys(range(PARTITIONS), EACH)
    assert f"of group {group}: closed before" in caplog.text


def test_without_permission_it_warns_and_still_consumes(
    primary: ClusterUnderTest,
    new_consumer: NewConsumer,
    filled: str,
    group: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The user who writes the timestamps may differ from the consumer's user."""
    remove_topic(primary)
    other = primary.properties("orders-app")
    consumer = new_consumer(
        enable__auto__commit=False,
        timestamps__producer__sasl__username=other["sasl.username"],
        timestamps__producer__sasl__password=other["sasl.password"],
    )
    with caplog.at_level(logging.WARNING, "drctl.consumer"):
        consumer.subscribe([filled])
        assert read(consumer, PARTITIONS * EACH) == PARTITIONS * EACH
        consumer.commit(asynchronous=False)
        consumer.close()
    assert committed(primary, group) == dict.fromkeys(range(PARTITIONS), EACH)
    assert f"topic {TOPIC} does not exist and could not be created" in caplog.text
    assert "grant CREATE and DESCRIBE" in caplog.text
    assert other["sasl.password"] not in caplog.text
    assert TOPIC not in primary.admin.list_topics(timeout=20).topics


def test_failed_writes_are_repeated(
    primary: ClusterUnderTest,
    new_consumer: NewConsumer,
    filled: str,
    group: str,
    start_ms: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    remove_topic(primary)
    consumer = new_consumer(timestamps__topic__replication__factor=3)
    with caplog.at_level(logging.WARNING, "drctl.consumer"):
        consumer.subscribe([filled])
        assert read(consumer, PARTITIONS * EACH) == PARTITIONS * EACH
        consumer.commit(asynchronous=False)
        assert Patience.of(30).wait_until(lambda: "lower timestamps.topic" in caplog.text)
    primary.create_topic(TOPIC, 3)
    wanted = expected(dict.fromkeys(range(PARTITIONS), EACH), start_ms, group, filled)
    assert Patience.of(60).wait_until(lambda: of_group(noted(primary), group) == wanted)
    consumer.close()
    remove_topic(primary)


def test_an_unreferenced_consumer_leaves_no_thread(new_consumer: NewConsumer, filled: str) -> None:
    def threads() -> int:
        return sum(thread.name == "drctl-timestamps" for thread in threading.enumerate())

    before = threads()
    consumer = new_consumer()
    consumer.subscribe([filled])
    assert read(consumer, 10) == 10
    consumer.commit(asynchronous=False)
    assert threads() == before + 1
    del consumer
    assert Patience.of(20).wait_until(lambda: threads() == before)


def test_invisible_transactions_are_reported(
    new_consumer: NewConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    with new_consumer() as consumer, caplog.at_level(logging.WARNING, "drctl.consumer"):
        assert consumer.consumer_group_metadata() is not None
    assert "committed in transactions produce no consumer timestamps" in caplog.text


def test_a_configuration_that_librdkafka_refuses() -> None:
    with pytest.raises(KafkaException, match=r"no\.such\.property"):
        TimestampsConsumer({"group.id": "g", "no.such.property": 1})
