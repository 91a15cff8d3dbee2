"""Lengths of time in runbooks: `90s`, `5m`, `2h`, `1d`; a bare number is seconds."""

import re
from typing import Annotated

from pydantic import BeforeValidator

_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(s|m|h|d|)")


def seconds(value: object) -> float:
    """How many seconds a length of time has.

    Raises:
        ValueError: it is none.
    """
    number = isinstance(value, int | float) and not isinstance(value, bool)
    found = _DURATION.fullmatch(f"{value}") if number or isinstance(value, str) else None
    if found is None:
        raise ValueError("must be a length of time such as 90s, 5m, 2h or 1d")
    return float(found[1]) * _SECONDS[found[2]]


Duration = Annotated[float, BeforeValidator(seconds)]
