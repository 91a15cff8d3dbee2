"""Which records' copies are out of order, as DataFrames.

Partitions are left out first, then blocks of offsets, in which no copy can be out of order: only
the rest is sorted.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from drctl.gap.comparison import (
    INVERSION_EXAMPLES,
    BucketDigest,
    ComparePlan,
    OrderCheck,
    Place,
    Side,
)
from drctl.model.gap import Inversion, OrderScope
from drctl.spark.compare import equal_by, named, table

INVERSIONS = "inversions"
SCHEMA = (
    "topic string, partition int, offset long, target_partition int, target_offset long, "
    "earlier_offset long, earlier_target_offset long"
)
STREAM = ("topic", "source_partition", "target_partition")
PAIR = (*STREAM, "unit", "source_offset", "target_offset", "keyed", "key_digest")


def laid_out_alike(
    plan: ComparePlan, digests: Iterable[tuple[BucketDigest, Sequence[int]]]
) -> frozenset[Place]:
    """Return the partitions whose copies are as far from the first copy as their records are.

    None of these copies can be out of order: for each partition, the sums of digests times
    distances from the first record are equal on both clusters.

    Args:
        digests: of all records of the plan, each with its sums of `compare.PLACED`.
    """
    found: dict[tuple[str, int, Side], list[tuple[BucketDigest, Sequence[int]]]] = {}
    for digest, placed in digests:
        place = (digest.topic, digest.partition, digest.side)
        found.setdefault(place, []).append((digest, placed))
    return frozenset(
        (topic.topic, partition)
        for topic in plan.topics
        if topic.by_partition
        for partition in topic.source
        if len({_layout(found.get((topic.topic, partition, side), [])) for side in Side}) == 1
    )


def _layout(digests: Sequence[tuple[BucketDigest, Sequence[int]]]) -> tuple[int, ...]:
    """Return the records of a partition and the sums of digests, plain and times distances."""
    start = min((digest.first for digest, _ in digests), default=0)
    plain = [sum(getattr(d, name) for d, _ in digests) for name in ("sum1", "sum2")]
    placed = [sum(both) for both in zip(*(placed for _, placed in digests), strict=True)]
    distances = [here - start * all_of for here, all_of in zip(placed, plain, strict=False)]
    records = sum(digest.records for digest, _ in digests)
    return (records, *(number % 2**64 for number in (*plain, *distances)))


def matched(plan: ComparePlan, rows: DataFrame) -> DataFrame:
    """Return one row per distinct record that both clusters have, with its place on each.

    If `several` is true, a cluster has the record more than once: `pairs` matches its copies.

    Args:
        rows: from `narrow`, of both clusters.
    """
    by = equal_by(plan.identity)
    return _places(rows, by).withColumn("several", F.col("copies") > len(Side))


def pairs(plan: ComparePlan, rows: DataFrame, several: DataFrame) -> DataFrame:
    """Match the copies of these records; equal records in order.

    Args:
        rows: from `narrow`, of both clusters.
        several: rows of `matched`.
    """
    by = equal_by(plan.identity)
    equal = Window.partitionBy(*by, "on_source").orderBy("offset", "partition")
    wanted = rows.join(several.select(*by), list(by), "left_semi")
    return _places(wanted.withColumn("number", F.row_number().over(equal)), (*by, "number"))


def _places(rows: DataFrame, by: Sequence[str]) -> DataFrame:
    """Return one row per group of rows that has rows of both clusters, with a place on each."""
    here, there = F.col("on_source"), ~F.col("on_source")
    key_digest = F.max(F.when(here, F.col("key_digest"))).alias("key_digest")
    found = rows.groupBy(*by).agg(
        F.count(F.lit(1)).alias("copies"),
        F.max(F.when(here, F.col("partition"))).alias("source_partition"),
        F.max(F.when(here, F.col("offset"))).alias("source_offset"),
        F.max(F.when(there, F.col("partition"))).alias("target_partition"),
        F.max(F.when(there, F.col("offset"))).alias("target_offset"),
        F.max(F.col("key").isNotNull()).alias("keyed"),
        *([] if "key_digest" in by else [key_digest]),
    )
    return found.where("source_offset is not null and target_offset is not null")


BLOCK_BITS = 10
"""Order is first checked in blocks of 2**10 source offsets."""


def inverted(plan: ComparePlan, found: DataFrame) -> DataFrame:
    """Return one row per replicated record whose copy precedes the copy of an earlier record.

    Args:
        found: a row per pair of a record and its copy.
    """
    stream = Window.partitionBy(*STREAM)
    if plan.within is OrderScope.KEY:
        found = found.where("keyed")
        stream = Window.partitionBy("key_digest", "unit", *STREAM)
    before = stream.orderBy("source_offset").rowsBetween(Window.unboundedPreceding, -1)
    place = F.struct(F.col("target_offset").alias("there"), F.col("source_offset").alias("here"))
    rows = in_uneven_blocks(found).withColumn("last", F.max(place).over(before))
    return rows.where(F.col("target_offset") < F.col("last.there")).select(
        *STREAM, "source_offset", "target_offset", "last"
    )


def in_uneven_blocks(found: DataFrame) -> DataFrame:
    """Leave out pairs that cannot be part of an inversion.

    In an even block, target offset minus source offset is the same for all pairs, so the copies
    have the order of their records. If they also follow all copies of earlier blocks and precede
    those of later ones, none of them is part of an inversion.
    """
    found = found.withColumn("block", F.shiftright("source_offset", BLOCK_BITS))
    distance = F.col("target_offset") - F.col("source_offset")
    blocks = found.groupBy(*STREAM, "block").agg(
        (F.min(distance) == F.max(distance)).alias("even"),
        F.min("target_offset").alias("lowest"),
        F.max("target_offset").alias("highest"),
    )
    by_block = Window.partitionBy(*STREAM).orderBy("block")
    earlier = by_block.rowsBetween(Window.unboundedPreceding, -1)
    later = by_block.rowsBetween(1, Window.unboundedFollowing)
    in_order = [
        F.coalesce(F.max("highest").over(earlier) < F.col("lowest"), F.lit(True)),
        F.coalesce(F.min("lowest").over(later) > F.col("highest"), F.lit(True)),
    ]
    uneven = blocks.withColumn("in_order", F.col("even") & in_order[0] & in_order[1])
    uneven = uneven.where("not in_order").select(*STREAM, "block")
    return found.join(uneven, [*STREAM, "block"], "left_semi")


def write_inversions(
    spark: SparkSession, rows: DataFrame | None, names: Mapping[int, str], folder: Path
) -> None:
    """Write inversions as Parquet, even if there are none; replaces earlier files.

    Args:
        rows: from `inverted`; None if a cluster has no records.
        names: topic names by digest.
    """
    if rows is None:
        table(spark, [], SCHEMA).write.mode("overwrite").parquet(str(folder))
        return
    written = named(rows, names).select(
        F.col("name").alias("topic"),
        F.col("source_partition").alias("partition"),
        F.col("source_offset").alias("offset"),
        "target_partition",
        "target_offset",
        F.col("last.here").alias("earlier_offset"),
        F.col("last.there").alias("earlier_target_offset"),
    )
    written.write.mode("overwrite").parquet(str(folder))


def sum_inversions(spark: SparkSession, folder: Path) -> OrderCheck:
    """Count the written inversions by source partition."""
    written = spark.read.schema(SCHEMA).parquet(str(folder))
    numbers: dict[Place, int] = {
        (row["topic"], row["partition"]): row["count"]
        for row in written.groupBy("topic", "partition").count().collect()
    }
    if not numbers:
        return OrderCheck({})
    first = written.orderBy("topic", "partition", "offset").limit(INVERSION_EXAMPLES)
    return OrderCheck(numbers, tuple(Inversion(**row.asDict()) for row in first.collect()))
