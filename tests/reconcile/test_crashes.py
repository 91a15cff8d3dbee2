"""Wherever it is killed: repeated until done, each record is there once, in order."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drctl.formats import provenance
from drctl.model.errors import Fenced, Stopped, Unknown
from drctl.model.gap import OrderVerdict
from drctl.model.topology import PartitionOffsets, Row, TopicPartition
from drctl.reconcile.executing import Execution, Limits, judged
from drctl.reconcile.gap_result import compared, key_digest
from drctl.reconcile.policy import QUARANTINE, Action, Policies
from drctl.reconcile.prechecks import Precheck
from drctl.reconcile.results import Outcome, ReconcileResult
from tests.depth import examples
from tests.reconcile.world import FakeCopier, Killed, T, Target, World, copies, row

VERDICTS = st.sampled_from(list(OrderVerdict))
ACTIONS = st.sampled_from([Action.COPY, Action.QUARANTINE, Action.DISCARD])


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Draw partitions with records to copy, some of which are gone."""
    every, held, verdicts = {}, {}, {}
    for number in range(draw(st.integers(1, 3))):
        place = TopicPartition(T, number)
        offsets = sorted(draw(st.sets(st.integers(0, 40), min_size=1, max_size=12)))
        every[place] = [row(offset) for offset in offsets]
        for offset in draw(st.sets(st.sampled_from(offsets), min_size=1)):
            verdicts[place, offset] = draw(VERDICTS)
        gone = draw(st.sets(st.sampled_from(offsets), max_size=3))
        held[place] = [each for each in every[place] if each[0] not in gone]
    return World(held, verdicts, every)


def wanted(world: World, place: TopicPartition, orders: Sequence[OrderVerdict]) -> list[int]:
    """Return what a partition of the target must contain, in order."""
    held = {each[0] for each in world.held[place]}
    return sorted(
        offset
        for (p, offset), order in world.verdicts.items()
        if p == place and offset in held and order in orders
    )


crashes = st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=6)


@pytest.mark.slow
@settings(max_examples=examples(80), deadline=None)
@given(worlds(), crashes, st.integers(1, 5), st.integers(1, 4))
def test_each_record_is_there_once_and_in_order(
    world: World, kills: list[tuple[int, bool]], batch: int, chunk: int
) -> None:
    for steps, after in kills:
        copier = FakeCopier(world.target, steps, after)
        try:
            world.execution(copies(), copier, Limits(batch), chunk).run()
        except Killed:
            continue
    world.execution(copies(), FakeCopier(world.target), Limits(batch), chunk).run()
    for place in world.every:
        assert world.target.offsets(place) == wanted(world, place, list(OrderVerdict))
    plan = world.plan(copies())
    assert not plan.acting
    assert sum(s.records for line in plan.lines for s in line.done) == sum(
        len(log) for log in world.target.logs.values()
    )
    gone = sum(s.gone for line in plan.lines for s in line.done)
    assert gone == len(world.verdicts) - sum(len(log) for log in world.target.logs.values())


@settings(max_examples=examples(50), deadline=None)
@given(worlds(), st.lists(st.tuples(ACTIONS, ACTIONS, st.integers(0, 25)), max_size=5))
def test_changed_policies_leave_one_decision_per_record(
    world: World, minds: list[tuple[Action, Action, int]]
) -> None:
    for everywhere, conflicting, steps in minds:
        policies = Policies(everywhere, conflicting=conflicting)
        try:
            world.execution(policies, FakeCopier(world.target, steps), Limits(2)).run()
        except Killed:
            continue
    world.execution(copies(), FakeCopier(world.target), Limits(2)).run()
    done = world.plan(copies())
    assert all(line.due.records == 0 for line in done.lines)
    for place in world.every:
        copied = world.target.offsets(place)
        aside = world.target.offsets(TopicPartition(QUARANTINE + T, place.partition))
        assert len({*copied, *aside}) == len(copied) + len(aside)
    by_action = {
        action: sum(s.records for line in done.lines for s in line.done if s.action is action)
        for action in Action
    }
    aside = sum(len(log) for to, log in world.target.logs.items() if to.topic != T)
    assert by_action[Action.COPY] == sum(map(len, world.target.logs.values())) - aside
    assert by_action[Action.QUARANTINE] == aside
    # Discarded records are not read: it does not matter whether the source still has them.
    gone = sum(s.gone for line in done.lines for s in line.done)
    assert sum(by_action.values()) + gone == len(world.verdicts)


