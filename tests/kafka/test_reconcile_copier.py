"""What reconciliation appends, on librdkafka's mock cluster: no broker is started."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from drctl.formats import provenance
from drctl.kafka.connection import Connection
from drctl.kafka.log_reader import KafkaRangeReader, LogSource
from drctl.kafka.reconcile_copier import TransactionalCopier
from drctl.model.topology import OffsetRange, Row, TopicPartition

TO = TopicPartition("orders", 0)
ROWS: tuple[Row, ...] = (
    (7, 1_234_567_890_123, b"k", b"v", ()),
    (8, 1_234_567_890_124, None, b"", ((b"a", b"1"), (b"a", None), (b"", b""))),
    (9, 1_234_567_890_125, b"", None, ((b"b", b"\xff"),)),
)
MARK = ("origin", b"cluster")


@pytest.fixture
def bootstrap() -> Iterator[str]:
    quiet = {"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0}
    mock = Producer(quiet)
    (broker,) = mock.list_topics(TO.topic, timeout=10).brokers.values()  # creates the topic
    yield f"{broker.host}:{broker.port}"
    mock.flush()  # the mock cluster lives as long as its producer


def test_copies_have_the_fields_of_the_record_and_its_provenance(bootstrap: str) -> None:
    properties = {"bootstrap.servers": bootstrap}
    stamps = [b"stamp-%d" % row[0] for row in ROWS]
    with TransactionalCopier(Connection("target", properties), "main", [MARK]) as copier:
        copier.begin()
        copier.append(TO, ROWS, stamps)
        last = copier.settle()
        copier.commit()
    assert last == {TO: len(ROWS) - 1}
    ranges = {TO.topic: {TO.partition: [OffsetRange(0, len(ROWS))]}}
    chunks = KafkaRangeReader(LogSource("target", properties)).read(ranges)
    appended = [row for chunk in chunks for row in chunk.rows]
    mark = MARK[0].encode(), MARK[1]
    assert appended == [
        (offset, timestamp, key, value, (*headers, (provenance.HEADER.encode(), stamp), mark))
        for offset, ((_, timestamp, key, value, headers), stamp) in enumerate(
            zip(ROWS, stamps, strict=True)
        )
    ]
