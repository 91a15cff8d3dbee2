"""Reads the records that drctl wrote with Spark, and writes them again; a process of its own.

Run as: python -m tests.parquet.rewriting FOLDER [records|inversions]
"""

import sys
from pathlib import Path

from drctl.spark import compare, results
from drctl.spark.session import SparkSettings, opened

SCHEMAS = {results.RECORDS: results.SCHEMA, compare.INVERSIONS: compare.SCHEMA}


def main(folder: str, name: str = results.RECORDS) -> None:
    ours, sparks = (Path(folder) / whose / name for whose in ("ours", "sparks"))
    with opened(SparkSettings(master="local[1]", log=Path(folder) / "log")) as spark:
        read = spark.read.schema(SCHEMAS[name]).parquet(str(ours))
        read.coalesce(1).write.parquet(str(sparks))


if __name__ == "__main__":
    main(*sys.argv[1:])
