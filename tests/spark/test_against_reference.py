"""Spark's comparison equals the reference on generated topics."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from drctl.gap.comparison import ComparePlan, Identity, Side, TopicPlan, find_suspects
from drctl.gap.reference import identify
from drctl.model.gap import OrderScope
from drctl.model.topology import OffsetRange, Record, TopicRanges
from drctl.spark import inversions, results
from drctl.spark.comparer import SparkComparer
from drctl.stores.parquet import ParquetRecords
from tests.gap import test_inversions
from tests.gap.comparing import GeneratedLogs, agree, no_progress, plan_of, run
from tests.gap.logs import BASE_TIME, GeneratedTopic, Log, identities, reordered, topics
from tests.parquet.reading import inversions_of, rows_of
from tests.spark.rows import FEW, MemoryRows

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]


def at(partition: int, offset: int, key: bytes | None, value: bytes | None = b"v") -> Record:
    return Record(partition, offset, BASE_TIME, key, value)


def trap(name: str, source: Log, target: Log, **changes: object) -> GeneratedTopic:
    ranges = [
        {p: OffsetRange(0, log[-1].offset + 1 if log else 0) for p, log in logs.items()}
        for logs in (source, target)
    ]
    plan = TopicPlan(name, name, True, True, 1000, False, *ranges, dict.fromkeys(target, 0))
    return GeneratedTopic(replace(plan, **changes), source, target)


def copies(log: Sequence[Record], *kept: int) -> list[Record]:
    """Return these records, in this order, at consecutive offsets."""
    return [replace(log[n], offset=place) for place, n in enumerate(kept)]


KEYED = [at(0, n, b"k%d" % (n % 3), b"%d" % n) for n in range(9)]
EQUAL = [at(0, n, b"k", b"same") for n in range(4)]
TRAPS = (
    # As many records on both sides, because duplicates hide the loss.
    trap("duplicates", {0: KEYED}, {0: copies(KEYED, 0, 1, 1, 1, 2, 5, 6, 7, 8)}),
    trap("fewer-equals", {0: [*EQUAL, at(0, 4, b"k")]}, {0: copies(EQUAL, 0, 1)}),
    # Equal records in two partitions, of which one lost its copy, and compared across partitions.
    trap("elsewhere", {0: EQUAL[:1], 1: [at(1, 0, b"k", b"same")]}, {0: EQUAL[:2], 1: []}),
    trap(
        "across",
        {0: EQUAL[:2], 1: [at(1, n, b"k", b"same") for n in range(2)]},
        {0: EQUAL[:1], 1: [at(1, n, b"k", b"same") for n in range(2)]},
        by_partition=False,
        bucket_ms=0,
    ),
    trap("compacted", {0: KEYED}, {0: copies(KEYED, 2, 6, 7)}, compacted=True),
    # Offsets without records on the source: markers of transactions, aborted records.
    trap("transactions", {0: [replace(r, offset=2 * r.offset) for r in KEYED]}, {0: KEYED[3:6]}),
    trap("reordered", {0: KEYED}, {0: copies(KEYED, 6, 3, 0, 1, 4, 8, 5)}),
    trap("expired", {0: KEYED}, {0: KEYED[4:8]}, target_deleted={0: 3}),
    trap("no keys", {0: [at(0, 0, None), at(0, 1, b""), at(0, 2, None, None)]}, {0: []}),
    trap("nothing there", {0: KEYED}, {}),
    trap("the same", {0: KEYED}, {0: KEYED}),
    trap(
        "own", {0: KEYED[:3]}, {0: [*KEYED[:2], at(0, 2, b"k2", b"own"), at(0, 3, b"k1", b"own")]}
    ),
)


class CountedRows(MemoryRows):
    """Records which cluster is read, and which partitions."""

    def rows(self, side: Side, ranges: TopicRanges) -> DataFrame | None:
        self.read = [*getattr(self, "read", ()), side]
        self.newest = {topic: sorted(partitions) for topic, partitions in ranges.items()}
        return super().rows(side, ranges)


def comparing(
    spark: SparkSession, generated: Sequence[GeneratedTopic], out: Path, writes: str = "spark"
) -> SparkComparer:
    writer = ParquetRecords(out) if writes == "drctl" else None
    out.mkdir(exist_ok=True)
    return SparkComparer(spark, MemoryRows(spark, GeneratedLogs(generated).logs), out, writer)


Way = Callable[
    [Sequence[GeneratedTopic], Identity, OrderScope], tuple[Sequence[GeneratedTopic], ComparePlan]
]


def digests_first(
    generated: Sequence[GeneratedTopic], identity: Identity, within: OrderScope
) -> tuple[Sequence[GeneratedTopic], ComparePlan]:
    return generated, plan_of(generated, identity, within)


def all_rows_kept(
    generated: Sequence[GeneratedTopic], identity: Identity, within: OrderScope
) -> tuple[Sequence[GeneratedTopic], ComparePlan]:
    return generated, plan_of(generated, identity, within).reading_once(order=True)


def all_rows_kept_by_partition(
    generated: Sequence[GeneratedTopic], identity: Identity, within: OrderScope
) -> tuple[Sequence[GeneratedTopic], ComparePlan]:
    """All rows are kept to check their order, and counted, also those of equal topics."""
    chosen, plan = counted_once(generated, identity, within)
    return chosen, replace(plan, order=True)


def counted_once(
    generated: Sequence[GeneratedTopic], identity: Identity, within: OrderScope
) -> tuple[Sequence[GeneratedTopic], ComparePlan]:
    """Some of several equal records are missing: they are read again."""
    chosen = [g for g in generated if g.plan.by_partition]
    return chosen, plan_of(chosen, identity, within).reading_once()


def counted_without_equals(
    generated: Sequence[GeneratedTopic], identity: Identity, within: OrderScope
) -> tuple[Sequence[GeneratedTopic], ComparePlan]:
    """No source record equals another: nothing is read again."""
    chosen = [without_equals(g, identity) for g in generated if g.plan.by_partition]
    return chosen, plan_of(chosen, identity, within).reading_once()


def without_equals(g: GeneratedTopic, identity: Identity) -> GeneratedTopic:
    source = {}
    for partition, log in g.source.items():
        last = {identify(r, identity, g.plan.timestamps): r for r in log}
        source[partition] = sorted(last.values(), key=lambda record: record.offset)
    return GeneratedTopic(g.plan, source, g.target)


@pytest.mark.parametrize(
    "way",
    [
        digests_first,
        all_rows_kept,
        pytest.param(all_rows_kept_by_partition, marks=pytest.mark.nightly),
        counted_once,
        counted_without_equals,
    ],
)
@given(
    generated=st.tuples(*(topics(f"topic{n}") for n in range(8))),
    identity=identities,
    within=st.sampled_from(OrderScope),
)
@FEW
def test_spark_agrees_with_the_reference(
    spark: SparkSession,
    tmp_path: Path,
    way: Way,
    generated: tuple[GeneratedTopic, ...],
    identity: Identity,
    within: OrderScope,
) -> None:
    chosen, plan = way(generated, identity, within)
    agree(chosen, identity, run(comparing(spark, chosen, tmp_path), plan), within)


@pytest.mark.parametrize(
    "identity", [Identity(), Identity(key=False, timestamp=False)], ids=["all", "no key"]
)
def test_what_is_read_once_holds_every_trap(
    spark: SparkSession, tmp_path: Path, identity: Identity
) -> None:
    rows = CountedRows(spark, GeneratedLogs(TRAPS).logs)
    comparer = SparkComparer(spark, rows, tmp_path)
    plan = plan_of(TRAPS, identity).reading_once(order=True)
    digests = comparer.digest(plan, plan.everything(), no_progress)
    order = comparer.check_order(plan, no_progress)
    found = comparer.compare(plan, find_suspects(plan, digests), no_progress)
    agree(TRAPS, identity, found)
    written = inversions_of(tmp_path / "inversions")
    test_inversions.agree(TRAPS, identity, plan.within, order, written)
    assert rows.read == list(Side)
    assert spark._jsc.getPersistentRDDs().isEmpty()


@pytest.mark.parametrize("within", OrderScope)
@pytest.mark.parametrize(
    ("way", "reads"),
    [
        pytest.param(all_rows_kept_by_partition, [*Side], id="all rows kept"),
        # The source is read again for ranges, because some offsets hold no record.
        pytest.param(counted_without_equals, [*Side, Side.SOURCE], id="without equals"),
        pytest.param(counted_once, [*Side, Side.SOURCE, Side.SOURCE], id="with equals"),
    ],
)
def test_counts_of_each_record_hold_every_trap(
    spark: SparkSession, tmp_path: Path, way: Way, reads: Sequence[Side], within: OrderScope
) -> None:
    chosen, plan = way(TRAPS, Identity(), within)
    rows = CountedRows(spark, GeneratedLogs(chosen).logs)
    agree(chosen, Identity(), run(SparkComparer(spark, rows, tmp_path), plan), within)
    assert rows.read == reads
    assert spark._jsc.getPersistentRDDs().isEmpty()


@pytest.mark.parametrize("limit", ["FEW", "FEW_BYTES"])
def test_missing_records_are_written_and_summed_up_alike_with_and_without_spark(
    spark: SparkSession, tmp_path: Path, limit: str
) -> None:
    dense = [g for g in TRAPS if g.plan.topic != "transactions"]
    plan = plan_of(dense, Identity())
    own, by_spark = (comparing(spark, dense, tmp_path / n, "drctl") for n in ("drctl", "spark"))
    with patch.object(results, "write", side_effect=AssertionError("Spark writes")):
        found = run(own, plan)
    agree(dense, Identity(), found)
    with patch.object(results, limit, 0):
        assert run(by_spark, plan) == found
    for folder in (results.RECORDS, results.OTHERS):
        first, second = (
            sorted(map(str, rows_of(tmp_path / name / folder))) for name in ("drctl", "spark")
        )
        assert first
        assert first == second


@pytest.mark.parametrize(
    ("bits", "digested"),
    [
        pytest.param(inversions.BLOCK_BITS, False, id="one block"),
        pytest.param(1, False, id="many blocks"),
        pytest.param(1, True, id="only partitions that digests do not prove to be in order"),
    ],
)
@given(
    generated=st.tuples(*(reordered(f"topic{n}") for n in range(8))),
    identity=identities,
    within=st.sampled_from(OrderScope),
)
@FEW
def test_spark_finds_the_inversions_of_the_reference(
    spark: SparkSession,
    tmp_path: Path,
    bits: int,
    digested: bool,
    generated: tuple[GeneratedTopic, ...],
    identity: Identity,
    within: OrderScope,
) -> None:
    comparer = comparing(spark, generated, tmp_path)
    plan = plan_of(generated, identity, within)
    if digested:
        plan = plan.reading_once(order=True)
        comparer.digest(plan, plan.everything(), no_progress)
    with patch.object(inversions, "BLOCK_BITS", bits):
        found = comparer.check_order(plan, no_progress)
    written = inversions_of(tmp_path / "inversions")
    test_inversions.agree(generated, identity, within, found, written)


def test_partitions_in_order_are_not_read_again(spark: SparkSession, tmp_path: Path) -> None:
    orders = {
        "the same": (range(9), 0),
        "later": (range(9), 100),
        "two keys swapped": ([0, 1, 2, 3, 5, 4, 6, 7, 8], 0),
        "one key swapped": ([0, 1, 5, 3, 4, 2, 6, 7, 8], 7),
        "one lost, one twice": ([0, 1, 1, 3, 4, 5, 6, 7, 8], 0),
    }
    source = {p: [replace(r, partition=p) for r in KEYED] for p in range(len(orders))}
    target = {
        p: [replace(r, offset=r.offset + start) for r in copies(source[p], *kept)]
        for p, (kept, start) in enumerate(orders.values())
    }
    generated = trap("orders", source, target)
    rows = CountedRows(spark, GeneratedLogs([generated]).logs)
    comparer = SparkComparer(spark, rows, tmp_path)
    plan = plan_of([generated], Identity()).reading_once(order=True)
    comparer.digest(plan, plan.everything(), no_progress)
    found = comparer.check_order(plan, no_progress)
    assert rows.newest == {"orders": [2, 3, 4]}
    assert rows.read == [*Side, *Side]
    assert dict(found.inversions) == {("orders", 3): 1}
    written = inversions_of(tmp_path / "inversions")
    test_inversions.agree([generated], Identity(), plan.within, found, written)
    # A part of the records proves nothing about the others.
    some = {side: {"orders": {3: (OffsetRange(0, 1),)}} for side in Side}
    comparer.digest(plan, some, no_progress)
    assert comparer.check_order(plan, no_progress).inversions == found.inversions
    assert rows.newest == {"orders": [0, 1, 2, 3, 4]}


@pytest.mark.parametrize(
    ("copies", "left"),
    [
        pytest.param([0, 1, 2, 3, 4, 5, 6, 7], [], id="equal offsets"),
        pytest.param([3, 4, 5, 6, 17, 18, 19, 20], [], id="more offsets in between"),
        pytest.param([0, 1, 2, 3, 5, 4, 6, 7], [4, 5], id="two of one block"),
        pytest.param([0, 1, 2, 4, 3, 5, 6, 7], [2, 3, 4, 5], id="two of two blocks"),
        pytest.param([10, 11, 2, 3, 4, 5, 6, 7], list(range(8)), id="the first block is late"),
        pytest.param([0, 1, 4, 5, 2, 3, 6, 7], [2, 3, 4, 5], id="two blocks"),
        pytest.param([0, 1, 2, 4, 6, 7, 8, 9], [2, 3], id="an offset in between, in a block"),
    ],
)
def test_order_is_checked_only_where_blocks_are_uneven(
    spark: SparkSession, copies: Sequence[int], left: Sequence[int]
) -> None:
    rows = [("t", 0, 0, here, there) for here, there in enumerate(copies)]
    schema = "topic string, source_partition int, target_partition int, "
    pairs = spark.createDataFrame(rows, schema + "source_offset long, target_offset long")
    with patch.object(inversions, "BLOCK_BITS", 1):
        found = inversions.in_uneven_blocks(pairs).collect()
    assert sorted(row["source_offset"] for row in found) == left
