"""Small tables of the driver's as DataFrames."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

INLINE_ROWS = 500
"""Up to this many rows travel inside the query, which saves a Spark job."""


def table(spark: SparkSession, rows: Sequence[tuple[object, ...]], schema: str) -> DataFrame:
    """These rows, with columns as in a schema string such as `topic string, partition int`."""
    if not rows or len(rows) > INLINE_ROWS:
        return spark.createDataFrame(rows, schema)
    marks = f"({', '.join('?' * len(rows[0]))})"
    query = f"SELECT * FROM VALUES {', '.join([marks] * len(rows))}"
    inline = spark.sql(query, args=[value for row in rows for value in row])
    casts = [
        inline[column].cast(kind).alias(name)
        for column, (name, kind) in zip(
            inline.columns, (c.split() for c in schema.split(",")), strict=True
        )
    ]
    return inline.select(casts)
