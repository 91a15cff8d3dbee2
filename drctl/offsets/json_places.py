"""Where in a JSON text a value stands; only looked for when it is wrong."""

import json
import re

from drctl.config.problems import Mark, Path

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


def place_of(text: str, path: Path) -> Mark:
    """The line and column of the value at this path of a valid JSON text.

    Of a value that is missing, or of one that stands in another kind of value than the path
    says, the place of the innermost value around it.
    """
    at = _skip(text, 0)
    for part in path:
        inner = _entry(text, at, part) if isinstance(part, str) else _item(text, at, part)
        if inner is None:
            break
        at = inner
    before = text[:at]
    return Mark(before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1)


def _entry(text: str, at: int, name: str) -> int | None:
    if text[at] != "{":
        return None
    at = _skip(text, at + 1)
    while text[at] != "}":
        key, end = _DECODER.raw_decode(text, at)
        at = _skip(text, _skip(text, end) + 1)
        if key == name:
            return at
        at = _next(text, at)
    return None


def _item(text: str, at: int, number: int) -> int | None:
    if text[at] != "[":
        return None
    at = _skip(text, at + 1)
    while text[at] != "]":
        if not number:
            return at
        number -= 1
        at = _next(text, at)
    return None


def _next(text: str, at: int) -> int:
    """Behind the value that begins here, and behind the comma after it."""
    _, end = _DECODER.raw_decode(text, at)
    end = _skip(text, end)
    return _skip(text, end + 1) if text[end] == "," else end


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
