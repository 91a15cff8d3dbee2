"""The steps of a comparison as DataFrames: digests, multisets of digests, and classes.

Rows are reduced to a few fixed-width numbers before they are shuffled.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from drctl.gap.comparison import (
    ONE_CELL,
    SECOND_SALT,
    BucketDigest,
    ComparePlan,
    Identity,
    Side,
    TopicPlan,
    TopicSuspects,
)


def table(spark: SparkSession, rows: Sequence[tuple[object, ...]], schema: str) -> DataFrame:
    """Build a DataFrame from rows and a schema string such as `topic string, partition int`.

    The rows are one literal in the query: `createDataFrame` would start Python workers on the
    executors.
    """
    names = [column.split()[0] for column in schema.split(",")]
    text = json.dumps([dict(zip(names, row, strict=True)) for row in rows])
    struct = ", ".join(":".join(column.split()) for column in schema.split(","))
    parsed = F.from_json(F.lit(text), f"array<struct<{struct}>>")
    return spark.range(1).select(F.inline(parsed))


def source_topic(plan: ComparePlan, side: Side) -> Column:
    """Return the name on the source of a row's topic, on either cluster."""
    renamed = [t for t in plan.topics if t.name_on(side) != t.topic]
    if not renamed:
        return F.col("topic")
    if len(plan.topics) == 1:
        return F.lit(plan.topics[0].topic)
    names = F.create_map(*[F.lit(n) for t in renamed for n in (t.name_on(side), t.topic)])
    return F.coalesce(names[F.col("topic")], F.col("topic"))


def is_topic(topics: Iterable[TopicPlan], column: str = "topic") -> Column:
    """Return whether a row belongs to one of these topics (by source name)."""
    names = [t.topic for t in topics]
    return F.col(column).isin(names) if names else F.lit(False)


def per_topic(
    plan: ComparePlan, value: Callable[[TopicPlan], object], column: Callable[[object], Column]
) -> Column:
    """Return `column(value(topic))` for each row's topic, one branch per distinct value."""
    groups: dict[object, list[TopicPlan]] = {}
    for topic in plan.topics:
        groups.setdefault(value(topic), []).append(topic)
    (_, *others) = items = list(groups.items())
    result = column(items[0][0])
    for key, topics in others:
        result = F.when(is_topic(topics), column(key)).otherwise(result)
    return result


def unit(plan: ComparePlan) -> Column:
    """Return the unit of comparison of a row: its partition, or -1 for the whole topic."""
    return per_topic(
        plan,
        lambda topic: topic.by_partition,
        lambda by_partition: F.col("partition") if by_partition else F.lit(-1),
    )


def _header_text(keep: Callable[[Column], Column]) -> Column:
    """Return headers as text: `{"key":"..","value":".."},` each; without value if it is null.

    As JSON, which Spark compiles into the scan loop, unlike lambda functions.
    """
    text = keep(F.concat(F.rtrim(F.to_json("headers"), F.lit("]")), F.lit(",")))
    return F.when(F.size("headers") > 0, text).otherwise(F.lit("["))


def _header_pattern(names: Iterable[str]) -> str:
    """Return the pattern of headers with these names in such a text; quotes in it are escaped."""
    escaped = (re.escape(json.dumps(name, ensure_ascii=False)[1:-1]) for name in sorted(names))
    return r'\{"key":"(?:' + "|".join(escaped) + r')"(?:,"value":"[^"]*")?\},'


def _content(plan: ComparePlan) -> list[Column]:
    """Return key, value and timestamp, if they are compared.

    Spark's hashes skip nulls, so each nullable part is preceded by a flag.
    """
    parts: list[Column] = []
    for wanted, name in ((plan.identity.key, "key"), (plan.identity.value, "value")):
        if wanted:
            parts += [F.col(name).isNull(), F.col(name)]
    if plan.identity.timestamp:
        parts.append(
            per_topic(
                plan,
                lambda topic: topic.timestamps,
                lambda kept: F.col("timestamp") if kept else F.lit(None).cast("timestamp"),
            )
        )
    return parts


