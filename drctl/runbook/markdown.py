"""Texts of others as Markdown that shows what they say, and does nothing else."""

import re
from collections.abc import Iterable

_CODE = re.compile(r"(`[^`\n]+`)")
_SPECIAL = re.compile(r"([\\`*_\[\]~|$@])")
_FIRST = re.compile(r"^(\s*)([-+=#]|\d+(?=[.)]))", re.MULTILINE)
_SCHEME = re.compile(r"(?<=[A-Za-z0-9]):(?=//)")


def prose(text: str) -> str:
    """A text of paragraphs; `code` stays code, everything else is plain."""
    # Indented lines would be code.
    parts = _CODE.split("\n".join(each.strip() for each in text.strip().split("\n")))
    plain = (part if n % 2 else _plain(part) for n, part in enumerate(map(printable, parts)))
    return _FIRST.sub(_guarded, "".join(plain))


def line(text: str) -> str:
    """The same on one line."""
    return prose(" ".join(text.split()))


def cell(text: str) -> str:
    """The same in a table, which a bar would end even inside of code."""
    return re.sub(r"(?<!\\)\|", r"\\|", line(text))


def code(text: str) -> str:
    """A span of code, whatever it holds."""
    shown = printable(" ".join(text.split(" "))).replace("\n", " ")
    ticks = "`" * (_longest(shown) + 1)
    space = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{ticks}{space}{shown}{space}{ticks}"


def block(lines: Iterable[str], language: str, indent: str = "") -> list[str]:
    """A block of code, whatever it holds."""
    shown = [line for each in lines for line in printable(each).split("\n")]
    ticks = "`" * max(3, _longest("\n".join(shown)) + 1)
    return [f"{indent}{each}".rstrip() for each in (f"{ticks}{language}", *shown, ticks)]


def printable(text: str) -> str:
    r"""What cannot be shown as \xNN of its UTF-8; line ends stay."""
    return "".join(
        char
        if char.isprintable() or char == "\n"
        else "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape"))
        for char in text
    )


def _plain(text: str) -> str:
    marked = _SPECIAL.sub(r"\\\1", text.replace("&", "&amp;"))
    # Addresses become links by themselves where a wiki is helpful.
    shown = marked.replace("<", "&lt;").replace(">", "&gt;")
    return _SCHEME.sub("&#58;", shown)


def _guarded(found: re.Match[str]) -> str:
    """What would begin a list, a heading or a rule at the beginning of a line."""
    if found[2][0].isdigit():
        return f"{found[1]}{found[2]}\\"
    return f"{found[1]}\\{found[2]}"


def _longest(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
