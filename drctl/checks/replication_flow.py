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

Before = tuple[float, Mapping[TopicPartition, int]]
"""When somebody looked, by the same clock, and where the copies ended then."""


@dataclass(frozen=True, slots=True)
class Arriving:
    """What came.

    Attributes:
        records: that arrived between the last two looks; 0 where they came to an end.
        seconds: for how long was looked.
        beats: heartbeats of a replicator that arrived likewise, in `topic`.
    """

    records: int
    seconds: float
    beats: int = 0
    topic: str = ""

    @property
    def anything(self) -> bool:
        """Whether somebody still brings something over."""
        return bool(self.records or self.beats)


def arriving(
    ends: Ends,
    silent: Callable[[], bool],
    beats: str = "",
    clock: Callable[[], float] = monotonic,
    wait: Callable[[float], None] = _wait,
    before: Callable[[], Before] | None = None,
) -> Arriving:
    """Look at the ends of the copies until they stand still, or have grown at every look.

    Args:
        ends: of all copies, now.
        silent: whether the source gave no answer; may take a while, in which copies may grow.
        beats: the topic with copied heartbeats, which come where nobody writes; empty where none
            is known.
        before: an earlier look, which counts as the first one; None where there is none.

    Raises:
        Unreachable: the target did not answer.
    """
    began, seen = before() if before is not None else (clock(), ends())
    grown: dict[bool, int] = {}
    if not silent():
        return Arriving(0, clock() - began)
    for number in range(1, LOOKS):
        wait(FIRST_S - (clock() - began) if number == 1 else LATER_S)
        now = ends()
        grown = _grown(seen, now, beats)
        if not grown:
            break
        seen = now
    return Arriving(grown.get(False, 0), clock() - began, grown.get(True, 0), beats)


def _grown(
    seen: Mapping[TopicPartition, int], now: Mapping[TopicPartition, int], beats: str
) -> dict[bool, int]:
    """By how much records grew, and heartbeats; neither is there where it did not."""
    found: dict[bool, int] = {}
    for place, end in now.items():
        if end > seen.get(place, end):
            beat = place.topic == beats
            found[beat] = found.get(beat, 0) + end - seen[place]
    return found
