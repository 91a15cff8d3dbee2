"""Spark's comparison equals the reference on generated topics."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from drctl.gap.comparison import Identity
from drctl.model.gap import OrderScope
from drctl.spark.comparer import SparkComparer
from tests.gap import test_inversions
from tests.gap.comparing import GeneratedLogs, agree, no_progress, plan_of, run
from tests.gap.logs import GeneratedTopic, identities, reordered, topics
from tests.parquet.reading import inversions_of
from tests.spark.rows import FEW, MemoryRows

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]


def comparing(spark: SparkSession, generated: Sequence[GeneratedTopic], out: Path) -> SparkComparer:
    return SparkComparer(spark, MemoryRows(spark, GeneratedLogs(generated).logs), out)


@given(
    generated=st.tuples(*(topics(f"topic{n}") for n in range(8))),
    identity=identities,
    within=st.sampled_from(OrderScope),
)
@FEW
def test_spark_agrees_with_the_reference(
    spark: SparkSession,
    tmp_path: Path,
    generated: tuple[GeneratedTopic, ...],
    identity: Identity,
    within: OrderScope,
) -> None:
    comparer = comparing(spark, generated, tmp_path)
    agree(generated, identity, run(comparer, plan_of(generated, identity, within)), within)


@given(
    generated=st.tuples(*(reordered(f"topic{n}") for n in range(8))),
    identity=identities,
    within=st.sampled_from(OrderScope),
)
@FEW
def test_spark_finds_the_inversions_of_the_reference(
    spark: SparkSession,
    tmp_path: Path,
    generated: tuple[GeneratedTopic, ...],
    identity: Identity,
    within: OrderScope,
) -> None:
    comparer = comparing(spark, generated, tmp_path)
    found = comparer.check_order(plan_of(generated, identity, within), no_progress)
    written = inversions_of(tmp_path / "inversions")
    test_inversions.agree(generated, identity, within, found, written)
