"""Spark finds the same repeated events as the comparison without it."""

from collections.abc import Iterator, Mapping, Sequence

import pytest
from pyspark.sql import SparkSession

from drctl.gap.comparison import Side
from drctl.gap.event_duplicates import DirectEventCounter
from drctl.model.event_duplicates import EventCounts
from drctl.model.topology import Chunk, OffsetRange, Record, TopicRanges
from drctl.spark.events import SparkEventCounter
from tests.fakes import row_of
from tests.gap.comparing import no_progress
from tests.gap.events import MONGODB, MYSQL, POSTGRES, events, log, value
from tests.spark.rows import MemoryRows

pytestmark = pytest.mark.jvm

CRASH = [*events("postgresql", range(30)), *events("postgresql", range(24, 40), sent_ms=9_000)]
WITH_SCHEMA = [*events("mysql", range(9), schema=True), *events("mysql", [8, 9], schema=True)]
ODD = [
    (b"1", None),
    (b"1", b""),
    (b"1", b"\x00\x00\x00\x00\x01avro"),
    (b"1", b"[1]"),
    (b"1", b"{}"),
    (b"1", b'{"payload": null}'),
    (b"1", b'{"source": {"connector": "sqlserver", "change_lsn": "1"}}'),
    (b"1", value({**POSTGRES, "lsn": None})),
    (b"1", value(POSTGRES)),
    (b"1", value(POSTGRES, schema=True)),
    (b"2", value(POSTGRES)),
    (None, value(POSTGRES)),
    (b"1", value(POSTGRES, after={"id": 2})),
    (b"1", value({**MYSQL, "gtid": "a:1"})),
    (b"1", value(MYSQL)),
    (b"1", value({**MYSQL, "connector": "mariadb"})),
    (b"1", value(MONGODB, after='{"a": 1}')),
    (b"1", value(MONGODB, after='{"a": 2}')),
    (b"1", value(MONGODB, updateDescription={"updatedFields": "{}"})),
    (b"1", None),
]
LOGS: Mapping[str, Mapping[int, Sequence[Record]]] = {
    "orders": {0: log(CRASH), 1: log(events("postgresql", [3, 50]), partition=1)},
    "items": {0: log(WITH_SCHEMA)},
    "odd": {0: log(ODD), 1: ()},
}
RANGES = {
    (topic, partition): OffsetRange(0, len(records))
    for topic, partitions in LOGS.items()
    for partition, records in partitions.items()
}


def read(ranges: TopicRanges) -> Iterator[Chunk]:
    for topic, partitions in ranges.items():
        for partition in partitions:
            yield Chunk(topic, partition, list(map(row_of, LOGS[topic][partition])))


def test_spark_agrees_with_the_count_without_it(spark: SparkSession) -> None:
    direct = DirectEventCounter(read).count(RANGES, no_progress)
    found = SparkEventCounter(spark, MemoryRows(spark, {Side.SOURCE: LOGS})).count(
        RANGES, no_progress
    )
    assert found == {at: each for at, each in direct.items() if each.counts.records}
    assert found["orders", 0].counts == EventCounts(46, 46, 6)
    assert found["orders", 1].counts == EventCounts(2, 2, 1)
    assert found["items", 0].counts.repeated == 1
    assert found["odd", 0].counts == EventCounts(20, 11, 2, 2, 7)
