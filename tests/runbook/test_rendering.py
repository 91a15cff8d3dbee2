"""Pages for a wiki, also with hostile text. DRCTL_REGENERATE=1 writes them."""

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from drctl import resources
from drctl.model.errors import UsageError
from drctl.runbook import rendering
from drctl.runbook.reading import Runbook, files, load, read
from drctl.runbook.rendering import PLACEHOLDERS, render
from tests.depth import examples
from tests.runbook.links import BARE, FULL, SITE

FOLDER = Path(__file__).parent / "pages"
SHIPPED = [path.stem for path in files(resources.shipped("runbooks"))]
PLANS = Path(__file__).parent / "plans"


def shipped(name: str) -> Runbook:
    return load(resources.shipped("runbooks") / f"{name}.yaml")


def expected(name: str, rendered: str) -> str:
    path = FOLDER / f"{name}.md"
    if os.environ.get("DRCTL_REGENERATE"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(rendered, encoding="utf-8")
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_runbooks_read_as_expected(name: str) -> None:
    page = render(shipped(name))
    assert page == expected(name, page)


def test_a_page_for_a_link_names_its_clusters_and_tools() -> None:
    page = render(shipped("planned-switchover"), SITE)
    assert page == expected("planned-switchover.site", page)
    assert "./fence on" in page
    bare = render(shipped("unplanned-failover"), BARE)
    assert bare == expected("unplanned-failover.bare", bare)
    assert "stop replication from primary to secondary" in bare.lower()


def test_every_kind_of_step_can_be_rendered() -> None:
    for path in sorted(PLANS.glob("*.yaml")):
        for seen in (PLACEHOLDERS, FULL, BARE, SITE):
            page = render(load(path), seen)
            assert page.count("- [ ] **") >= 10
            assert "{" not in page.replace("${env:TOKEN}", "").replace("${x}", "")


def test_given_values_are_in_the_page_and_the_command_line() -> None:
    page = render(shipped("migrate-topic"), FULL, {"topic": "orders", "keep": "a year"})
    assert "--set topic=orders --set 'keep=a year'" in page
    assert "Keep orders on primary fenced for a year" in page
    with pytest.raises(UsageError, match="did you mean 'topic'"):
        render(shipped("migrate-topic"), FULL, {"tpoic": "orders"})


def parsed(page: str) -> Counter[str]:
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(page)
    inner = [child for token in tokens for child in token.children or ()]
    return Counter(token.type for token in [*tokens, *inner])


def written(text: str) -> Runbook:
    content = {
        "name": "x",
        "about": text,
        "parameters": {"p": {"type": "string", "about": text, "default": "harmless"}},
        "steps": [
            {"id": "a", "manual": text, "expect": text, "by_hand": [text + " ${p}"]},
            {"id": "b", "step": "manual-change", "with": {"text": "${p}", "undo": text}},
        ],
    }
    return read(yaml.safe_dump(content, allow_unicode=True, width=10**6), Path("x.yaml"))


PLAIN = parsed(render(written("harmless")))
STRUCTURE = ("heading_open", "table_open", "list_item_open", "fence", "hr", "tr_open", "td_open")
ACTIVE = ("html_block", "html_inline", "link_open", "image", "em_open", "code_block")
HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)> <!-- <b>",
    "[click](javascript:alert(1)) ![x](http://a/b) <http://a.example>",
    "```\n# heading\n```",
    "``` `` ` | a | b |",
    "# heading\n\n- [ ] item\n1. one\n+ two\n\n---\n\n    code\n> quoted",
    "a | b | `c | d` \\| e",
    "**bold** _it_ ~~no~~ \\<b\\>",
    "[a]: http://x\n[a]",
    "title\n===\nother\n---",
    "&lt;b&gt; &#60;b&#62;",
    "- [x] done\n  - sub",
)


def check(text: str) -> None:
    page = render(written(text))
    found = parsed(page)
    assert not [kind for kind in ACTIVE if found[kind] > PLAIN[kind]], page
    assert {kind: found[kind] for kind in STRUCTURE} == {k: PLAIN[k] for k in STRUCTURE}, page


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_are_escaped(text: str) -> None:
    check(text)


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(
        st.sampled_from([*"`*_[]()<>#+-=|~!\\&:;.1 ax$@/'\"", "\n", "\n\n", "```", "    ", "---"]),
        min_size=1,
        max_size=25,
    )
    .map("".join)
    .filter(lambda text: "${" not in text and bool(text.strip()))
)
def test_no_text_changes_the_page(text: str) -> None:
    check(text)


def test_unprintable_text_is_escaped() -> None:
    page = render(written("fine"), replace(FULL, source="a\x1b[2J\u202e"))
    assert "a\\x1b[2J\\xe2\\x80\\xae" in page
    assert all(line.isprintable() for line in page.splitlines())


@given(st.text())
def test_code_is_shown_unchanged(text: str) -> None:
    span = rendering.code(text)
    tokens = MarkdownIt("commonmark").parseInline(span)[0].children or []
    wanted = rendering.printable(text).replace("\n", " ")
    if wanted.strip(" "):
        assert [token.type for token in tokens] == ["code_inline"]
        assert tokens[0].content.strip(" ") == wanted.strip(" ")
