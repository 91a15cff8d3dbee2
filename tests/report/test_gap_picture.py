"""Offsets and colors: the picture loses none of the numbers."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drctl.model.gap import Histogram
from drctl.views.gap_page import LEVELS, MAX_BINS, MAX_CELLS, MAX_ROWS, Scale, heat_map, strip
from drctl.views.time_axis import Axis
from tests.report import gaps

HOUR = 3_600_000
COUNTS = st.lists(st.integers(0, 10**9), min_size=1, max_size=50)


@given(COUNTS)
def test_more_records_never_have_a_weaker_colour(counts: list[int]) -> None:
    scale = Scale(counts)
    levels = [scale.level(count) for count in sorted(counts)]
    assert levels == sorted(levels)
    assert all(
        (level == 0) == (count == 0) for level, count in zip(levels, sorted(counts), strict=True)
    )
    assert not any(counts) or max(levels) == LEVELS


@given(COUNTS)
def test_the_legend_covers_every_count_once(counts: list[int]) -> None:
    scale = Scale(counts)
    bounds = []
    for level, text in scale.legend():
        low, _, high = text.replace(",", "").partition(" to ")
        bounds.append((int(low), int(high or low)))
        assert scale.level(bounds[-1][0]) == scale.level(bounds[-1][1]) == level
    assert bounds[0][0] == 1
    assert all(a[1] + 1 == b[0] for a, b in pairwise(bounds))
    assert bounds[-1][1] == max(1, *counts)


def test_counts_far_apart_still_differ_in_colour() -> None:
    scale = Scale((1, 30, 1_000_000))
    assert scale.level(1) < scale.level(30) < scale.level(1_000_000)


def test_the_worst_partitions_come_first_and_all_are_summed() -> None:
    rows = tuple(("orders", p, (p, 0, 2 * p)) for p in range(40))
    picture = heat_map(Histogram(0, HOUR, rows))
    assert picture
    assert [row.partition for row in picture.rows] == list(range(39, 39 - MAX_ROWS, -1))
    assert picture.hidden == 39 - MAX_ROWS  # partition 0 has no missing record
    assert picture.records == 3 * sum(range(40))
    assert [cell.title.split()[0] for cell in picture.sums] == ["780", "1,560"]
    assert [cell.height for cell in picture.sums] == [50, 100]
    assert picture.peak == "1,560 records from 1970-01-01 02:00 to 03:00 UTC"


def test_cells_are_at_their_time() -> None:
    picture = heat_map(Histogram(0, HOUR, (("orders", 0, (0, 5, 0, 1)),)))
    assert picture
    first, second = picture.rows[0].cells
    assert (first.x, first.width, second.x) == (25, 25, 75)
    assert first.title == "5 records from 1970-01-01 01:00 to 02:00 UTC"


def test_many_bins_are_merged_without_losing_a_record() -> None:
    bins = tuple(range(1, 1001))
    picture = heat_map(Histogram(0, HOUR, (("orders", 0, bins),)))
    assert picture
    cells = picture.rows[0].cells
    assert len(cells) <= MAX_BINS
    assert sum(int(c.title.split()[0].replace(",", "")) for c in cells) == sum(bins)
    assert cells[-1].x + cells[-1].width == pytest.approx(100, abs=0.01)


def test_no_data_makes_no_picture() -> None:
    assert heat_map(Histogram(0, HOUR, ())) is None
    assert heat_map(Histogram(0, HOUR, (("orders", 0, (0, 0)),))) is None
    assert heat_map(Histogram(0, 0, (("orders", 0, (1,)),))) is None


def test_ticks_are_round_and_name_the_day() -> None:
    start = gaps.FROZEN_MS - 24 * HOUR
    ticks = Axis(start, HOUR, 24).ticks()
    assert [tick.text for tick in ticks] == ["18:00", "2026-03-05", "06:00", "12:00"]
    assert [tick.x for tick in ticks] == sorted(tick.x for tick in ticks)


@given(st.integers(-(2**62), 2**62), st.integers(1, 2**55), st.integers(1, 100))
def test_any_axis_has_few_ticks_on_it(start: int, width: int, bins: int) -> None:
    axis = Axis(start, width, bins)
    assert len(axis.ticks()) <= 6
    assert all(0 <= tick.x <= 100 and tick.text.isprintable() for tick in axis.ticks())
    assert axis.span(0).isprintable()
    assert axis.bin_width()


def test_bins_are_as_precise_as_they_are_wide() -> None:
    assert Axis(0, 5_000, 60).span(1) == "from 1970-01-01 00:00:05 to 00:00:10 UTC"
    assert Axis(0, 7, 60).span(1) == "from 1970-01-01 00:00:00.007 to 00:00:00.014 UTC"
    assert Axis(23 * HOUR, HOUR, 2).span(0) == "from 1970-01-01 23:00 to 1970-01-02 00:00 UTC"


def test_the_strip_shows_each_partition_and_uncompared_ones() -> None:
    topic = gaps.topic("orders", gaps.gap(2, 9), gaps.gap(0, 9, 3), gaps.gap(1, 9))
    cells = strip(topic, frozenset({2}), Scale((3,))).cells
    assert [cell.title for cell in cells] == [
        "partition 0: 3 records",
        "partition 1: 0 records",
        "partition 2: not compared",
    ]
    assert [cell.level for cell in cells] == [LEVELS, 0, -1]


def test_very_many_partitions_share_cells() -> None:
    topic = gaps.topic("orders", *(gaps.gap(p, 9, 1) for p in range(1_000)))
    shown = strip(topic, frozenset(), Scale((1,)))
    assert len(shown.cells) <= MAX_CELLS
    assert shown.partitions == 1_000
    assert shown.cells[0].title == f"partitions 0 to {shown.each - 1}: {shown.each} records"
