"""Finds duplicate events with Spark."""

from collections.abc import Callable, Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F

from drctl.gap.comparison import Place, Progress, Side
from drctl.gap.event_duplicates import ENVELOPE, FIELDS, SOURCES, FoundEvents, Ranges, Source
from drctl.model.event_duplicates import EventCounts, Repeat
from drctl.model.topology import OffsetRange
from drctl.spark.comparer import watched
from drctl.spark.scan import RowReader

SEEDS = (1, 2)
"""Seeds of two 64-bit digests."""


class SparkEventCounter:
    """Implements `drctl.gap.event_duplicates.EventCounter`.

    Args:
        rows: reads the records of the cluster, as its source side.
    """

    def __init__(self, spark: SparkSession, rows: RowReader) -> None:
        self._spark = spark
        self._rows = rows

    def count(self, ranges: Ranges, progress: Progress) -> Mapping[Place, FoundEvents]:
        """Count the events of every partition with records.

        Raises:
            ScanFailed: the records could not be read completely.
        """
        topics: dict[str, dict[int, tuple[OffsetRange, ...]]] = {}
        for (topic, partition), whole in ranges.items():
            topics.setdefault(topic, {})[partition] = (whole,)
        rows = self._rows.rows(Side.SOURCE, topics)
        if rows is None:
            return {}
        total = sum(each.span for each in ranges.values())
        with watched(self._spark, "reading events", total, progress):
            found = counted(rows).collect()
        return {(row["topic"], row["partition"]): _found(row) for row in found}


def counted(rows: DataFrame) -> DataFrame:
    """Return one row per partition."""
    same = Window.partitionBy("topic", "digest1", "digest2").orderBy("partition", "offset")
    place = F.struct("partition", "offset")
    events = identified(rows).withColumns(
        {"number": F.row_number().over(same), "original": F.first(place).over(same)}
    )
    again = F.col("identified") & (F.col("number") > 1)
    repeat = F.struct("offset", "original")
    return events.groupBy("topic", "partition").agg(
        F.count(F.lit(1)).alias("records"),
        F.count(F.when(F.col("identified"), 1)).alias("events"),
        F.count(F.when(F.col("tombstone"), 1)).alias("tombstones"),
        F.count(F.when(again, 1)).alias("repeated"),
        F.min(F.when(again, repeat)).alias("first"),
        F.max(F.when(again, F.col("offset"))).alias("last"),
    )


def identified(rows: DataFrame) -> DataFrame:
    """Return the position of each record and two digests of its event's identity."""
    parts = ",".join(f"`{name}`:string" for name in FIELDS)
    envelope = ",".join([*(f"`{name}`:string" for name in ENVELOPE), f"`source`:struct<{parts}>"])
    decoded = F.from_json(
        F.col("value").cast("string"), f"struct<payload:struct<{envelope}>,{envelope}>"
    )
    parsed = rows.withColumn("decoded", decoded).withColumn(
        "event",
        F.when(F.col("decoded.payload").isNotNull(), F.col("decoded.payload")).otherwise(
            F.struct(*(F.col(f"decoded.{name}").alias(name) for name in (*ENVELOPE, "source")))
        ),
    )
    known = _by_connector(_known)
    first, second = (_by_connector(_digest(seed)) for seed in SEEDS)
    # Records without an identity get a unique digest, to avoid skew.
    alone = F.xxhash64("topic", "partition", "offset")
    return parsed.select(
        F.col("topic"),
        "partition",
        "offset",
        F.col("value").isNull().alias("tombstone"),
        F.coalesce(known, F.lit(False)).alias("identified"),
        F.coalesce(F.when(known, first), alone).alias("digest1"),
        F.coalesce(F.when(known, second), alone).alias("digest2"),
    )


def _by_connector(part: Callable[[Source], Column]) -> Column:
    """Return a column by the connector of an event; null for unknown connectors."""
    result = F.lit(None)
    for name, source in SOURCES.items():
        is_it = F.col("event.source.connector") == name
        result = F.when(is_it, part(source)).otherwise(result)
    return result


def _known(source: Source) -> Column:
    return reduce(
        Column.__and__, (F.col(f"event.source.{name}").isNotNull() for name in source.place)
    )


def _digest(seed: int) -> Callable[[Source], Column]:
    def of(source: Source) -> Column:
        parts = [F.col("key")]
        parts += [F.col(f"event.source.{name}") for name in source.fields]
        parts += [F.col(f"event.{name}") for name in source.content]
        # Spark's hashes skip nulls.
        flagged = (column for part in parts for column in (part.isNull(), part))
        return F.xxhash64(F.lit(seed).cast("long"), *flagged)

    return of


def _found(row: Row) -> FoundEvents:
    rest = row["records"] - row["events"] - row["tombstones"]
    counts = EventCounts(row["records"], row["events"], row["repeated"], row["tombstones"], rest)
    first = row["first"]
    repeat = first and Repeat(
        first["offset"], first["original"]["partition"], first["original"]["offset"]
    )
    return FoundEvents(counts, repeat, row["last"])
