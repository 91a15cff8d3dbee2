"""The one reader of JSON that somebody else may have written: files, journals, records, answers.

Python's own accepts what is no JSON (NaN, Infinity), numbers that later overflow, a name twice in
an object, and documents nested so deep that whoever walks them fails. Here each is a ValueError.
"""

import json
import math
import re
from typing import Any, NoReturn

DEEPEST = 64
"""Levels of lists and objects; what drctl writes has less than a dozen."""

_MOST_DIGITS = 40
# One that does not end is taken too: else the search would begin anew at each quote in it.
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_NO_BRACKET = re.compile(r"[^\[\]{}]+")


def read_json(text: str | bytes) -> Any:
    """What the JSON says.

    Raises:
        ValueError: it is none, or beyond what any document of drctl's holds; why, in words.
    """
    told = text.decode() if isinstance(text, bytes) else text
    if is_too_deep(told):
        raise ValueError("nested too deep")
    try:
        return _DECODER.decode(told)
    except RecursionError:  # brackets that do not match
        raise ValueError("nested too deep") from None


def is_too_deep(text: str) -> bool:
    """Whether pairs of brackets are left once the innermost were taken away so often."""
    if text.count("[") + text.count("{") <= DEEPEST:
        return False
    left = _NO_BRACKET.sub("", _STRING.sub("", text))
    for _ in range(DEEPEST):
        left = left.replace("[]", "").replace("{}", "")
        if not left:
            return False
    return True


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("duplicate key in an object")
    return found


def _refused(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number")


def _finite(text: str) -> float:
    found = float(text)
    if not math.isfinite(found):
        raise ValueError("a number that is too large")
    return found


def _whole(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ValueError("a number that is too large")
    return int(text)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_refused, parse_float=_finite, parse_int=_whole
)
