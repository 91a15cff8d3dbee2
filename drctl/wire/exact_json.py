"""JSON that means one thing: no name twice in an object, no number that is none, only Unicode.

Python's own reader is more lenient than that, and ends differently where something nests too deep.
"""

import json
from collections.abc import Mapping

from drctl.model.strict_json import read_json
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
        found: object = read_json(data)
        # Halves of characters, written as escapes, are no text.
        written(found)
    except ValueError as error:
        raise Undecodable(format_name, f"no JSON: {error}", data) from None
    return found


def written(value: object) -> bytes:
    """The shortest JSON, in the order of the mapping, with text as it is."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def is_count(value: object) -> bool:
    """Whether this is a number from 0 on, as offsets and partitions are."""
    return type(value) is int and 0 <= value < 1 << 63
