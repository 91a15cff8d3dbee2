"""A gap result on a terminal."""

from collections.abc import Callable
from io import StringIO

import pytest
from rich.console import Console, RenderableType

from drctl.model.gap import GapResult
from drctl.views.gap_text import gap_table, next_steps, times, verdict
from tests.report import gaps

every = pytest.mark.parametrize("make", gaps.EVERY.values(), ids=gaps.EVERY)


def drawn(what: RenderableType, width: int = 80) -> str:
    """Return what a terminal without colors shows, through a console that interprets markup."""
    out = StringIO()
    Console(file=out, width=width, force_terminal=True, color_system=None).print(what)
    return out.getvalue()


def draw(result: GapResult, width: int = 80) -> str:
    return drawn(gap_table(result), width)


@pytest.mark.slow
@every
@pytest.mark.parametrize("width", [80, 200])
def test_every_line_fits_and_is_printable(make: Callable[[], GapResult], width: int) -> None:
    for line in draw(make(), width).splitlines():
        assert len(line) <= width
        assert line.isprintable()


@every
def test_it_agrees_with_the_page(make: Callable[[], GapResult]) -> None:
    result = make()
    text = draw(result, width=2_000)
    assert text.startswith(verdict(result))
    for step in next_steps(result):
        assert f"{step.what} {step.why}" in text
        assert step.command in [line.strip() for line in text.splitlines()]


def test_names_are_escaped() -> None:
    text = draw(gaps.hostile(), width=2_000)
    assert r"\xe2\x80\xae[red]\x1b[31m" in text
    assert "\x1b[31m" not in text


def test_the_ten_worst_partitions_and_how_many_more() -> None:
    text = draw(gaps.scattered())
    rows = [line.split() for line in text.splitlines() if line.startswith("  clicks ")]
    assert len(rows) == 10
    assert rows[0][:8] == ["clicks", "166", "1,100", "233", "KB", "0", "+1,099", "ranges"]
    assert rows[0][8].startswith("2026-03-0")
    assert "and 390 more partitions" in text


def test_the_last_lines_are_the_actions_and_the_page() -> None:
    lines = draw(gaps.tail_lost()).rstrip().splitlines()
    assert lines[-1] == "Report: .drctl/gap/20260305T142007Z/gap.html"
    assert any("Do now" in line for line in lines[-20:])


def test_zero_counts_share_a_line() -> None:
    text = draw(gaps.one_record(), width=200)
    assert "superseded, expired, undecided, only on target, duplicated on target" in text


def test_not_compared_names_everything_up_to_ten() -> None:
    text = draw(gaps.not_complete(), width=200)
    assert "audit (all partitions): user orders-app may not read it" in text
    assert "orders (11): broker 2 did not answer within 30 s, read up to offset 41,233" in text
    assert "and 2,990 more" in draw(gaps.vast())


@pytest.mark.parametrize(
    ("first", "last", "shown"),
    [
        (1_772_720_000_000, 1_772_720_040_000, "2026-03-05 14:13:20 .. 14:14:00"),
        (-1, 1_772_720_000_000, "no timestamp .. 2026-03-05 14:13:20"),
        (1_772_720_000_000, 2**62, "2026-03-05 14:13:20 .. 4611686018427387904 ms"),
    ],
)
def test_a_period_without_a_valid_start_or_end_is_shown_whole(
    first: int, last: int, shown: str
) -> None:
    assert times(first, last) == shown
