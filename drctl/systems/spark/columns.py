"""Column expressions over rows of Spark's Kafka source: identity digests, buckets, sizes.

Expressions only: no Python code runs on executors.
"""

from collections.abc import Callable, Iterable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from drctl.gap.comparison import ComparePlan, Identity, Side, TopicPlan

SECOND_SALT = 0x5DEECE66D
"""Makes the second digest of a record independent of the first."""


def milliseconds(timestamp: Column) -> Column:
    """Kafka's own form of a record timestamp."""
    return F.unix_millis(timestamp)


def source_topic(plan: ComparePlan, side: Side) -> Column:
    """The source topic's name of a row, whichever side it comes from."""
    renamed = [t for t in plan.topics if t.name_on(side) != t.topic]
    if not renamed:
        return F.col("topic")
    if len(plan.topics) == 1:
        return F.lit(plan.topics[0].topic)
    names = F.create_map(*[F.lit(n) for t in renamed for n in (t.name_on(side), t.topic)])
    return F.coalesce(names[F.col("topic")], F.col("topic"))


def is_topic(topics: Iterable[TopicPlan]) -> Column:
    """Whether a row belongs to one of these topics (by source name)."""
    names = [t.topic for t in topics]
    return F.col("topic").isin(names) if names else F.lit(False)


def per_topic(
    plan: ComparePlan, value: Callable[[TopicPlan], object], column: Callable[[object], Column]
) -> Column:
    """`column(value(topic))` for each row's topic; one branch for each distinct value."""
    groups: dict[object, list[TopicPlan]] = {}
    for topic in plan.topics:
        groups.setdefault(value(topic), []).append(topic)
    (_, *others) = items = list(groups.items())
    result = column(items[0][0])
    for key, topics in others:
        result = F.when(is_topic(topics), column(key)).otherwise(result)
    return result


def unit(plan: ComparePlan) -> Column:
    """The partition that a row is compared within; -1 for all of its topic together."""
    return per_topic(
        plan,
        lambda topic: topic.by_partition,
        lambda by_partition: F.col("partition") if by_partition else F.lit(-1),
    )


def _named_headers(names: Sequence[str], *, keep: bool) -> Column:
    """Headers with (or without) these names; null values told apart from empty ones."""
    chosen = F.filter("headers", lambda h: h["key"].isin(list(names)) == F.lit(keep))
    return F.transform(
        chosen, lambda h: F.struct(h["key"], h["value"].isNull(), h["value"].alias("value"))
    )


def _content(plan: ComparePlan) -> list[Column]:
    """Key, value and timestamp as far as they count.

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
    """The headers that count, with their number."""
    sets = []
    if identity.headers:
        sets.append(_named_headers(sorted(identity.ignored_headers), keep=False))
    if identity.header_names:
        sets.append(_named_headers(identity.header_names, keep=True))
    parts = []
    for headers in sets:
        present = F.when(F.col("headers").isNotNull(), headers)
        parts += [F.coalesce(F.size(present), F.lit(0)), present]
    return parts


def with_digests(plan: ComparePlan, rows: DataFrame) -> DataFrame:
    """Rows with `digest1` and `digest2`: two independent 64-bit digests of a record's identity.

    Key and value are digested in a projection of their own. Looking into headers takes lambda
    functions, which Spark cannot compile into the scan's loop: what that second projection copies
    should be narrow. It uses `content1` twice, without which Spark would merge the two.
    """
    content = _content(plan)
    digested = rows.select(
        "*",
        F.xxhash64(F.lit(plan.salt), *content).alias("content1"),
        F.xxhash64(F.lit(plan.salt ^ SECOND_SALT), F.lit(SECOND_SALT), *content).alias("content2"),
    )
    headers = _counted_headers(plan.identity)
    if not headers:
        return digested.withColumnsRenamed({"content1": "digest1", "content2": "digest2"})
    both = F.col("content1"), F.col("content2")
    return digested.select(
        *rows.columns,
        F.xxhash64(F.lit(plan.salt), *both, *headers).alias("digest1"),
        F.xxhash64(F.lit(SECOND_SALT), *both, *headers).alias("digest2"),
    )


def bucket(plan: ComparePlan) -> Column:
    """The digest bucket of a row: of its time, or of its digest where times do not count."""

    def of_width(width: object) -> Column:
        if not width:
            return F.pmod(F.col("digest1"), F.lit(plan.buckets))
        time = milliseconds(F.col("timestamp"))
        return F.pmod(F.floor(time / F.lit(width)).cast("long"), F.lit(plan.buckets))

    return per_topic(plan, lambda topic: topic.bucket_ms, of_width).cast("int")


def size() -> Column:
    """Key, value and header bytes of a record."""
    headers = F.aggregate(
        "headers",
        F.lit(0).cast("long"),
        lambda total, h: (
            total + F.octet_length(h["key"]) + F.coalesce(F.octet_length(h["value"]), F.lit(0))
        ),
    )
    lengths = [F.coalesce(F.octet_length(name), F.lit(0)) for name in ("key", "value")]
    return (lengths[0] + lengths[1] + F.coalesce(headers, F.lit(0))).cast("long")
