"""Writes missing records as Parquet: unreplicated ones to `records`, others to `others`."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F

from drctl.gap.comparison import (
    EXAMPLES,
    HISTOGRAM_BINS,
    BucketDigest,
    ComparePlan,
    ExampleOffset,
    Extra,
    Missing,
    Place,
    Side,
    histogram_frame,
)
from drctl.model.gap import Histogram
from drctl.spark import compare
from drctl.spark.compare import table

RECORDS = "records"
OTHERS = "others"
SCHEMA = (
    "topic string, partition int, offset long, timestamp timestamp, timestamp_ms long, key binary, "
    "size long, class string, order string, misplaced boolean, repeated boolean"
)


def selected(classified: DataFrame, names: Mapping[int, str]) -> DataFrame:
    """Return the columns of the result, in the order of `SCHEMA`.

    Args:
        classified: rows of `compare.classified`.
        names: topic names by digest.
    """
    return compare.named(classified, names).select(
        F.col("name").alias("topic"),
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
    )


def write(spark: SparkSession, rows: DataFrame | None, out: Path) -> None:
    """Write both directories, even if they are empty.

    Args:
        rows: from `selected`; None if nothing is missing.
    """
    scratch = out / "missing"
    if rows is not None:
        split = rows.withColumn("unreplicated", F.col("class") == "unreplicated")
        split.write.mode("overwrite").partitionBy("unreplicated").parquet(str(scratch))
    for value, folder in (("true", out / RECORDS), ("false", out / OTHERS)):
        shutil.rmtree(folder, ignore_errors=True)
        written = scratch / f"unreplicated={value}"
        if written.is_dir():
            written.rename(folder)
        else:
            table(spark, [], SCHEMA).write.parquet(str(folder))
    shutil.rmtree(scratch, ignore_errors=True)


def read(spark: SparkSession, folder: Path) -> DataFrame:
    """Read the rows of one directory."""
    return spark.read.schema(SCHEMA).parquet(str(folder))


def read_all(spark: SparkSession, out: Path) -> DataFrame:
    """Read the rows of both directories."""
    return read(spark, out / RECORDS).union(read(spark, out / OTHERS))


BLOCK = 100_000
"""Number of offsets that one task sorts."""

PLACE = ("topic", "partition")


def dense_runs(unreplicated: DataFrame) -> DataFrame:
    """Return ranges as rows (topic, partition, start, end) if every offset holds a record."""
    in_order = Window.partitionBy(*PLACE).orderBy("offset")
    numbered = unreplicated.withColumn("run", F.col("offset") - F.row_number().over(in_order))
    return _bounds(numbered)


def sparse_runs(unreplicated: DataFrame, committed: DataFrame) -> DataFrame:
    """Return ranges as rows (topic, partition, start, end) if some offsets hold no record.

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
    """Add the previous committed offset; sorted in blocks, not as a whole."""
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
    """Return the first `limit` ranges of each partition, and their total number."""
    rank = F.row_number().over(Window.partitionBy(*PLACE).orderBy("start"))
    first = F.col("rank") <= limit
    # Two arrays of numbers reach Python faster than a row per range.
    rows = (
        runs.withColumn("rank", rank)
        .groupBy(*PLACE)
        .agg(
            F.collect_list(F.when(first, F.col("start"))).alias("starts"),
            F.collect_list(F.when(first, F.col("end"))).alias("ends"),
            F.count(F.lit(1)).alias("total"),
        )
    )
    found: dict[Place, list[tuple[int, int]]] = {}
    totals: dict[Place, int] = {}
    for row in rows.collect():
        place = (row["topic"], row["partition"])
        # Disjoint ranges: their starts and their ends have the same order.
        found[place] = list(zip(sorted(row["starts"]), sorted(row["ends"]), strict=True))
        totals[place] = row["total"]
    return found, totals


def at_places(rows: DataFrame, places: Sequence[Place], occurring: int) -> DataFrame:
    """Keep only the rows of these partitions.

    Args:
        occurring: number of partitions that occur in the rows.
    """
    if len(places) == occurring:
        return rows
    chosen = table(rows.sparkSession, places, "topic string, partition int")
    return rows.join(F.broadcast(chosen), list(PLACE), "left_semi")


FEW = 1_000_000
"""Up to so many missing records are collected, written and summed up faster without Spark."""

FEW_BYTES = 256 << 20
"""Their maximum size: keys are collected with them."""


def summarise(missing: DataFrame) -> dict[Place, Missing]:
    """Count missing records of each source partition by class and order verdict."""
    unreplicated = F.col("class") == "unreplicated"

    def number(condition: Column, name: str) -> Column:
        return F.count(F.when(condition, 1)).alias(name)

    counts = [number(F.col("class") == c, c) for c in ("unreplicated", "superseded", "expired")]
    counts += [
        number(unreplicated & (F.col("order") == o), o) for o in ("safe", "conflicting", "unkeyed")
    ]
    time = F.when(unreplicated, F.unix_millis("timestamp"))
    rows = missing.groupBy(*PLACE).agg(
        *counts,
        number(unreplicated & F.col("misplaced"), "misplaced"),
        number(unreplicated & F.col("repeated"), "repeated"),
        F.sum(F.when(unreplicated, F.col("size")).otherwise(0)).alias("bytes"),
        F.sum(F.when(unreplicated, 0).otherwise(F.col("size"))).alias("other_bytes"),
        F.min(time).alias("oldest_timestamp"),
        F.max(time).alias("newest_timestamp"),
    )
    result = {}
    for row in rows.collect():
        values = row.asDict()
        place = (values.pop("topic"), values.pop("partition"))
        result[place] = Missing(**values)
    return result


