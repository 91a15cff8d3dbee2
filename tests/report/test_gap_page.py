"""The page as a file: whole, by itself, escaped, of a size that opens."""

import re
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser

import pytest

from drctl.model.gap import GapResult
from drctl.views.gap_page import render
from drctl.views.gap_text import known, next_steps, unknown, verdict
from drctl.views.text import share
from tests.report import gaps


@cache
def page_of(make: Callable[[], GapResult]) -> str:
    return render(make())


every = pytest.mark.parametrize("make", gaps.EVERY.values(), ids=gaps.EVERY)
VOID = {"meta", "link", "br", "img"}


class Document(HTMLParser):
    """Elements, attributes and text; says where tags do not close."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.tags: list[str] = []
        self.words: list[str] = []
        self.feed(page)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words.append(data)


@pytest.mark.slow
@every
def test_the_page_is_whole_and_names_nothing_outside_itself(make: Callable[[], GapResult]) -> None:
    document = Document(page_of(make))
    assert document.open == []
    assert not {"script", "img", "iframe", "link", "object", "embed", "base", "form"} & {
        *document.tags
    }
    assert not [a for a in document.attributes if a[1] in {"src", "href", "style", "srcset"}]
    assert not [a for a in document.attributes if a[1].startswith("on")]


@every
def test_no_address_and_no_invisible_character(make: Callable[[], GapResult]) -> None:
    page = page_of(make)
    assert not re.search(r"https?:|//[a-z]|@import", page)
    assert not re.search(r"url\((?!#)", page)
    shown = unescape(page).replace("\n", "").replace("\u2060", "")
    assert [char for char in set(shown) if not char.isprintable()] == []


@every
def test_the_page_says_what_the_words_say(make: Callable[[], GapResult]) -> None:
    result = make()
    text = Document(page_of(make)).text
    assert verdict(result) in text
    assert f"exit code {result.exit_code.value}" in text
    for sentence in (*known(result), *unknown(result)):
        assert sentence in text
    for step in next_steps(result):
        assert f"{step.what} {step.why}" in text


@every
def test_the_page_stays_under_a_megabyte(make: Callable[[], GapResult]) -> None:
    assert len(page_of(make).encode()) < 1_000_000


def test_the_policy_allows_this_style_and_nothing_else() -> None:
    page = render(gaps.one_record())
    found = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert found
    digest = b64encode(sha256(found[1].encode()).digest()).decode()
    policy = "default-src 'none'; style-src 'sha256-%s'; base-uri 'none'; form-action 'none'"
    assert ("meta", "content", policy % digest) in Document(page).attributes


def test_null_empty_and_the_words_null_and_empty_look_different() -> None:
    page = render(gaps.tail_lost())
    assert '<em class="void">null</em>' in page
    assert '<em class="void">empty</em>' in page
    words = replace(gaps.tail_lost().examples[0], key=b"null", value=b"empty")
    page = render(replace(gaps.tail_lost(), examples=(words,)))
    assert '<em class="void">' not in page
    assert "<bdi><code>null</code></bdi>" in page


def test_what_is_left_out_is_counted() -> None:
    text = Document(page_of(gaps.vast)).text
    for words in (
        "and 9,975 more partitions in .drctl/gap/20260305T142007Z/gap.json",
        "and 75 more topics in",
        "and 2,980 more parts in",
        "and 51 more notes in",
    ):
        assert words in text
    assert "and 3,988 more runs" in text


def test_notes_are_said_once_with_their_topics() -> None:
    text = Document(page_of(gaps.vast)).text
    assert text.count("a note of all") == 1
    assert "and 92 more topics" in text


def test_where_it_comes_from_is_told() -> None:
    result = gaps.tail_lost()
    text = Document(render(result)).text
    for word in (result.source_id, result.target_id, "2026-03-05 14:20:07 UTC"):
        assert word in text
    assert re.search(r"drctl \d+\.\d+\.\d+", text)


def test_nothing_missing_shows_no_empty_tables() -> None:
    text = Document(render(gaps.nothing_missing())).text
    for title in ("Worst partitions", "Examples", "Which topics", "Not compared"):
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
