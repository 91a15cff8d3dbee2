"""Lengths of time on the command line: `90s`, `5m`, `2h`, `1d`; a bare number is seconds."""

import re

from drctl.model.errors import UsageError

_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d|)")


def seconds(text: str, option: str, *, zero: bool = False) -> float:
    """How many seconds a time on the command line has.

    Args:
        option: that it was given with.
        zero: whether it may be 0.

    Raises:
        UsageError: it is no time, or 0 where that has no meaning.
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{option}: {text!r} is not a time", f"for example {option} 90s, 5m or 2h")
    length = float(found[1]) * _SECONDS[found[2]]
    if not length and not zero:
        raise UsageError(f"{option} must be longer than 0", f"for example {option} 1s")
    return length


def times(patience: str, grace: str) -> tuple[float, float]:
    """How long replication may take to catch up, and consumers to leave; the latter may be 0.

    Raises:
        UsageError: one is no such time.
    """
    return seconds(patience, "--patience"), seconds(grace, "--grace", zero=True)
