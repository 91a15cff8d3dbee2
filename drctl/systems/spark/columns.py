"""Column expressions over rows of Spark's Kafka source: identity digests, buckets, sizes.

Expressions only: no Python code runs on executors.
"""

import json
import re
from collections.abc import Callable, Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from drctl.gap.comparison import ONE_CELL, SECOND_SALT, ComparePlan, Identity, Side, TopicPlan


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


def _header_text(keep: Callable[[Column], Column]) -> Column:
    """Headers as text, `[{"key":"..","value":".."},` of each; without value where that is null.

    JSON, for Spark compiles it into the scan's loop, which it does not with lambda functions.
    """
    text = keep(F.concat(F.rtrim(F.to_json("headers"), F.lit("]")), F.lit(",")))
    return F.when(F.size("headers") > 0, text).otherwise(F.lit("["))


def _header_pattern(names: Iterable[str]) -> str:
    """Headers of these names in such a text, in which no quote of a name or value stands bare."""
    escaped = (re.escape(json.dumps(name, ensure_ascii=False)[1:-1]) for name in sorted(names))
    return r'\{"key":"(?:' + "|".join(escaped) + r')"(?:,"value":"[^"]*")?\},'


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
    """The headers that count."""
    parts = []
    if identity.headers:
        parts.append(_header_text(lambda text: _without(text, identity.ignored_headers)))
    if identity.header_names:
        parts.append(_header_text(lambda text: _only(text, identity.header_names)))
    return parts


def _without(text: Column, names: Iterable[str]) -> Column:
    return F.regexp_replace(text, _header_pattern(names), "") if names else text


def _only(text: Column, names: Iterable[str]) -> Column:
    found = F.regexp_extract_all(text, F.lit(f"({_header_pattern(names)})"), 1)
    return F.concat(F.lit("["), F.array_join(found, ""))


def with_digests(plan: ComparePlan, rows: DataFrame) -> DataFrame:
    """Rows with `digest1` and `digest2`: two independent 64-bit digests of a record's identity."""
    content = _content(plan)
    first = F.xxhash64(_long(plan.salt), *content)
    second = F.xxhash64(_long(plan.salt ^ SECOND_SALT), _long(SECOND_SALT), *content)
    headers = _counted_headers(plan.identity)
    if not headers:
        return rows.withColumns({"digest1": first, "digest2": second})
    return rows.select(
        *rows.columns,
        F.xxhash64(_long(plan.salt), first, second, *headers).alias("digest1"),
        F.xxhash64(_long(SECOND_SALT), first, second, *headers).alias("digest2"),
    )


def _long(number: int) -> Column:
    """A small number would be hashed as one of 32 bits."""
    return F.lit(number).cast("long")


def bucket(plan: ComparePlan) -> Column:
    """The digest bucket of a row: of its time, or of its digest where times do not count."""

    def of_width(width: object) -> Column:
        if not width:
            return F.pmod(F.col("digest1"), F.lit(plan.buckets))
        assert isinstance(width, int)
        time = milliseconds(F.col("timestamp"))
        number = F.floor(time / F.lit(width)).cast("long")
        if width & (width - 1) == 0:
            number = F.shiftright(time, width.bit_length() - 1)  # the same, without fractions
        return F.pmod(number, F.lit(plan.buckets))

    return per_topic(plan, lambda topic: topic.bucket_ms, of_width).cast("int")


def cell(plan: ComparePlan) -> Column:
    """The stretch of offsets that a row lies in."""
    return F.lit(0) if plan.cell_bits >= ONE_CELL else F.shiftright("offset", plan.cell_bits)


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
