"""How many things are said in one finding."""

from collections.abc import Collection, Iterable
from itertools import islice

SHOWN = 5


def listed(items: Collection[object], shown: int = SHOWN) -> str:
    """The first of them, and how many there are beside."""
    told = ", ".join(map(str, islice(items, shown)))
    more = len(items) - shown
    return f"{told} and {more:,} more" if more > 0 else told


def several(items: Iterable[object]) -> str:
    """The same with semicolons, for items that are more than a word."""
    told = list(map(str, items))
    more = [f"and {len(told) - SHOWN:,} more"] if len(told) > SHOWN else []
    return "; ".join([*told[:SHOWN], *more])


def duration(milliseconds: int) -> str:
    """A time in words: seconds, minutes or hours."""
    seconds = milliseconds / 1000
    if seconds < 120:
        return f"{seconds:,.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:,.0f} min"
    return f"{seconds / 3600:,.0f} h"
