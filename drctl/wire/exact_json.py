"""JSON that means one thing: no name twice in an object, no number that is none, only Unicode.

Python's own reader is more lenient than that, and ends differently where something nests too deep.
"""

import json
import math
from collections.abc import Mapping
from typing import NoReturn

from drctl.wire.undecodable import Undecodable

Object = Mapping[str, object]


def parsed(format_name: str, data: bytes | None) -> object:
    """What the JSON says.

    Raises:
        Undecodable: it is none.
    """
    if data is None:
        raise Undecodable(format_name, "null", None)
    try:
        found: object = json.loads(
            data.decode(),
            object_pairs_hook=_object,
            parse_constant=_refused,
            parse_float=_finite,
        )
        # Halves of characters, written as escapes, are no text.
        written(found)
    except RecursionError:
        raise Undecodable(format_name, "nested too deep", data) from None
    except ValueError as error:
        raise Undecodable(format_name, f"no JSON: {error}", data) from None
    return found


def written(value: object) -> bytes:
    """The shortest JSON, in the order of the mapping, with text as it is."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def is_count(value: object) -> bool:
    """Whether this is a number from 0 on, as offsets and partitions are."""
    return type(value) is int and 0 <= value < 1 << 63


def _object(pairs: list[tuple[str, object]]) -> Object:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name twice in an object")
    return found


def _refused(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


def _finite(text: str) -> float:
    found = float(text)
    if not math.isfinite(found):
        raise ValueError("a number that is too large")
    return found
