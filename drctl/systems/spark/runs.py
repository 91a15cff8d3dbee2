"""Maximal runs of unreplicated offsets.

A run ends only where a committed record lies between two unreplicated ones. In a dense partition
(every offset holds a record) that is any step larger than one; elsewhere the offsets that hold no
record have to be told from those that do, by looking at the source's offsets once more.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from drctl.gap.comparison import Place
from drctl.systems.spark.tables import table

BLOCK = 100_000
"""Offsets that one task sorts at a time."""

PLACE = ("topic", "partition")


def dense_runs(unreplicated: DataFrame) -> DataFrame:
    """Rows (topic, partition, start, end) where every offset holds a record."""
    in_order = Window.partitionBy(*PLACE).orderBy("offset")
    numbered = unreplicated.withColumn("run", F.col("offset") - F.row_number().over(in_order))
    return _bounds(numbered)


def sparse_runs(unreplicated: DataFrame, committed: DataFrame) -> DataFrame:
    """The same where offsets may hold no record.

    Args:
        committed: (topic, partition, offset) of every committed source record between the first
            and the last unreplicated one of each partition.
    """
    before = _with_previous(committed)
    in_order = Window.partitionBy(*PLACE).orderBy("offset")
    rows = unreplicated.select(*PLACE, "offset").join(before, [*PLACE, "offset"])
    previous_missing = F.lag("offset").over(in_order)
    starts = F.coalesce(previous_missing != F.col("previous"), F.lit(True))
    flagged = rows.withColumn("starts", starts.cast("int"))
    return _bounds(flagged.withColumn("run", F.sum("starts").over(in_order)))


def _with_previous(committed: DataFrame) -> DataFrame:
    """Each offset with the committed one before it; sorted block by block, not as a whole."""
    rows = committed.withColumn("block", F.floor(F.col("offset") / BLOCK))
    inside = Window.partitionBy(*PLACE, "block").orderBy("offset")
    last_of_block = rows.groupBy(*PLACE, "block").agg(F.max("offset").alias("last"))
    blocks = Window.partitionBy(*PLACE).orderBy("block")
    before_block = last_of_block.select(
        *PLACE, "block", F.lag("last").over(blocks).alias("before_block")
    )
    previous = F.coalesce(F.lag("offset").over(inside), F.col("before_block"))
    return rows.join(before_block, [*PLACE, "block"]).select(
        *PLACE, "offset", previous.alias("previous")
    )


def _bounds(numbered: DataFrame) -> DataFrame:
    return numbered.groupBy(*PLACE, "run").agg(
        F.min("offset").alias("start"), F.max("offset").alias("end")
    )


def first_runs(
    runs: DataFrame, limit: int
) -> tuple[dict[Place, list[tuple[int, int]]], dict[Place, int]]:
    """The first `limit` runs of each partition, and how many there are of each."""
    rank = F.row_number().over(Window.partitionBy(*PLACE).orderBy("start"))
    total = F.count(F.lit(1)).over(Window.partitionBy(*PLACE))
    chosen = runs.withColumn("total", total).withColumn("rank", rank).where(F.col("rank") <= limit)
    found: dict[Place, list[tuple[int, int]]] = {}
    totals: dict[Place, int] = {}
    for row in chosen.select(*PLACE, "start", "end", "total").collect():
        place = (row["topic"], row["partition"])
        found.setdefault(place, []).append((row["start"], row["end"]))
        totals[place] = row["total"]
    return {place: sorted(runs) for place, runs in found.items()}, totals


def at_places(rows: DataFrame, places: Sequence[Place]) -> DataFrame:
    """Only the rows of these partitions."""
    chosen = table(rows.sparkSession, places, "topic string, partition int")
    return rows.join(F.broadcast(chosen), list(PLACE), "left_semi")
