"""Reads the records that drctl wrote with Spark, and writes them again; a process of its own.

Run as: python -m tests.parquet.rewriting FOLDER
"""

import sys
from pathlib import Path

from drctl.systems.spark import records
from drctl.systems.spark.session import SparkSettings, opened


def main(folder: str) -> None:
    ours, sparks = (Path(folder) / name / records.RECORDS for name in ("ours", "sparks"))
    with opened(SparkSettings(master="local[1]", log=Path(folder) / "log")) as spark:
        records.read(spark, ours).coalesce(1).write.parquet(str(sparks))


if __name__ == "__main__":
    main(*sys.argv[1:])
