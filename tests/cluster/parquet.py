"""Prints the rows of Parquet folders as JSON; a process of its own, for its Spark is one too.

Run as: python -m tests.cluster.parquet LOG FOLDER...
"""

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import Row

from drctl.systems.spark.session import SparkSettings, opened


def main(log: str, *folders: str) -> None:
    with opened(SparkSettings(master="local[1]", log=Path(log))) as spark:
        rows = {f: [_plain(r) for r in spark.read.parquet(f).collect()] for f in folders}
    print(json.dumps(rows))


def _plain(row: Row) -> dict[str, Any]:
    values = row.asDict()
    key = values["key"]
    return {
        **values,
        "timestamp": round(values["timestamp"].timestamp() * 1000),
        "key": None if key is None else bytes(key).hex(),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
