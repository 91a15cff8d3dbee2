"""The distributed comparison gives the reference's answer on generated topics."""

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from drctl.gap.comparison import ComparePlan, Comparison, Identity, Side
from drctl.gap.reference import Outcome, compare_topic
from drctl.gap.suspects import find_suspects
from drctl.model.gap import RecordClass
from drctl.model.topology import Record
from drctl.systems.spark.comparer import SparkComparer
from drctl.systems.spark.scan import TopicRanges
from tests.gap.logs import GeneratedTopic, identities, topics

pytestmark = pytest.mark.jvm

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


def no_progress(phase: str, done: int, total: int) -> None:
    """Nobody looks."""


def answer_of_reference(g: GeneratedTopic, outcome: Outcome) -> dict[object, object]:
    counts: Counter[object] = Counter()
    for v in outcome.missing:
        counts[v.record.partition, str(v.record_class)] += 1
        if v.record_class is RecordClass.UNREPLICATED:
            counts[v.record.partition, str(v.order)] += 1
            counts[v.record.partition, "misplaced"] += v.misplaced
    extra = Counter(own=outcome.only_on_target, again=outcome.duplicated_on_target)
    return {"counts": +counts, "extra": +extra, "runs": expected_runs(g, outcome)}


def answer_of_spark(g: GeneratedTopic, comparison: Comparison) -> dict[object, object]:
    counts: Counter[object] = Counter()
    names = ("unreplicated", "superseded", "expired", "safe", "conflicting", "unkeyed", "misplaced")
    missing = {p: m for (t, p), m in comparison.missing.items() if t == g.plan.topic}
    for partition, m in missing.items():
        for name in names:
            counts[partition, name] += getattr(m, name)
    extra: Counter[str] = Counter()
    for (topic, _), e in comparison.extra.items():
        if topic == g.plan.topic:
            extra.update(own=e.only_on_target, again=e.duplicated_on_target)
    runs = {p: list(m.runs) for p, m in missing.items() if m.runs}
    return {"counts": +counts, "extra": +extra, "runs": runs}


def explain(g: GeneratedTopic) -> str:
    lines = [str(dataclasses.asdict(g.plan))]
    for side, logs in (("source", g.source), ("target", g.target)):
        lines += [f"{side} {record}" for log in logs.values() for record in log]
    return "\n".join(lines)


def expected_runs(generated: GeneratedTopic, outcome: Outcome) -> dict[int, list[tuple[int, int]]]:
    missing = {
        (v.record.partition, v.record.offset)
        for v in outcome.missing
        if v.record_class is RecordClass.UNREPLICATED
    }
    runs: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for partition, log in generated.source.items():
        open_run = False
        for record in log:
            is_missing = (partition, record.offset) in missing
            if is_missing and open_run:
                runs[partition][-1] = (runs[partition][-1][0], record.offset)
            elif is_missing:
                runs[partition].append((record.offset, record.offset))
            open_run = is_missing
    return dict(runs)


def run_spark(
    spark: SparkSession, generated: Sequence[GeneratedTopic], identity: Identity, out: Path
) -> Comparison:
    topics = [
        g.plan if identity.timestamp else dataclasses.replace(g.plan, bucket_ms=0)
        for g in generated
    ]
    plan = ComparePlan(tuple(topics), identity, buckets=16, salt=42)
    comparer = SparkComparer(spark, GeneratedRows(spark, generated), out)
    digests = comparer.digest(plan, no_progress)
    return comparer.compare(plan, find_suspects(plan, digests), no_progress)


@given(
    generated=st.tuples(*(topics(f"topic{n}") for n in range(8))),
    identity=identities,
)
@settings(
    max_examples=12,
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
) -> None:
    comparison = run_spark(spark, generated, identity, tmp_path)
    for g in generated:
        outcome = compare_topic(g.plan, identity, g.source, g.target)
        assert answer_of_spark(g, comparison) == answer_of_reference(g, outcome), explain(g)
