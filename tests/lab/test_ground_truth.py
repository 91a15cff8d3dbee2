"""Ground truth of scenarios: one record too few or too many is detected."""

from typing import Any

import pytest

from drctl.lab.scenarios.clients import GroupReads
from drctl.lab.scenarios.ground_truth import (
    GroupTruth,
    as_table,
    gap_truth,
    group_truth,
    judge_gap,
    require_acknowledged,
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


def test_a_group_that_resumes_at_its_offset_skips_and_rereads_nothing() -> None:
    found = group_truth("g", reads(0, 1, 2), after(3, 6), THERE)
    assert found == GroupTruth(
        "g", before=3, after=2, duplicated=0, unreplicated_reads=0, skipped=0
    )


def test_reread_and_unreplicated_records_are_counted() -> None:
    found = group_truth("g", reads(0, 1, 2, 3, 4, 5), after(2, 3, 6), THERE)
    assert found == GroupTruth(
        "g", before=6, after=3, duplicated=2, unreplicated_reads=2, skipped=0
    )


def test_a_record_consumed_on_neither_cluster_is_skipped() -> None:
    assert group_truth("g", reads(0, 1, 2), after(6), THERE).skipped == 1
    assert group_truth("g", reads(0, 1, 2), after(3), THERE).skipped == 1


def test_uncommitted_records_do_not_count_as_consumed() -> None:
    """The application died before the commit and must consume these again."""
    unfinished = reads(0, 1, 2, committed={0: 1, 1: 1})
    assert group_truth("g", unfinished, after(3, 6), THERE).skipped == 1
    assert group_truth("g", unfinished, after(2, 3, 6), THERE).skipped == 0


def test_the_table_has_a_row_for_each_group_under_its_heading() -> None:
    rows = [GroupTruth("orders", 12_000, 9, 8, 7, 6), GroupTruth("o", 1, 2, 3, 4, 5)]
    heading, first, second, *legend = as_table(rows).splitlines()
    words = "group consumed before consumed after twice not replicated skipped"
    assert heading.split() == words.split()
    assert first.split() == ["orders", "12,000", "9", "8", "7", "6"]
    assert second.split() == ["o", "1", "2", "3", "4", "5"]
    assert len(heading) == len(first) == len(second)
    assert all(f"{word}:" in " ".join(legend) for word in ("before", "after", "skipped"))


def test_a_lost_acknowledged_record_fails_the_scenario() -> None:
    rows = {number: str(number).encode() for number in range(6)}
    require_acknowledged("primary", PRIMARY, {(0, 1): 2, (1, 2): 5}, rows)
    with pytest.raises(Stopped, match="lost row 4, acknowledged at"):
        require_acknowledged("primary", PRIMARY, {(0, 1): 4}, rows)
    with pytest.raises(Stopped, match="lost row 3"):
        require_acknowledged("primary", PRIMARY, {(1, 7): 3}, rows)


def answer(*ranges: list[int], complete: bool = True, unreplicated: int = 2) -> dict[str, Any]:
    partitions = [{"partition": n, "ranges": [each]} for n, each in enumerate(ranges)]
    totals = {"unreplicated": unreplicated}
    return {"topics": [{"partitions": partitions}], "complete": complete, "totals": totals}


def test_a_result_with_exactly_the_missing_records_is_correct() -> None:
    truth = gap_truth(PRIMARY, THERE, {(0, 2): 4, (0, 0): 0})
    assert truth.missing == {(0, 2), (1, 2)}
    assert (truth.acknowledged, truth.acknowledged_missing) == (2, 1)
    assert judge_gap(truth, answer([2, 2], [2, 2]), 1).difference == ""


@pytest.mark.parametrize(
    ("result", "code"),
    [
        (answer([2, 2]), 1),
        (answer([1, 2], [2, 2]), 1),
        (answer([2, 2], [2, 2]), 0),
        (answer([2, 2], [2, 2], complete=False), 1),
        (answer([2, 2], [2, 2], unreplicated=3), 1),
    ],
)
def test_any_other_result_is_wrong(result: dict[str, Any], code: int) -> None:
    assert judge_gap(gap_truth(PRIMARY, THERE, {}), result, code).difference


def test_a_scenario_without_loss_proves_nothing() -> None:
    truth = gap_truth({(0, 0): b"0"}, THERE, {})
    assert judge_gap(truth, answer(unreplicated=0), 1).difference
