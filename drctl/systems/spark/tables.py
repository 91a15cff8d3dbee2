"""Small tables of the driver's as DataFrames."""

import json
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def table(spark: SparkSession, rows: Sequence[tuple[object, ...]], schema: str) -> DataFrame:
    """These rows, with columns as in a schema string such as `topic string, partition int`.

    They travel as one literal inside the query: `createDataFrame` would start Python workers on
    the executors.
    """
    names = [column.split()[0] for column in schema.split(",")]
    text = json.dumps([dict(zip(names, row, strict=True)) for row in rows])
    struct = ", ".join(":".join(column.split()) for column in schema.split(","))
    parsed = F.from_json(F.lit(text), f"array<struct<{struct}>>")
    return spark.range(1).select(F.inline(parsed))
