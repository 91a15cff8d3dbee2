"""How often Python looks for cycles of objects, where tuples come and go by the million."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_MANY = 500_000
"""More objects than a piece of a log, the rows that it is held against, and all made of them."""


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Let Python look for cycles once in half a million objects that stay, not in 700.

    Tuples of records hold no cycles: looking for them took a seventh of the processor's time.
    """
    before = gc.get_threshold()
    gc.set_threshold(_MANY, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