@settings(max_examples=examples(30), deadline=None)
@given(worlds(), crashes)
def test_conflicting_records_wait_and_can_follow(
    world: World, kills: list[tuple[int, bool]]
) -> None:
    plain = [OrderVerdict.SAFE, OrderVerdict.UNKEYED]
    waiting = Policies(Action.COPY)
    for steps, after in [*kills, (10_000, False)]:
        try:
            world.execution(waiting, FakeCopier(world.target, steps, after), Limits(2)).run()
        except Killed:
            continue
    for place in world.every:
        assert world.target.offsets(place) == wanted(world, place, plain)
    world.execution(
        Policies(Action.COPY, conflicting=Action.QUARANTINE), FakeCopier(world.target), Limits(2)
    ).run()
    for place in world.every:
        assert world.target.offsets(place) == wanted(world, place, plain)
        aside = TopicPartition(QUARANTINE + T, place.partition)
        assert world.target.offsets(aside) == wanted(world, place, [OrderVerdict.CONFLICTING])


def one(records: int = 9) -> World:
    place = TopicPartition(T, 0)
    rows = [row(offset) for offset in range(records)]
    verdicts = {(place, offset): OrderVerdict.SAFE for offset in range(records)}
    return World({place: rows}, verdicts, {place: rows})


def result_of(execution: Execution, world: World, failure: str = "") -> ReconcileResult:
    def logs(places: list[TopicPartition]) -> dict[TopicPartition, PartitionOffsets]:
        ends = {p: len(world.target.logs.get(p, [])) for p in places}
        return {p: PartitionOffsets(0, end, end) for p, end in ends.items()}

    results = judged(execution, world.target.kept, logs, failure)
    return ReconcileResult(execution.plan, "R", results=results, gone=execution.gone)


@pytest.mark.parametrize("number", [0, 4, 8])
@pytest.mark.parametrize(
    "other",
    [{"timestamp": 1}, {"key": b"j"}, {"key": None}, {"value": b"longer"}, {"headers": ()}],
    ids=["timestamp", "key", "null key", "value", "headers"],
)
def test_another_record_at_an_offset_of_the_gap_result_is_never_copied(
    number: int, other: dict[str, Any]
) -> None:
    world, place = one(9), TopicPartition(T, 0)
    rows = list(world.every[place])
    fields = dict(
        zip(("offset", "timestamp", "key", "value", "headers"), rows[number], strict=True)
    )
    rows[number] = tuple({**fields, **other}.values())
    world.held = {place: rows}
    execution = world.execution(copies(), FakeCopier(world.target), Limits(2))
    with pytest.raises(Stopped, match=f"the record at offset {number} is not the one"):
        execution.run()
    copied = world.target.offsets(place)
    assert copied == list(range(len(copied)))
    assert len(copied) <= number


fields = st.one_of(st.none(), st.binary(max_size=3))
headers = st.lists(st.tuples(st.binary(max_size=3), fields), max_size=2).map(tuple)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(-1, 9), fields, fields, headers), min_size=1)
)
def test_each_record_is_compared_by_its_timestamp_key_and_size(rows: list[Row]) -> None:
    times, digests, sizes = compared(rows)
    for each, found in zip(rows, zip(times, digests, sizes, strict=True), strict=True):
        _, time, key, value, its_headers = each
        contents = [key, value, *(part for header in its_headers for part in header)]
        assert found == (time, key_digest(key), sum(len(part) for part in contents if part))


