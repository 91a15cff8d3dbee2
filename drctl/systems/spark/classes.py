"""Classes of Spark, recorded from a small computation."""

from collections.abc import Sequence
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession, functions

from drctl.systems.spark.session import SparkSettings, opened

_ROWS = 10_000
_WRITTEN_S = 300


def jars() -> Path:
    """The folder with PySpark's own jars."""
    return Path(pyspark.__file__).parent / "jars"


def record_classes(options: Sequence[str], scratch: Path) -> None:
    """Run what comparisons are made of, in a JVM that then ends by itself and writes them down.

    Args:
        options: the JVM's, that say where to.
        scratch: a folder; afterwards it holds `log`, what the JVM printed.

    Raises:
        SparkDidNotStart: Java is missing or too old.
    """
    settings = SparkSettings(master="local[2]", log=scratch / "log", java=options)
    with opened(settings, _WRITTEN_S) as spark:
        for compiled in ("true", "false"):
            spark.conf.set("spark.sql.codegen.wholeStage", compiled)
            _compute(spark, str(scratch / compiled))


def trial(options: Sequence[str]) -> tuple[str, ...]:
    """A command that starts Spark's JVM with these options, and ends."""
    submit = jars().parent / "bin" / "spark-submit"
    return (str(submit), "--driver-java-options", " ".join(options), "--version")


def _compute(spark: SparkSession, file: str) -> None:
    key, row = functions.col("key"), functions.col("row")
    rows = spark.range(_ROWS, numPartitions=2).select(
        (functions.col("id") % 100).cast("string").alias("key"), functions.col("id").alias("row")
    )
    sums = rows.groupBy("key").agg(
        functions.count("*").alias("rows"), functions.sum(functions.xxhash64(key, row)).alias("sum")
    )
    rows.join(sums, "key").where(row > 0).sort("key", "row").write.parquet(file)
    spark.read.parquet(file).limit(10).collect()
