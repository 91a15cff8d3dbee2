"""Second pass: the records of suspect buckets, compared as multisets of their digests.

Rows shrink to a few fixed-width numbers before they are shuffled, whatever the records' size.
"""

from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from drctl.gap.comparison import ComparePlan, Side, TopicPlan, TopicSuspects
from drctl.systems.spark import columns
from drctl.systems.spark.tables import table

IDENTITY = ("topic", "unit", "digest1", "digest2")


def identified(plan: ComparePlan, side: Side, rows: DataFrame) -> DataFrame:
    """Rows with their source topic's name, unit, digests and the digest of their key."""
    named = rows.withColumn("topic", columns.source_topic(plan, side))
    keyed = named.withColumn("of_key", F.xxhash64(F.lit(plan.salt), F.col("key")))
    return columns.with_digests(plan, keyed).select(
        "*",
        columns.unit(plan).alias("unit"),
        columns.bucket(plan).alias("bucket"),
        # Of the whole record where there is no key, so that those records spread out.
        F.when(F.col("key").isNull(), F.col("digest1"))
        .otherwise(F.col("of_key"))
        .alias("key_digest"),
    )


def in_suspect_buckets(
    spark: SparkSession, suspects: Sequence[TopicSuspects], rows: DataFrame
) -> DataFrame:
    """Only the rows whose (topic, unit, bucket) the digests could not settle."""
    wanted = [
        (s.plan.topic, -1 if unit is None else unit, bucket)
        for s in suspects
        for unit, bucket in sorted(s.buckets, key=repr)
    ]
    chosen = table(spark, wanted, "topic string, unit int, bucket int")
    return rows.join(F.broadcast(chosen), ["topic", "unit", "bucket"], "left_semi")


def grouped(sides: Mapping[Side, DataFrame]) -> DataFrame:
    """One row a distinct record: how often on each side, and where."""
    narrow = [
        rows.select(
            F.xxhash64("topic").alias("topic"),
            "unit",
            "digest1",
            "digest2",
            "key_digest",
            F.lit(side is Side.SOURCE).alias("on_source"),
            "partition",
            "offset",
            columns.milliseconds(F.col("timestamp")).alias("time"),
        )
        for side, rows in sides.items()
    ]
    both = narrow[0] if len(narrow) == 1 else narrow[0].union(narrow[1])
    # Nearly all are different: adding them up before they are shuffled would be for nothing.
    both = both.repartition(*IDENTITY)
    here, there = F.col("on_source"), ~F.col("on_source")
    return both.groupBy(*IDENTITY).agg(
        F.sum(here.cast("long")).alias("on_source"),
        F.sum(there.cast("long")).alias("on_target"),
        F.max("key_digest").alias("key_digest"),
        F.min(F.when(here, F.col("offset"))).alias("first_offset"),
        F.min(F.when(here, F.col("partition"))).alias("source_partition"),
        F.min(F.when(there, F.col("partition"))).alias("target_partition"),
        F.max(F.when(there, F.col("time"))).alias("target_time"),
    )


def missing_rows(plan: ComparePlan, source: DataFrame, lacking: DataFrame) -> DataFrame:
    """The source records that are missing, with the last replicated offset of their key.

    Args:
        source: identified source rows from the first missing offset of each partition to its end,
            settled buckets included: those are replicated.
        lacking: of `grouped`, the records that the source holds more often than the target.
    """
    lacks = F.col("on_source") - F.col("on_target")
    repeated = F.col("on_target") > 0
    groups = lacking.select(*IDENTITY, lacks.alias("lacks"), repeated.alias("repeated"))
    rows = source.withColumnRenamed("topic", "topic_name").withColumn(
        "topic", F.xxhash64("topic_name")
    )
    if plan.identity.key:
        keys = lacking.select("topic", "unit", "key_digest").distinct()
        rows = rows.join(keys, ["topic", "unit", "key_digest"], "left_semi")
    rows = _slim(rows.join(groups, list(IDENTITY), "left"))
    return _with_newer(_with_rank(plan, rows))


def _slim(rows: DataFrame) -> DataFrame:
    """Replicated rows travel without their key: only their position matters."""
    return rows.select(
        *IDENTITY,
        "topic_name",
        "partition",
        "offset",
        columns.milliseconds(F.col("timestamp")).alias("time"),
        F.when(F.col("lacks").isNotNull(), F.col("key")).alias("key"),
        F.col("key").isNotNull().alias("keyed"),
        "key_digest",
        F.when(F.col("lacks").isNotNull(), columns.size()).alias("size"),
        "lacks",
        "repeated",
    )


def _with_rank(plan: ComparePlan, rows: DataFrame) -> DataFrame:
    """Of equal records the last ones are the missing ones."""
    # Equal records have equal keys where keys count: one sort then serves both windows.
    same = ("topic", "unit", "key_digest", "digest1", "digest2") if plan.identity.key else IDENTITY
    last_first = Window.partitionBy(*same).orderBy(F.desc("offset"), F.desc("partition"))
    missing = F.coalesce(F.row_number().over(last_first) <= F.col("lacks"), F.lit(False))
    return rows.withColumn("missing", missing)


def _with_newer(rows: DataFrame) -> DataFrame:
    # By partition also where the unit is a whole topic: offsets of two partitions do not compare.
    place = Window.partitionBy("topic", "unit", "key_digest", "partition")
    last = F.max(F.when(~F.col("missing"), F.col("offset"))).over(place)
    return rows.withColumn("last_replicated", last).where("missing")


