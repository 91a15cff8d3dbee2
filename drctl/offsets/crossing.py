"""Finds where copies of consumed records end, by the offsets of the source that copies name.

Copies stand in the order of the source, but not alone: others may write there, too, and there are
offsets without records. So a place is looked for by halving, and believed when everything around it
was read.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from drctl.model.rows import Row
from drctl.model.topology import OffsetRange, PartitionOffsets, TopicPartition
from drctl.offsets.origins import Copy
from drctl.offsets.trail import RangeReader, chunks

SAMPLES, SAMPLE = 9, 16
"""Places of a log, and offsets of each, that tell whether it holds copies at all."""

NARROW, WIDEST, GROWTH = 32, 2_048, 8
"""Offsets looked at in one place: where they hold no copy, there are none further on either."""

Committed = tuple[TopicPartition, int]
"""A partition of the target, and what a group has committed in that of the source."""

CopyOf = Callable[[TopicPartition, Row], Copy | None]
"""What a record in a partition of the target is a copy of."""


class Crossing(NamedTuple):
    """Where a position lies on the target.

    Attributes:
        before: the last copy of a record before the position; None where there is none.
        behind: the first copy from the position on, with no other copy between the two; None where
            there is none, or where nobody looked that far.
    """

    before: Copy | None
    behind: Copy | None


class CopySearch:
    """Looks for very many positions at once, and remembers the copies that it came across.

    Args:
        logs: of the target's partitions.
    """

    def __init__(
        self,
        reader: RangeReader,
        logs: Mapping[TopicPartition, PartitionOffsets],
        copy_of: CopyOf,
    ) -> None:
        self._reader = reader
        self._logs = logs
        self._copy_of = copy_of
        self._seen: dict[TopicPartition, dict[int, Copy]] = defaultdict(dict)

    def sample(self) -> Mapping[TopicPartition, Sequence[Copy]]:
        """Copies in some places of each log; partitions without any there are left out.

        Raises:
            ScanFailed: something could not be read to its end.
        """
        found = self._read({place: _spread(log) for place, log in self._logs.items()})
        return {place: copies for place, copies in found.items() if copies}

    def find(self, wanted: Iterable[Committed]) -> Mapping[Committed, Crossing]:
        """Where each of these lies.

        Raises:
            ScanFailed: something could not be read to its end.
        """
        known = {place: self.copies(place) for place in self._logs}
        quests = {one: _begun(one[1], self._logs[one[0]], known[one[0]]) for one in wanted}
        waiting = {one: quest for one, quest in quests.items() if not quest.ended}
        while waiting:
            windows = {one: quest.window() for one, quest in waiting.items()}
            runs: dict[TopicPartition, list[OffsetRange]] = defaultdict(list)
            for (place, _), window in windows.items():
                runs[place].append(window)
            held = self._read(runs)
            for (place, offset), window in windows.items():
                quests[place, offset].note(window, _within(held[place], window))
            waiting = {one: quest for one, quest in waiting.items() if not quest.ended}
        return {one: quest.crossing for one, quest in quests.items()}

    def ascends(self, place: TopicPartition) -> bool:
        """Whether the copies that it came across stand in the order of the source."""
        copies = self.copies(place)
        return all(one.upstream <= other.upstream for one, other in pairwise(copies))

    def copies(self, place: TopicPartition) -> Sequence[Copy]:
        """Those that it came across, ascending."""
        return [copy for _, copy in sorted(self._seen[place].items())]

    def _read(
        self, wanted: Mapping[TopicPartition, Collection[OffsetRange]]
    ) -> Mapping[TopicPartition, Sequence[Copy]]:
        """The copies in these ranges and between them, ascending."""
        found: dict[TopicPartition, list[Copy]] = {place: [] for place in wanted}
        for chunk in chunks(self._reader, {place: list(runs) for place, runs in wanted.items()}):
            place = TopicPartition(chunk.topic, chunk.partition)
            found[place] += filter(None, (self._copy_of(place, row) for row in chunk.rows))
        for place, copies in found.items():
            self._seen[place].update((copy.offset, copy) for copy in copies)
        return found


@dataclass(slots=True)
class _Quest:
    """One position: what is left to look at lies between `left` and `right`.

    From `before` to `left` there is no other copy, and none from `right` to `behind`.
    """

    committed: int
    left: int
    right: int
    before: Copy | None = None
    behind: Copy | None = None
    width: int = NARROW
    start: int | None = None
    halving: bool = False

    @property
    def ended(self) -> bool:
        last = self.before is not None and self.before.upstream == self.committed - 1
        return last or self.left >= self.right

    @property
    def crossing(self) -> Crossing:
        return Crossing(self.before, self.behind if self.left >= self.right else None)

    def window(self) -> OffsetRange:
        """Where to look next: at first where the copy would be if there were nothing else."""
        if self.start is None:
            latest = max(self.left, self.right - self.width)
            self.start = min(max(self.left, self._guess() - self.width // 4), latest)
        return OffsetRange(self.start, min(self.start + self.width, self.right))

    def note(self, window: OffsetRange, copies: Sequence[Copy]) -> None:
        """What was found in a window between `left` and `right`."""
        consumed = next(
            (n for n, copy in enumerate(copies) if copy.upstream >= self.committed), len(copies)
        )
        if not copies and window.end < self.right and self.width < WIDEST:
            self.width *= GROWTH
            return
        if consumed:
            self.before, self.left = copies[consumed - 1], window.end
            if consumed < len(copies):
                self.behind, self.right = copies[consumed], window.end
        elif copies:
            self.behind, self.right = copies[0], window.start
        else:
            if window.end < self.right:
                self.behind = None
            self.right = window.start
        self.width, self.start, self.halving = NARROW, None, not self.halving

    def _guess(self) -> int:
        before, behind = self.before, self.behind
        if self.halving or not (before or behind):
            return (self.left + self.right) // 2
        if before and behind:
            share = (self.committed - 1 - before.upstream) / (behind.upstream - before.upstream)
            return before.offset + int(share * (behind.offset - before.offset))
        if before:
            return before.offset + self.committed - 1 - before.upstream
        assert behind is not None
        return behind.offset - (behind.upstream - self.committed) - 1


def _begun(committed: int, log: PartitionOffsets, copies: Sequence[Copy]) -> _Quest:
    """With the copies that are known already."""
    quest = _Quest(committed, log.log_start, log.last_stable)
    consumed = next((n for n, copy in enumerate(copies) if copy.upstream >= committed), len(copies))
    if consumed:
        quest.before = copies[consumed - 1]
        quest.left = quest.before.offset + 1
    if consumed < len(copies):
        quest.behind = copies[consumed]
        quest.right = quest.behind.offset
    return quest


def _spread(log: PartitionOffsets) -> list[OffsetRange]:
    """Short ranges from the first offsets to the last ones."""
    start, end = log.log_start, log.last_stable
    last = max(start, end - SAMPLE)
    starts = {start + (last - start) * place // (SAMPLES - 1) for place in range(SAMPLES)}
    return [OffsetRange(s, min(s + SAMPLE, end)) for s in sorted(starts) if s < end]


def _within(copies: Sequence[Copy], window: OffsetRange) -> Sequence[Copy]:
    first, end = (bisect_left(copies, edge, key=_offset) for edge in window)
    return copies[first:end]


def _offset(copy: Copy) -> int:
    return copy.offset
