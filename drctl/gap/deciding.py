"""Waits for transactions that are open when a log is looked at: until then nobody knows their fate.

Applications that write in transactions always have some open. So what is waited for is the moment
of the first look: once all of a log up to there is decided, later ones do not matter.
"""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, TypeGuard

from drctl.model.topology import PartitionOffsets, TopicPartition, Unavailable

Offsets = Mapping[TopicPartition, PartitionOffsets | Unavailable]

_PAUSE_S = 0.5


class OffsetsReader(Protocol):
    """What of a `ClusterReader` is needed."""

    @property
    def name(self) -> str:
        """The cluster's, as in drctl.yaml."""
        ...

    def offsets(self, partitions: Collection[TopicPartition], /) -> Offsets:
        """The log of each partition, by its leader."""
        ...


@dataclass(frozen=True, slots=True)
class Patience:
    """How long open transactions are waited for.

    Attributes:
        seconds: for each cluster; 0: not at all.
        told: what is waited for, in words, again and again.
        now: a clock that only goes forward, in seconds.
    """

    seconds: float = 0
    told: Callable[[str], None] = lambda _words: None
    now: Callable[[], float] = time.monotonic
    pause: Callable[[float], object] = time.sleep

    def offsets(self, reader: OffsetsReader, partitions: Collection[TopicPartition]) -> Offsets:
        """The logs as they are at first, where patience suffices with all of it decided.

        What is not decided in time, or was cut off by an election, is as it was.

        Raises:
            Unreachable: the cluster did not answer.
        """
        first = reader.offsets(partitions)
        found, until = dict(first), self.now() + self.seconds
        waiting = {p: at for p, at in first.items() if _open(at)}
        while waiting and self.now() < until:
            self.told(_words(reader.name, waiting, until - self.now()))
            self.pause(_PAUSE_S)
            for place, at in reader.offsets(list(waiting)).items():
                if isinstance(at, PartitionOffsets) and at.last_stable >= waiting[place].end:
                    known = waiting.pop(place)
                    found[place] = replace(known, last_stable=known.end)
        return found


NO_PATIENCE = Patience()
"""Waits for nothing."""


def decided(reader: OffsetsReader, before: Offsets) -> Offsets:
    """The same ends, and what became meanwhile of transactions that were open before them.

    Raises:
        Unreachable: the cluster did not answer.
    """
    waiting = {place: at for place, at in before.items() if _open(at)}
    if not waiting:
        return before
    later = reader.offsets(list(waiting))
    known = {
        place: replace(at, last_stable=min(at.end, again.last_stable))
        for place, at in waiting.items()
        if isinstance(again := later[place], PartitionOffsets) and again.end >= at.end
    }
    return {**before, **known}


def _open(at: PartitionOffsets | Unavailable) -> TypeGuard[PartitionOffsets]:
    return isinstance(at, PartitionOffsets) and at.last_stable < at.end


def _words(name: str, waiting: Collection[TopicPartition], left_s: float) -> str:
    more = f" and {len(waiting) - 1:,} others" if len(waiting) > 1 else ""
    return (
        f"a transaction is open in {min(waiting)}{more} of {name}: waiting until it ends,"
        f" {left_s:.0f} s at most"
    )
