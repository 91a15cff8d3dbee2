"""Records with a given producer id, also those of a hanging transaction.

No coordinator knows that one: it is written with brokers' verification of transactions off
(KIP-890), as by brokers older than 3.6.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from struct import pack

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType  # type: ignore[attr-defined, unused-ignore]

from drctl.formats.primitives import (
    Cursor,
    bytes32,
    int16,
    int32,
    int64,
    nullable_string,
    signed_varlong,
    string,
)
from drctl.kafka.brokers import Brokers, BrokerSocket
from drctl.kafka.connection import Connection
from drctl.kafka.protocol import Api
from drctl.lab.waiting import Patience
from drctl.model.topology import TopicPartition
from tests.lab.cluster_under_test import DEADLINE_S, ClusterUnderTest

PRODUCE = Api("Produce", 0, 8, False, "2.4")
_TRANSACTIONAL, _ALL = 0x10, -1
_POLYNOMIAL = 0x82F63B78


def crc32c(data: bytes) -> int:
    """The checksum of a record batch."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def batch(
    producer_id: int, epoch: int, values: list[bytes], at_ms: int, attributes: int = _TRANSACTIONAL
) -> bytes:
    """A batch in format v2."""
    records = b""
    for number, value in enumerate(values):
        lengths = signed_varlong(number) + signed_varlong(-1) + signed_varlong(len(value))
        record = b"\0" + signed_varlong(0) + lengths + value + signed_varlong(0)
        records += signed_varlong(len(record)) + record
    times, producer = (at_ms, at_ms), (producer_id, epoch, 0)
    checked = pack(">hiqqqhii", attributes, len(values) - 1, *times, *producer, len(values))
    checked += records
    body = pack(">ibI", -1, 2, crc32c(checked)) + checked
    return int64(0) + bytes32(body)


def hang(
    properties: Mapping[str, str],
    place: TopicPartition,
    at_ms: int,
    *,
    producer_id: int,
    values: list[bytes],
    epoch: int = 0,
) -> None:
    """Write records of a transaction that no coordinator knows; the cluster has one broker."""
    data = batch(producer_id, epoch, values, at_ms)
    _produce(properties, place, "nobody-knows-it", data)


def write_as(
    properties: Mapping[str, str], place: TopicPartition, producer_id: int, values: list[bytes]
) -> None:
    """Write records of an idempotent producer that has this id; the cluster has one broker."""
    data = batch(producer_id, 0, values, int(time.time() * 1000), 0)
    _produce(properties, place, None, data)


def _produce(
    properties: Mapping[str, str], place: TopicPartition, transactional_id: str | None, data: bytes
) -> None:
    rows = int32(1) + string(place.topic) + int32(1) + int32(place.partition) + bytes32(data)
    head = nullable_string(transactional_id) + int16(_ALL) + int32(DEADLINE_S * 1000)
    body = head + rows

    def read(cursor: Cursor) -> int:
        cursor.int32()
        cursor.string()
        cursor.take(8)
        error = cursor.int16()
        cursor.rest()
        return error

    def ask(broker: BrokerSocket) -> int:
        return broker.exchange(PRODUCE, body, read)

    connection = Connection("hanging", dict(properties), DEADLINE_S)
    errors: list[int] = []

    def accepted() -> bool:
        errors.append(Brokers(connection).first(ask, connection.deadline()))
        return errors[-1] == 0

    # The broker applies a changed configuration some time after the controller stored it.
    assert Patience.of(DEADLINE_S).wait_until(accepted), f"the broker's error code: {errors[-1]}"


@contextmanager
def unverified(cluster: ClusterUnderTest) -> Iterator[None]:
    """Turn the brokers' verification of transactions off during the block."""

    def switch(how: AlterConfigOpType) -> None:
        for number in cluster.admin.list_topics(timeout=DEADLINE_S).brokers:
            entry = ConfigEntry(
                "transaction.partition.verification.enable", "false", incremental_operation=how
            )
            kind = ResourceType.BROKER
            broker = ConfigResource(kind, str(number), incremental_configs=[entry])
            (done,) = cluster.admin.incremental_alter_configs([broker]).values()
            done.result(DEADLINE_S)

    switch(AlterConfigOpType.SET)
    try:
        yield
    finally:
        switch(AlterConfigOpType.DELETE)
