"""Whether records of a source that does not answer drctl still arrive on the target."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Event
from time import monotonic

from drctl.model.topology import TopicPartition

FIRST_S = 2.0
"""Minimum time between the first two readings."""

LATER_S = 2.0
"""Time between later readings, while records arrive."""

READINGS = 5
"""Maximum number of readings; by then, all records fetched before the source died have arrived."""


def _wait(seconds: float) -> None:
    Event().wait(max(0.0, seconds))


Ends = Callable[[], Mapping[TopicPartition, int]]

Before = tuple[float, Mapping[TopicPartition, int]]
"""An earlier reading: its monotonic time, and the end offsets of the copies."""


@dataclass(frozen=True, slots=True)
class ReplicationFlow:
    """What arrived on the target.

    Attributes:
        records: that arrived between the last two readings; 0 if none did.
        seconds: from the first to the last reading.
        heartbeats: a replicator's heartbeats that arrived in the same time, in `topic`.
    """

    records: int
    seconds: float
    heartbeats: int = 0
    topic: str = ""

    @property
    def active(self) -> bool:
        """Whether anything is still replicated."""
        return bool(self.records or self.heartbeats)


def observe_flow(
    ends: Ends,
    silent: Callable[[], bool],
    heartbeats_topic: str = "",
    clock: Callable[[], float] = monotonic,
    wait: Callable[[float], None] = _wait,
    before: Callable[[], Before] | None = None,
) -> ReplicationFlow:
    """Read the end offsets of the copies until they no longer grow, or grew in every reading.

    Args:
        ends: reads the end offsets of all copies.
        silent: returns whether the source does not answer; may take a while.
        heartbeats_topic: copied heartbeats, which arrive even if no application writes; empty if
            none is known.
        before: returns an earlier reading, which counts as the first one.

    Raises:
        Unreachable: the target did not answer.
    """
    began, previous = before() if before is not None else (clock(), ends())
    grown: dict[bool, int] = {}
    if not silent():
        return ReplicationFlow(0, clock() - began)
    for number in range(1, READINGS):
        wait(FIRST_S - (clock() - began) if number == 1 else LATER_S)
        now = ends()
        grown = _grown(previous, now, heartbeats_topic)
        if not grown:
            break
        previous = now
    seconds = clock() - began
    return ReplicationFlow(grown.get(False, 0), seconds, grown.get(True, 0), heartbeats_topic)


def _grown(
    before: Mapping[TopicPartition, int], now: Mapping[TopicPartition, int], heartbeats_topic: str
) -> dict[bool, int]:
    """Count new records (False) and new heartbeats (True); omit what did not grow."""
    found: dict[bool, int] = {}
    for place, end in now.items():
        if end > before.get(place, end):
            heartbeat = place.topic == heartbeats_topic
            found[heartbeat] = found.get(heartbeat, 0) + end - before[place]
    return found
