"""Number of cases of expensive tests: few in `test-fast`, half in `make test`, all at night."""

import os
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")

DEPTH = os.environ.get("TEST_DEPTH", "regular")
"""`quick` as `make test-fast` sets it, `full` as `.ci/nightly` does, else `regular`."""

QUICK = DEPTH == "quick"


def some(cases: Iterable[T], every: int = 4) -> list[T]:
    """Return the first case, every fourth (in `make test` every second), and the last; or all.

    Args:
        cases: in the order of the plan, such as the places where a process can end.
        every: the step in quick mode; half of it in regular mode.
    """
    found = list(cases)
    step = {"quick": every, "full": 1}.get(DEPTH, max(1, every // 2))
    last = (len(found) - 1) % step if found else 0
    return found[::step] + (found[-1:] if last else [])


def examples(count: int) -> int:
    """Return the number of Hypothesis examples."""
    return min(count, max(5, count // 5)) if QUICK else count