@dataclass(frozen=True, slots=True)
class Balance:
    """Totals of the counted records.

    Attributes:
        extra: records only on the target, by target partition.
        starts: first possible missing offset of each source partition.
        replicated_from: first replicated offset of each source partition, among the records
            compared one by one.
        digests: of each partition, if all records were counted; their sums leave out records of
            which both clusters have equally many; bounds on the target are those of the plan.
        equals: whether a record may be missing that equals another source record.
        missing: number of missing records.
        bytes: size of the missing records.
    """

    extra: Mapping[Place, Extra]
    starts: Mapping[Place, int]
    replicated_from: Mapping[Place, int]
    digests: Sequence[BucketDigest]
    equals: bool
    missing: int
    bytes: int

    @property
    def few(self) -> bool:
        """Whether the missing records fit into the memory of the driver."""
        return self.missing <= FEW and self.bytes <= FEW_BYTES


def balance(plan: ComparePlan, counted: DataFrame, names: Mapping[int, str]) -> Balance:
    """Sum up `compare.counted` by partition, in one job."""
    topics = {topic.topic: topic for topic in plan.topics}
    more = F.greatest(F.col("on_target") - F.col("on_source"), F.lit(0))
    own = F.col("on_source") == 0
    more_here = F.col("on_source") - F.col("on_target")
    deficit = more_here > 0
    replicated = (F.col("on_source") > 0) & (F.col("on_target") > 0)
    columns = [(_COUNTS[side], digest) for side in Side for digest in ("digest1", "digest2")]
    rows = counted.groupBy("topic", "source_partition", "target_partition").agg(
        F.sum(F.when(own, more).otherwise(0)).alias("own"),
        F.sum(F.when(own, 0).otherwise(more)).alias("again"),
        F.min(F.when(deficit, F.col("first_offset"))).alias("start"),
        F.min(F.when(replicated, F.col("first_offset"))).alias("replicated"),
        F.count(F.when(deficit & (F.col("on_source") > 1), 1)).alias("equals"),
        F.sum(F.when(deficit, more_here).otherwise(0)).alias("missing"),
        F.sum(F.when(deficit, more_here * F.col("size"))).alias("bytes"),
        F.sum("on_source").alias("on_source"),
        F.sum("on_target").alias("on_target"),
        *(F.sum(F.col(count) * F.col(digest)).alias(count + digest) for count, digest in columns),
        F.min("first_offset").alias("first"),
        F.max("last_offset").alias("last"),
    )
    extra: dict[Place, Extra] = {}
    starts: dict[Place, int] = {}
    replicated_from: dict[Place, int] = {}
    digests: list[BucketDigest] = []
    equals, missing, size = False, 0, 0
    for row in rows.collect():
        source = (names[row["topic"]], row["source_partition"])
        target = (names[row["topic"]], row["target_partition"])
        if row["own"] or row["again"]:
            known = extra.get(target, Extra())
            extra[target] = Extra(
                known.only_on_target + row["own"], known.duplicated_on_target + row["again"]
            )
        for found, value in ((starts, row["start"]), (replicated_from, row["replicated"])):
            if value is not None:
                found[source] = min(value, found.get(source, value))
        if row["on_source"]:
            digests.append(_digest(row, Side.SOURCE, source, row["first"], row["last"]))
        if row["on_target"]:
            copies = topics[target[0]].target[target[1]]
            digests.append(_digest(row, Side.TARGET, target, copies.start, copies.end - 1))
        equals |= row["equals"] > 0
        missing += row["missing"]
        size += row["bytes"] or 0
    return Balance(extra, starts, replicated_from, digests, equals, missing, size)


_COUNTS = {Side.SOURCE: "on_source", Side.TARGET: "on_target"}


def _digest(row: Row, side: Side, place: Place, first: int, last: int) -> BucketDigest:
    count = _COUNTS[side]
    sum1, sum2 = (row[count + digest] or 0 for digest in ("digest1", "digest2"))
    return BucketDigest(place[0], side, place[1], 0, row[count], sum1, sum2, first, last)


def histogram(unreplicated: DataFrame, missing: Mapping[Place, Missing]) -> Histogram | None:
    """Build the histogram of the partitions with the largest gaps."""
    frame = histogram_frame(missing)
    if frame is None:
        return None
    worst, start, width = frame
    occurring = sum(m.unreplicated > 0 for m in missing.values())
    bins = (
        at_places(unreplicated, worst, occurring)
        .withColumn("bin", F.floor((F.unix_millis("timestamp") - start) / width).cast("int"))
        .where(F.col("bin").between(0, HISTOGRAM_BINS - 1))
        .groupBy(*PLACE, "bin")
        .count()
    )
    counts = {place: [0] * HISTOGRAM_BINS for place in worst}
    for row in bins.collect():
        counts[row["topic"], row["partition"]][row["bin"]] = row["count"]
    return Histogram(start, width, tuple((t, p, tuple(counts[t, p])) for t, p in worst))


def examples(unreplicated: DataFrame) -> tuple[ExampleOffset, ...]:
    """Return the oldest unreplicated records."""
    oldest = unreplicated.orderBy("timestamp", *PLACE, "offset").limit(EXAMPLES)
    rows = oldest.select(*PLACE, "offset", "size", "order").collect()
    return tuple(
        ExampleOffset(r["topic"], r["partition"], r["offset"], r["size"], r["order"]) for r in rows
    )
