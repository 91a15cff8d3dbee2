"""Plans to commit offsets, by cases and by generated input."""

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drctl.model.errors import UsageError
from drctl.model.groups import Committed, Group, GroupProtocol, GroupState
from drctl.model.plan import parse_overrides
from drctl.model.topology import OffsetRange, TopicPartition, Unavailable
from drctl.model.translation import Answer, GroupPartition, Method, Translation
from drctl.offsets.applying import (
    OVERRIDABLE,
    WRITES,
    Action,
    ApplyPlan,
    BasedOn,
    Bounds,
    Line,
    Precheck,
    TargetState,
    Wanted,
    Written,
    build_plan,
    from_translations,
    look,
    unmatched,
)
from drctl.offsets.translating import COMMITTED_AHEAD, NEVER
from tests.fakes import FakeCluster, FakeLog, group

PLACE = TopicPartition("orders", 0)
LOG = OffsetRange(10, 1000)
EXACT = Bounds(0, 0)
NOW = datetime(2026, 3, 5, 14, 20, 7, tzinfo=UTC)


def plan(wanted: list[Wanted], reader: TargetState, *passed: Precheck) -> ApplyPlan:
    overrides = {precheck.value: "cause" for precheck in passed}
    return build_plan(
        wanted,
        reader,
        cluster="secondary",
        cluster_id="id",
        origin="a test",
        made=NOW,
        overrides=overrides,
    )


def line(
    wanted: Wanted,
    *passed: Precheck,
    held: Group | Unavailable | None = None,
    before: Committed | None = None,
    log: OffsetRange | Unavailable = LOG,
    epoch_end: int | Unavailable | None = None,
) -> Line:
    name, place = wanted.group, wanted.partition
    positions = {} if before is None else {place: before}
    ends = {(place, before.leader_epoch): epoch_end} if before and epoch_end is not None else {}
    reader = TargetState({name: held or group(name)}, {name: positions}, {place: log}, ends)
    (only,) = plan([wanted], reader, *passed).lines
    return only


def wants(offset: int | None, bounds: Bounds | None = EXACT, **more: object) -> Wanted:
    to = None if offset is None else Committed(offset)
    return Wanted("g", PLACE, to, bounds, **more)  # type: ignore[arg-type]


def test_a_group_without_an_offset() -> None:
    found = line(wants(100))
    assert (found.action, found.before, found.to) == (Action.COMMIT, None, Committed(100))
    assert (found.rereads_at_most, found.skips_at_most, found.precheck) == (0, 0, None)


def test_a_group_unknown_to_the_cluster() -> None:
    dead = Group("g", GroupProtocol.UNKNOWN, GroupState.DEAD)
    assert line(wants(100), held=dead).action is Action.COMMIT


@pytest.mark.parametrize(
    ("bounds", "before", "action"),
    [
        (EXACT, Committed(100, 3, "by a client"), Action.SAME),
        (None, Committed(100), Action.SAME),
        (
            None,
            Committed(100, 3, "by a client"),
            Action.COMMIT,
        ),  # metadata and epoch are committed, too
    ],
)
def test_offset_that_is_already_committed(
    bounds: Bounds | None, before: Committed, action: Action
) -> None:
    assert line(wants(100, bounds), before=before).action is action


def test_a_lower_offset_is_not_committed() -> None:
    found = line(wants(100), before=Committed(150))
    assert (found.action, found.precheck) == (Action.KEPT, Precheck.MOVES_BACKWARDS)
    assert found.rereads_at_most == 50
    over = line(wants(100), Precheck.MOVES_BACKWARDS, before=Committed(150))
    assert (over.action, over.overridden) == (Action.COMMIT, (Precheck.MOVES_BACKWARDS,))


RESET = "the group was reset backwards after 2026-03-05 17:02:31 UTC"