def test_transactions_are_as_large_as_allowed() -> None:
    world = one(9)
    world.execution(copies(), FakeCopier(world.target), Limits(4)).run()
    assert world.target.commits == 3


def test_each_copy_names_its_origin() -> None:
    world = one(2)
    world.execution(copies(), FakeCopier(world.target), Limits()).run()
    found = [provenance.decode(stamp) for _, stamp in world.target.logs[TopicPartition(T, 0)]]
    assert found == [
        provenance.Provenance("A", T, 0, 0, 1_700_000_000_000),
        provenance.Provenance("A", T, 0, 1, 1_700_000_000_001),
    ]


@pytest.mark.parametrize("counts", [False, True])
def test_an_unanswered_commit_is_read_back_first(counts: bool) -> None:
    world = one(3)
    silent = FakeCopier(world.target, 6, after=counts, failing=Unknown("no answer"))
    execution = world.execution(copies(), silent, Limits())
    with pytest.raises(Unknown):
        execution.run()
    (line,) = result_of(execution, world, "no answer").results
    assert line.outcome is (Outcome.DONE if counts else Outcome.UNKNOWN)
    world.execution(copies(), FakeCopier(world.target), Limits()).run()
    assert world.target.offsets(TopicPartition(T, 0)) == [0, 1, 2]


def test_a_fenced_process_stops_and_reports_its_work() -> None:
    world = one(5)
    fenced = FakeCopier(world.target, 7, failing=Fenced("another one"))
    execution = world.execution(copies(), fenced, Limits(2))
    with pytest.raises(Fenced):
        execution.run()
    result = result_of(execution, world, "another one")
    assert [each.outcome for each in result.results] == [Outcome.PARTIAL]
    assert result.results[0].count.records == 2
    assert result.status == "stopped"


def test_a_target_that_lost_records_is_a_failure() -> None:
    world = one(3)
    execution = world.execution(copies(), FakeCopier(world.target), Limits())
    execution.run()
    assert result_of(execution, world).status == "done"
    world.target.logs[TopicPartition(T, 0)].pop()
    result = result_of(execution, world)
    assert (result.status, result.results[0].reason) == (
        "unknown",
        "orders-0: last stable offset is 2, expected beyond 2",
    )


def test_lost_progress_is_a_failure() -> None:
    world = one(3)
    execution = world.execution(copies(), FakeCopier(world.target), Limits())
    execution.run()
    world.target = Target(world.target.logs)
    assert result_of(execution, world).status == "unknown"


def test_deleted_records_are_named_and_change_the_exit_code() -> None:
    world = one(6)
    place = TopicPartition(T, 0)
    world.held = {place: [each for each in world.every[place] if each[0] not in (0, 3, 4)]}
    world.log_start = {place: 1}
    assert not world.plan(copies()).acting
    world.overrides = {Precheck.SOURCE_MOVED: "retention"}
    execution = world.execution(copies(), FakeCopier(world.target), Limits(2))
    execution.run()
    assert (execution.gone[place].records, execution.gone[place].runs) == (3, [(0, 0), (3, 4)])
    deleted = [e["offsets"] for e in world.journal.recorded if e["entry"] == "gone"]
    assert sorted(offset for some in deleted for offset in some) == [0, 3, 4]
    assert result_of(execution, world).status == "found"
    again = world.execution(copies(), FakeCopier(world.target), Limits(2))
    assert not again.plan.acting


def test_an_export_writes_nothing_to_the_target_and_leaves_the_decision_open() -> None:
    world = one(3)
    policies = copies(Action.EXPORT, Action.EXPORT)
    execution = world.execution(policies, FakeCopier(world.target, 0), Limits())
    execution.run()
    assert [each.row for each in world.exporter.added] == world.every[TopicPartition(T, 0)]
    assert result_of(execution, world).status == "done"
    assert (world.target.logs, world.target.notes) == ({}, {})
    assert world.plan(copies()).lines[0].due.records == 3
