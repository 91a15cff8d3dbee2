"""Record class data archives, so that Java starts sooner: python -m scripts.record_classes KIND.

KIND is `spark` (of this environment) or `lab` (Kafka and Connect, shared by all environments).
drctl works without the archives, so a recording that Java refuses is reported and not an error.
"""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession, functions

from drctl.artifacts.java import class_archive, keep, recorded_into
from drctl.lab.classes import record_classes as record_lab_classes
from drctl.model.errors import DrctlError
from drctl.spark.session import SparkSettings, jars, opened

_ROWS = 10_000
_WRITTEN_S = 300


def record_spark() -> None:
    """Record the classes that a comparison by Spark loads."""
    archive = class_archive(jars())
    if archive.is_file():
        return
    print("recording class data of Spark (once)", flush=True)
    with tempfile.TemporaryDirectory(prefix="drctl-classes-") as scratch:
        folder = Path(scratch)
        recorded = folder / "spark.jsa"
        settings = SparkSettings(
            master="local[2]", log=folder / "log", java=recorded_into(recorded)
        )
        with opened(settings, _WRITTEN_S) as spark:
            for compiled in ("true", "false"):
                spark.conf.set("spark.sql.codegen.wholeStage", compiled)
                _compute(spark, str(folder / compiled))
        keep(recorded, archive, _trial)


def _trial(options: Sequence[str]) -> tuple[str, ...]:
    submit = jars().parent / "bin" / "spark-submit"
    return (str(submit), "--driver-java-options", " ".join(options), "--version")


def _compute(spark: SparkSession, file: str) -> None:
    """Run each operation that a comparison is made of."""
    key, row = functions.col("key"), functions.col("row")
    rows = spark.range(_ROWS, numPartitions=2).select(
        (functions.col("id") % 100).cast("string").alias("key"), functions.col("id").alias("row")
    )
    sums = rows.groupBy("key").agg(
        functions.count("*").alias("rows"), functions.sum(functions.xxhash64(key, row)).alias("sum")
    )
    rows.join(sums, "key").where(row > 0).sort("key", "row").write.parquet(file)
    spark.read.parquet(file).limit(10).collect()


if __name__ == "__main__":
    try:
        match sys.argv[1:]:
            case ["spark"]:
                record_spark()
            case ["lab"]:
                record_lab_classes(print)
            case _:
                sys.exit(__doc__)
    except DrctlError as error:
        print(f"class data was not recorded, so Java starts slower: {error.message}", flush=True)
