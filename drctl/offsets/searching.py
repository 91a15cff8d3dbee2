"""Finds a trail again on the target.

Safe whatever happens: the earliest record that may be the last consumed one is taken for it, so
nothing behind it is skipped. Where the last consumed record is not there, the newest consumed one
that is stands for it.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import eq
from typing import NamedTuple

from drctl.model.ports import ClusterReader
from drctl.model.topology import OffsetRange, PartitionOffsets, TopicPartition, Unavailable
from drctl.offsets.trail import LENGTH, RangeReader, Step, Trail, read_ranges

BEFORE = 2 * LENGTH
"""Records read before the first one of the right time."""

WIDTHS = (2_000, 20_000)
"""Records among which a trail is looked for: at first, and where it was not found there."""


class Sought(NamedTuple):
    """A trail that is looked for in a partition of the target.

    Attributes:
        within: offsets that hold it, where that is known better than by its time.
    """

    target: TopicPartition
    trail: Trail
    within: OffsetRange | None = None


class Match(NamedTuple):
    """Where a trail ends on the target.

    Attributes:
        position: behind the earliest record that may be its newest one there.
        latest: behind the latest such record.
        missing: newest records of the trail that were not found.
        between: records of the trail that may lie behind that one, for it holds equal ones; None
            where more may than it remembers.
        to_end: whether everything was looked at up to the end of the log.
    """

    position: int
    latest: int
    missing: int
    between: int | None
    to_end: bool


@dataclass(frozen=True, slots=True)
class _Window:
    """Where to look.

    Attributes:
        first: the first record as young as the newest of the trail; None where nobody says.
        sure: whether the newest record of the trail is certain to be there.
    """

    range: OffsetRange
    first: int | None
    to_end: bool
    sure: bool


class TargetSearch:
    """Looks for very many trails at once.

    Args:
        timed: whether records keep their timestamps on the target, by topic there.
    """

    def __init__(
        self, target: ClusterReader, reader: RangeReader, timed: Mapping[str, bool]
    ) -> None:
        self._target = target
        self._reader = reader
        self._timed = timed

    def timed(self, topic: str) -> bool:
        """Whether records keep their timestamps in this topic of the target."""
        return self._timed.get(topic, False)

    def find(self, sought: Iterable[Sought]) -> Mapping[Sought, Match | Unavailable]:
        """Those that were found, and those of which the target did not say where to look.

        Raises:
            Unreachable: the target did not answer.
            ScanFailed: something could not be read to its end.
        """
        waiting = dict.fromkeys(s for s in sought if s.trail and self._findable(s))
        logs = self._target.offsets({s.target for s in waiting})
        starts, unsaid = self._starts(waiting)
        found: dict[Sought, Match] = {}
        for width in WIDTHS:
            windows = {
                s: window
                for s in waiting
                if isinstance(log := logs[s.target], PartitionOffsets)
                and (window := _window(s, log, starts.get(s, ()), width))
            }
            found |= self._look(windows)
            unsettled = (s for s in windows if s not in found or found[s].missing)
            waiting = dict.fromkeys(s for s in unsettled if not windows[s].to_end)
        return {**unsaid, **found}

    def _findable(self, sought: Sought) -> bool:
        return sought.within is not None or self.timed(sought.target.topic)

    def _starts(
        self, sought: Iterable[Sought]
    ) -> tuple[Mapping[Sought, Sequence[int]], Mapping[Sought, Unavailable]]:
        """The first target offset of its newest record's time, and of the time after it.

        Or why nobody says.
        """
        by_time = [s for s in sought if s.within is None]
        asked = list(dict.fromkeys(q for s in by_time for q in _times(s)))
        answers = dict(zip(asked, self._target.look_up(asked)(), strict=True)) if asked else {}
        found, unsaid = dict[Sought, Sequence[int]](), dict[Sought, Unavailable]()
        for s in by_time:
            offsets = [answers[question] for question in _times(s)]
            found[s] = [o.offset for o in offsets if not isinstance(o, Unavailable)]
            if silent := next((o for o in offsets if isinstance(o, Unavailable)), None):
                del found[s]
                unsaid[s] = silent
        return found, unsaid

    def _look(self, windows: Mapping[Sought, _Window]) -> Iterator[tuple[Sought, Match]]:
        wanted: dict[TopicPartition, list[OffsetRange]] = defaultdict(list)
        for s, window in windows.items():
            wanted[s.target].append(window.range)
        held = {
            place: _Held(steps, timed=self.timed(place.topic))
            for place, steps in read_ranges(self._reader, wanted).items()
        }
        for s, window in windows.items():
            if match := held[s.target].match(s.trail, window):
                yield s, match


def _times(sought: Sought) -> tuple[tuple[TopicPartition, int], ...]:
    newest = sought.trail[0].timestamp_ms
    return (sought.target, newest), (sought.target, newest + 1)


def _window(
    sought: Sought, log: PartitionOffsets, starts: Sequence[int], width: int
) -> _Window | None:
    """Where to look; None where there is nothing to look at."""
    first: int | None = None
    if sought.within is not None:
        start, end = sought.within
    elif not starts:
        return None
    elif starts[0] < 0:
        # Nothing on the target is as young: what was consumed before is at its end.
        start, end = log.last_stable - width, log.last_stable
    else:
        first, behind = starts[0], starts[1] if starts[1] >= 0 else log.last_stable
        start, end = first - BEFORE, behind if width == WIDTHS[0] else log.last_stable
    start = max(log.log_start, start)
    end = min(end, log.last_stable, start + BEFORE + width)
    if start >= end:
        return None
    sure = sought.within is not None and end == sought.within.end
    return _Window(OffsetRange(start, end), first, end == log.last_stable, sure)


class _Held:
    """Records of one partition, ascending."""

    def __init__(self, steps: Sequence[tuple[int, Step]], *, timed: bool) -> None:
        self._timed = timed
        self._offsets = [offset for offset, _ in steps]
        self._names = [self._name(step) for _, step in steps]
        self._at: dict[object, list[int]] = defaultdict(list)
        for offset, name in zip(self._offsets, self._names, strict=True):
            self._at[name].append(offset)

    def _name(self, step: Step) -> object:
        return step if self._timed else step.fingerprint

    def match(self, trail: Trail, window: _Window) -> Match | None:
        """Where the newest record of the trail that is in the window stands."""
        start, end = window.range
        for missing, step in enumerate(trail):
            offsets = self._at.get(self._name(step), ())
            inside = offsets[bisect_left(offsets, start) : bisect_left(offsets, end)]
            if inside:
                position = inside[0] + 1
                if missing and window.first is not None:
                    position = min(position, window.first)
                between = 0 if window.sure and not missing else self._between(trail, inside[0])
                return Match(position, inside[-1] + 1, missing, between, window.to_end)
        return None

    def _between(self, trail: Trail, offset: int) -> int | None:
        """Records of the trail that may lie behind the one that was found at this offset.

        What lies before it there tells which of the trail's equal records it is.
        """
        names = [self._name(step) for step in trail]
        last = bisect_left(self._offsets, offset)
        before = list(reversed(self._names[max(0, last + 1 - len(names)) : last + 1]))
        places = [n for n, name in enumerate(names) if name == before[0]]
        fitting = [n for n in places if all(map(eq, names[n:], before))]
        if len(set(names)) == 1 and len(names) >= LENGTH:
            return None
        return max(fitting or places)
