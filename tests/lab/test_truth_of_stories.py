"""What a story holds drctl against: one record too few, or one too many, is seen."""

from typing import Any

import pytest

from drctl.lab.scenarios.clients import GroupReads
from drctl.lab.scenarios.ground_truth import (
    GroupTruth,
    gap_truth,
    group_truth,
    in_table,
    judge_gap,
    require_kept,
)
from drctl.model.errors import Stopped

# Rows 0 to 5 were written to two partitions of the primary; 4 and 5 were never copied, 6 is newer.
PRIMARY = {(0, 0): b"0", (1, 0): b"1", (0, 1): b"2", (1, 1): b"3", (0, 2): b"4", (1, 2): b"5"}
THERE = (b"0", b"1", b"2", b"3", b"6")


def reads(*rows: int, committed: dict[int, int] | None = None) -> GroupReads:
    values = {place: value for place, value in PRIMARY.items() if int(value) in rows}
    return GroupReads(values, committed if committed is not None else {0: 9, 1: 9})


def after(*rows: int) -> GroupReads:
    return GroupReads({(7, n): str(row).encode() for n, row in enumerate(rows)}, {})


def test_a_group_that_goes_on_where_it_stood_skips_nothing_and_reads_nothing_twice() -> None:
    found = group_truth("g", reads(0, 1, 2), after(3, 6), THERE)
    assert found == GroupTruth("g", before=3, after=2, twice=0, ahead=0, skipped=0)


def test_what_it_reads_again_and_what_never_arrived_is_counted() -> None:
    found = group_truth("g", reads(0, 1, 2, 3, 4, 5), after(2, 3, 6), THERE)
    assert found == GroupTruth("g", before=6, after=3, twice=2, ahead=2, skipped=0)


def test_a_record_that_it_read_on_neither_side_was_skipped() -> None:
    assert group_truth("g", reads(0, 1, 2), after(6), THERE).skipped == 1
    assert group_truth("g", reads(0, 1, 2), after(3), THERE).skipped == 1


def test_what_was_read_and_not_committed_is_not_finished() -> None:
    """The application died in between: it has to get these again."""
    unfinished = reads(0, 1, 2, committed={0: 1, 1: 1})
    assert group_truth("g", unfinished, after(3, 6), THERE).skipped == 1
    assert group_truth("g", unfinished, after(2, 3, 6), THERE).skipped == 0


def test_the_table_has_a_row_for_each_group_under_its_heading() -> None:
    rows = [GroupTruth("orders", 12_000, 9, 8, 7, 6), GroupTruth("o", 1, 2, 3, 4, 5)]
    heading, first, second, *legend = in_table(rows).splitlines()
    assert heading.split() == ["group", "read", "before", "read", "after", "of", "these", "twice",
                               "ahead", "skipped"]  # fmt: skip
    assert first.split() == ["orders", "12,000", "9", "8", "7", "6"]
    assert second.split() == ["o", "1", "2", "3", "4", "5"]
    assert len(heading) == len(first) == len(second)
    assert all(f"{word}: " in "\n".join(legend) for word in ("before", "after", "ahead", "skipped"))


def test_a_cluster_that_lost_what_it_had_acknowledged_ends_the_story() -> None:
    rows = {number: str(number).encode() for number in range(6)}
    require_kept("primary", PRIMARY, {(0, 1): 2, (1, 2): 5}, rows)
    with pytest.raises(Stopped, match="lost row 4, which it had acknowledged"):
        require_kept("primary", PRIMARY, {(0, 1): 4}, rows)
    with pytest.raises(Stopped, match="lost row 3"):
        require_kept("primary", PRIMARY, {(1, 7): 3}, rows)


def answer(*ranges: list[int], complete: bool = True, unreplicated: int = 2) -> dict[str, Any]:
    partitions = [{"partition": n, "ranges": [each]} for n, each in enumerate(ranges)]
    totals = {"unreplicated": unreplicated}
    return {"topics": [{"partitions": partitions}], "complete": complete, "totals": totals}


def test_an_answer_that_names_exactly_what_is_missing_is_true() -> None:
    truth = gap_truth(PRIMARY, THERE, {(0, 2): 4, (0, 0): 0})
    assert truth.missing == {(0, 2), (1, 2)}
    assert (truth.acknowledged, truth.promised) == (2, 1)
    assert judge_gap(truth, answer([2, 2], [2, 2]), 1).differing == ""


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (answer([2, 2]), 1),
        (answer([1, 2], [2, 2]), 1),
        (answer([2, 2], [2, 2]), 0),
        (answer([2, 2], [2, 2], complete=False), 1),
        (answer([2, 2], [2, 2], unreplicated=3), 1),
    ],
)
def test_any_other_answer_is_wrong(said: dict[str, Any], code: int) -> None:
    assert judge_gap(gap_truth(PRIMARY, THERE, {}), said, code).differing


def test_a_story_in_which_nothing_got_lost_proves_nothing() -> None:
    truth = gap_truth({(0, 0): b"0"}, THERE, {})
    assert judge_gap(truth, answer(unreplicated=0), 1).differing
