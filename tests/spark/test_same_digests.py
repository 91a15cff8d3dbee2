"""Spark and drctl compute equal digests: a ledger may contain both."""

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from drctl.gap.comparison import BucketDigest, ComparePlan, Identity, RecordComparer
from drctl.gap.direct import DirectComparer
from tests.gap.comparing import GeneratedLogs, no_progress, plan_of
from tests.gap.logs import GeneratedTopic, identities, topics
from tests.gap.test_direct import Written
from tests.spark.rows import FEW
from tests.spark.test_against_reference import comparing

pytestmark = pytest.mark.jvm

Digests = dict[object, tuple[int, ...]]


@given(
    generated=st.tuples(*(topics(f"topic{n}") for n in range(8))),
    identity=identities,
    cell_bits=st.sampled_from([1, 63]),
    salt=st.sampled_from([0, 42, 2**62 - 1]),
)
@settings(FEW, max_examples=4)
def test_the_digests_are_the_same(
    spark: SparkSession,
    tmp_path: Path,
    generated: tuple[GeneratedTopic, ...],
    identity: Identity,
    cell_bits: int,
    salt: int,
) -> None:
    plan = dataclasses.replace(plan_of(generated, identity), cell_bits=cell_bits, salt=salt)
    by_spark, logs = comparing(spark, generated, tmp_path), GeneratedLogs(generated)
    here = DirectComparer(logs, Written())
    assert digests(here, plan) == digests(by_spark, plan)


def digests(comparer: RecordComparer, plan: ComparePlan) -> Digests:
    found = comparer.digest(plan, plan.everything(), no_progress)
    return {(d.topic, d.side, d.partition, d.bucket, d.cell): numbers(d) for d in found}


def numbers(d: BucketDigest) -> tuple[int, ...]:
    return d.records, d.sum1 % 2**64, d.sum2 % 2**64, d.first, d.last