def _counted_headers(identity: Identity) -> list[Column]:
    """Return the headers that are compared."""
    parts = []
    if identity.headers:
        names = identity.ignored_headers
        pattern = _header_pattern(names)
        parts.append(
            _header_text(lambda text: F.regexp_replace(text, pattern, "") if names else text)
        )
    if identity.header_names:
        parts.append(_header_text(lambda text: _only(text, identity.header_names)))
    return parts


def _only(text: Column, names: Iterable[str]) -> Column:
    found = F.regexp_extract_all(text, F.lit(f"({_header_pattern(names)})"), 1)
    return F.concat(F.lit("["), F.array_join(found, ""))


def compared_rows(plan: ComparePlan, side: Side, rows: DataFrame) -> DataFrame:
    """Return the records to compare, without copies that replication added to the source."""
    if side is Side.TARGET or not plan.identity.origin_headers:
        return rows
    return rows.where(~_is_copy(plan.identity))


def _is_copy(identity: Identity) -> Column:
    """Whether replication added a row, if applications write to both clusters."""
    return _header_text(lambda text: text).rlike(_header_pattern(identity.origin_headers))


def with_digests(plan: ComparePlan, side: Side, rows: DataFrame) -> DataFrame:
    """Add `digest1` and `digest2`, two independent 64-bit digests of a record's identity.

    If applications write to both clusters, records that replication did not add to the target get
    digests that no source record has.
    """
    digested = _with_digests(plan, compared_rows(plan, side, rows))
    if side is Side.SOURCE or not plan.identity.origin_headers:
        return digested
    copied = _is_copy(plan.identity)
    return digested.withColumns(
        {
            name: F.when(copied, F.col(name)).otherwise(F.bitwise_not(name))
            for name in ("digest1", "digest2")
        }
    )


def _with_digests(plan: ComparePlan, rows: DataFrame) -> DataFrame:
    content = _content(plan)
    first = F.xxhash64(_number(plan.salt), *content)
    second = F.xxhash64(_number(plan.salt ^ SECOND_SALT), _number(SECOND_SALT), *content)
    headers = _counted_headers(plan.identity)
    if not headers:
        return rows.withColumns({"digest1": first, "digest2": second})
    # Columns of their own, not parts of both digests: Spark would write the common parts into its
    # code in an order that depends on the salt, and compile it again for each.
    parts = {"part1": first, "part2": second}
    parts |= {f"headers{number}": text for number, text in enumerate(headers)}
    return rows.withColumns(parts).withColumns(
        {
            "digest1": F.xxhash64(_number(plan.salt), *parts),
            "digest2": F.xxhash64(_number(SECOND_SALT), *parts),
        }
    )


def _number(number: int) -> Column:
    """Return a number to hash, as 64 bits.

    As bytes, which have the same hash: Spark writes numbers into the code that it generates, and
    would compile it again for each salt.
    """
    return F.lit(number.to_bytes(8, "little"))


def bucket(plan: ComparePlan) -> Column:
    """Return the bucket of a row: by timestamp, or by digest if timestamps are not compared."""

    def of_width(width: object) -> Column:
        if not width:
            return F.pmod(F.col("digest1"), F.lit(plan.buckets))
        assert isinstance(width, int)
        time = F.unix_millis("timestamp")
        number = F.floor(time / F.lit(width)).cast("long")
        if width & (width - 1) == 0:
            number = F.shiftright(time, width.bit_length() - 1)  # the same, without fractions
        return F.pmod(number, F.lit(plan.buckets))

    return per_topic(plan, lambda topic: topic.bucket_ms, of_width).cast("int")


def cell(plan: ComparePlan) -> Column:
    """Return the cell of a row's offset."""
    return F.lit(0) if plan.cell_bits >= ONE_CELL else F.shiftright("offset", plan.cell_bits)


def size() -> Column:
    """Return the bytes of key, value and headers.

    Without lambda functions, which Spark does not compile into the scan loop.
    """
    parts = [F.col("key"), F.col("value"), F.array_join("headers.key", "")]
    parts.append(F.array_join(F.col("headers.value").cast("array<string>"), ""))
    lengths = [F.coalesce(F.octet_length(part), F.lit(0)).cast("long") for part in parts]
    return reduce(Column.__add__, lengths)


