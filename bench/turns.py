"""Measures several things in turns, so that a busy machine slows all of them alike."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Work:
    """Work to be timed.

    Attributes:
        run: does it once; raises if the result is wrong.
        records: number of records that it reads.
    """

    name: str
    run: Callable[[], None]
    records: int = 0


def seconds(run: Callable[[], None]) -> float:
    """Measure its duration."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


_WARM = 5_000_000
"""How many records of each side are compared before the measurement begins, because Java compiles
what it runs often."""


def warm_ups(records: int) -> int:
    """Return how many rounds of this many records a side warm up a Spark session."""
    return max(1, _WARM // records)


def in_turns(
    works: Sequence[Work], rounds: int, tell: Tell, warm_ups: int = 1
) -> Mapping[str, tuple[float, ...]]:
    """Return the times by name, without those of warm-up rounds."""
    taken: dict[str, list[float]] = {work.name: [] for work in works}
    for number in range(warm_ups + rounds):
        times = {work.name: seconds(work.run) for work in works}
        warming = number < warm_ups
        title = "warm-up" if warming else f"round {number - warm_ups + 1} of {rounds}"
        tell(f"{title}: " + ", ".join(f"{name} {t:.2f} s" for name, t in times.items()))
        if not warming:
            for name, duration in times.items():
                taken[name].append(duration)
    return {name: tuple(times) for name, times in taken.items()}
