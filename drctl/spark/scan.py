"""Reads exact offset ranges of Kafka topics as DataFrames."""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from typing import Protocol
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from drctl.gap.comparison import Side
from drctl.model.topology import OffsetRange, TopicRanges

RECORDS_PER_TASK = 500_000

ROWS_A_TASK = 250_000
"""Maximum number of shuffled rows per task, of about 100 bytes each."""

ROW_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


class RowReader(Protocol):
    """Reads the committed records of offset ranges as rows of `ROW_COLUMNS`."""

    def rows(self, side: Side, ranges: TopicRanges) -> DataFrame | None:
        """Return one row per record; None if the ranges are empty."""

    def renew(self) -> None:
        """Begin a new comparison: read with new consumers from now on."""


class KafkaRows:
    """Reads through Spark's Kafka source.

    Args:
        properties: Java client properties of each cluster, including secrets.
        parallelism: number of tasks that run in parallel.
    """

    def __init__(
        self, spark: SparkSession, properties: Mapping[Side, Mapping[str, str]], parallelism: int
    ) -> None:
        self._spark = spark
        self._properties = properties
        self._parallelism = parallelism
        self._comparison = uuid4().hex

    def renew(self) -> None:
        """Begin a new comparison: read with new consumers from now on."""
        self._comparison = uuid4().hex

    def rows(self, side: Side, ranges: TopicRanges) -> DataFrame | None:
        """Return one row per record; None if the ranges are empty."""
        return union(self._load(side, layer) for layer in layers(ranges))

    def _load(self, side: Side, layer: Mapping[str, Mapping[int, OffsetRange]]) -> DataFrame:
        offsets = sum(r.span for partitions in layer.values() for r in partitions.values())
        options = {
            **FETCH_WAIT,
            **{f"kafka.{name}": value for name, value in self._properties[side].items()},
            **FETCH_OPTIONS,
            # Spark keeps consumers by group and partition, whatever the cluster is: with this group
            # it uses them again within this comparison, without another login.
            "kafka.group.id": f"drctl-gap-{self._comparison}-{side}",
            "assign": _json({t: sorted(p) for t, p in layer.items()}),
            "startingOffsets": _bounds(layer, 0),
            "endingOffsets": _bounds(layer, 1),
            "minPartitions": str(max(self._parallelism, -(-offsets // RECORDS_PER_TASK))),
            "includeHeaders": "true",
        }
        frame = self._spark.read.format("kafka").options(**options).load()
        return frame.select(*ROW_COLUMNS)


# At the end of a log a consumer sends another fetch although it needs none. The broker delays that
# request, and the next one on the same connection, by default for half a second per partition.
# User-supplied properties override this.
FETCH_WAIT = {"kafka.fetch.max.wait.ms": "10"}

FETCH_OPTIONS = {
    "kafka.isolation.level": "read_committed",
    "kafka.max.poll.records": "10000",
    "kafka.max.partition.fetch.bytes": str(4 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.receive.buffer.bytes": str(1 << 20),
    "kafka.client.id": "drctl-gap",
    "kafkaConsumer.pollTimeoutMs": "30000",
    "fetchOffset.numRetries": "1",
    # A record deleted during the scan must fail it, not be skipped.
    "failOnDataLoss": "true",
    # There is one consumer per partition, and their metrics are not used.
    "kafka.enable.metrics.push": "false",
    "kafka.auto.include.jmx.reporter": "false",
    "kafka.metric.reporters": "",
}


def layers(ranges: TopicRanges) -> Iterator[Mapping[str, Mapping[int, OffsetRange]]]:
    """Split disjoint ranges into sets with at most one range per partition."""
    depth = max((len(runs) for parts in ranges.values() for runs in parts.values()), default=0)
    for level in range(depth):
        layer = {
            topic: {
                partition: runs[level]
                for partition, runs in parts.items()
                if level < len(runs) and runs[level].span
            }
            for topic, parts in ranges.items()
        }
        layer = {topic: parts for topic, parts in layer.items() if parts}
        if layer:
            yield layer


def _bounds(layer: Mapping[str, Mapping[int, OffsetRange]], end: int) -> str:
    return _json({t: {str(p): r[end] for p, r in parts.items()} for t, parts in layer.items()})


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def union(frames: Iterable[DataFrame | None]) -> DataFrame | None:
    """Return the union of the frames that are not None."""
    present = [frame for frame in frames if frame is not None]
    return reduce(DataFrame.union, present) if present else None
