"""`drctl gap` on two clusters in memory, from their topics to the result."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

import pytest

from drctl.config.link import Link
from drctl.config.loading import read
from drctl.config.reverse_link import reversed_link
from drctl.gap.analysis import Budget, GapAnalysis, Scope, Scoping, Work
from drctl.gap.comparison import ScanFailed, Side
from drctl.gap.direct import DirectComparer
from drctl.gap.summing import MissingRow
from drctl.gap.tail import Position, Tail
from drctl.model.errors import Unknown
from drctl.model.gap import GapResult, Inversion, NotCompared, PartitionGap
from drctl.model.topology import Chunk, Row, TopicPartition, TopicRanges, Unavailable
from tests.fakes import FakeCluster, FakeLog
from tests.gap.comparing import no_progress

CONFIG = """clusters: {p: {bootstrap: 'p:1'}, s: {bootstrap: 's:1'}}
links: {main: {from: p, to: s, topics: [orders, clicks]}}
"""
LINK = read(CONFIG, Path("x.yaml")).link()
NOON = datetime(2026, 3, 5, 12, tzinfo=UTC)
ORDERS, CLICKS = TopicPartition("orders", 0), TopicPartition("clicks", 0)


def rows(*numbers: int) -> list[Row]:
    """Return records with their numbers as key and time, at consecutive offsets."""
    return [(at, 1000 + n, b"k%d" % n, b"v", ()) for at, n in enumerate(numbers)]


def cluster(name: str, **logs: FakeLog | Unavailable) -> FakeCluster:
    return FakeCluster({TopicPartition(topic, 0): log for topic, log in logs.items()}, name)


class Logs:
    """Reads both clusters; `failing` is called before each read."""

    def __init__(self, source: FakeCluster, target: FakeCluster) -> None:
        self.by_side = {Side.SOURCE: source, Side.TARGET: target}
        self.read_ranges: list[tuple[Side, TopicRanges]] = []
        self.failing: Callable[[], None] = lambda: None

    def read(self, side: Side, ranges: TopicRanges) -> Iterator[Chunk]:
        self.failing()
        self.read_ranges.append((side, ranges))
        yield from self.by_side[side].read(ranges)


class Written:
    """Stores missing records; no copy is in a different order."""

    def write(self, missing: Iterable[MissingRow]) -> None:
        assert all(row.offset >= 0 for row in missing)

    def write_inversions(self, found: Iterable[Inversion]) -> None:
        assert not list(found)


def compared(
    source: FakeCluster,
    target: FakeCluster,
    scope: Scope = Scope.FULL,
    *,
    logs: Logs | None = None,
    tail: Tail | None = None,
    offsets_a_second: float = 1e6,
    announced: list[Work] | None = None,
    link: Link = LINK,
) -> GapResult:
    seen = logs or Logs(source, target)
    return GapAnalysis(
        link=link,
        source=source,
        target=target,
        scoping=Scoping(scope, lambda _topics: tail, Budget(1, offsets_a_second)),
        open_comparer=lambda _offsets: nullcontext(DirectComparer(seen, Written())),
        progress=no_progress,
        announce=lambda work, _bytes: (announced if announced is not None else []).append(work),
        now=lambda: NOON,
        out="out",
    ).run()


def only(result: GapResult, topic: str) -> PartitionGap:
    (found,) = (each for each in result.topics if each.topic == topic)
    (partition,) = found.partitions
    return partition


def test_missing_records_and_target_only_records() -> None:
    source = cluster("p", orders=FakeLog(rows(0, 1, 2, 3)), clicks=FakeLog(rows(0, 1)))
    target = cluster("s", orders=FakeLog(rows(0, 2, 7)), clicks=FakeLog(rows(0, 1)))
    result = compared(source, target)
    assert (result.link, result.scope, result.source, result.target) == ("main", "full", "p", "s")
    orders = only(result, "orders")
    assert orders.ranges == ((1, 1), (3, 3))
    assert (orders.counts.read_from_source, orders.counts.read_from_target) == (4, 3)
    assert (orders.counts.unreplicated, orders.counts.only_on_target) == (2, 1)
    assert only(result, "clicks").counts.unreplicated == 0
    assert result.not_compared == ()
    assert {(each.topic, each.offset, each.key) for each in result.examples} == {
        ("orders", 1, b"k1"),
        ("orders", 3, b"k3"),
    }


def test_the_result_of_a_failback_names_the_link_of_the_file() -> None:
    source, target = cluster("s", orders=FakeLog(rows(1))), cluster("p", orders=FakeLog(rows(1)))
    found = compared(source, target, link=reversed_link(LINK))
    assert (found.link, found.reverse_of, found.source) == ("main-back", "main", "s")
    assert compared(target, source).reverse_of is None


def test_a_topic_that_does_not_exist_on_the_target_is_unreplicated_as_a_whole() -> None:
    source = cluster("p", orders=FakeLog(rows(0, 1)), clicks=FakeLog(rows(0)))
    result = compared(source, cluster("s", orders=FakeLog(rows(0, 1))))
    clicks = next(each for each in result.topics if each.topic == "clicks")
    assert only(result, "clicks").counts.unreplicated == 1
    assert only(result, "clicks").target_range is None
    assert clicks.notes == ("topic clicks does not exist on the target: no record is replicated",)


def test_records_of_an_open_transaction_are_undecided() -> None:
    source = cluster("p", orders=FakeLog(rows(0, 1, 2, 3), stable=2), clicks=FakeLog())
    target = cluster("s", orders=FakeLog(rows(0, 1)), clicks=FakeLog())
    counts = only(compared(source, target), "orders").counts
    assert (counts.unreplicated, counts.undecided) == (0, 2)


def test_a_partition_that_cannot_be_read_is_listed_and_the_rest_compared() -> None:
    no_leader = Unavailable("the partition has no leader")
    source = cluster("p", orders=no_leader, clicks=FakeLog(rows(0, 1)))
    target = cluster("s", orders=FakeLog(), clicks=FakeLog(rows(0)))
    result = compared(source, target)
    assert result.not_compared == (NotCompared("orders", 0, f"p: {no_leader.reason}"),)
    assert only(result, "clicks").counts.unreplicated == 1


def test_a_scan_that_failed_because_records_were_deleted_is_repeated() -> None:
    source = cluster("p", orders=FakeLog(rows(0, 1, 2)), clicks=FakeLog())
    target = cluster("s", orders=FakeLog(rows(1)), clicks=FakeLog())
    logs = Logs(source, target)

    def deleted() -> None:
        logs.failing = lambda: None
        source.log(ORDERS).delete_before(1)
        raise ScanFailed("offset 0 is not there any more")

    logs.failing = deleted
    orders = only(compared(source, target, logs=logs), "orders")
    assert (orders.source_range.start, orders.ranges) == (1, ((2, 2),))


def test_a_scan_that_fails_although_nothing_changed_ends_the_analysis() -> None:
    source = cluster("p", orders=FakeLog(rows(0)), clicks=FakeLog())
    logs = Logs(source, cluster("s", orders=FakeLog(rows(0)), clicks=FakeLog()))

    def fails() -> None:
        raise ScanFailed("the disk is full")

    logs.failing = fails
    with pytest.raises(ScanFailed, match="the disk is full"):
        compared(source, logs.by_side[Side.TARGET], logs=logs)


MANY = range(30_000)


def tail_of(source: FakeCluster, target: FakeCluster, position: int) -> Tail:
    found = {ORDERS: Position(position, "a test"), CLICKS: Position(0, "a test")}
    return Tail(source, target, found, same_offsets=True)


def test_without_time_for_everything_only_the_tail_is_read_and_the_rest_is_listed() -> None:
    source = cluster("p", orders=FakeLog(rows(*MANY)), clicks=FakeLog())
    target = cluster("s", orders=FakeLog(rows(*MANY[:-5])), clicks=FakeLog())
    tail, announced = tail_of(source, target, len(MANY) - 5), list[Work]()
    result = compared(
        source, target, Scope.AUTO, tail=tail, offsets_a_second=100, announced=announced
    )
    assert result.scope == "tail"
    orders = only(result, "orders")
    assert orders.ranges == ((len(MANY) - 5, len(MANY) - 1),)
    assert orders.window is not None
    assert 0 < orders.window.source_start < len(MANY) - 5
    (left_out,) = result.not_compared
    assert (left_out.topic, left_out.partition) == ("orders", 0)
    assert f"only offsets from {orders.window.source_start} on were read" in left_out.reason
    (work,) = announced
    assert work.offsets < len(MANY)


def test_with_enough_time_everything_is_read() -> None:
    source = cluster("p", orders=FakeLog(rows(0, 1)), clicks=FakeLog())
    target = cluster("s", orders=FakeLog(rows(0)), clicks=FakeLog())
    result = compared(source, target, Scope.AUTO, tail=tail_of(source, target, 1))
    assert (result.scope, only(result, "orders").ranges) == ("full", ((1, 1),))


def test_a_requested_tail_without_evidence() -> None:
    source = cluster("p", orders=FakeLog(rows(0)), clicks=FakeLog())
    with pytest.raises(Unknown, match="cannot determine the tail"):
        compared(source, source, Scope.TAIL)
