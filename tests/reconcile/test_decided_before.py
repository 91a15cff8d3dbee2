"""Records that another result quarantined or discarded are not decided on again."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drctl.model.gap import OrderVerdict
from drctl.model.topology import TopicPartition, TopicState
from drctl.reconcile.executing import Limits
from drctl.reconcile.planning import ReconcilePlan, build_plan
from drctl.reconcile.policy import QUARANTINE as QUARANTINE_OF
from drctl.reconcile.policy import Action, Policies
from drctl.reconcile.prechecks import Precheck
from drctl.reconcile.progress import MOST_RUNS, Key, LeftMissing, Progress, RecordSet, Segment
from tests.depth import examples
from tests.reconcile.world import FakeCopier, Killed, T, Target, World, copies, row

PLACE = TopicPartition(T, 0)
SAFE, CONFLICTING = OrderVerdict.SAFE, OrderVerdict.CONFLICTING
QUARANTINE = Policies(everywhere=Action.QUARANTINE, conflicting=Action.REFUSE)


NEWEST = row(9)[1]


def aside(
    through: int, action: Action = Action.QUARANTINE, left: LeftMissing | None = None
) -> Segment:
    """Return earlier decisions; without record lists they come from an older drctl."""
    return Segment(action, through, 1, 1, left=left)


def planned(
    *before: Segment,
    policies: Policies = QUARANTINE,
    result: str = "g0",
    source: str = "A",
    topic: str = "s",
    order: OrderVerdict = SAFE,
    overridden: Mapping[Precheck, str] = MappingProxyType({}),
) -> ReconcilePlan:
    """Safe records at 0 to 3, a conflicting one at 4, and earlier decisions on them."""
    rows = [row(offset) for offset in range(5)]
    verdicts = {(PLACE, n): CONFLICTING if n == 4 else SAFE for n in range(5)}
    world = World({PLACE: rows}, verdicts, {PLACE: rows})
    kept = {Key(result, source, RecordSet(PLACE, order)): Progress(topic, "t", before)}
    return build_plan(world.gap, policies, world.rows(), world.reader(), kept, overridden)


def reasons(plan: ReconcilePlan) -> list[str]:
    return [
        o.reason.partition(" of ")[0] for o in plan.blocked if o.precheck is Precheck.DECIDED_BEFORE
    ]


@pytest.mark.parametrize("action", [Action.QUARANTINE, Action.DISCARD])
@pytest.mark.parametrize("order", [SAFE, CONFLICTING])
def test_records_left_missing_by_another_result_are_not_decided_twice(
    action: Action, order: OrderVerdict
) -> None:
    """Also if its verdict was different: applications have written since."""
    plan = planned(aside(2, action), order=order)
    assert (reasons(plan), plan.acting) == (["3"], ())
    (blocker,) = plan.blocked
    assert blocker.place == PLACE
    assert "gap result g0" in blocker.reason


def test_only_records_among_those_count() -> None:
    copied = Segment(Action.COPY, 1, 2, 2, 0, T, 1)
    assert reasons(planned(copied, aside(2))) == ["1"]
    assert reasons(planned(aside(0), copied)) == ["1"]
    assert reasons(planned(copied)) == []


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"result": "g1"}, id="this-result"),
        pytest.param({"source": "C"}, id="another-cluster"),
        pytest.param({"topic": "old"}, id="a-deleted-topic-of-that-name"),
        pytest.param({"policies": Policies(everywhere=Action.EXPORT)}, id="an-export"),
        pytest.param({"policies": Policies(everywhere=Action.REFUSE)}, id="nothing-is-done"),
    ],
)
def test_unrelated_decisions_block_nothing(other: dict[str, object]) -> None:
    plan = planned(aside(2), **other)  # type: ignore[arg-type]
    assert reasons(plan) == []
    assert not plan.blocked


def test_a_decision_can_be_changed() -> None:
    plan = planned(
        aside(2), overridden={Precheck.DECIDED_BEFORE: "it was for the incident of last year"}
    )
    assert (not plan.blocked, [line.due.records for line in plan.acting]) == (True, [4])


@pytest.mark.parametrize("action", [Action.QUARANTINE, Action.DISCARD])
@pytest.mark.parametrize("everywhere", [Action.COPY, Action.QUARANTINE, Action.REFUSE])
def test_known_decisions_are_kept(action: Action, everywhere: Action) -> None:
    before = aside(1, action, LeftMissing(((0, 1),), NEWEST))
    plan = planned(before, policies=Policies(everywhere))
    assert not plan.blocked
    first, second = plan.lines
    assert [(s.action, s.through, s.records) for s in first.done] == [(action, 1, 2)]
    assert (first.due.records, second.due.records) == (2, 1)
    (note,) = plan.notes
    assert note.startswith("2 records were quarantined or discarded with another")


def test_decisions_on_a_topic_without_an_id_are_not_kept() -> None:
    """It may be another topic by now, so it is refused."""
    rows = [row(offset) for offset in range(2)]
    world = World({PLACE: rows}, {(PLACE, n): SAFE for n in range(2)}, {PLACE: rows})
    before = Progress("", "t", (aside(1, left=LeftMissing(((0, 1),), NEWEST)),))
    kept = {Key("g0", "A", RecordSet(PLACE, SAFE)): before}
    reader = world.reader()
    state = reader.source.state(T)
    assert isinstance(state, TopicState)
    nameless = replace(reader.source, states={T: replace(state, topic_id="")})
    unknown = replace(reader, source=nameless)
    plan = build_plan(world.gap, QUARANTINE, world.rows(), unknown, kept)
    assert (plan.taken, reasons(plan)) == ({}, ["2"])


def test_an_export_contains_them_again() -> None:
    plan = planned(aside(1, left=LeftMissing(((0, 1),), NEWEST)), policies=Policies(Action.EXPORT))
    assert [line.due.records for line in plan.acting] == [4]
    assert not plan.taken


@pytest.mark.parametrize(
    ("left", "taken", "among"),
    [
        pytest.param(
            LeftMissing(((0, 0), (2, 2)), NEWEST), 1, ["1"], id="one-between-is-not-decided"
        ),
        pytest.param(LeftMissing(((1, 3),), NEWEST), 0, ["3"], id="the-first-is-not-decided"),
        pytest.param(LeftMissing(((0, 3),), row(1)[1]), 2, ["2"], id="others-at-these-offsets"),
        pytest.param(LeftMissing(((7, 9),), NEWEST), 0, [], id="elsewhere"),
    ],
)
def test_an_undecided_record_never_counts_as_decided(
    left: LeftMissing, taken: int, among: list[str]
) -> None:
    plan = planned(aside(3, left=left))
    assert sum(progress.records for progress in plan.taken.values()) == taken
    assert reasons(plan) == among


def test_kept_decisions_are_recorded_even_without_work() -> None:
    world = one_of_two()
    plan = world.plan(copies())
    assert (plan.acting, list(plan.noted), plan.writes) == ((), [RecordSet(PLACE, SAFE)], True)
    world.execution(copies(), FakeCopier(world.target), Limits()).run()
    kept = world.target.kept()
    assert kept[Key("g1", "A", RecordSet(PLACE, SAFE))].records == 4
    assert "taken-over" in [entry["entry"] for entry in world.journal.recorded]
    assert not world.plan(copies()).writes


def one_of_two() -> World:
    rows = [row(offset) for offset in range(4)]
    verdicts = {(PLACE, n): SAFE for n in range(4)}
    first = World({PLACE: rows}, verdicts, {PLACE: rows}, result="g0")
    first.execution(QUARANTINE, FakeCopier(first.target), Limits()).run()
    return World({PLACE: rows}, verdicts, {PLACE: rows}, first.target)


def test_more_runs_than_are_kept_are_not_known() -> None:
    rows = [row(2 * n) for n in range(MOST_RUNS + 1)]
    verdicts = {(PLACE, each[0]): SAFE for each in rows}
    world = World({PLACE: rows}, verdicts, {PLACE: rows}, result="g0")
    world.execution(QUARANTINE, FakeCopier(world.target), Limits(700)).run()
    world = World({PLACE: rows}, verdicts, {PLACE: rows}, world.target)
    assert reasons(world.plan(QUARANTINE)) == [f"{MOST_RUNS + 1:,}"]


ACTIONS = st.sampled_from([Action.COPY, Action.QUARANTINE, Action.DISCARD])
VERDICTS = st.sampled_from(list(OrderVerdict))


@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_over_two_incidents_each_record_is_decided_on_once(data: st.DataObject) -> None:
    """The first may be incomplete; retention may have deleted some since."""
    offsets = sorted(data.draw(st.sets(st.integers(0, 30), min_size=1, max_size=12)))
    every = [row(offset) for offset in offsets]
    of_first = {(PLACE, n): data.draw(VERDICTS) for n in offsets}
    target = Target()
    first = World({PLACE: every}, of_first, {PLACE: every}, target, result="g0")
    minds = Policies(data.draw(ACTIONS), conflicting=data.draw(ACTIONS))
    try:
        copier = FakeCopier(target, data.draw(st.integers(0, 40)))
        first.execution(minds, copier, Limits(data.draw(st.integers(1, 5)))).run()
    except Killed:
        target.drop()
    decided = [s for p in target.kept().values() for s in p.segments]
    records_before = {action: decided_records(decided, action) for action in Action}

    start = data.draw(st.integers(0, 20))
    newer = [row(offset) for offset in range(31, 31 + data.draw(st.integers(0, 4)))]
    now = [each for each in (*every, *newer) if each[0] >= start]
    missing = [each[0] for each in now if each[0] not in target.offsets(PLACE)]
    of_second = {(PLACE, n): data.draw(VERDICTS) for n in missing}
    second = World({PLACE: now}, of_second, {PLACE: [*every, *newer]}, target)
    second.seen = len(target.offsets(PLACE))
    if reasons(second.plan(copies())):
        # Refused only if an undecided record precedes one that was decided on.
        assert decided_records(decided, Action.QUARANTINE) + decided_records(
            decided, Action.DISCARD
        )
        assert decided_records(decided) < len(of_first)
        return
    for steps in data.draw(st.lists(st.integers(0, 12), max_size=4)):
        try:
            second.execution(copies(), FakeCopier(target, steps), Limits(2)).run()
        except Killed:
            target.drop()
    second.execution(copies(), FakeCopier(target), Limits(2)).run()
    plan = second.plan(copies())
    assert (reasons(plan), plan.writes, plan.noted) == ([], False, {})
    assert sum(s.records for line in plan.lines for s in line.done) == len(of_second)
    copied = target.offsets(PLACE)
    aside = target.offsets(TopicPartition(QUARANTINE_OF + T, 0))
    assert len({*copied, *aside}) == len(copied) + len(aside)
    assert len(aside) == records_before[Action.QUARANTINE]
    assert {n for n in offsets if n >= start} <= {*copied, *aside} or minds_discard(minds)
    assert {each[0] for each in newer} <= set(copied)


def decided_records(segments: list[Segment], action: Action | None = None) -> int:
    return sum(s.records for s in segments if action in (None, s.action))


def minds_discard(minds: Policies) -> bool:
    return Action.DISCARD in (minds.everywhere, minds.conflicting)
