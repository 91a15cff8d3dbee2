"""The tracked offsets topic on a real cluster: created, followed, read back, deleted."""

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclOperation,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from drctl.formats import tracked_offsets
from drctl.formats.tracked_offsets import OffsetKey, TrackedOffset
from drctl.kafka.connection import Connection
from drctl.kafka.own_topics import TRACKED_OFFSETS, TopicWriter
from drctl.kafka.reader import KafkaClusterReader
from drctl.kafka.tracked_offsets_topic import TrackedOffsetsReader, TrackedOffsetsTopic
from drctl.model.errors import ConfigError, Unknown, Unreachable
from drctl.offsets.tracking_log import Change
from tests.kafka.conftest import Bench
from tests.kafka.rights import Rights
from tests.kafka.tls_broker import TlsCluster, wait_until

pytestmark = pytest.mark.jvm

NOON = 1_700_000_000_000
KEY = OffsetKey("A", "billing", "orders", 0)


def change(offset: int, observed_ms: int = NOON, key: OffsetKey = KEY) -> Change:
    return tracked_offsets.encode_key(key), tracked_offsets.encode_value(
        TrackedOffset(offset, -1, "", observed_ms, ())
    )


def noted(store: TrackedOffsetsTopic) -> None:
    """Store offsets as a pass does."""
    store.catch_up()
    store.write([change(7)])


class Place:
    """A separate topic."""

    def __init__(self, properties: Mapping[str, str], bench: Bench) -> None:
        self.properties = dict(properties)
        self.topic = f"__tracked-offsets-{uuid4().hex[:8]}"
        self.bench = bench

    def store(self) -> TrackedOffsetsTopic:
        return TrackedOffsetsTopic(Connection("secondary", self.properties), self.topic)

    def reader(self) -> TrackedOffsetsReader:
        return TrackedOffsetsReader(Connection("secondary", self.properties), self.topic)

    def offset(self, key: OffsetKey = KEY) -> int | None:
        """The offset that a new reader finds."""
        held = self.reader().catch_up().held(key)
        return held.head.offset if held else None

    def topics(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.bench.admin.list_topics(timeout=20).topics
        return found

    def delete(self) -> None:
        for future in self.bench.admin.delete_topics([self.topic]).values():
            future.result()
        wait_until(lambda: self.topic not in self.topics(), "the topic is gone")


@pytest.fixture
def place(cluster: TlsCluster, bench: Bench) -> Iterator[Place]:
    made = Place(cluster.properties(), bench)
    yield made
    if made.topic in made.topics():
        made.delete()


def test_reading_creates_no_topic(place: Place) -> None:
    before = set(place.topics())
    store = place.reader()
    assert not store.catch_up().cluster_ids()
    assert not store.exists
    store.check()
    assert store.cluster_id() == place.bench.admin.list_topics(timeout=20).cluster_id
    assert set(place.topics()) == before


def test_the_topic_is_created_with_the_required_settings(place: Place) -> None:
    store = place.store()
    store.catch_up()
    store.write([change(7)])
    assert store.exists
    assert place.offset() == 7
    (partition,) = place.topics()[place.topic].partitions.values()
    assert len(partition.replicas) == 2
    with KafkaClusterReader(Connection("bench", place.bench.properties)) as reader:
        config = reader.configurations([place.topic])[place.topic]
    assert isinstance(config, Mapping)
    wanted = {
        "cleanup.policy": "compact",
        "min.insync.replicas": "1",
        "segment.bytes": "67108864",
        "segment.ms": "3600000",
        "min.cleanable.dirty.ratio": "0.1",
    }
    assert wanted.items() <= dict(config).items()


def test_two_trackers_read_each_others_changes(place: Place) -> None:
    one, other = place.store(), place.store()
    one.catch_up()
    one.write([change(7)])
    log = other.catch_up()
    other.write([change(8, NOON + 1)])
    one.write([change(7, NOON)])  # an older change is ignored without an error
    for each in (one.catch_up(), log, other.catch_up()):
        held = each.held(KEY)
        assert held is not None
        assert held.head.offset == 8
    assert one.catch_up().shadowed == {KEY}
    one.write([(tracked_offsets.encode_key(KEY), None)])
    assert place.offset() is None


def test_many_tracked_offsets_are_written_and_read_back(place: Place) -> None:
    keys = [OffsetKey("A", f"group-{n}", "orders", 0) for n in range(5_000)]
    store = place.store()
    store.catch_up()
    store.write([change(n, NOON, key) for n, key in enumerate(keys)])
    log = place.reader().catch_up()
    assert {key: held.head.offset for key, held in log.of_cluster("A")} == {
        key: n for n, key in enumerate(keys)
    }


def test_a_topic_that_is_deleted_under_a_tracker(place: Place) -> None:
    store = place.store()
    store.catch_up()
    store.write([change(7)])
    place.delete()
    with pytest.raises(Unknown, match=f"topic {place.topic} of secondary was deleted") as caught:
        store.catch_up()
    assert "stores all offsets again" in caught.value.hint
    assert not store.catch_up().cluster_ids(), "evidence of the deleted topic is left"
    assert not store.exists
    store.write([change(9)])
    assert place.offset() == 9


def test_a_topic_that_could_lose_records_is_refused(place: Place) -> None:
    store = place.store()
    store.catch_up()
    store.write([change(7)])
    entry = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, place.topic, incremental_configs=[entry])
    for future in place.bench.admin.incremental_alter_configs([resource]).values():
        future.result()
    with pytest.raises(ConfigError, match=r"cleanup\.policy delete"):
        place.reader().catch_up()