# The columns that differ most come first: Spark sorts by the first one, and compares the others
# only where it is equal.
IDENTITY = ("digest1", "digest2", "topic", "unit")
KEY = ("key_digest", "topic", "unit")


def equal_by(identity: Identity) -> tuple[str, ...]:
    """Return the columns of `narrow` that are equal for equal records."""
    return (*IDENTITY, "key_digest") if identity.key else IDENTITY


def shuffled_by(identity: Identity) -> tuple[str, ...]:
    """Return the columns by which rows of `narrow` are shuffled.

    Equal records have equal keys if keys are compared: one shuffle then serves records and keys.
    """
    return KEY if identity.key else IDENTITY


def counts_suffice(plan: ComparePlan) -> bool:
    """Return whether `counted` has all that is needed to locate single missing records.

    Equal records then have equal keys and are in one partition.
    """
    return plan.identity.key and all(topic.by_partition for topic in plan.topics)


def narrow(plan: ComparePlan, side: Side, rows: DataFrame) -> DataFrame:
    """Reduce records to digests, place, time, key and size; the last two not of all targets."""
    here = side is Side.SOURCE
    keep_key = here or counts_suffice(plan)
    named = rows.withColumn("topic", source_topic(plan, side))
    keyed = named.withColumn("of_key", F.xxhash64(_number(plan.salt), F.col("key")))
    return with_digests(plan, side, keyed).select(
        F.xxhash64("topic").alias("topic"),
        unit(plan).alias("unit"),
        bucket(plan).alias("bucket"),
        "digest1",
        "digest2",
        # Without a key, use the digest of the record, to avoid skew.
        F.when(F.col("key").isNull(), F.col("digest1"))
        .otherwise(F.col("of_key"))
        .alias("key_digest"),
        F.lit(here).alias("on_source"),
        "partition",
        "offset",
        F.unix_millis("timestamp").alias("time"),
        (F.col("key") if keep_key else F.lit(None).cast("binary")).alias("key"),
        (size() if here else F.lit(None).cast("long")).alias("size"),
    )


def in_suspect_buckets(
    spark: SparkSession, suspects: Sequence[TopicSuspects], rows: DataFrame
) -> DataFrame:
    """Keep only rows in buckets with different digests."""
    wanted = [
        (s.plan.topic, -1 if unit is None else unit, bucket)
        for s in suspects
        for unit, bucket in sorted(s.buckets, key=repr)
    ]
    chosen = table(spark, wanted, "topic string, unit int, bucket int")
    chosen = chosen.withColumn("topic", F.xxhash64("topic"))
    return rows.join(F.broadcast(chosen), ["topic", "unit", "bucket"], "left_semi")


def counted(plan: ComparePlan, rows: DataFrame) -> DataFrame:
    """Return one row per distinct record: its count on each cluster, and where it is.

    If `counts_suffice`, records of which both clusters have equally many are added up: one row per
    key, without digests. Otherwise they are left out, except in topics with expired records.

    Args:
        rows: from `narrow`, of both clusters.
    """
    here, there = F.col("on_source"), ~F.col("on_source")
    alone = counts_suffice(plan)
    by = [*equal_by(plan.identity), *(["key"] if alone else [])]
    place = {
        "source_partition": F.min(F.when(here, F.col("partition"))),
        "target_partition": F.min(F.when(there, F.col("partition"))),
    }
    found = rows.groupBy(*by).agg(
        F.sum(here.cast("long")).alias("on_source"),
        F.sum(there.cast("long")).alias("on_target"),
        F.min(F.when(here, F.col("offset"))).alias("first_offset"),
        F.max(F.when(here, F.col("offset"))).alias("last_offset"),
        F.max("time").alias("time"),
        F.max("size").alias("size"),
        *([] if "key_digest" in by else [F.max("key_digest").alias("key_digest")]),
        *([] if alone else [column.alias(name) for name, column in place.items()]),
    )
    differ = F.col("on_source") != F.col("on_target")
    if not alone:
        expirable = [topic for topic in plan.topics if any(topic.target_deleted.values())]
        return found.where(differ | of_topics(expirable))
    only = [F.when(differ, F.col(name)).alias(name) for name in ("digest1", "digest2", "key")]
    added = found.groupBy(*KEY, *only).agg(
        *(F.sum(name).alias(name) for name in ("on_source", "on_target")),
        F.min("first_offset").alias("first_offset"),
        *(F.max(name).alias(name) for name in ("last_offset", "time", "size")),
    )
    return added.withColumns(
        {
            "source_partition": F.when(F.col("on_source") > 0, F.col("unit")),
            "target_partition": F.when(F.col("on_target") > 0, F.col("unit")),
        }
    )


