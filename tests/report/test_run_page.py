"""The content of a run's page, and its timeline as shapes."""

import pytest

from drctl.views.run_data import Doing
from drctl.views.run_lines import figures, known, next_steps, unknown
from drctl.views.run_page import picture, render
from drctl.views.run_words import chip, verdict
from tests.report import runs
from tests.report.pages import Document, letters, run_page

every = pytest.mark.parametrize("name", runs.EVERY)


@every
def test_the_page_agrees_with_the_text(name: str) -> None:
    data = runs.EVERY[name]().data
    text = letters(Document(run_page(name)).text)
    for words in (chip(data), verdict(data), *known(data), *unknown(data)):
        assert letters(words) in text
    for step in next_steps(data):
        assert letters(f"{step.what} {step.why}") in text
        assert letters(step.command or "") in text
    for figure in figures(data):
        assert letters(f"{figure.name} {figure.value} {figure.how}") in text


@every
def test_the_page_has_every_step_with_its_proof_and_its_rollback(name: str) -> None:
    data = runs.EVERY[name]().data
    text = Document(run_page(name)).text
    assert text.count("Proof: ") == len(data.steps)
    assert text.count("Rollback: ") == sum(
        step.rollback != "" or step.changes for step in data.steps
    )


def test_a_planned_run_shows_prechecks_groups_users_and_the_journal() -> None:
    text = Document(run_page("done")).text
    for words in (
        "retention the tail is copied in minutes",
        "Not checked: endpoint-caches: dns: nobody can see how long clients keep an answer.",
        "billing 12 38 shipping 12 2 fraud-scoring 6 0",
        "ada laptop-7 2026-03-05 14:20:07 2026-03-05 14:21:18 completed",
        "intact: ",
        "kF2aPrimary",
    ):
        assert words in text


def test_omitted_rows_are_counted() -> None:
    text = Document(run_page("hostile")).text
    assert "and 10 more items; drctl report" in text


def test_a_large_page_stays_small_and_counts_omissions() -> None:
    page = render(runs.vast().data)
    assert len(page.encode()) < 200_000
    text = Document(page).text
    for words in (
        "and 975 more groups; drctl report",
        "and 380 more items",
        "and 350 more warnings",
        "Committed 10,000 offsets of 1,000 groups",
        "group-999 10 999",
    ):
        assert words in text


@every
def test_the_timeline_stays_within_its_frame(name: str) -> None:
    shown = picture(runs.EVERY[name]().data)
    assert shown is not None
    bars = [bar for row in shown.rows for bar in row.bars]
    bars += [*shown.cuts, *([shown.refused] if shown.refused else [])]
    assert all(bar.x >= 0 and bar.x + bar.width <= 100.01 and bar.width > 0 for bar in bars)
    ticks = [tick.x for tick in shown.ticks]
    assert ticks == sorted(ticks)


def test_steps_follow_each_other_and_the_rto_spans_from_fence_to_endpoint() -> None:
    shown = picture(runs.done().data)
    assert shown is not None
    assert shown.refused is not None
    starts = [row.bars[0].x for row in shown.rows]
    assert starts == sorted(starts)
    rows = {row.id: row for row in shown.rows}
    effect = next(bar for bar in rows["fence-producers"].bars if bar.doing == Doing.EFFECT)
    last = rows["switch-endpoint-2"].bars[-1]
    assert shown.refused.x == pytest.approx(effect.x, abs=0.01)
    assert shown.refused.x + shown.refused.width == pytest.approx(last.x + last.width, abs=0.01)
    assert shown.refused_for == "57.8 s"


def test_a_long_interruption_is_shortened_and_marked() -> None:
    shown = picture(runs.resumed().data)
    assert shown is not None
    (cut,) = shown.cuts
    assert cut.width == pytest.approx(6, abs=0.01)
    assert "1 h 30 min" in cut.title
    assert [tick.text for tick in shown.ticks] == ["14:20:07", "15:51:01"]
    assert ("not-running", "not running, not to scale") in shown.legend


def test_a_rollback_is_drawn_and_ends_the_time_without_writes() -> None:
    shown = picture(runs.rolled_back().data)
    assert shown is not None
    assert shown.refused is not None
    fence = next(row for row in shown.rows if row.id == "fence-producers")
    assert [bar.doing for bar in fence.bars] == ["checking", "effect", "rolling-back"]
    end = fence.bars[-1].x + fence.bars[-1].width
    assert shown.refused.x + shown.refused.width == pytest.approx(end, abs=0.01)


def test_clients_that_cannot_write_yet_are_named() -> None:
    data = runs.interrupted().data
    shown = picture(data)
    assert shown is not None
    assert data.rto.start is not None
    assert (data.until - data.rto.start).total_seconds() == pytest.approx(25.2)
    assert shown.refused_for == "25.2 s so far"


def test_a_run_without_duration_has_no_picture() -> None:
    nothing = runs.Part(looks=0, takes=0)
    run = runs.Run(runs.unplanned())
    data = run.play({step.id: nothing for step in run.plan.steps}).data
    assert picture(data) is None
    assert "What happened when" not in render(data)