def unproven(before: int | None, likely: int | None = 30, *, commit: bool = True) -> Line:
    """Evidence of a lost source suggests 100; the target's log has grown to 1,000 since."""
    wanted = wants(100, Bounds(500, None, likely, RESET))
    positions = {} if before is None else {PLACE: Committed(before)}
    reader = TargetState({"g": group("g")}, {"g": positions}, {PLACE: OffsetRange(0, 1_000)})
    head = {"cluster": "secondary", "cluster_id": "id", "origin": "a test", "made": NOW}
    (only,) = build_plan([wanted], reader, **head, unproven=commit).lines  # type: ignore[arg-type]
    return only


def test_unproven_offsets_are_written_unless_the_policy_refuses() -> None:
    found = unproven(None)
    assert (found.action, found.precheck, found.overridden) == (Action.COMMIT, None, ())
    assert (found.rereads_at_most, found.rereads_likely) == (900, 30), (
        "not up to the current end offset"
    )
    assert (found.skips_at_most, found.skips_only_if) == (None, RESET)
    refused = unproven(None, commit=False)
    assert (refused.action, refused.precheck) == (Action.REFUSED, Precheck.SKIPS_RECORDS)
    assert refused.reason == f"would skip records if {RESET}"
    unknown = line(wants(100, Bounds(None, None)))
    assert unknown.action is Action.REFUSED, "an offset from a given timestamp has no condition"


@pytest.mark.parametrize(
    ("before", "likely", "rereads", "left", "explained"),
    [(120, 30, 880, 10, True), (131, 30, 869, 0, False), (120, None, 880, None, False)],
)
def test_higher_committed_offset_is_kept(
    before: int, likely: int | None, rereads: int, left: int | None, explained: bool
) -> None:
    """MirrorMaker 2 may have committed it before a reset: only its own uncertainty explains it."""
    found = unproven(before, likely)
    assert (found.action, found.precheck) == (Action.KEPT, Precheck.MOVES_BACKWARDS)
    assert (found.rereads_at_most, found.rereads_likely) == (rereads, left)
    assert found.skips_only_if == (RESET if explained else COMMITTED_AHEAD)


@pytest.mark.parametrize("skips", [None, 7])
def test_skipping_needs_an_override(skips: int | None) -> None:
    found = line(wants(100, Bounds(0, skips)))
    assert (found.action, found.precheck) == (Action.REFUSED, Precheck.SKIPS_RECORDS)
    assert found.skips_at_most == skips
    assert line(wants(100, Bounds(0, skips)), Precheck.SKIPS_RECORDS).action is Action.COMMIT


def test_a_higher_offset_over_records_known_to_be_read() -> None:
    assert line(wants(100), before=Committed(50)).action is Action.COMMIT


def test_a_higher_offset_without_evidence() -> None:
    found = line(wants(100, None), before=Committed(50))
    assert (found.action, found.precheck) == (Action.REFUSED, Precheck.SKIPS_RECORDS)
    assert found.skips_at_most == 50


@pytest.mark.parametrize(
    ("offset", "words"), [(9, "log start offset is 10"), (1001, "end offset is 1000")]
)
def test_outside_the_log(offset: int, words: str) -> None:
    found = line(wants(offset))
    assert (found.action, found.precheck) == (Action.REFUSED, Precheck.OUTSIDE_LOG)
    assert words in found.reason
    assert line(wants(offset), Precheck.OUTSIDE_LOG).action is Action.COMMIT


@pytest.mark.parametrize("offset", [10, 1000])
def test_the_ends_of_the_log_are_in_it(offset: int) -> None:
    assert line(wants(offset)).action is Action.COMMIT


@pytest.mark.parametrize("state", [GroupState.STABLE, GroupState.PREPARING, GroupState.UNKNOWN])
def test_an_active_group_is_never_changed(state: GroupState) -> None:
    found = line(wants(100), *Precheck, held=group("g", state=state))
    assert (found.action, found.precheck) == (Action.REFUSED, Precheck.GROUP_ACTIVE)
    busy = line(wants(100), *Precheck, held=group("g", members=5))
    assert busy.reason.endswith("stable, with " + "reader@/127.0.0.1, " * 3 + "2 more")