def missing_records(found: DataFrame) -> DataFrame:
    """Return the missing source records, as `missing_rows`; not those that equal another.

    Args:
        found: rows of `counted`; `counts_suffice` for the plan.
    """
    replicated = found.where(REPLICATED).groupBy(*KEY)
    last = replicated.agg(F.max("last_offset").alias("last_replicated"))
    return (
        found.where("on_source = 1 and on_target = 0")
        .join(last, list(KEY), "left")
        .withColumns(
            {
                "partition": F.col("source_partition"),
                "offset": F.col("last_offset"),
                "keyed": F.col("key").isNotNull(),
                "repeated": F.lit(False),
            }
        )
    )


def newest_counted(found: DataFrame) -> DataFrame:
    """Return the last replicated offset of each source partition, as `newest_replicated`.

    Args:
        found: as for `missing_records`.
    """
    of_partition = F.col("source_partition").alias("partition")
    newest = F.max("last_offset").alias("newest")
    return found.where(REPLICATED).groupBy("topic", of_partition).agg(newest)


REPLICATED = "on_source > 0 and on_target >= on_source"
"""Rows of `counted` whose source records are all on the target."""


def missing_rows(
    plan: ComparePlan, source: DataFrame, deficit: DataFrame, shuffled: bool
) -> DataFrame:
    """Return the missing source records, with the last replicated offset of their key.

    Args:
        source: source rows of `narrow` from the first missing offset of each partition to its end,
            including buckets with equal digests.
        deficit: rows of `counted` that the source holds more often than the target.
        shuffled: whether rows are shuffled already.
    """
    by = equal_by(plan.identity)
    groups = deficit.select(
        *by,
        (F.col("on_source") - F.col("on_target")).alias("missing_copies"),
        (F.col("on_target") > 0).alias("repeated"),
    )
    rows = source.withColumn("keyed", F.col("key").isNotNull())
    if plan.identity.key:
        rows = rows.join(deficit.select(*KEY).distinct(), list(KEY), "left_semi")
    if not shuffled:
        rows = rows.repartition(*shuffled_by(plan.identity))
    rows = rows.join(groups, list(by), "left")
    # Of replicated rows only the offset is needed.
    key = F.when(F.col("missing_copies").isNotNull(), F.col("key"))
    return _with_newer(plan, _with_rank(plan, rows.withColumn("key", key)))


def _with_rank(plan: ComparePlan, rows: DataFrame) -> DataFrame:
    """Mark missing records: among equal records, the last ones are missing."""
    by = equal_by(plan.identity)
    # Equal records have equal keys if keys are compared: one sort then serves both windows.
    first = KEY if plan.identity.key else ()
    equal = Window.partitionBy(*first, *(name for name in by if name not in first))
    last_first = equal.orderBy(F.desc("offset"), F.desc("partition"))
    missing = F.coalesce(F.row_number().over(last_first) <= F.col("missing_copies"), F.lit(False))
    return rows.withColumn("missing", missing)


def _with_newer(plan: ComparePlan, rows: DataFrame) -> DataFrame:
    # Offsets of different partitions are not comparable, even if the unit is a topic.
    one_partition = all(topic.by_partition for topic in plan.topics)
    place = Window.partitionBy(*KEY) if one_partition else Window.partitionBy(*KEY, "partition")
    last = F.max(F.when(~F.col("missing"), F.col("offset"))).over(place)
    return rows.withColumn("last_replicated", last).where("missing")


