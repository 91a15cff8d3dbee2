"""Whether records of a source that does not answer here still arrive on the target."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Event
from time import monotonic

from drctl.model.topology import TopicPartition

FIRST_S = 2.0
"""Between the first two looks, at least."""

LATER_S = 2.0
"""Between two looks, once something did arrive."""

LOOKS = 5
"""What a replicator had fetched before the source died arrives within so many."""


def _wait(seconds: float) -> None:
    Event().wait(max(0.0, seconds))


Ends = Callable[[], Mapping[TopicPartition, int]]


@dataclass(frozen=True, slots=True)
class Arriving:
    """What came.

    Attributes:
        records: that arrived between the last two looks; 0 where they came to an end.
        seconds: for how long was looked.
    """

    records: int
    seconds: float


def arriving(
    ends: Ends,
    silent: Callable[[], bool],
    clock: Callable[[], float] = monotonic,
    wait: Callable[[float], None] = _wait,
) -> Arriving:
    """Look at the ends of the copies until they stand still, or have grown at every look.

    Args:
        ends: of all copies, now.
        silent: whether the source gave no answer; may take a while, in which copies may grow.

    Raises:
        Unreachable: the target did not answer.
    """
    began, seen, grown = clock(), ends(), 0
    if not silent():
        return Arriving(0, clock() - began)
    for number in range(1, LOOKS):
        wait(FIRST_S - (clock() - began) if number == 1 else LATER_S)
        now = ends()
        grown = sum(end - seen[place] for place, end in now.items() if end > seen.get(place, end))
        if not grown:
            break
        seen = now
    return Arriving(grown, clock() - began)