@pytest.mark.parametrize("protocol", [GroupProtocol.SHARE, GroupProtocol.STREAMS])
def test_groups_of_other_protocols_are_never_changed(protocol: GroupProtocol) -> None:
    found = line(wants(100), *Precheck, held=group("g", protocol=protocol))
    assert (found.action, found.precheck) == (Action.REFUSED, Precheck.GROUP_TYPE)


def test_unreadable_groups_are_never_changed() -> None:
    gone = Unavailable("partition orders-0 does not exist")
    found = line(wants(100), *Precheck, log=gone)
    assert (found.precheck, found.reason) == (Precheck.NOT_READABLE, gone.reason)
    unseen = line(wants(100), *Precheck, held=Unavailable("not authorized for group g"))
    assert (unseen.precheck, unseen.action) == (Precheck.NOT_READABLE, Action.REFUSED)
    assert (
        plan([wants(100)], TargetState({}, {}, {}), *Precheck).lines[0].precheck
        is Precheck.NOT_READABLE
    )


def test_a_blocked_row() -> None:
    found = line(wants(100, blocked="who knows"), before=Committed(100))
    assert (found.action, found.precheck, found.reason) == (
        Action.REFUSED,
        Precheck.BLOCKED,
        "who knows",
    )
    assert line(wants(100, blocked="who knows"), Precheck.BLOCKED).action is Action.COMMIT
    without = plan([wants(None, None, blocked="no evidence")], TargetState({}, {}, {}), *Precheck)
    assert (without.lines[0].action, without.lines[0].precheck) == (
        Action.REFUSED,
        Precheck.BLOCKED,
    )


def test_one_override_does_not_hide_another_precheck() -> None:
    found = line(wants(5, Bounds(0, 1)), Precheck.SKIPS_RECORDS, before=Committed(20))
    assert found.precheck is Precheck.OUTSIDE_LOG
    passed = (Precheck.SKIPS_RECORDS, Precheck.OUTSIDE_LOG, Precheck.MOVES_BACKWARDS)
    assert set(line(wants(5, Bounds(0, 1)), *passed, before=Committed(20)).overridden) == {*passed}


def test_undo() -> None:
    written = Written(Committed(100))
    back = Wanted("g", PLACE, Committed(50), undoes=written)
    assert line(back, before=Committed(100)).action is Action.COMMIT
    assert line(back, before=Committed(50)).action is Action.SAME
    moved = line(back, before=Committed(120))
    assert (moved.action, moved.precheck) == (Action.REFUSED, Precheck.CHANGED_SINCE)
    assert line(back, Precheck.CHANGED_SINCE, before=Committed(120)).action is Action.COMMIT
    gone = Wanted("g", PLACE, None, undoes=written)
    assert line(gone, before=Committed(100)).action is Action.DELETE
    assert line(gone).action is Action.SAME
    assert line(gone, before=Committed(101)).precheck is Precheck.CHANGED_SINCE


def test_rows_of_a_translation() -> None:
    answer = Answer(Method.OFFSET_SYNC, 70, 12, 0, "a sync", 3.0)
    other = TopicPartition("orders", 1)
    rows = (
        Translation(GroupPartition("g", PLACE), 80, TopicPartition("p.orders", 0), answer),
        Translation(GroupPartition("g", other), 80, None, None, blocked="no such topic"),
        Translation(GroupPartition("g", other), None, None, None, blocked=NEVER),
    )
    first, second = from_translations(rows)
    assert first == Wanted(
        "g",
        TopicPartition("p.orders", 0),
        Committed(70),
        Bounds(12, 0),
        based_on=BasedOn("offset-sync", "a sync", 3),
    )
    assert (second.partition, second.to, second.blocked) == (other, None, "no such topic")


def test_patterns_that_match_no_group() -> None:
    known = [Wanted("orders-1", PLACE, None, blocked="x"), Wanted("billing", PLACE, None)]
    patterns = ("orders-.*", "orders", "billing", "audit", ".*")
    assert unmatched(patterns, known) == ("orders", "audit")
    assert unmatched((".*",), ()) == (".*",)


