"""The page in a real browser: what it shows; nothing in a record is executed."""

import json
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path

import pytest

from drctl.drill.result import Verdict
from drctl.views import drill_page
from drctl.views.gap_page import render
from drctl.views.text import escape
from tests.report import gaps
from tests.report.browser import DARK, LIGHT, dump_dom, serve
from tests.report.test_drill_page import nightly

pytestmark = pytest.mark.browser

ATTACK = (
    "<script>document.title='pwned'</script><img src='/leak' onerror=\"document.title='pwned'\">"
)
WIDTHS = (340, 1280)
Inspection = tuple[list[dict[str, object]], list[str]]
"""What a browser renders of each page at each width, and its requests to the server."""
Seen = dict[int, Inspection]
# Inspects the pages from a parent page, because they contain no script.
INSPECTOR = """<!DOCTYPE html><link rel="icon" href="data:,"><body>%s<pre id="found"></pre><script>
onload = () => {
  const found = [...document.querySelectorAll('iframe')].map(frame => {
    const page = frame.contentDocument, style = frame.contentWindow.getComputedStyle(page.body);
    const root = page.documentElement, colour = name => style.getPropertyValue(name).trim();
    return {
      page: frame.getAttribute('src'), width: frame.width, title: page.title,
      scripts: page.scripts.length, images: page.images.length,
      handlers: [...page.querySelectorAll('*')].filter(
        e => [...e.attributes].some(a => a.name.startsWith('on'))).length,
      overflow: root.scrollWidth - root.clientWidth, ground: style.backgroundColor,
      colours: Object.fromEntries(
        ['--ink', '--soft', '--tone', '--sheet', '--ground'].map(n => [n, colour(n)])),
      text: page.body.innerText,
    };
  });
  document.getElementById('found').textContent = JSON.stringify(found);
};
</script></body>"""


class _Found(HTMLParser):
    """The text of <pre id="found">."""

    def __init__(self, dom: str) -> None:
        super().__init__()
        self.inside, self.text = False, ""
        self.feed(dom)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = self.inside or (tag == "pre" and ("id", "found") in attrs)

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag != "pre"

    def handle_data(self, data: str) -> None:
        self.text += data if self.inside else ""


def inspect(
    pages: Mapping[str, str], profile: Path, scheme: int = LIGHT, widths: tuple[int, ...] = WIDTHS
) -> Inspection:
    frames = "".join(
        f'<iframe src="{path}" width="{width}" height="900"></iframe>'
        for path in pages
        for width in widths
    )
    with serve({**pages, "/": INSPECTOR % frames}) as site:
        dom = dump_dom(site.address + "/", profile, scheme)
    found = json.loads(_Found(dom).text)
    assert len(found) == len(pages) * len(widths)
    return found, site.asked


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    made = {f"/{name}": render(make()) for name, make in gaps.EVERY.items() if name != "vast"}
    failed = {
        "verdict": Verdict.NOT_PASSED,
        "link": gaps.HOSTILE_TOPIC,
        "reasons": ("x" * 300,) * 2,
    }
    drills = drill_page.render(nightly({}, {"inject": "kill-source"}, failed))
    return {**made, "/many-topics": render(gaps.many_topics()), "/drills": drills}


@pytest.fixture(scope="module")
def seen(pages: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return {
        scheme: inspect(pages, tmp_path_factory.mktemp("profile"), scheme)
        for scheme in (LIGHT, DARK)
    }


def test_the_test_detects_an_attack_that_works(tmp_path: Path) -> None:
    found, asked = inspect({"/bare": f"<title>calm</title>{ATTACK}"}, tmp_path)
    assert {page["title"] for page in found} == {"pwned"}
    assert all(page["scripts"] and page["images"] and page["handlers"] for page in found)
    assert "/leak" in asked


def test_hostile_keys_values_and_names_stay_text(seen: Seen) -> None:
    hostile = [p for found, _ in seen.values() for p in found if p["page"] == "/hostile"]
    assert len(hostile) == 4
    for page in hostile:
        assert str(page["title"]).startswith("Not complete: drctl gap, link <script>")
        text = str(page["text"])
        for key in gaps.HOSTILE_KEYS:
            assert escape(key) in text
        assert not {"\u202e", "\u2066", "\u200b", "\x1b", "\x07", "\x00"} & set(text)


def test_no_page_holds_or_runs_anything_active(seen: Seen) -> None:
    for found, _ in seen.values():
        for page in found:
            assert (page["scripts"], page["images"], page["handlers"]) == (0, 0, 0), page["page"]
            assert page["title"] != "pwned"


def test_pages_request_nothing(pages: dict[str, str], seen: Seen) -> None:
    for _, asked in seen.values():
        assert set(asked) == {"/", *pages}


def test_a_page_opened_as_a_file_requests_nothing(tmp_path: Path) -> None:
    with serve({"/page": render(gaps.hostile())}) as site:
        dom = dump_dom(site.address + "/page", tmp_path)
    assert "Order: what copying the unreplicated records would do" in dom
    assert site.asked == ["/page"]


def test_even_unescaped_markup_is_stopped_by_the_policy(tmp_path: Path) -> None:
    page = render(gaps.one_record()).replace("</main>", ATTACK + "</main>")
    found, asked = inspect({"/broken": page}, tmp_path)
    assert all(p["scripts"] and p["images"] for p in found)
    assert not any(p["title"] == "pwned" for p in found)
    assert "/leak" not in asked


def test_the_page_follows_light_and_dark(seen: Seen) -> None:
    grounds = {s: {str(p["ground"]) for p in found} for s, (found, _) in seen.items()}
    assert all(len(colours) == 1 for colours in grounds.values())
    light, dark = (_luminance_of_rgb(grounds[s].pop()) for s in (LIGHT, DARK))
    assert light > 0.8
    assert dark < 0.05


def test_text_has_enough_contrast(seen: Seen) -> None:
    for found, _ in seen.values():
        for page in found:
            colours = page["colours"]
            assert isinstance(colours, dict)
            for ink in ("--ink", "--soft", "--tone"):
                for ground in ("--sheet", "--ground"):
                    found_contrast = contrast(colours[ink], colours[ground])
                    assert found_contrast >= 4.5, (page["page"], ink, ground)


def test_no_page_is_wider_than_its_window(seen: Seen) -> None:
    wide = [
        (page["page"], page["width"], page["overflow"])
        for page in seen[LIGHT][0]
        if page["overflow"] != 0
    ]
    assert wide == []


def _luminance(red: float, green: float, blue: float) -> float:
    """Relative luminance as WCAG defines it; channels from 0 to 1."""
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (red, green, blue)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _luminance_of_rgb(colour: str) -> float:
    channels = colour.removeprefix("rgb(").removesuffix(")").split(",")
    return _luminance(*(int(c) / 255 for c in channels))


def contrast(one: str, other: str) -> float:
    low, high = sorted(
        _luminance(*(int(c[n : n + 2], 16) / 255 for n in (1, 3, 5))) for c in (one, other)
    )
    return (high + 0.05) / (low + 0.05)
