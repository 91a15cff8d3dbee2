"""The content of the page of a gap result."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from drctl.model.gap import GapResult
from drctl.views.gap_page import render
from drctl.views.gap_text import known, next_steps, unknown, verdict
from drctl.views.text import share
from tests.report import gaps
from tests.report.pages import Document, gap_page, letters

every = pytest.mark.parametrize("make", gaps.EVERY.values(), ids=gaps.EVERY)


@every
def test_the_page_agrees_with_the_text(make: Callable[[], GapResult]) -> None:
    result = make()
    text = letters(Document(gap_page(make)).text)
    assert letters(verdict(result)) in text
    assert letters(f"exit code {result.exit_code.value}") in text
    for sentence in (*known(result), *unknown(result)):
        assert letters(sentence) in text
    for step in next_steps(result):
        assert letters(f"{step.what} {step.why}") in text


def test_null_empty_and_the_words_null_and_empty_look_different() -> None:
    page = render(gaps.tail_lost())
    assert '<em class="void">null</em>' in page
    assert '<em class="void">empty</em>' in page
    words = replace(gaps.tail_lost().examples[0], key=b"null", value=b"empty")
    page = render(replace(gaps.tail_lost(), examples=(words,)))
    assert '<em class="void">' not in page
    assert "<bdi><code>null</code></bdi>" in page


def test_omitted_rows_are_counted() -> None:
    text = Document(gap_page(gaps.vast)).text
    for words in (
        "and 9,975 more partitions in .drctl/gap/20260305T142007Z/gap.json",
        "and 75 more topics in",
        "and 2,980 more rows in",
        "and 51 more notes in",
    ):
        assert words in text
    assert "and 3,988 more ranges" in text


def test_notes_are_shown_once_with_their_topics() -> None:
    text = Document(gap_page(gaps.vast)).text
    assert text.count("a note of all") == 1
    assert "and 92 more topics" in text


def test_the_origin_of_the_result_is_shown() -> None:
    result = gaps.tail_lost()
    text = Document(render(result)).text
    for word in (result.source_id, result.target_id, "2026-03-05 14:20:07 UTC"):
        assert word in text
    assert re.search(r"drctl \d+\.\d+\.\d+", text)


def test_nothing_missing_shows_no_empty_tables() -> None:
    text = Document(render(gaps.nothing_missing())).text
    for title in ("Worst partitions", "Examples", "The bar compares topics", "Not compared"):
        assert title not in text


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (0, 10, "0 %"),
        (10, 10, "100 %"),
        (1, 10**9, "under 0.001 %"),
        (1, 1_000, "0.1 %"),
        (999_999, 1_000_000, "99.999 %"),
        (10**9 - 1, 10**9, "99.999 %"),
        (1, 3, "33.3 %"),
    ],
)
def test_shares_are_never_rounded_to_none_or_all(part: int, whole: int, text: str) -> None:
    assert share(part, whole) == text
