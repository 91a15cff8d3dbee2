"""Every page as a file: complete, self-contained, escaped, and small enough to open."""

import re
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from html import unescape

import pytest

from drctl.views import drill_page
from drctl.views.page import command, prose
from tests.report import gaps, runs
from tests.report.pages import Document, gap_page, run_page
from tests.report.test_drill_page import nightly

PAGES: dict[str, Callable[[], str]] = {
    **{f"gap {name}": partial(gap_page, make) for name, make in gaps.EVERY.items()},
    **{f"run {name}": partial(run_page, name) for name in runs.EVERY},
    "drills": lambda: drill_page.render(nightly({}, {"rto_s": None}, {})),
}
every = pytest.mark.parametrize("name", PAGES)


def test_code_is_marked_and_everything_else_is_escaped() -> None:
    assert prose("run `drctl gap <x>` & wait") == (
        "run <code>drctl gap &lt;x&gt;</code> &amp; wait"
    )
    assert prose("a ` <b>") == "a ` &lt;b&gt;"
    assert command("drctl gap --link '<x>'") == (
        "<span>drctl</span> <span>gap</span> <span>--link</span> <span>&#39;&lt;x&gt;&#39;</span>"
    )


def test_the_times_of_old_records_are_dates() -> None:
    text = Document(gap_page(gaps.many_topics)).text
    assert "Record timestamps 2013-01-24 to 2013-01-29 UTC" in text
    assert "45,000 records of 500 topics are not replicated" in text


@pytest.mark.slow
@every
def test_the_page_is_complete_and_self_contained(name: str) -> None:
    document = Document(PAGES[name]())
    assert document.open == []
    active = {"script", "img", "iframe", "link", "object", "embed", "base", "form"}
    assert not active & {*document.tags}
    outside = {"src", "href", "style", "srcset"}
    assert not [a for a in document.attributes if a[1] in outside or a[1].startswith("on")]


@every
def test_no_address_no_invisible_character_and_under_a_megabyte(name: str) -> None:
    page = PAGES[name]()
    assert not re.search(r"@import|url\((?!#)", page)
    if name != "run hostile":
        assert not re.search(r"https?:|//[a-z]", page)
    shown = unescape(page).replace("\n", "").replace("\u2060", "")
    assert [char for char in set(shown) if not char.isprintable()] == []
    assert len(page.encode()) < 1_000_000


@pytest.mark.parametrize("name", ["gap one_record", "run done", "drills"])
def test_the_content_policy_allows_only_this_style(name: str) -> None:
    page = PAGES[name]()
    found = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert found
    digest = b64encode(sha256(found[1].encode()).digest()).decode()
    policy = "default-src 'none'; style-src 'sha256-%s'; base-uri 'none'; form-action 'none'"
    assert ("meta", "content", policy % digest) in Document(page).attributes
