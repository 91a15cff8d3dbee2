"""Whatever happened to a log, no method that reads records skips one."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drctl.model.topology import Found, Row, TopicPartition, Unavailable
from drctl.model.translation import Answer, GroupPartition
from drctl.offsets import searching
from drctl.offsets.checkpoints import OffsetSyncs, Sync
from drctl.offsets.methods import NoAnswer, Question
from drctl.offsets.record_match import RecordMatch
from drctl.offsets.searching import TargetSearch
from tests.fakes import FakeCluster, FakeLog
from tests.offsets.answers import bounds, reason

HERE, THERE = TopicPartition("t", 0), TopicPartition("copy.t", 0)


@dataclass(frozen=True)
class World:
    """A source log and its copy.

    Attributes:
        copies: target offsets of each source offset.
        syncs: offset syncs as MirrorMaker 2 writes them.
    """

    source: FakeLog
    target: FakeLog
    copies: dict[int, list[int]]
    syncs: tuple[Sync, ...]

    def furthest(self, committed: int) -> int:
        """Return the highest offset that precedes every copied record that was not consumed."""
        lasts = [max(c) for offset, c in self.copies.items() if offset >= committed]
        return min(lasts, default=self.target.end)

    @property
    def copied_twice(self) -> bool:
        """Whether the replicator restarted: bounds do not count what it copied again."""
        return any(len(copies) > 1 for copies in self.copies.values())

    def reread(self, position: int, committed: int) -> int:
        """Return the records from an offset to the first copy of the last consumed one.

        Later copies of consumed records are read again in any case.
        """
        consumed = [c for offset, c in sorted(self.copies.items()) if offset < committed]
        exact = min(consumed[-1]) + 1 if consumed else position
        return sum(position <= row[0] < exact for row in self.target.rows)


@st.composite
def worlds(draw: st.DrawFn, ordered: bool = False) -> World:
    """Draw few distinct records, so many are equal; gaps, duplicates, a missing end."""
    content = st.tuples(st.sampled_from([None, b"", b"a"]), st.sampled_from([None, b"x", b"y"]))
    drawn = draw(st.lists(st.tuples(content, st.integers(-2, 3), st.booleans()), max_size=60))
    rows: list[Row] = []
    offset, time = draw(st.integers(0, 3)), 1000
    start = offset
    for (key, value), step, hole in drawn:
        time += abs(step) if ordered else step
        offset += hole
        rows.append((offset, time, key, value, ()))
        offset += 1
    source = FakeLog(rows, offset, start)
    return _copied(draw, source)


def _copied(draw: st.DrawFn, source: FakeLog) -> World:
    until = draw(st.integers(0, len(source.rows)))
    again = draw(st.sets(st.integers(0, max(0, until - 1)), max_size=2)) if until else set()
    begin = there = draw(st.integers(0, 5))
    copies: dict[int, list[int]] = {}
    rows: list[Row] = []
    syncs = []
    for number in _order(until, again):
        offset, *record = source.rows[number]
        there += draw(st.booleans())
        rows.append((there, *record))  # type: ignore[arg-type]
        copies.setdefault(offset, []).append(there)
        if draw(st.integers(0, 5)) == 0:
            syncs.append(Sync(offset, there, 0))
        there += 1
    return World(source, FakeLog(rows, there, begin), copies, tuple(syncs))


def _order(until: int, again: set[int]) -> Iterator[int]:
    """Return an order with restarts of the replicator a few records earlier."""
    for number in range(until):
        yield number
        if number in again:
            yield from range(max(0, number - 5), number + 1)


def _ask(world: World, committed: int, *, timed: bool = True) -> dict[str, Answer | NoAnswer]:
    source = FakeCluster({HERE: world.source})
    target = FakeCluster(
        {THERE: world.target},
        config={"message.timestamp.type": "CreateTime" if timed else "LogAppendTime"},
    )
    question = Question(GroupPartition("g", HERE), committed, THERE)
    syncs = OffsetSyncs({HERE: world.syncs}, target.offsets([THERE]), {}, 0)
    search = TargetSearch(target, target, {THERE.topic: timed})
    match = RecordMatch(source, source, search, syncs.window)
    methods = (match, syncs)
    return {m.method.value: m.answers([question])[question] for m in methods}


@settings(deadline=None)
@given(worlds(), st.data())
def test_no_answer_skips_and_bounds_hold(world: World, data: st.DataObject) -> None:
    committed = data.draw(st.integers(world.source.start, world.source.end))
    with patch.object(searching, "NEAR", data.draw(st.sampled_from([0, 2, searching.NEAR]))):
        results = _ask(world, committed)
    for method, answer in results.items():
        if isinstance(answer, Answer):
            assert answer.target_offset <= world.furthest(committed), method
            assert answer.skips_at_most == 0
            if answer.rereads_at_most is not None and not world.copied_twice:
                again = world.reread(answer.target_offset, committed)
                assert again <= answer.rereads_at_most, method


@settings(deadline=None)
@given(worlds(ordered=True), st.data())
def test_with_append_times_the_target_is_searched_between_syncs(
    world: World, data: st.DataObject
) -> None:
    committed = data.draw(st.integers(world.source.start, world.source.end))
    answer = _ask(world, committed, timed=False)["record-match"]
    if isinstance(answer, Answer):
        assert answer.target_offset <= world.furthest(committed)


def _plain(count: int, copied: int) -> World:
    rows: list[Row] = [(n, 1000 + n, b"k%d" % n, b"v%d" % n, ()) for n in range(count)]
    there = [(n + 7, *row[1:]) for n, row in enumerate(rows[:copied])]
    copies = {n: [n + 7] for n in range(copied)}
    log = FakeLog(there, copied + 7, 7)  # type: ignore[arg-type]
    return World(FakeLog(rows, count), log, copies, ())


@pytest.mark.parametrize("committed", [1, 50, 99, 100])
def test_different_records_are_found_exactly(committed: int) -> None:
    assert bounds(_ask(_plain(100, 100), committed)["record-match"])[:2] == (committed + 7, 0)


def test_the_end_of_replicated_records_is_found() -> None:
    assert bounds(_ask(_plain(100, 90), 100)["record-match"])[:2] == (97, 10)


@pytest.mark.parametrize("copied", [1, 2, 60, 95, 600, 2_900, 4_960])
def test_replication_may_lag_far(copied: int) -> None:
    answer = _ask(_plain(5_000, copied), 5_000)["record-match"]
    assert bounds(answer)[::2] == (copied + 7, 0)
    assert answer.rereads_at_most == 5_000 - copied


class Silent(FakeCluster):
    """Answers no look-up by time."""

    def look_up(
        self, questions: Sequence[tuple[TopicPartition, int]]
    ) -> Callable[[], Sequence[Found | Unavailable]]:
        return lambda: [Unavailable("timed out") for _ in questions]


def test_failed_timestamp_lookup_is_not_an_empty_target() -> None:
    world = _plain(100, 100)
    source, target = FakeCluster({HERE: world.source}), Silent({THERE: world.target})
    search = TargetSearch(target, target, {THERE.topic: True})
    question = Question(GroupPartition("g", HERE), 50, THERE)
    match = RecordMatch(source, source, search, lambda _question, _offset: None)
    answer = match.answers([question])[question]
    assert "timestamp lookup on the target failed" in reason(answer)
    assert "timed out" in answer.reason


def _sparse(count: int, copied: int, every: int, run: int) -> World:
    """Return a log with gaps, as with transactions; the same record `run` times."""
    content = [(1000 + n // run, b"k", b"v%d" % (n // run)) for n in range(count)]
    rows: list[Row] = [(every * n, *record, ()) for n, record in enumerate(content)]
    there: list[Row] = [(n, *record, ()) for n, record in enumerate(content[:copied])]
    copies = {every * n: [n] for n in range(copied)}
    return World(FakeLog(rows, every * count), FakeLog(there, copied), copies, ())


@pytest.mark.parametrize("every", [2, 20, 300])
def test_a_trail_is_measured_in_records_not_offsets(every: int) -> None:
    consumed = 119  # within a run of 30 equal records
    dense = _ask(_sparse(200, 200, 1, run=30), consumed)["record-match"]
    sparse = _ask(_sparse(200, 200, every, run=30), every * consumed)["record-match"]
    assert bounds(dense)[:2] == (91, 29 + 28)
    assert sparse == dense


@pytest.mark.parametrize("every", [2, 20])
def test_replication_may_lag_far_in_a_log_with_gaps(every: int) -> None:
    world = _sparse(count=2_000, copied=700, every=every, run=1)
    answer = _ask(world, every * 2_000)["record-match"]
    assert bounds(answer)[::2] == (700, 0)
    assert 1_300 <= answer.rereads_at_most <= every * 1_300


def test_nothing_was_replicated() -> None:
    assert isinstance(_ask(_plain(500, 0), 500)["record-match"], NoAnswer)


def test_next_record_replaces_deleted_source_records() -> None:
    world = _plain(100, 100)
    log = world.source
    rest = FakeLog(log.rows[60:], log.end, 60)
    answer = _ask(World(rest, world.target, world.copies, ()), 10)["record-match"]
    assert bounds(answer)[:2] == (67, 0)


def test_an_offset_above_the_end_is_refused() -> None:
    assert "truncated" in reason(_ask(_plain(10, 10), 11)["record-match"])
