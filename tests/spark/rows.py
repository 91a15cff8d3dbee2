"""Records in memory as rows of Spark's Kafka source."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from hypothesis import HealthCheck, Phase, settings
from pyspark.sql import DataFrame, SparkSession

from drctl.gap.comparison import Side
from drctl.model.topology import Record, TopicRanges

SCHEMA = (
    "topic string, partition int, offset long, timestamp timestamp, key binary, value binary, "
    "headers array<struct<key:string,value:binary>>"
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FEW = settings(
    max_examples=3,
    deadline=None,
    derandomize=True,
    # No shrinking, which would run hundreds of Spark jobs; a failure names the topic that
    # disagrees.
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@dataclass
class MemoryRows:
    """Implements `drctl.spark.scan.RowReader`."""

    spark: SparkSession
    logs: Mapping[Side, Mapping[str, Mapping[int, Sequence[Record]]]]

    def renew(self) -> None:
        """Nothing is kept."""

    def rows(self, side: Side, ranges: TopicRanges) -> DataFrame | None:
        rows = [
            (topic, r.partition, r.offset, time, r.key, r.value, list(r.headers) or None)
            for topic, partitions in ranges.items()
            for partition, runs in partitions.items()
            for r in self.logs[side][topic][partition]
            for time in [EPOCH + timedelta(milliseconds=r.timestamp_ms)]
            if any(run.start <= r.offset < run.end for run in runs)
        ]
        return self.spark.createDataFrame(rows, SCHEMA) if rows else None
