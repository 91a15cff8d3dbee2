"""The missing records as Parquet: unreplicated ones in `records`, all others in `others`."""

import shutil
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from drctl.systems.spark.tables import table

RECORDS = "records"
OTHERS = "others"
SCHEMA = (
    "topic string, partition int, offset long, timestamp timestamp, timestamp_ms long, key binary, "
    "size long, class string, order string, misplaced boolean, repeated boolean"
)


def write(spark: SparkSession, classified: DataFrame | None, out: Path) -> None:
    """Write both folders, also where there is nothing to put into them.

    Args:
        classified: rows of `compare.classified`; None where nothing is missing.
    """
    folders = {"true": out / RECORDS, "false": out / OTHERS}
    scratch = out / "missing"
    if classified is not None:
        rows = classified.select(
            F.col("topic_name").alias("topic"),
            "partition",
            "offset",
            F.timestamp_millis("time").alias("timestamp"),
            F.col("time").alias("timestamp_ms"),
            "key",
            "size",
            "class",
            "order",
            "misplaced",
            "repeated",
            (F.col("class") == "unreplicated").alias("unreplicated"),
        )
        rows.write.mode("overwrite").partitionBy("unreplicated").parquet(str(scratch))
    for value, folder in folders.items():
        shutil.rmtree(folder, ignore_errors=True)
        written = scratch / f"unreplicated={value}"
        if written.is_dir():
            written.rename(folder)
        else:
            table(spark, [], SCHEMA).write.parquet(str(folder))
    shutil.rmtree(scratch, ignore_errors=True)


def read(spark: SparkSession, folder: Path) -> DataFrame:
    """The rows of one folder."""
    return spark.read.schema(SCHEMA).parquet(str(folder))