def newest_replicated(plan: ComparePlan, source: DataFrame, deficit: DataFrame) -> DataFrame:
    """Return the last replicated offset of each source partition, as `newest`.

    Args:
        source: as for `missing_rows`.
        deficit: as for `missing_rows`.
    """
    by = equal_by(plan.identity)
    groups = deficit.select(*by, (F.col("on_source") - F.col("on_target")).alias("missing_copies"))
    rows = source.select(*by, "partition", "offset").join(groups, list(by), "left")
    last_first = Window.partitionBy(*by).orderBy(F.desc("offset"), F.desc("partition"))
    among_equals = rows.where("missing_copies is not null").withColumn(
        "rank", F.row_number().over(last_first)
    )
    replicated = rows.where("missing_copies is null").select("topic", "partition", "offset")
    others = among_equals.where("rank > missing_copies").select("topic", "partition", "offset")
    return (
        replicated.union(others).groupBy("topic", "partition").agg(F.max("offset").alias("newest"))
    )


def with_order(
    plan: ComparePlan,
    missing: DataFrame,
    rows: DataFrame | None,
    surplus: DataFrame | None,
    newest: DataFrame | None,
) -> DataFrame:
    """Add the order verdict to missing rows, and whether an equal record is in another partition.

    Args:
        rows: the rows that `counted` took; not needed if keys are compared.
        surplus: rows of `counted` that the target holds more often than the source; None if there
            are none.
        newest: from `newest_replicated`; None if order matters only within a key.
    """
    rows = _with_surplus(plan, missing, rows, surplus)
    of_key = F.col("keyed") & _newer(plan, "last_replicated", "own_time")
    replaced = F.col("keyed") & _newer(plan, "last_replicated", "own_time", ties=False)
    rows = rows.withColumn("newer_of_key", of_key).withColumn("replaced", replaced)
    if newest is None:
        keyed = F.when(F.col("newer_of_key"), "conflicting").otherwise("safe")
        return rows.withColumn("order", F.when(F.col("keyed"), keyed).otherwise("unkeyed"))
    rows = rows.join(F.broadcast(newest), ["topic", "partition"], "left")
    conflicting = _newer(plan, "newest", "youngest")
    return rows.withColumn("order", F.when(conflicting, "conflicting").otherwise("safe"))


def _with_surplus(
    plan: ComparePlan, missing: DataFrame, rows: DataFrame | None, surplus: DataFrame | None
) -> DataFrame:
    """Add the newest time of target-only records, and whether an equal record is misplaced."""
    if surplus is None:
        never = F.lit(None).cast("long")
        found = {"own_time": never, "youngest": never, "misplaced": F.lit(False)}
        return missing.withColumns(found)
    only = surplus.where("on_source = 0")
    by_key = only
    if not plan.identity.key:  # equal records may have different keys
        assert rows is not None
        by = list(equal_by(plan.identity))
        by_key = rows.where(~F.col("on_source")).join(only.select(*by), by, "left_semi")
    own = by_key.groupBy(*KEY).agg(F.max("time").alias("own_time"))
    youngest = only.groupBy("topic", "unit").agg(F.max("time").alias("youngest"))
    elsewhere = surplus.select("topic", "digest1", "digest2", F.lit(True).alias("found")).distinct()
    return (
        missing.join(own, list(KEY), "left")
        .join(elsewhere, ["topic", "digest1", "digest2"], "left")
        .join(F.broadcast(youngest), ["topic", "unit"], "left")
        .withColumn("misplaced", F.col("found").isNotNull())
    )


def named(rows: DataFrame, names: Mapping[int, str]) -> DataFrame:
    """Add the topic's `name` to rows that have only the digest of it.

    Args:
        names: topic names by digest.
    """
    if len(names) == 1:
        return rows.withColumn("name", F.lit(*names.values()))
    topics = table(rows.sparkSession, list(names.items()), "topic long, name string")
    return rows.join(F.broadcast(topics), "topic")


