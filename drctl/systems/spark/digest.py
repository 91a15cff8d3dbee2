"""First pass: what each bucket of each partition holds, as sums that do not depend on order."""

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from drctl.gap.comparison import BucketDigest, ComparePlan, Side
from drctl.systems.spark import columns

Names = dict[int, str]


def digest_rows(plan: ComparePlan, side: Side, rows: DataFrame) -> DataFrame:
    """One row a (topic, partition, bucket) of one side."""
    named = rows.withColumn("topic", columns.source_topic(plan, side))
    digested = columns.with_digests(plan, named).select(
        F.xxhash64("topic").alias("topic"),
        "partition",
        columns.bucket(plan).alias("bucket"),
        "offset",
        "digest1",
        "digest2",
    )
    return digested.groupBy("topic", "partition", "bucket").agg(
        F.count(F.lit(1)).alias("records"),
        # Summed in halves: a sum of whole 64-bit digests overflows, which ANSI mode makes an error.
        *[
            F.sum(half).alias(f"{name}_{part}")
            for name in ("digest1", "digest2")
            for part, half in (
                ("low", F.col(name).bitwiseAND(F.lit(0xFFFFFFFF))),
                ("high", F.shiftright(F.col(name), 32)),
            )
        ],
        F.min("offset").alias("first"),
        F.max("offset").alias("last"),
        F.lit(side.value).alias("side"),
    )


def bucket_digest(row: Row, topic: str) -> BucketDigest:
    """The value of one collected row."""
    return BucketDigest(
        topic=topic,
        side=Side(row["side"]),
        partition=row["partition"],
        bucket=row["bucket"],
        records=row["records"],
        sum1=row["digest1_low"] + (row["digest1_high"] << 32),
        sum2=row["digest2_low"] + (row["digest2_high"] << 32),
        first=row["first"],
        last=row["last"],
    )
