"""A run's page in a real browser: readable at every size; nothing in a name is executed."""

from pathlib import Path

import pytest

from drctl.views.run_page import render
from tests.report import runs
from tests.report.browser import DARK, LIGHT, dump_dom, serve
from tests.report.test_gap_page_in_browser import ATTACK, Seen, contrast, inspect

pytestmark = pytest.mark.browser

WIDTHS = (390, 1280)


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return {f"/{name}": render(make().data) for name, make in runs.EVERY.items()}


@pytest.fixture(scope="module")
def seen(pages: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return {
        scheme: inspect(pages, tmp_path_factory.mktemp("profile"), scheme, WIDTHS)
        for scheme in (LIGHT, DARK)
    }


def test_no_page_is_wider_than_a_phone_or_a_desktop(seen: Seen) -> None:
    found = {(p["page"], p["width"]): p["overflow"] for p in seen[LIGHT][0]}
    assert len(found) == len(runs.EVERY) * len(WIDTHS)
    assert {place: by for place, by in found.items() if by != 0} == {}


def test_hostile_names_stay_text(seen: Seen) -> None:
    hostile = [p for found, _ in seen.values() for p in found if p["page"] == "/hostile"]
    assert len(hostile) == 2 * len(WIDTHS)
    for page in hostile:
        assert str(page["title"]).startswith("Unknown: drctl failover-planned, link <script>")
        assert runs.ATTACK in str(page["text"])
        assert not {"\u202e", "\u200b", "\x1b", "\x07", "\x00"} & set(str(page["text"]))


def test_no_page_stores_or_requests_anything(pages: dict[str, str], seen: Seen) -> None:
    for found, asked in seen.values():
        assert set(asked) == {"/", *pages}
        for page in found:
            assert (page["scripts"], page["images"], page["handlers"]) == (0, 0, 0), page["page"]
            assert page["title"] != "pwned"


def test_even_unescaped_markup_is_stopped_by_the_policy(tmp_path: Path) -> None:
    page = render(runs.done().data).replace("</main>", ATTACK + "</main>")
    with serve({"/page": page}) as site:
        dom = dump_dom(site.address + "/page", tmp_path)
    assert "<title>pwned" not in dom
    assert "What happened when" in dom
    assert site.asked == ["/page"]


def test_text_is_readable_in_light_and_dark(seen: Seen) -> None:
    grounds = {scheme: {p["ground"] for p in found} for scheme, (found, _) in seen.items()}
    assert grounds[LIGHT].isdisjoint(grounds[DARK])
    for found, _ in seen.values():
        for page in found:
            colours = page["colours"]
            assert isinstance(colours, dict)
            for ink in ("--ink", "--soft", "--tone"):
                for ground in ("--sheet", "--ground"):
                    assert contrast(colours[ink], colours[ground]) >= 4.5, (page["page"], ink)
