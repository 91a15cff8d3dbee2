"""First pass: what each bucket of each partition holds, as sums that do not depend on order."""

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from drctl.gap.comparison import BucketDigest, ComparePlan, Side
from drctl.systems.spark import columns

Names = dict[int, str]


def digest_rows(plan: ComparePlan, side: Side, rows: DataFrame) -> DataFrame:
    """One row a (topic, partition, bucket, cell) of one side."""
    named = rows.withColumn("topic", columns.source_topic(plan, side))
    digested = columns.with_digests(plan, named).select(
        F.xxhash64("topic").alias("topic"),
        "partition",
        columns.bucket(plan).alias("bucket"),
        columns.cell(plan).alias("cell"),
        "offset",
        "digest1",
        "digest2",
    )
    return digested.groupBy("topic", "partition", "bucket", "cell").agg(
        F.count(F.lit(1)).alias("records"),
        # They wrap around at 64 bits, as they should: the session is not in ANSI mode.
        F.sum("digest1").alias("sum1"),
        F.sum("digest2").alias("sum2"),
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
        sum1=row["sum1"],
        sum2=row["sum2"],
        first=row["first"],
        last=row["last"],
        cell=row["cell"],
    )
