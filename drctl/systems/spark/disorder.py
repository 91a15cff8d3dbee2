"""Replicated records in another order on the target, counted where they lie.

Two shuffles of narrow rows: equal records of both sides come together, then the records of each
key in the order of the source. All of them go to Parquet, from where they are; what reaches the
driver is a number a partition, and a few examples.
"""

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from drctl.gap.comparison import INVERSION_EXAMPLES, ComparePlan, Disorder, Place, Side
from drctl.model.gap_order import Inversion, OrderScope
from drctl.systems.spark import columns
from drctl.systems.spark.compare import IDENTITY
from drctl.systems.spark.tables import table

INVERSIONS = "inversions"
SCHEMA = (
    "topic string, partition int, offset long, target_partition int, target_offset long, "
    "earlier_offset long, earlier_target_offset long"
)
LANE = ("topic", "source_partition", "target_partition")


def inverted(plan: ComparePlan, sides: Mapping[Side, DataFrame]) -> DataFrame:
    """One row a record that stands on the target before one that it follows on the source.

    Args:
        sides: the records of both.
    """
    pairs = _pairs(_narrow(plan, Side.SOURCE, sides), _narrow(plan, Side.TARGET, sides))
    lane = Window.partitionBy(*LANE)
    if plan.within is OrderScope.KEY:
        pairs = pairs.where(F.col("key_digest").isNotNull())
        lane = Window.partitionBy(*LANE, "key_digest")
    before = lane.orderBy("source_offset").rowsBetween(Window.unboundedPreceding, -1)
    place = F.struct(F.col("target_offset").alias("there"), F.col("source_offset").alias("here"))
    rows = pairs.withColumn("last", F.max(place).over(before))
    return rows.where(F.col("target_offset") < F.col("last.there")).select(
        *LANE, "source_offset", "target_offset", "last"
    )


def _narrow(plan: ComparePlan, side: Side, sides: Mapping[Side, DataFrame]) -> DataFrame:
    named = sides[side].withColumn("topic", columns.source_topic(plan, side))
    keyed = named.withColumn(
        "key_digest",
        F.when(F.col("key").isNotNull(), F.xxhash64(F.lit(plan.salt), F.col("key"))),
    )
    return columns.with_digests(plan, keyed).select(
        F.xxhash64("topic").alias("topic"),
        columns.unit(plan).alias("unit"),
        "digest1",
        "digest2",
        "key_digest" if side is Side.SOURCE else F.lit(None).cast("long").alias("key_digest"),
        F.lit(side is Side.SOURCE).alias("on_source"),
        "partition",
        "offset",
    )


def _pairs(source: DataFrame, target: DataFrame) -> DataFrame:
    """Each replicated record with its copy: of equal records the first with the first."""
    both = source.union(target).repartition(*IDENTITY)
    equal = Window.partitionBy(*IDENTITY, "on_source").orderBy("offset", "partition")
    here, there = F.col("on_source"), ~F.col("on_source")
    found = (
        both.withColumn("number", F.row_number().over(equal))
        .groupBy(*IDENTITY, "number")
        .agg(
            F.max(F.when(here, F.col("partition"))).alias("source_partition"),
            F.max(F.when(here, F.col("offset"))).alias("source_offset"),
            F.max(F.when(there, F.col("partition"))).alias("target_partition"),
            F.max(F.when(there, F.col("offset"))).alias("target_offset"),
            F.max("key_digest").alias("key_digest"),
        )
    )
    return found.where("source_offset is not null and target_offset is not null").select(
        *LANE, "source_offset", "target_offset", "key_digest"
    )


def write(
    spark: SparkSession, rows: DataFrame | None, names: Mapping[int, str], folder: Path
) -> None:
    """Write them as Parquet, also where there are none, in place of what was written before.

    Args:
        rows: of `inverted`; None where a side holds nothing.
        names: of topics, by the digest that stands for them.
    """
    if rows is None:
        table(spark, [], SCHEMA).write.mode("overwrite").parquet(str(folder))
        return
    topics = table(spark, list(names.items()), "topic long, name string")
    named = rows.join(F.broadcast(topics), "topic").select(
        F.col("name").alias("topic"),
        F.col("source_partition").alias("partition"),
        F.col("source_offset").alias("offset"),
        "target_partition",
        "target_offset",
        F.col("last.here").alias("earlier_offset"),
        F.col("last.there").alias("earlier_target_offset"),
    )
    named.write.mode("overwrite").parquet(str(folder))


def read(spark: SparkSession, folder: Path) -> DataFrame:
    """The rows that were written."""
    return spark.read.schema(SCHEMA).parquet(str(folder))


def disorder(written: DataFrame) -> Disorder:
    """Add up what was written."""
    numbers: dict[Place, int] = {
        (row["topic"], row["partition"]): row["count"]
        for row in written.groupBy("topic", "partition").count().collect()
    }
    if not numbers:
        return Disorder({})
    first = written.orderBy("topic", "partition", "offset").limit(INVERSION_EXAMPLES)
    return Disorder(numbers, tuple(Inversion(**row.asDict()) for row in first.collect()))
