"""Records of aborted and open transactions, replicated or not: no method skips, bounds hold.

The reference is the list of copies with their source offsets. It knows no method.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drctl.formats import tracked_offsets
from drctl.formats.tracked_offsets import ConsumedRecord, TrackedOffset
from drctl.model.ports import ClusterReader
from drctl.model.topology import PartitionOffsets, Row, TopicPartition
from drctl.model.translation import Answer, GroupPartition
from drctl.offsets.by_time import Consumed, ConsumerTimestamps
from drctl.offsets.checkpoints import OffsetSyncs, Sync
from drctl.offsets.consumed import known_from, last_consumed, milestones_before
from drctl.offsets.evidence import LastKnown
from drctl.offsets.mapping import MappedOffsets
from drctl.offsets.methods import Question, TranslationMethod
from drctl.offsets.record_match import RecordMatch
from drctl.offsets.searching import TargetSearch
from drctl.offsets.tracked_offset import TrackedOffsetAnswers
from drctl.offsets.translating import adjusted_for_unreachable_source, chosen
from tests.depth import examples
from tests.fakes import FakeCluster, FakeLog
from tests.offsets.answers import bounds
from tests.offsets.test_mapping import SOURCE_ID, migrated

HERE, THERE = TopicPartition("t", 0), TopicPartition("copy.t", 0)
PLACE = GroupPartition("g", HERE)
NOW = 10**7

Content = tuple[bytes | None, bytes | None]


@dataclass(frozen=True)
class World:
    """A source with transactions, and its replica.

    Attributes:
        copied: source offsets in the order of the target, which has nothing else.
        distinct: whether all records of the source differ.
        ordered: whether timestamps increase.
    """

    source: FakeLog
    copied: Sequence[int]
    syncs: tuple[Sync, ...]
    named: bool
    distinct: bool
    ordered: bool

    @property
    def target(self) -> FakeLog:
        rows = {row[0]: row for row in self.source.rows}
        return FakeLog(
            [
                (there, *rows[here][1:4], migrated(here) if self.named else ())
                for there, here in enumerate(self.copied)
            ],
            len(self.copied),
        )

    def exact(self, committed: int) -> int:
        """Return the offset after the copies of everything that the group has passed."""
        return sum(here < committed for here in self.copied)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Draw at most `LENGTH` records: older equal ones cannot be distinguished."""
    distinct, ordered = draw(st.booleans()), draw(st.booleans())
    rows: list[Row] = []
    aborted: set[int] = set()
    at, time, stable = 0, 1_000, None
    again: list[tuple[int, bytes | None, bytes | None]] = []
    for kind in draw(st.lists(st.sampled_from(["commit", "abort", "plain"]), max_size=9)):
        for _ in range(draw(st.integers(1, 3))):
            time += draw(st.integers(0 if ordered else -2, 3))
            value = b"v%d" % at if distinct else draw(st.sampled_from([b"x", b"y", None]))
            record = (time, b"k", value)
            if again and not distinct and draw(st.booleans()):
                record = again.pop(0)  # an aborted record is retried unchanged
                ordered &= record[0] >= time
                time = max(time, record[0])
            rows.append((at, *record, ()))
            if kind == "abort":
                aborted.add(at)
                again.append(record)
            at += 1
        at += kind != "plain"  # the transaction marker
    if draw(st.booleans()) and at:
        stable = at
        for _ in range(draw(st.integers(1, 5))):
            time += 1
            rows.append((at, time, b"k", b"open%d" % at, ()))
            at += 1
    source = FakeLog(rows, at, 0, frozenset(aborted), stable)
    everything = draw(st.booleans())
    readable = [
        row[0]
        for row in rows
        if everything or (row[0] not in aborted and row[0] < source.last_stable)
    ]
    copied = readable[: draw(st.integers(0, len(readable)))] if draw(st.booleans()) else readable
    syncs = tuple(
        Sync(here, there, 0) for there, here in enumerate(copied) if draw(st.integers(0, 6)) == 0
    )
    return World(source, copied, syncs, draw(st.booleans()), distinct, ordered)


def noted(source: FakeCluster, committed: int) -> TrackedOffset | None:
    """Return the tracked offset of a position as it is read from the topic."""
    at = (HERE, committed)
    logs = source.offsets([HERE])
    before = last_consumed(logs, source, [at])[at]
    records = tuple(ConsumedRecord(s.fingerprint, s.timestamp_ms) for s in before.consumed.steps)
    log = cast(PartitionOffsets, logs[HERE])
    further = milestones_before(source, {at: log}, known_from({at: before}, ()), 0)[at]
    passed = {"passed": before.consumed.passed, "uncommitted": before.consumed.uncommitted}
    tracked = TrackedOffset(committed, -1, "", 0, records, milestones=further, **passed)
    return tracked_offsets.decode_value(tracked_offsets.encode_value(tracked))


