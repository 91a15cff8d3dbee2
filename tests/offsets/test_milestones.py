"""Milestones: how they are spread, what they cost, and what they are worth after a loss."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drctl.formats.tracked_offsets import MOST_MILESTONES, MOST_RECORDS, Milestone, TrackedOffset
from drctl.model.errors import Unreachable
from drctl.model.topology import Chunk, PartitionOffsets, Row, TopicRanges
from drctl.model.translation import Answer, GroupPartition
from drctl.offsets import consumed
from drctl.offsets.consumed import REACH, SPACING, milestones_before, step_of
from drctl.offsets.methods import NoAnswer, Question
from drctl.offsets.searching import TargetSearch
from drctl.offsets.tracked_offset import TrackedOffsetAnswers
from tests.depth import examples
from tests.fakes import FakeCluster, FakeLog
from tests.offsets.tracked_groups import NOON, ORDERS, Clock, OneTracker, Topic, log, row, source_of

BILLING = GroupPartition("billing", ORDERS)
LONG = 30_000
ROWS = [row(n) for n in range(LONG)]


@pytest.fixture
def source() -> FakeCluster:
    return source_of({ORDERS: log(LONG, rows=ROWS)})


@pytest.fixture
def topic() -> Topic:
    return Topic()


@pytest.fixture
def one(source: FakeCluster, topic: Topic) -> OneTracker:
    return OneTracker(source, topic, Clock())


def noted(one: OneTracker, group: str = "billing") -> TrackedOffset:
    assert one.run().complete
    return one.store.topic.tracked_offsets()[GroupPartition(group, ORDERS)]


def distances(tracked: TrackedOffset) -> list[int]:
    return [tracked.offset - milestone.position for milestone in tracked.milestones]


def well_spread(found: Sequence[int]) -> bool:
    """Assert that each is at most so many times as far back as the one before."""
    return all(near < far <= SPACING * near for near, far in pairwise((MOST_RECORDS, *found)))


def test_the_first_pass_goes_back_to_the_beginning(source: FakeCluster, one: OneTracker) -> None:
    source.set_offsets("billing", orders=LONG - 5)
    tracked = noted(one)
    found = distances(tracked)
    assert well_spread(found)
    assert found[-1] == tracked.offset - 1
    assert len(found) <= 7
    for milestone in tracked.milestones:
        step = step_of(row(milestone.position - 1))
        assert milestone[1:] == step
    assert source.read_offsets <= MOST_RECORDS + len(found) * 8


@pytest.mark.slow
def test_known_records_are_not_read_again(source: FakeCluster, one: OneTracker) -> None:
    read = []
    for at in range(10_000, 20_000, 100):
        source.set_offsets("billing", orders=at)
        source.read_offsets = 0
        assert well_spread(distances(noted(one)))
        read.append(source.read_offsets - MOST_RECORDS)
    # Most passes read one new milestone near the offset; those further back are already known.
    assert sum(read[1:]) / len(read[1:]) < 2 * 8


def test_nearby_offsets_share_milestones(source: FakeCluster, one: OneTracker) -> None:
    for number in range(200):
        source.set_offsets(f"g{number}", orders=20_000 + number)
    tracked = noted(one, "g7")
    assert well_spread(distances(tracked))
    assert source.read_offsets < MOST_RECORDS + 200 + 8 * 60, "groups do not share milestones"
    assert all(well_spread(distances(each)) for each in one.store.topic.tracked_offsets().values())


@pytest.mark.slow
def test_reads_are_limited(
    source: FakeCluster, one: OneTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumed, "READ_AT_ONCE", 40)
    groups = {f"g{number}": 3_000 + number * 500 for number in range(50)}
    for name, at in groups.items():
        source.set_offsets(name, orders=at)
    assert one.run().complete
    assert source.read_offsets <= 50 * MOST_RECORDS + 40 * 8
    for step in range(1, 12):  # each pass fills some of the gaps
        for name, at in groups.items():
            source.set_offsets(name, orders=at + step)
        source.read_offsets = 0
        one.tracker.now_ms.after(30_000)  # type: ignore[attr-defined]
        assert one.run().complete
        assert source.read_offsets <= 50 * (MOST_RECORDS + 1) + 40 * 8
    found = one.store.topic.tracked_offsets().values()
    assert all(well_spread(distances(tracked)) for tracked in found)


def test_a_group_that_moves_back_keeps_earlier_milestones(
    source: FakeCluster, one: OneTracker
) -> None:
    source.set_offsets("billing", orders=20_000)
    before = noted(one)
    source.set_offsets("billing", orders=9_000)
    source.read_offsets = 0
    after = noted(one)
    assert well_spread(distances(after))
    assert {m.position for m in after.milestones} & {m.position for m in before.milestones}


def test_a_recreated_topic_has_new_milestones(source: FakeCluster, one: OneTracker) -> None:
    source.set_offsets("billing", orders=20_000)
    noted(one)
    source.ids["orders"] = "recreated"
    source.logs[ORDERS] = log(300)
    source.set_offsets("billing", orders=200)
    tracked = noted(one)
    assert well_spread(distances(tracked))
    assert distances(tracked)[-1] == 199


def test_retention_keeps_known_milestones(source: FakeCluster, one: OneTracker) -> None:
    source.set_offsets("billing", orders=20_000)
    noted(one)
    source.logs[ORDERS] = log(LONG, start=19_990)
    source.set_offsets("billing", orders=20_010)
    tracked = noted(one)
    assert len(tracked.records) == 20
    assert distances(tracked)[-1] > 10_000
    source.logs[ORDERS] = log(LONG, start=20_050)
    source.set_offsets("billing", orders=20_020)
    tracked = noted(one)
    assert tracked.records == ()
    assert distances(tracked)[-1] > 10_000


def test_an_unreadable_partition_does_not_fail_the_pass(
    source: FakeCluster, one: OneTracker
) -> None:
    source.set_offsets("billing", orders=20_000)
    reads: list[TopicRanges] = []
    read = source.read

    def second_fails(ranges: TopicRanges, *, uncommitted: bool = False) -> Any:
        reads.append(ranges)
        if len(reads) > 1:
            raise Unreachable("gone")
        return read(ranges, uncommitted=uncommitted)

    source.read = second_fails  # type: ignore[method-assign]
    tracked = noted(one)
    assert len(tracked.records) == MOST_RECORDS
    assert tracked.milestones == ()


@settings(deadline=None)
@given(
    st.integers(1, 10**12),
    st.integers(0, 10**12),
    st.sets(st.integers(1, 10**12), max_size=60),
    st.integers(0, 2**40),
)
def test_milestones_are_well_spread(offset: int, start: int, known: set[int], turn: int) -> None:
    """Every offset has a record, and every request is answered."""

    class Whole:
        def read(self, ranges: TopicRanges, *, uncommitted: bool = False) -> Any:
            for _, partitions in ranges.items():
                for partition, runs in partitions.items():
                    for run in runs:
                        assert log_start <= run.start < run.end <= offset
                        rows: list[Row] = [(n, n, None, b"", ()) for n in range(*run)]
                        yield Chunk(ORDERS.topic, partition, rows)

    log_start = min(start, offset - 1)
    there = {ORDERS: {at: Milestone(at, 1, at) for at in known}}
    logs = {(ORDERS, offset): PartitionOffsets(log_start, 2 * 10**12, 2 * 10**12)}
    found = milestones_before(Whole(), logs, there, turn)[ORDERS, offset]  # type: ignore[arg-type]
    away = [offset - milestone.position for milestone in found]
    assert len(found) <= MOST_MILESTONES
    assert all(distance > MOST_RECORDS for distance in away)
    gone = [distance for distance in away if distance >= offset - log_start]
    assert well_spread(away[: len(away) - len(gone)])
    far = min(REACH, offset - log_start - 1)
    assert far <= MOST_RECORDS or away[-1] >= far


class World:
    """A tracked source that is lost, and its replica."""

    def __init__(self, passes: Sequence[int]) -> None:
        self.source = source_of({ORDERS: log(LONG, rows=ROWS)})
        self.one = OneTracker(self.source, Topic(), Clock())
        for offset in passes:
            self.source.set_offsets("billing", orders=offset)
            assert self.one.run().complete

    def asks(self, copied: int, *, others: int = 0, timed: bool = True) -> Answer | NoAnswer:
        """Return where the group resumes if this many records were replicated before the loss."""
        late = NOON + 10**6
        rows: list[Row] = [(n + 7, *ROWS[n][1:]) for n in range(copied)]
        rows += [(copied + 7 + n, late + n, None, b"since", ()) for n in range(others)]
        target = FakeCluster({ORDERS: FakeLog(rows, copied + others + 7, 7)})
        search = TargetSearch(target, target, {"orders": timed})  # type: ignore[arg-type]
        tracked_offsets = self.one.store.topic.tracked_offsets()
        question = Question(BILLING, tracked_offsets[BILLING].offset, ORDERS)
        return TrackedOffsetAnswers(tracked_offsets, search, NOON).answers([question])[question]


@pytest.mark.slow
@pytest.mark.parametrize("others", [0, 5_000])
@pytest.mark.parametrize("lag", [0, 10, 33, 40, 1_000, 5_000, 25_000, 27_998])
def test_replication_lagged_when_the_source_was_lost(lag: int, others: int) -> None:
    world = World([3_000, 15_000, 28_000])
    copied = 28_000 - lag
    answer = world.asks(copied, others=others)
    assert answer.skips_at_most == 0
    assert answer.target_offset <= copied + 7
    again = copied + 7 - answer.target_offset
    assert again + lag <= answer.rereads_at_most <= SPACING * max(lag, MOST_RECORDS)


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None)
@given(st.integers(1, 28_000), st.lists(st.integers(40, 28_000), min_size=1, max_size=4))
def test_nothing_is_skipped_at_any_lag(copied: int, passes: list[int]) -> None:
    world = World(passes)
    answer = world.asks(copied)
    offset = passes[-1]
    exact = min(copied, offset) + 7
    assert answer.target_offset <= exact
    assert answer.rereads_at_most is not None
    lag = max(0, offset - copied)
    assert exact - answer.target_offset + lag <= answer.rereads_at_most
    assert answer.rereads_at_most <= SPACING * max(lag, MOST_RECORDS)


def test_equal_records_around_a_milestone_count() -> None:
    same: list[Row] = [(n, NOON + n // 50, b"k", b"v", ()) for n in range(2_000)]
    world = World([])
    world.source.logs[ORDERS] = FakeLog(same, 2_000)
    world.source.set_offsets("billing", orders=2_000)
    assert world.one.run().complete
    target = FakeCluster({ORDERS: FakeLog(same[:1_000], 1_000)})
    search = TargetSearch(target, target, {"orders": True})  # type: ignore[arg-type]
    tracked_offsets = world.one.store.topic.tracked_offsets()
    question = Question(BILLING, 2_000, ORDERS)
    answer = TrackedOffsetAnswers(tracked_offsets, search, NOON).answers([question])[question]
    assert answer.target_offset <= 1_000
    assert answer.rereads_at_most >= 2_000 - answer.target_offset


def test_nothing_was_replicated_or_the_target_has_append_times() -> None:
    world = World([28_000])
    assert isinstance(world.asks(0), NoAnswer)
    assert isinstance(world.asks(20_000, timed=False), NoAnswer)
