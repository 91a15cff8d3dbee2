"""What the driver learns of the missing records once they are written: sums, never records."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from drctl.gap.comparison import ExampleOffset, Extra, Missing, Place
from drctl.model.gap import Histogram
from drctl.systems.spark.runs import at_places

PLACE = ("topic", "partition")
HISTOGRAM_BINS = 60
HISTOGRAM_ROWS = 30
EXAMPLES = 20


def summarise(missing: DataFrame) -> dict[Place, Missing]:
    """Counts by class and verdict of each source partition, without its runs."""
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
    """What the grouped records say before any of them is looked at.

    Attributes:
        extra: target records without an equal on the source, by target partition.
        starts: where the first missing record of each source partition may be.
        replicated_from: the first source offset of each partition that is on the target, among
            the records compared one by one.
    """

    extra: Mapping[Place, Extra]
    starts: Mapping[Place, int]
    replicated_from: Mapping[Place, int]


def balance(groups: DataFrame, names: Mapping[int, str]) -> Balance:
    """Add up `compare.grouped` by partition, in one job."""
    more = F.greatest(F.col("on_target") - F.col("on_source"), F.lit(0))
    own = F.col("on_source") == 0
    lacking = F.col("on_source") > F.col("on_target")
    replicated = (F.col("on_source") > 0) & (F.col("on_target") > 0)
    rows = groups.groupBy("topic", "source_partition", "target_partition").agg(
        F.sum(F.when(own, more).otherwise(0)).alias("own"),
        F.sum(F.when(own, 0).otherwise(more)).alias("again"),
        F.min(F.when(lacking, F.col("first_offset"))).alias("start"),
        F.min(F.when(replicated, F.col("first_offset"))).alias("replicated"),
    )
    extra: dict[Place, Extra] = {}
    starts: dict[Place, int] = {}
    replicated_from: dict[Place, int] = {}
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
    return Balance(extra, starts, replicated_from)


def histogram(unreplicated: DataFrame, missing: Mapping[Place, Missing]) -> Histogram | None:
    """Where in time the records of the worst partitions lie."""
    worst = sorted(
        (place for place, m in missing.items() if m.unreplicated),
        key=lambda place: (-missing[place].unreplicated, place),
    )[:HISTOGRAM_ROWS]
    if not worst:
        return None
    times = [
        t
        for place in worst
        for t in (missing[place].oldest_timestamp, missing[place].newest_timestamp)
        if t is not None and t > 0  # records without a timestamp would stretch it back to 1970
    ]
    if not times:
        return None
    start, end = min(times), max(times)
    width = (end - start) // HISTOGRAM_BINS + 1
    bins = (
        at_places(unreplicated, worst)
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
    """The oldest unreplicated records."""
    oldest = unreplicated.orderBy("timestamp", *PLACE, "offset").limit(EXAMPLES)
    rows = oldest.select(*PLACE, "offset", "size", "order").collect()
    return tuple(
        ExampleOffset(r["topic"], r["partition"], r["offset"], r["size"], r["order"]) for r in rows
    )