class Asked:
    """All methods on one world."""

    def __init__(self, world: World, committed: int, *, timed: bool = True) -> None:
        self._world = world
        self.source = FakeCluster({HERE: world.source})
        self.target = FakeCluster(
            {THERE: world.target},
            config={"message.timestamp.type": "CreateTime" if timed else "LogAppendTime"},
        )
        self._timed = {THERE.topic: timed}
        self.question = Question(PLACE, committed, THERE)
        tracked = noted(self.source, committed)
        self.tracked_offsets = {PLACE: tracked} if tracked else {}
        self.log = cast(PartitionOffsets, self.target.offsets([THERE])[THERE])

    def results(self, *, alive: bool = True) -> Mapping[str, Any]:
        return {
            method.method.value: method.answers([self.question])[self.question]
            for method in self._methods(alive)
        }

    def _methods(self, alive: bool) -> Sequence[TranslationMethod]:
        world, search = self._world, TargetSearch(self.target, self.target, self._timed)
        there = (cast(ClusterReader, self.source), self.source) if alive else None
        syncs = OffsetSyncs({HERE: world.syncs}, {THERE: self.log}, {}, 0)
        methods: list[TranslationMethod] = [
            TrackedOffsetAnswers(self.tracked_offsets, search, NOW),
            syncs,
            MappedOffsets(SOURCE_ID, there, self.target, {THERE: self.log}, self.tracked_offsets),
        ]
        if alive:
            methods.append(RecordMatch(self.source, self.source, search, syncs.window))
        consumed = [
            row[1]
            for row in world.source.rows
            if row[0] < min(self.question.committed or 0, world.source.last_stable)
            and row[0] not in world.source.aborted
        ]
        if consumed and world.ordered:
            times = {PLACE: Consumed(consumed[-1], 0)}
            methods.append(ConsumerTimestamps(there, self.target, times, self._timed, NOW))
        return methods


@settings(deadline=None, max_examples=examples(400))
@given(worlds(), st.booleans(), st.data())
def test_nothing_is_skipped_and_bounds_hold(world: World, timed: bool, data: st.DataObject) -> None:
    """Whatever the mirror copied, and whatever the isolation level of the group."""
    committed = data.draw(st.integers(0, world.source.end))
    asked = Asked(world, committed, timed=timed)
    exact = world.exact(committed)
    answers = {name: a for name, a in asked.results().items() if isinstance(a, Answer)}
    for name, answer in answers.items():
        if answer.skips_at_most == 0:
            assert answer.target_offset <= exact, name
            if answer.rereads_at_most is not None:
                assert exact - answer.target_offset <= answer.rereads_at_most, name
    row = chosen(asked.question, list(answers.values()), asked.log, "")
    assert not row.contradictions
    if row.answer is not None and row.answer.skips_at_most == 0:
        assert 0 <= exact - row.answer.target_offset <= row.answer.rereads_at_most


@settings(deadline=None, max_examples=examples(200))
@given(worlds(), st.data())
def test_distinguishable_copies_are_passed(world: World, data: st.DataObject) -> None:
    """If no two records are equal, the offset is exact and its bound is 0."""
    committed = data.draw(st.integers(0, world.source.end))
    answer = Asked(world, committed).results()["record-match"]
    decided = [row[0] for row in world.source.rows if row[0] not in world.source.aborted]
    consumed = [at for at in decided if at < min(committed, world.source.last_stable)]
    if world.distinct and world.ordered and consumed and consumed[-1] in world.copied:
        assert answer.target_offset == world.exact(committed)


@settings(deadline=None, max_examples=examples(200))
@given(worlds(), st.data())
def test_without_the_source_the_end_of_the_log_is_the_bound(
    world: World, data: st.DataObject
) -> None:
    committed = data.draw(st.integers(0, world.source.end))
    asked = Asked(world, committed)
    results = tuple(asked.results(alive=False).items())
    exact = world.exact(committed)
    known = LastKnown(committed, 0)
    for name, answer in adjusted_for_unreachable_source(results, known, asked.log, NOW):
        if isinstance(answer, Answer) and answer.skips_at_most == 0:
            again = exact - answer.target_offset
            assert again >= 0, name
            assert again <= answer.rereads_at_most, name
            if name != "consumer-timestamp" and answer.rereads_likely is not None:
                assert again <= answer.rereads_likely, name


def world(aborted: range, total: int, *, everything: bool, retried: bool = False) -> World:
    """Create one aborted transaction whose records may follow again."""
    back = len(aborted) + 1
    rows: list[Row] = [
        (n, 1_000 + of, b"k", b"v%d" % of, ())
        for n in range(total)
        if n != aborted.stop
        for of in [n - back if retried and aborted.stop < n < aborted.stop + back else n]
    ]
    copied = [row[0] for row in rows if everything or row[0] not in aborted]
    source = FakeLog(rows, total, 0, frozenset(aborted))
    return World(source, copied, (), False, not retried, True)


@pytest.mark.parametrize("everything", [True, False])
@pytest.mark.parametrize("committed", [131, 132])
def test_group_after_31_aborted_records_resumes_after_their_copies(
    everything: bool, committed: int
) -> None:
    found = world(range(100, 131), 200, everything=everything)
    answer = Asked(found, committed).results()["record-match"]
    exact = 131 if everything else 100
    assert bounds(answer)[:2] == (exact, 0)
    assert bounds(Asked(found, committed).results(alive=False)["tracked-offset"])[:2] == (100, 31)


@pytest.mark.parametrize("everything", [True, False])
def test_retried_records_are_not_mistaken_for_aborted_ones(everything: bool) -> None:
    """With both copies it is clear; with only the first it is not."""
    found = world(range(100, 131), 200, everything=everything, retried=True)
    answer = Asked(found, 132).results()["record-match"]
    exact = 131 if everything else 100
    assert bounds(answer)[:2] == (exact, 0 if everything else 31)
    half = World(found.source, found.copied[:120], (), False, False, True)
    assert bounds(Asked(half, 132).results()["record-match"])[:2] == (100, 31)


def test_bound_includes_aborted_records_of_a_compacted_topic() -> None:
    found = world(range(100, 131), 200, everything=True)
    asked = Asked(found, 132)
    asked.source.config = {"cleanup.policy": "compact"}
    assert bounds(asked.results()["record-match"])[:2] == (100, 31)
