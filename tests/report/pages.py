"""The pages of gap results and runs, each rendered once, and their content."""

from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser

from drctl.model.gap import GapResult
from drctl.views import gap_page as gap_views
from drctl.views import run_page as run_views
from tests.report import runs


@cache
def gap_page(make: Callable[[], GapResult]) -> str:
    return gap_views.render(make())


@cache
def run_page(name: str) -> str:
    return run_views.render(runs.EVERY[name]().data)


VOID = {"meta", "link", "br", "img"}


class Document(HTMLParser):
    """Elements, attributes and text; reports tags that are not closed."""

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


def letters(text: str) -> str:
    """Return the text without white space and without backticks, which the page shows as code."""
    return "".join(text.replace("`", "").split())