def newest_replicated(source: DataFrame, lacking: DataFrame) -> DataFrame:
    """The last replicated offset of each source partition, as `newest`.

    Args:
        source: identified source rows from the first missing offset of each partition to its end.
        lacking: as for `missing_rows`.
    """
    groups = lacking.select(*IDENTITY, (F.col("on_source") - F.col("on_target")).alias("lacks"))
    rows = source.withColumn("topic", F.xxhash64("topic")).select(*IDENTITY, "partition", "offset")
    rows = rows.join(groups, list(IDENTITY), "left")
    last_first = Window.partitionBy(*IDENTITY).orderBy(F.desc("offset"), F.desc("partition"))
    among_equals = rows.where("lacks is not null").withColumn(
        "rank", F.row_number().over(last_first)
    )
    replicated = rows.where("lacks is null").select("topic", "partition", "offset")
    others = among_equals.where("rank > lacks").select("topic", "partition", "offset")
    return (
        replicated.union(others).groupBy("topic", "partition").agg(F.max("offset").alias("newest"))
    )


def judged(
    plan: ComparePlan, missing: DataFrame, surplus: DataFrame, newest: DataFrame | None
) -> DataFrame:
    """Missing rows with order verdict, and whether their equal lies in another partition.

    Args:
        surplus: of `grouped`, the records that the target holds more often than the source.
        newest: of `newest_replicated`; None where only the order of keys counts.
    """
    own = (
        surplus.where("on_source = 0")
        .groupBy("topic", "unit", "key_digest")
        .agg(F.max("target_time").alias("own_time"))
    )
    elsewhere = surplus.select("topic", "digest1", "digest2", F.lit(True).alias("found")).distinct()
    rows = missing.join(own, ["topic", "unit", "key_digest"], "left").join(
        elsewhere, ["topic", "digest1", "digest2"], "left"
    )
    of_key = F.col("keyed") & _newer(plan, "last_replicated", "own_time")
    rows = rows.withColumn("newer_of_key", of_key)
    rows = rows.withColumn("misplaced", F.col("found").isNotNull())
    if newest is None:
        keyed = F.when(F.col("newer_of_key"), "conflicting").otherwise("safe")
        return rows.withColumn("order", F.when(F.col("keyed"), keyed).otherwise("unkeyed"))
    youngest = (
        surplus.where("on_source = 0")
        .groupBy("topic", "unit")
        .agg(F.max("target_time").alias("youngest"))
    )
    rows = rows.join(F.broadcast(newest), ["topic", "partition"], "left").join(
        F.broadcast(youngest), ["topic", "unit"], "left"
    )
    behind = _newer(plan, "newest", "youngest")
    return rows.withColumn("order", F.when(behind, "conflicting").otherwise("safe"))


def _newer(plan: ComparePlan, replicated: str, own: str) -> Column:
    """Whether the target holds something newer: a later copy, or a record of its own."""
    own_clock = _named(t for t in plan.topics if not t.timestamps)
    at = F.when(own_clock, F.col(own).isNotNull()).otherwise(F.col(own) >= F.col("time"))
    later = F.col(replicated) > F.col("offset")
    return F.coalesce(later, F.lit(False)) | F.coalesce(at, F.lit(False))


def classified(
    spark: SparkSession,
    plan: ComparePlan,
    rows: DataFrame,
    first_replicated: Mapping[tuple[str, int], int],
) -> DataFrame:
    """Judged rows with their class.

    Args:
        first_replicated: the smallest offset of each source partition that is on the target.
    """
    may_expire = _expirable(spark, plan, rows, first_replicated)
    rank = F.row_number().over(
        Window.partitionBy("topic_name", "unit", "may_expire").orderBy(
            F.when(F.col("unit") < 0, F.col("time")).otherwise(F.lit(0)), "offset", "partition"
        )
    )
    expired = F.col("may_expire") & (rank <= F.col("deleted"))
    superseded = _named(t for t in plan.topics if t.compacted) & F.col("newer_of_key")
    record_class = (
        F.when(superseded, "superseded").when(expired, "expired").otherwise("unreplicated")
    )
    return may_expire.withColumn("class", record_class)


def _expirable(
    spark: SparkSession,
    plan: ComparePlan,
    rows: DataFrame,
    first_replicated: Mapping[tuple[str, int], int],
) -> DataFrame:
    limits = [
        (t.topic, p, deleted, first_replicated.get((t.topic, p)) if t.by_partition else None)
        for t in plan.topics
        for p in t.source
        if (deleted := _deleted(t, p))
    ]
    if not limits:
        nothing = rows.withColumn("deleted", F.lit(0))
        return nothing.withColumn("may_expire", F.lit(False))
    schema = "topic_name string, partition int, deleted long, first_replicated long"
    limited = table(spark, limits, schema)
    joined = rows.join(F.broadcast(limited), ["topic_name", "partition"], "left")
    before = F.coalesce(F.col("offset") < F.col("first_replicated"), F.lit(True))
    return joined.withColumn("may_expire", F.col("deleted").isNotNull() & before)


def _deleted(topic: TopicPlan, partition: int) -> int:
    """How many of its offsets the target no longer holds where a source partition would lie."""
    if topic.by_partition:
        return topic.target_deleted.get(partition, 0)
    return sum(topic.target_deleted.values())


def _named(topics: Iterable[TopicPlan]) -> Column:
    names = [topic.topic for topic in topics]
    return F.col("topic_name").isin(names) if names else F.lit(False)
