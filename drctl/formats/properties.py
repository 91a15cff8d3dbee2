"""Parse Java properties files, or any `key=value` lines."""

import re
from collections.abc import Iterator

_COMMENT = ("#", "!")
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_ENTRY = re.compile(r"((?:\\.|[^\\=:\s])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(text: str) -> dict[str, str]:
    """The properties by key; the last one wins if a key is repeated."""
    found = {}
    for line in _logical_lines(text):
        entry = _ENTRY.fullmatch(line)
        if entry is not None:
            # Java keeps trailing blanks of values; clients ignore them in numbers.
            found[_unescaped(entry[1])] = _unescaped(entry[2])
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """The lines without comments and empty lines; a trailing backslash joins the next line."""
    joined = ""
    for line in text.splitlines():
        part = line.lstrip(" \t\f")
        if not joined and (not part or part.startswith(_COMMENT)):
            continue
        joined += part
        if _continues(joined):
            joined = joined[:-1]
            continue
        yield joined
        joined = ""
    if joined:
        yield joined


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_character, text)


def _character(escape: re.Match[str]) -> str:
    word = escape[1]
    return chr(int(word[1:], 16)) if len(word) > 1 else _ESCAPES.get(word, word)