def test_a_cluster_is_asked_once_and_not_about_rows_without_a_position() -> None:
    cluster = FakeCluster(
        {PLACE: FakeLog(end=1_000, start=10)},
        "target",
        {"g": group("g")},
        {"g": {PLACE: Committed(20)}},
    )
    blocked = Wanted("other", TopicPartition("gone", 0), None, blocked="no such topic")
    reader = look(cluster, cluster, no_epochs, [wants(100), blocked])  # type: ignore[arg-type]
    assert reader == TargetState({"g": group("g")}, {"g": {PLACE: Committed(20)}}, {PLACE: LOG})


def no_epochs(_epochs: object) -> dict[TopicPartition, int | Unavailable]:
    raise AssertionError("no leader epoch is committed")


def test_each_committed_epoch_is_looked_up_once() -> None:
    positions = {name: {PLACE: Committed(20, epoch)} for name, epoch in EPOCHS.items()}
    groups = {name: group(name) for name in EPOCHS}
    cluster = FakeCluster({PLACE: FakeLog(end=1_000, start=10)}, "target", groups, positions)
    asked: list[int] = []

    def ends_before(epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        asked.extend(epochs.values())
        return {place: epoch * 10 for place, epoch in epochs.items()}

    rows = [Wanted(name, PLACE, Committed(20), EXACT) for name in EPOCHS]
    restored = Wanted("a", PLACE, Committed(20))
    found = look(cluster, cluster, ends_before, [*rows, restored])  # type: ignore[arg-type]
    assert sorted(asked) == [3, 5]
    assert found.epoch_ends == {(PLACE, 3): 30, (PLACE, 5): 50}
    assert look(cluster, cluster, no_epochs, [restored]).epoch_ends == {}  # type: ignore[arg-type]


EPOCHS = {"a": 5, "b": 3, "c": 5, "d": -1}


@pytest.mark.parametrize(
    ("wanted", "end", "action"),
    [
        (100, 0, Action.COMMIT),  # an epoch above the leader's: a Java consumer would hang
        (100, 60, Action.COMMIT),  # a consumer would go back to 60
        (100, 100, Action.SAME),
        (100, Unavailable("no leader"), Action.SAME),
        (90, 0, Action.COMMIT),
        (90, 60, Action.KEPT),  # as after a truncation, and nothing proves the offset
        (90, 100, Action.KEPT),
    ],
)
def test_an_offset_that_stays_has_an_epoch_of_this_log(
    wanted: int, end: int | Unavailable, action: Action
) -> None:
    before = Committed(100, 7, "by a client")
    found = line(wants(wanted), before=before, epoch_end=end)
    assert (found.action, found.before) == (action, before)
    assert found.rereads_at_most == (10 if action is Action.KEPT else 0)
    if action is Action.COMMIT:
        assert (found.to, found.precheck) == (Committed(100, -1, "by a client"), None)
        assert "its leader epoch 7 is removed" in found.reason
        held = group("g", members=1)
        active = line(wants(wanted), held=held, before=before, epoch_end=end)
        assert (active.action, active.precheck) == (Action.REFUSED, Precheck.GROUP_ACTIVE)


def test_a_rollback_restores_the_leader_epoch() -> None:
    back = Wanted("g", PLACE, Committed(100, 7), undoes=Written(Committed(100)))
    assert line(back, before=Committed(100), epoch_end=0).to == Committed(100, 7)
    assert line(back, before=Committed(100, 7), epoch_end=0).action is Action.SAME


def test_lines_are_in_order() -> None:
    rows = [
        Wanted(name, TopicPartition(topic, number), None, blocked="x")
        for name in ("b", "a")
        for topic in ("t", "s")
        for number in (10, 9)
    ]
    keys = [(ln.group, *ln.partition) for ln in plan(rows, TargetState({}, {}, {})).lines]
    assert keys == sorted(keys)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("group-active=I know", "'group-active'"),
        ("not-readable-target=x", "can be overridden"),
        ("group-type=x", "can be overridden"),
        ("moves-backwards", "needs a reason"),
        ("moves-backwards=  ", "needs a reason"),
        ("backwards=x", "'backwards'"),
        ("", "''"),
    ],
)
def test_invalid_overrides(text: str, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_overrides([text], OVERRIDABLE)
    assert words in refused.value.message
    assert refused.value.hint


def test_overrides() -> None:
    found = parse_overrides(["skips-records=a=b ", "blocked=x"], OVERRIDABLE)
    assert found == {"skips-records": "a=b", "blocked": "x"}


offsets = st.integers(0, 60)
maybe_position = st.none() | st.builds(Committed, offsets)
bounds = st.none() | st.builds(Bounds, st.none() | offsets, st.none() | st.integers(0, 2))
logs = st.builds(Unavailable, st.just("gone")) | st.tuples(offsets, offsets).map(
    lambda pair: OffsetRange(*sorted(pair))
)
groups = st.builds(
    Group, st.just("g"), st.sampled_from(GroupProtocol), st.sampled_from(GroupState), st.just(())
) | st.just(Unavailable("no"))
wanted_rows = st.builds(
    Wanted,
    st.just("g"),
    st.just(PLACE),
    maybe_position,
    bounds,
    st.sampled_from(["", "blocked"]),
    st.none() | st.builds(Written, maybe_position),
)
overridable = [precheck for precheck in Precheck if precheck.overridable]


@given(
    wanted_rows,
    groups,
    st.none() | st.builds(Committed, offsets, st.integers(-1, 1)),
    logs,
    st.sets(st.sampled_from(overridable)),
    st.none() | offsets,
)
def test_invariants_of_every_plan(
    wanted: Wanted,
    held: Group | Unavailable,
    before: Committed | None,
    log: OffsetRange | Unavailable,
    passed: set[Precheck],
    epoch_end: int | None,
) -> None:
    positions = {} if before is None else {PLACE: before}
    known = before is not None and before.leader_epoch >= 0 and wanted.bounds is not None
    ends = (
        {(PLACE, before.leader_epoch): epoch_end}
        if before and known and epoch_end is not None
        else {}
    )
    reader = TargetState({"g": held}, {"g": positions}, {PLACE: log}, ends)
    found = plan([wanted], reader, *sorted(passed)).lines[0]
    assert (found.precheck is not None) == (found.action in {Action.KEPT, Action.REFUSED})
    assert found.precheck not in passed or (
        found.precheck is Precheck.BLOCKED and wanted.to is None
    )
    assert set(found.overridden) <= passed
    if found.action not in WRITES:
        assert not found.overridden
        return
    assert not held.active
    assert held.protocol not in {GroupProtocol.SHARE, GroupProtocol.STREAMS}
    assert not isinstance(log, Unavailable)
    assert found.before != found.to
    if found.reason:
        assert before is not None
        assert found.to == before._replace(leader_epoch=-1)
        assert wanted.to is not None
        assert wanted.to.offset <= before.offset
        return
    assert not wanted.blocked or Precheck.BLOCKED in passed
    if wanted.undoes is not None:
        assert before == wanted.undoes.position or Precheck.CHANGED_SINCE in passed
    elif found.to is not None:
        assert (
            before is None or found.to.offset >= before.offset or Precheck.MOVES_BACKWARDS in passed
        )
        assert found.skips_at_most == 0 or Precheck.SKIPS_RECORDS in passed
        assert log.start <= found.to.offset <= log.end or Precheck.OUTSIDE_LOG in passed


@pytest.mark.slow
def test_a_hundred_thousand_positions() -> None:
    rows = [
        Wanted(f"g{n % 1000}", TopicPartition("t", n // 1000), Committed(5), EXACT)
        for n in range(100_000)
    ]
    reader = TargetState(
        {f"g{n}": group(f"g{n}") for n in range(1000)},
        {f"g{n}": {} for n in range(1000)},
        {TopicPartition("t", n): OffsetRange(0, 9) for n in range(100)},
    )
    made = plan(rows, reader)
    assert len(made.writes) == 100_000
    assert made.counts[Action.COMMIT] == 100_000
