"""Number of cases of expensive tests: all in `make test`, some in `test-fast`."""

import os
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")

QUICK = os.environ.get("TEST_DEPTH") == "quick"
"""As `make test-fast` sets it."""


def some(cases: Iterable[T], every: int = 4) -> list[T]:
    """Return all cases; in quick mode the first, every fourth, and the last."""
    found = list(cases)
    last = (len(found) - 1) % every if found else 0
    return found[::every] + (found[-1:] if last else []) if QUICK else found


def examples(count: int) -> int:
    """Return the number of Hypothesis examples."""
    return min(count, max(5, count // 5)) if QUICK else count
