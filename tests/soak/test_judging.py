"""The judgement: each kind of harm is found, and nothing else is."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.soak.judging import Compacted, Evidence, Group, Held, Reported, judge
from tests.soak.logs import Acknowledged, Committed, Failed, Processed, What
from tests.soak.round_plan import PRIMARY, SECONDARY

GROUP = "orders-app-x"
VALUES = tuple(f"w0-{number}" for number in range(6))
"""Records of keys k0 and k1 in turn, all in one partition; the last two were written on the
secondary."""


def key_of(value: str) -> str:
    return f"w0-k{int(value[-1]) % 2}"


def held(*values: str, copied: tuple[str, ...] = ()) -> tuple[Held, ...]:
    return tuple(
        Held(0, offset, key_of(value), value, value in copied)
        for offset, value in enumerate(values)
    )


def acknowledged(cluster: str, *values: str, first: int = 0) -> tuple[Acknowledged, ...]:
    return tuple(
        Acknowledged(cluster, 0, offset, value) for offset, value in enumerate(values, first)
    )


def processed(stay: int, cluster: str, *values: str, first: int = 0) -> tuple[Processed, ...]:
    return tuple(
        Processed(stay, cluster, 0, offset, value) for offset, value in enumerate(values, first)
    )


def committed(stay: int, cluster: str, offset: int, *whats: What) -> tuple[Committed, ...]:
    return tuple(Committed(stay, cluster, 0, offset, what) for what in whats)


SURE = (What.SENT, What.ACKNOWLEDGED)
FAILED = tuple(Failed(SECONDARY, value, "") for value in VALUES[4:])


def fine() -> Evidence:
    """Return four records on the primary, two on the secondary, all replicated, one moved group."""
    group = Group(
        GROUP,
        (*processed(0, PRIMARY, *VALUES[:4]), *processed(1, SECONDARY, *VALUES[4:], first=4)),
        (*committed(0, PRIMARY, 4, *SURE), *committed(1, SECONDARY, 6, *SURE)),
    )
    return Evidence(
        (*acknowledged(PRIMARY, *VALUES[:4]), *acknowledged(SECONDARY, *VALUES[4:], first=4)),
        (),
        {PRIMARY: held(*VALUES), SECONDARY: held(*VALUES)},
        (),
        (group,),
        Reported(),
    )


def on(seen: Evidence, cluster: str, *values: str, copied: tuple[str, ...] = ()) -> Evidence:
    return replace(seen, held={**seen.held, cluster: held(*values, copied=copied)})


def test_a_round_without_violations_is_good() -> None:
    found = judge(fine())
    assert found.wrong == ()
    assert found.acknowledged == 6
    assert (found.lost, found.skipped, found.out_of_order, found.twice) == (0, 0, 0, 0)


def test_an_acknowledged_record_that_is_gone_is_lost() -> None:
    found = judge(on(fine(), PRIMARY, *VALUES[:5]))
    assert found.lost == 1
    assert "lost on primary: 1, such as w0-5" in found.wrong


def test_a_record_missing_only_on_the_secondary_is_lost_unless_quarantined() -> None:
    away = on(fine(), SECONDARY, *VALUES[:3], *VALUES[4:])
    seen = replace(
        away, acknowledged=away.acknowledged[:4], failed=FAILED, reported=Reported(missing=1)
    )
    assert judge(seen).wrong == ("lost on secondary: 1, such as w0-3",)
    reported = Reported(missing=1, done={"quarantine": 1})
    assert judge(replace(seen, quarantined=("w0-3",), reported=reported)).wrong == ()


def test_without_a_failback_the_secondary_must_have_everything() -> None:
    seen = replace(on(fine(), PRIMARY, *VALUES[:4]), serving=SECONDARY)
    assert judge(seen).wrong == ()
    (group,) = seen.groups
    skipping = replace(group, processed=group.processed[:-1])
    assert judge(replace(seen, groups=(skipping,))).skipped == 1
    short = replace(on(seen, SECONDARY, *VALUES[:5]), reported=Reported())
    assert "lost on secondary: 1, such as w0-5" in judge(short).wrong


def test_a_record_missing_at_its_acknowledged_offset_is_lost() -> None:
    """A truncated log that was written to again."""
    other = ("w0-1", "w0-0", *VALUES[2:])
    found = judge(on(fine(), PRIMARY, *other))
    assert found.lost == 2
    assert "not at the offset acknowledged by primary: 2, such as w0-0, w0-1" in found.wrong


def test_a_record_that_a_group_never_read_is_skipped() -> None:
    seen = fine()
    (group,) = seen.groups
    found = judge(replace(seen, groups=(replace(group, processed=group.processed[:-1]),)))
    assert found.skipped == 1
    assert f"skipped by {GROUP}: 1, such as w0-5" in found.wrong


def test_a_quarantined_record_is_not_skipped() -> None:
    reported = Reported(missing=1, done={"quarantine": 1})
    assert judge(replace(with_one_missing(), quarantined=("w0-3",), reported=reported)).wrong == ()


def with_one_missing() -> Evidence:
    """Only the primary has w0-3, which the group did not read."""
    seen = on(fine(), SECONDARY, *VALUES[:3], *VALUES[4:])
    (group,) = seen.groups
    kept = tuple(each for each in group.processed if each.value != "w0-3")
    return replace(
        seen,
        acknowledged=seen.acknowledged[:4],
        failed=FAILED,
        groups=(replace(group, processed=kept),),
        reported=Reported(missing=1),
    )


def test_an_exported_record_is_in_the_files() -> None:
    seen = replace(with_one_missing(), reported=Reported(missing=1, done={"export": 1}))
    assert judge(replace(seen, exported=frozenset({"w0-3"}))).wrong == ()
    found = judge(seen)
    assert (found.lost, found.skipped) == (1, 1)
    assert "records exported by reconcile: drctl reports 1, ground truth is 0" in found.wrong


def test_a_discarded_record_was_never_on_the_secondary() -> None:
    seen = replace(with_one_missing(), reported=Reported(missing=1, done={"discard": 1}))
    assert judge(seen).wrong == ()
    two = judge(replace(seen, reported=Reported(missing=1, done={"discard": 2})))
    assert two.wrong == ("records discarded by reconcile: drctl reports 2, ground truth is 1",)
    had = Acknowledged(SECONDARY, 0, 3, "w0-3")
    found = judge(replace(seen, acknowledged=(*seen.acknowledged[:3], had)))
    assert (found.lost, found.skipped) == (2, 1), (
        "the acknowledged record is neither on the secondary nor at its offset"
    )
    assert "records discarded by reconcile: drctl reports 1, ground truth is 0" in found.wrong


@pytest.mark.parametrize(
    ("whats", "skipped"),
    [
        ((What.SENT, What.ACKNOWLEDGED), 0),
        ((What.SENT,), 0),  # the result is unknown: it may have been committed
        ((What.SENT, What.REFUSED), 4),
    ],
)
def test_uncommitted_records_are_read_again(whats: tuple[What, ...], skipped: int) -> None:
    seen = fine()
    (group,) = seen.groups
    commits = (*committed(0, PRIMARY, 4, *whats), *group.committed[2:])
    found = judge(replace(seen, groups=(replace(group, committed=commits),)))
    assert found.skipped == skipped


def test_a_record_after_a_later_one_of_its_key_is_out_of_order() -> None:
    seen = fine()
    moved = ("w0-0", "w0-1", "w0-2", "w0-3", "w0-5", "w0-4")
    assert judge(on(seen, SECONDARY, *moved)).out_of_order == 0, (
        "records of different keys have no order"
    )
    found = judge(on(seen, PRIMARY, "w0-2", "w0-1", "w0-0", *VALUES[3:]))
    assert found.out_of_order == 1
    assert "order on primary: 1, such as w0-0 of w0-k0 at 0:2" in found.wrong


def test_a_duplicate_is_no_inversion_but_must_be_reported() -> None:
    twice = on(fine(), SECONDARY, *VALUES[:4], "w0-2", "w0-3", *VALUES[4:])
    twice = replace(twice, acknowledged=twice.acknowledged[:4], failed=FAILED)
    found = judge(twice)
    assert (found.out_of_order, found.twice) == (0, 2)
    assert found.wrong == ("duplicates on the secondary: drctl reports 0, ground truth is 2",)
    assert judge(replace(twice, reported=Reported(secondary_duplicates=2))).wrong == ()


def test_a_duplicate_on_the_primary_must_be_reported() -> None:
    twice = on(fine(), PRIMARY, *VALUES, "w0-5")
    assert "duplicates on the primary: drctl reports 0, ground truth is 1" in judge(twice).wrong
    assert judge(replace(twice, reported=Reported(missing=1, primary_duplicates=1))).wrong == ()


def test_a_number_that_is_too_high_is_wrong() -> None:
    found = judge(
        replace(fine(), reported=Reported(missing=1, primary_duplicates=2, done={"copy": 3}))
    )
    assert found.wrong == (
        "records missing on the secondary: drctl reports 1, ground truth is 0",
        "duplicates on the primary: drctl reports 2, ground truth is 0",
        "records copied by reconcile: drctl reports 3, ground truth is 0",
    )


def test_repeated_reconciliation_is_found() -> None:
    seen = replace(fine(), reported=Reported(done={"copy": 2}, secondary_duplicates=1))
    seen = on(seen, SECONDARY, *VALUES, "w0-3", copied=("w0-3",))
    assert "copied more often than the primary holds them: 1, such as w0-3" in judge(seen).wrong


@pytest.mark.parametrize("what", ["copy", "quarantine"])
def test_a_record_stored_twice_is_decided_twice(what: str) -> None:
    failed_back = on(fine(), PRIMARY, *VALUES, "w0-3")
    if what == "copy":
        seen = on(failed_back, SECONDARY, *VALUES[:4], "w0-3", *VALUES[4:], copied=("w0-3",))
    else:
        seen = replace(
            on(failed_back, SECONDARY, *VALUES[:3], *VALUES[4:]), quarantined=("w0-3", "w0-3")
        )
    missing = 2 if what == "quarantine" else 0
    acked = tuple(each for each in seen.acknowledged if each.cluster == PRIMARY)
    seen = replace(
        seen, acknowledged=acked, failed=FAILED, reported=Reported(missing, done={what: 2})
    )
    assert judge(seen).wrong == ()
    thrice = on(seen, SECONDARY, *(h.value for h in seen.held[SECONDARY]), "w0-3", copied=("w0-3",))
    thrice = replace(
        thrice, quarantined=(*seen.quarantined, "w0-3") if what == "quarantine" else ()
    )
    assert any("more often than the primary holds them" in each for each in judge(thrice).wrong)


def test_a_copy_that_came_back_is_found() -> None:
    seen = on(fine(), PRIMARY, *VALUES, copied=("w0-5",))
    assert judge(seen).wrong == (
        "copies made by drctl that were replicated back to the primary: 1, such as w0-5",
    )


def test_a_record_of_no_writer_is_found() -> None:
    seen = on(replace(fine(), reported=Reported(missing=1)), PRIMARY, *VALUES, "w0-9")
    assert "unknown records on primary: 1, such as w0-9" in judge(seen).wrong


def read_again(seen: Evidence) -> Evidence:
    """The group reads two records on the secondary that it had processed on the primary."""
    (group,) = seen.groups
    more = (*group.processed, *processed(1, SECONDARY, *VALUES[2:4], first=2))
    return replace(seen, groups=(replace(group, processed=more),))


@pytest.mark.parametrize(
    ("change", "blamed"),
    [
        (lambda reported: reported, True),
        (lambda reported: replace(reported, again={(SECONDARY, GROUP): 1}), True),
        (lambda reported: replace(reported, again={(SECONDARY, GROUP): 2}), False),
        (lambda reported: replace(reported, again={(PRIMARY, GROUP): 2}), True),
        (lambda reported: replace(reported, again={(SECONDARY, GROUP): None}), False),
        (lambda reported: replace(reported, unbounded=frozenset({SECONDARY})), False),
    ],
)
def test_records_read_again_are_compared_with_the_stated_number(
    change: Callable[[Reported], Reported], blamed: bool
) -> None:
    seen = read_again(fine())
    wrong = judge(replace(seen, reported=change(seen.reported))).wrong
    assert bool(wrong) is blamed
    if blamed:
        assert f"{GROUP} read 2 records again during stay 1 (secondary)" in wrong[0]


def test_an_aborted_record_that_is_visible_is_found() -> None:
    seen = replace(fine(), aborted=frozenset({"w0-9"}))
    assert judge(seen).wrong == ()
    visible = on(replace(seen, reported=Reported(missing=1)), PRIMARY, *VALUES, "w0-9")
    assert "aborted records on primary: 1, such as w0-9" in judge(visible).wrong


def test_records_that_a_rebuild_lost_are_excused_and_its_offsets_are_new() -> None:
    """Only the primary had w0-3 when its topics were deleted."""
    kept = (*VALUES[:3], *VALUES[4:])
    moved = on(on(fine(), PRIMARY, *kept), SECONDARY, *kept)
    acked = (*moved.acknowledged[:4], *acknowledged(SECONDARY, *VALUES[4:], first=3))
    seen = replace(moved, acknowledged=acked, gone=frozenset({"w0-3"}), rebuilt=True)
    assert judge(seen).wrong == ()
    assert judge(replace(seen, gone=frozenset())).lost == 2
    (group,) = seen.groups
    skipping = replace(seen, groups=(replace(group, processed=group.processed[:-1]),))
    assert judge(skipping).skipped == 1


KEYED = tuple(f"w2-{number}" for number in (0, 40, 80))
"""Three values of one key of a compacted topic."""


def with_values(
    on_primary: tuple[str, ...], on_secondary: tuple[str, ...], **more: tuple[str, ...]
) -> Evidence:
    """The primary acknowledged the first two values, the secondary the last one."""
    found = Compacted(
        (*acknowledged(PRIMARY, *KEYED[:2]), *acknowledged(SECONDARY, KEYED[2], first=2)),
        (),
        {
            cluster: tuple(Held(0, offset, "w2-k0", value) for offset, value in enumerate(values))
            for cluster, values in ((PRIMARY, on_primary), (SECONDARY, on_secondary))
        },
        **more,
    )
    return replace(fine(), compacted=found)


def test_compaction_may_remove_all_values_but_the_last_of_a_key() -> None:
    assert judge(with_values(KEYED, KEYED[2:])).wrong == ()
    assert judge(with_values(KEYED[1:], KEYED)).wrong == ()


@pytest.mark.parametrize("left", [KEYED[:2], (KEYED[2], KEYED[0]), ()])
def test_an_old_value_of_a_key_is_found(left: tuple[str, ...]) -> None:
    last = int(left[-1][3:]) if left else None
    assert f"old values of keys on primary: 1, such as w2-k0: {last} instead of 80" in (
        judge(with_values(left, KEYED)).wrong
    )


def test_a_value_that_drctl_kept_away_from_the_secondary_is_excused() -> None:
    one = with_values(KEYED, KEYED[:1])
    assert one.compacted is not None
    acked = replace(one.compacted, acknowledged=one.compacted.acknowledged[:2])
    seen = replace(
        one, compacted=replace(acked, held={**acked.held, PRIMARY: acked.held[PRIMARY][:2]})
    )
    assert judge(seen).wrong == (
        "old values of keys on secondary: 1, such as w2-k0: 0 instead of 40",
    )
    assert seen.compacted is not None
    quarantined = replace(seen.compacted, quarantined=(KEYED[1],))
    assert judge(replace(seen, compacted=quarantined)).wrong == ()
    assert (
        judge(
            replace(seen, exported=frozenset({KEYED[1]}), reported=Reported(done={"export": 1}))
        ).wrong
        == ()
    )
    discarded = Reported(done={"discard": 1})
    assert judge(replace(seen, reported=discarded)).wrong == ()


def test_figures_may_include_records_of_the_compacted_topic() -> None:
    assert (
        judge(replace(with_values(KEYED, KEYED), reported=Reported(done={"copy": 3}))).wrong == ()
    )
    assert judge(replace(with_values(KEYED, KEYED), reported=Reported(done={"copy": 4}))).wrong == (
        "records copied by reconcile: drctl reports 4, ground truth is 0 to 3",
    )