def test_a_cluster_that_does_not_answer(place: Place) -> None:
    properties = {**place.properties, "bootstrap.servers": "127.0.0.1:1"}
    store = TrackedOffsetsTopic(Connection("secondary", properties, timeout_s=1), place.topic)
    for call in (store.catch_up, store.cluster_id, lambda: store.write([change(7)])):
        with pytest.raises(Unreachable, match="cluster secondary"):
            call()


def test_required_permissions_and_the_errors_without_them(
    cluster: TlsCluster, place: Place, bob: Rights
) -> None:
    do, topic = AclOperation, place.topic
    place.properties = cluster.properties("bob")
    secret = place.properties["sasl.password"]

    def refused(words: str) -> None:
        with pytest.raises(ConfigError, match=words) as caught:
            noted(place.store())
        assert "docs/howto/permissions.md" in caught.value.hint
        assert secret not in caught.value.message

    refused("may not read")
    bob.grant(ResourceType.TOPIC, topic, do.DESCRIBE)
    refused("cannot create")
    bob.grant(ResourceType.TOPIC, topic, do.READ, do.DESCRIBE_CONFIGS, do.CREATE)
    refused("may not write to")
    reader = place.reader()
    reader.catch_up()
    with pytest.raises(ConfigError, match="may not write to"):
        reader.check()
    bob.grant(ResourceType.TOPIC, topic, do.WRITE)

    def granted() -> bool:
        try:
            noted(place.store())
        except ConfigError:
            return False
        return True

    wait_until(granted, "both brokers know what bob may do")
    assert place.offset() == 7


def test_the_reason_of_a_purge_is_found_in_the_lost_exception() -> None:
    """Deterministic: on a real cluster it depends on which of two callbacks runs first."""
    connection = Connection("secondary", {"bootstrap.servers": "127.0.0.1:1"}, 1)
    purged = KafkaError(KafkaError._PURGE_QUEUE)
    refused = KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED)

    def calls_back() -> None:
        writer._errors.append(purged)
        raise SystemError("returned a result with an exception set") from KafkaException(refused)

    with TopicWriter(connection, "t", TRACKED_OFFSETS, 1) as writer:
        with pytest.raises(KafkaException) as caught:
            writer._call(calls_back)
        assert isinstance(writer._ended(caught.value.args[0]), ConfigError)
