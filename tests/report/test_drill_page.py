"""The page of all drills: complete, self-contained, and safe with hostile names."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drctl.drill.result import Past, Verdict
from drctl.views.drill_page import MOST, ROWS, comparable, render, trend
from tests.depth import examples

BEGAN = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
GOOD = Past(
    "20260102t030400z-000000", "main", BEGAN, Verdict.PASSED, "planned", "", 4.5, 4.0, 4.5, 1234,
    0, 0.0, 3, 0,
)  # fmt: skip
HOSTILE = "</style><script>alert(1)</script>\x1b[2J\u202e'\"&"


def nightly(*changes: dict[str, object]) -> list[Past]:
    return [
        replace(GOOD, began=BEGAN + timedelta(days=number), **change)  # type: ignore[arg-type]
        for number, change in enumerate(changes)
    ]


@settings(max_examples=examples(40))
@given(st.lists(st.one_of(st.none(), st.floats(0, 10**6)), min_size=1, max_size=80))
def test_every_drill_is_in_the_picture_once(seconds: list[float | None]) -> None:
    found = trend(nightly(*({"rto_s": each} for each in seconds)))
    assert found is not None
    chart, shown = found.charts[0], seconds[-MOST:]
    assert len(chart.points) == sum(each is not None for each in shown)
    assert len(chart.points) + len(chart.missing) == len(shown)
    assert found.hidden == len(seconds) - len(shown)
    assert all(0 <= point.x <= 100 and 0 <= point.y <= 100 for point in chart.points)
    places = [each.x for each in (*chart.points, *chart.missing)]
    assert len(set(places)) == len(shown)


@settings(max_examples=examples(40))
@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=12))
def test_larger_values_are_never_drawn_lower(counts: list[int]) -> None:
    found = trend(nightly(*({"missing": each} for each in counts)))
    assert found is not None
    points = found.charts[1].points
    for a, more in zip(points, counts, strict=True):
        assert all((a.y <= b.y) or more < less for b, less in zip(points, counts, strict=True))


def test_drills_without_a_measurement_interrupt_the_line() -> None:
    found = trend(nightly({}, {"rto_s": None, "verdict": Verdict.INTERRUPTED}, {}, {}))
    assert found is not None
    assert len(found.charts[0].lines) == 1
    assert found.charts[0].missing[0].tone == "incomplete"


def test_the_latest_value_is_that_of_the_newest_drill() -> None:
    found = trend(nightly({}, {"rto_s": None}))
    assert found is not None
    assert (found.charts[0].newest, found.charts[0].top) == ("not measured", "4.5 s")
    found = trend(nightly({"rto_s": None}))
    assert found is not None
    assert (found.charts[0].newest, found.charts[0].top) == ("not measured", "not measured")


def test_only_comparable_drills_make_a_trend() -> None:
    drills = nightly({}, {"link": "other"}, {"inject": "kill-source"}, {})
    assert comparable(drills) == (drills[0], drills[3])


def test_no_drills_make_no_picture() -> None:
    assert trend([]) is None


@pytest.mark.parametrize("verdict", Verdict)
def test_the_page_shows_the_newest_result(verdict: Verdict) -> None:
    reasons = () if verdict is Verdict.PASSED else ("RTO 90.0 s is above 60 s",)
    page = render(nightly({}, {"verdict": verdict, "reasons": reasons}))
    exceeded = verdict not in (Verdict.PASSED, Verdict.INTERRUPTED)
    assert page.count("RTO 90.0 s is above 60 s") == exceeded + bool(reasons)
    assert ("Then repeat the drill." in page) == bool(reasons)
    assert f"{2 if verdict is Verdict.PASSED else 1} of 2 drills passed" in page
    assert 'http-equiv="Content-Security-Policy"' in page
    assert not re.search(r"<script|<link|<img|@import|url\((?!#)|https?://", page)


def test_hostile_texts_are_escaped() -> None:
    bad = {"link": HOSTILE, "inject": HOSTILE, "mode": HOSTILE, "reasons": (HOSTILE,)}
    page = render(
        nightly(bad, {**bad, "rto_s": None, "missing": None, "verdict": Verdict.INTERRUPTED})
    )
    assert "<script" not in page
    assert page.count("</style>") == 1
    assert not any(each in page for each in ("\x1b", "\u202e"))


def test_a_long_history_stays_a_page() -> None:
    page = render(nightly(*({} for _ in range(ROWS + 7))))
    assert page.count("<tr class=") == ROWS
    assert "and 7 older drills" in page
    assert f"{ROWS + 7 - MOST} older drills not shown" in page
