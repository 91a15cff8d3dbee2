"""The project's pages in parts: code blocks, inline code, tables, links, headings."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_CONTINUED = re.compile(r"\\\n\s*")
_ASSIGNMENT = re.compile(r"\w+=")


@dataclass(frozen=True)
class Page:
    """A Markdown file."""

    path: Path

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def prose(self) -> str:
        """The text without code blocks."""
        return _FENCE.sub("", self.text)

    def blocks(self, language: str) -> tuple[str, ...]:
        return tuple(body for kind, body in _FENCE.findall(self.text) if kind == language)

    def inline(self) -> tuple[str, ...]:
        """Inline code; an escaped pipe of a table is a plain one."""
        return tuple(code.replace(r"\|", "|") for code in _INLINE.findall(self.prose))

    def links(self) -> tuple[str, ...]:
        return tuple(_LINK.findall(self.prose))

    def anchors(self) -> frozenset[str]:
        """The anchors of its headings in GitHub's form."""
        headings = re.findall(r"^#+ (.+)$", self.prose, re.MULTILINE)
        return frozenset(
            re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings
        )

    def section(self, heading: str) -> str:
        """Return the text after a heading, up to the next heading of its level or above."""
        level = len(heading) - len(heading.lstrip("#"))
        _, found, rest = self.text.partition(f"\n{heading}\n")
        assert found, f"{self.name} has no heading {heading!r}"
        return re.split(rf"^#{{1,{level}}} ", rest, maxsplit=1, flags=re.MULTILINE)[0]

    def command_lines(self) -> Iterator[list[str]]:
        """The words after `drctl` of each command line in a shell block."""
        for block in self.blocks("sh"):
            for line in _CONTINUED.sub(" ", block).splitlines():
                for words in _commands(line):
                    if words[0] == "drctl":
                        yield words[1:]


def rows(text: str) -> tuple[tuple[str, ...], ...]:
    """Return the cells of all table rows, without headings and their underlines."""
    lines = [line.strip() for line in text.splitlines()]
    found: list[tuple[str, ...]] = []
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if line.startswith("|") and not _rule(line) and not _rule(following):
            cells = re.split(r"(?<!\\)\|", line.strip("|"))
            found.append(tuple(cell.strip() for cell in cells))
    return tuple(found)


def _rule(line: str) -> bool:
    return bool(re.fullmatch(r"\|[|\- :]+\|", line))


def _commands(line: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if re.fullmatch(r"[();<>|&]+", word):
            if words:
                yield words
            words = []
        elif words or not _ASSIGNMENT.match(word):
            words.append(word)


@cache
def pages() -> tuple[Page, ...]:
    """Return all pages for people who use or change drctl."""
    found = [ROOT / "README.md", ROOT / "CHANGELOG.md"]
    found += sorted((ROOT / "docs").rglob("*.md")) + sorted((ROOT / "runbooks").rglob("*.md"))
    return tuple(map(Page, found))


def page(name: str) -> Page:
    return next(each for each in pages() if each.name == name)
