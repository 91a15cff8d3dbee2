"""A strict parser for JSON from outside this process: files, journals, records, responses.

Python's parser accepts NaN and Infinity, numbers that overflow later, duplicate keys, and nesting
so deep that code that walks the document fails. Here each of them is a ValueError.
"""

import json
import math
import re
from typing import Any, NoReturn

DEEPEST = 64
"""Maximum nesting of lists and objects; drctl's documents have fewer than twelve levels."""

_MOST_DIGITS = 40
# Also matches an unterminated string: otherwise the search would restart at each quote in it.
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_NO_BRACKET = re.compile(r"[^\[\]{}]+")


def read_json(text: str | bytes) -> Any:
    """Parse JSON.

    Raises:
        ValueError: it is not valid JSON, or exceeds the limits of any drctl document.
    """
    decoded = text.decode() if isinstance(text, bytes) else text
    if is_too_deep(decoded):
        raise ValueError("nested too deep")
    try:
        return _DECODER.decode(decoded)
    except RecursionError:  # unbalanced brackets
        raise ValueError("nested too deep") from None


def is_too_deep(text: str) -> bool:
    """Whether brackets remain after removing the innermost pairs `_DEEPEST` times."""
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
