"""The text of a properties file, as Java reads it; `key=value` lines are such a text, too."""

import re
from collections.abc import Iterator

_COMMENT = ("#", "!")
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_ENTRY = re.compile(r"((?:\\.|[^\\=:\s])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_MEANT = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(text: str) -> dict[str, str]:
    """By key; of several with the same key, the last."""
    found = {}
    for line in _logical_lines(text):
        entry = _ENTRY.fullmatch(line)
        if entry is not None:
            # Java keeps blanks at a value's end; clients that take numbers do not mind them.
            found[_unescaped(entry[1])] = _unescaped(entry[2])
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """Without comments and empty lines; a backslash at the end joins the next line."""
    joined = ""
    for line in text.splitlines():
        part = line.lstrip(" \t\f")
        if not joined and (not part or part.startswith(_COMMENT)):
            continue
        joined += part
        if _goes_on(joined):
            joined = joined[:-1]
            continue
        yield joined
        joined = ""
    if joined:
        yield joined


def _goes_on(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_meant, text)


def _meant(escape: re.Match[str]) -> str:
    word = escape[1]
    return chr(int(word[1:], 16)) if len(word) > 1 else _MEANT.get(word, word)
