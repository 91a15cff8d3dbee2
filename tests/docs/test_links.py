"""Links in the pages have a target."""

import re
from urllib.parse import urlsplit

import pytest

from tests.docs.pages import ROOT, Page, page, pages

_NAMED = re.compile(r"(?<![\w/])(docs/[\w/-]+\.\w+)(#[\w-]+)?")


@pytest.mark.parametrize("each", pages(), ids=lambda each: each.name)
def test_links_resolve(each: Page) -> None:
    for link in each.links():
        address = urlsplit(link)
        if address.scheme:
            continue
        target = (each.path.parent / address.path).resolve() if address.path else each.path
        assert target.exists(), f"{each.name}: {link}"
        assert ROOT in target.parents, f"{each.name}: {link} leads out of the project"
        if address.fragment:
            assert address.fragment in Page(target).anchors(), f"{each.name}: {link}"


def test_pages_named_in_the_code_exist() -> None:
    folders = (ROOT / name for name in ("drctl", "runbooks", "templates", "scripts", "tests"))
    found = 0
    for path in (path for folder in folders for path in folder.rglob("*")):
        if path.suffix in {".py", ".yaml", ".j2", ".md", ".expected"}:
            for name, place in _NAMED.findall(path.read_text("utf-8", "replace")):
                found += 1
                assert (ROOT / name).is_file(), f"{path.relative_to(ROOT)}: {name}"
                assert not place or place[1:] in Page(ROOT / name).anchors(), (path, place)
    assert found > 20


def test_every_page_can_be_reached_from_the_readme() -> None:
    seen: set[Page] = set()
    waiting = [page("README.md")]
    while waiting:
        each = waiting.pop()
        if each in seen:
            continue
        seen.add(each)
        linked = ((each.path.parent / urlsplit(link).path).resolve() for link in each.links())
        waiting += [Page(path) for path in linked if path.suffix == ".md" and path.is_file()]
    assert {p.name for p in pages()} == {p.name for p in seen}


def test_decisions_are_numbered_and_uniform() -> None:
    decisions = [p for p in pages() if re.fullmatch(r"docs/decisions/\d{4}-[a-z0-9-]+\.md", p.name)]
    numbers = [p.path.name[:4] for p in decisions]
    assert numbers == [f"{n:04}" for n in range(1, len(numbers) + 1)]
    for each in decisions:
        assert each.text.startswith(f"# {each.path.name[:4]}: ")
        parts = re.findall(r"^\*\*(\w+)\.\*\*", each.text, re.MULTILINE)
        assert parts == ["Context", "Decision", "Consequences"], each.name