def of_topics(topics: Iterable[TopicPlan]) -> Column:
    """Return whether a row of `narrow` belongs to one of these topics."""
    names = [F.xxhash64(F.lit(t.topic)) for t in topics]
    return F.col("topic").isin(names) if names else F.lit(False)


def _newer(plan: ComparePlan, replicated: str, own: str, *, ties: bool = True) -> Column:
    """Return whether the target holds a newer record: a later copy, or one only on the target.

    Args:
        ties: whether a record that only the target has is newer with the same timestamp, too.
    """
    own_clock = of_topics(t for t in plan.topics if not t.timestamps)
    newer = F.col(own) >= F.col("time") if ties else F.col(own) > F.col("time")
    at = F.when(own_clock, F.col(own).isNotNull()).otherwise(newer)
    later = F.col(replicated) > F.col("offset")
    return F.coalesce(later, F.lit(False)) | F.coalesce(at, F.lit(False))


def classified(
    spark: SparkSession,
    plan: ComparePlan,
    rows: DataFrame,
    first_replicated: Mapping[tuple[str, int], int],
) -> DataFrame:
    """Add the class to rows.

    Args:
        first_replicated: smallest replicated offset of each source partition.
    """
    compacted = of_topics(t for t in plan.topics if t.compacted)
    superseded = F.when(compacted & F.col("replaced"), "superseded")
    limits = [
        (t.topic, p, deleted, first_replicated.get((t.topic, p)) if t.by_partition else None)
        for t in plan.topics
        for p in t.source
        if (deleted := _deleted(t, p))
    ]
    if not limits:
        return rows.withColumn("class", superseded.otherwise("unreplicated"))
    schema = "topic string, partition int, deleted long, first_replicated long"
    limited = table(spark, limits, schema).withColumn("topic", F.xxhash64("topic"))
    joined = rows.join(F.broadcast(limited), ["topic", "partition"], "left")
    before = F.coalesce(F.col("offset") < F.col("first_replicated"), F.lit(True))
    may_expire = joined.withColumn("may_expire", F.col("deleted").isNotNull() & before)
    rank = F.row_number().over(
        Window.partitionBy("topic", "unit", "may_expire").orderBy(
            F.when(F.col("unit") < 0, F.col("time")).otherwise(F.lit(0)), "offset", "partition"
        )
    )
    expired = F.col("may_expire") & (rank <= F.col("deleted"))
    return may_expire.withColumn(
        "class", superseded.when(expired, "expired").otherwise("unreplicated")
    )


def _deleted(topic: TopicPlan, partition: int) -> int:
    """Return how many offsets the target has deleted for a source partition."""
    if topic.by_partition:
        return topic.target_deleted.get(partition, 0)
    return sum(topic.target_deleted.values())


PLACED = ("placed1", "placed2")


def digest_rows(plan: ComparePlan, rows: DataFrame) -> DataFrame:
    """Return one row per (topic, cluster, partition, bucket, cell) of rows of `narrow`.

    The columns are in the order of `BucketDigest`, the topic by its digest. If the order is to be
    checked, `PLACED` follows: sums of each digest times the offset of its record.
    """
    cells = rows.withColumn("cell", cell(plan))
    # Sums wrap around at 64 bits as intended: the session is not in ANSI mode.
    placed = [
        F.sum(F.col(digest) * F.col("offset")).alias(name)
        for name, digest in zip(PLACED, ("digest1", "digest2"), strict=True)
    ]
    sums = cells.groupBy("topic", "on_source", "partition", "bucket", "cell").agg(
        F.count(F.lit(1)).alias("records"),
        F.sum("digest1").alias("sum1"),
        F.sum("digest2").alias("sum2"),
        F.min("offset").alias("first"),
        F.max("offset").alias("last"),
        *(placed if plan.order else ()),
    )
    names = [name for name in BucketDigest._fields if name != "side"]
    return sums.select("topic", "on_source", *names[1:], *(PLACED if plan.order else ()))
