"""The distributed comparison gives the reference's answer on generated topics."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from drctl.gap.comparison import Identity, Side
from drctl.model.gap import OrderScope
from drctl.model.topology import Record
from drctl.spark.comparer import SparkComparer
from drctl.spark.scan import TopicRanges
from tests.gap import test_inversions
from tests.gap.comparing import agree, no_progress, plan_of, run
from tests.gap.logs import GeneratedTopic, identities, reordered, topics
from tests.parquet.reading import inversions_of

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

SCHEMA = (
    "topic string, partition int, offset long, timestamp timestamp, key binary, value binary, "
    "headers array<struct<key:string,value:binary>>"
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class GeneratedRows:
    """Rows as Spark's Kafka source would give them, from generated logs."""

    def __init__(self, spark: SparkSession, generated: Sequence[GeneratedTopic]) -> None:
        self._spark = spark
        self._logs: dict[Side, dict[str, Mapping[int, Sequence[Record]]]] = {
            Side.SOURCE: {g.plan.topic: g.source for g in generated},
            Side.TARGET: {g.plan.target_topic: g.target for g in generated},
        }

    def rows(self, side: Side, ranges: TopicRanges) -> DataFrame | None:
        rows = [
            _row(topic, record)
            for topic, partitions in ranges.items()
            for partition, runs in partitions.items()
            for record in self._logs[side][topic][partition]
            if any(run.start <= record.offset < run.end for run in runs)
        ]
        return self._spark.createDataFrame(rows, SCHEMA) if rows else None


def _row(topic: str, r: Record) -> tuple[object, ...]:
    time = EPOCH + timedelta(milliseconds=r.timestamp_ms)
    return (topic, r.partition, r.offset, time, r.key, r.value, list(r.headers) or None)


@given(
    generated=st.tuples(*(topics(f"topic{n}") for n in range(8))),
    identity=identities,
    within=st.sampled_from(OrderScope),
)
@settings(
    max_examples=3,
    deadline=None,
    derandomize=True,
    # Shrinking would run hundreds of Spark jobs; a failure names the topic that disagrees.
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_spark_agrees_with_the_reference(
    spark: SparkSession,
    tmp_path: Path,
    generated: tuple[GeneratedTopic, ...],
    identity: Identity,
    within: OrderScope,
) -> None:
    comparer = SparkComparer(spark, GeneratedRows(spark, generated), tmp_path)
    agree(generated, identity, run(comparer, plan_of(generated, identity, within)), within)


@given(
    generated=st.tuples(*(reordered(f"topic{n}") for n in range(8))),
    identity=identities,
    within=st.sampled_from(OrderScope),
)
@settings(
    max_examples=3,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_spark_finds_the_inversions_of_the_reference(
    spark: SparkSession,
    tmp_path: Path,
    generated: tuple[GeneratedTopic, ...],
    identity: Identity,
    within: OrderScope,
) -> None:
    comparer = SparkComparer(spark, GeneratedRows(spark, generated), tmp_path)
    found = comparer.disorder(plan_of(generated, identity, within), no_progress)
    written = inversions_of(tmp_path / "inversions")
    test_inversions.agree(generated, identity, within, found, written)
