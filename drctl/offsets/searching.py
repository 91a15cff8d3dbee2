"""Finds a trail of consumed records on the target.

Safe in any case: the earliest record that may be the last consumed one is taken for it, so nothing
after it is skipped. Where the last consumed record is not there, the newest one that is there
counts instead.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import eq
from typing import NamedTuple

from drctl.model.ports import ClusterReader
from drctl.model.topology import OffsetRange, PartitionOffsets, TopicPartition, Unavailable
from drctl.offsets.consumed import (
    LENGTH,
    LastConsumed,
    Logs,
    RangeReader,
    Records,
    Step,
    by_partition,
    read_ranges,
)

BEFORE = 2 * LENGTH
"""Records read before the first one of the right time."""

WIDTHS = (2_000, 20_000)
"""Records among which a trail is looked for: at first, and where it was not found there."""

NEAR = BEFORE
"""Records read from the first one of the right time on, to see where that time ends: looking up
the next time would cost the target more."""


class SearchQuery(NamedTuple):
    """A trail that is looked for in a partition of the target.

    Attributes:
        within: offsets that hold it, where that is known better than by its time.
    """

    target: TopicPartition
    trail: LastConsumed
    within: OffsetRange | None = None


class Match(NamedTuple):
    """Where a trail ends on the target.

    Attributes:
        position: just after the earliest record that may be its newest one there.
        latest: just after the latest such record.
        missing: newest committed records of the trail that were not found.
        between: records of the trail, uncommitted ones included, that may come after that one,
            because it holds equal ones; None where more may than it remembers.
        to_end: whether everything was read up to the end of the log.
    """

    position: int
    latest: int
    missing: int
    between: int | None
    to_end: bool

    @property
    def exact(self) -> bool:
        """Whether it can be no other record than the newest one of the trail."""
        return not self.missing and self.between == 0 and self.latest == self.position


@dataclass(frozen=True, slots=True)
class _Window:
    """Where to look.

    Attributes:
        first: the first record as young as the newest of the trail; None where that is unknown.
        sure: whether the newest record of the trail is certain to be there.
    """

    range: OffsetRange
    first: int | None
    to_end: bool
    sure: bool

    def inside(self, other: OffsetRange) -> bool:
        """Whether all of it lies in these offsets."""
        return other.start <= self.range.start and self.range.end <= other.end


@dataclass(frozen=True, slots=True)
class TargetSearch:
    """Looks for many trails at once.

    Attributes:
        timed_topics: whether records keep their timestamps on the target, by topic there.
    """

    target: ClusterReader
    reader: RangeReader
    timed_topics: Mapping[str, bool]

    def timed(self, topic: str) -> bool:
        """Whether records keep their timestamps in this topic of the target."""
        return self.timed_topics.get(topic, False)

    def find(self, sought: Iterable[SearchQuery]) -> Mapping[SearchQuery, Match | Unavailable]:
        """Those that were found, and those of which the target did not say where to look.

        Raises:
            Unreachable: the target did not answer.
            ScanFailed: something could not be read to its end.
        """
        waiting = dict.fromkeys(
            s
            for s in sought
            if s.trail.steps and (s.within is not None or self.timed(s.target.topic))
        )
        logs = self.target.offsets({s.target for s in waiting})
        by_time = {s: s.trail.steps[0].timestamp_ms for s in waiting if s.within is None}
        firsts, unavailable = self._look_up(by_time)
        near = _near(firsts, logs)
        held = self._held(near)
        ends, unanswered = self._ends(firsts, near, held, logs)
        unavailable |= unanswered
        found: dict[SearchQuery, Match] = {}
        for width in WIDTHS:
            windows = {
                s: window
                for s in waiting
                if s not in unavailable
                and isinstance(log := logs[s.target], PartitionOffsets)
                and (window := _window(s, log, firsts.get(s), ends.get(s), width))
            }
            beyond = {s: w for s, w in windows.items() if s not in near or not w.inside(near[s])}
            found |= _matches({s: w for s, w in windows.items() if s not in beyond}, held)
            found |= _matches(beyond, self._held({s: w.range for s, w in beyond.items()}))
            unsettled = (s for s in windows if s not in found or found[s].missing)
            waiting = dict.fromkeys(s for s in unsettled if not windows[s].to_end)
        return {**unavailable, **found}

    def logs(
        self, places: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, PartitionOffsets | Unavailable]:
        """The logs of these partitions of the target, as they are now.

        Raises:
            Unreachable: the target did not answer.
        """
        return self.target.offsets(places)

    def following(
        self, places: Mapping[TopicPartition, Sequence[OffsetRange]]
    ) -> Mapping[TopicPartition, tuple[PartitionOffsets, Records]]:
        """The records of these ranges as far as the log goes, and the log before it was read.

        Raises:
            Unreachable: the target did not answer.
            ScanFailed: something could not be read to its end.
        """
        logs = self.logs(places.keys())
        wanted = {
            place: [
                OffsetRange(max(start, log.log_start), min(end, log.last_stable))
                for start, end in runs
            ]
            for place, runs in places.items()
            if isinstance(log := logs[place], PartitionOffsets)
        }
        held = read_ranges(self.reader, wanted)
        return {
            place: (log, records)
            for place, records in held.items()
            if isinstance(log := logs[place], PartitionOffsets)
        }

    def name(self, topic: str, step: Step) -> object:
        """What a record of this topic of the target is known by."""
        return step if self.timed(topic) else step.fingerprint

    def _ends(
        self,
        firsts: Mapping[SearchQuery, int],
        near: Mapping[SearchQuery, OffsetRange],
        held: "_Held",
        logs: Logs,
    ) -> tuple[Mapping[SearchQuery, int], Mapping[SearchQuery, Unavailable]]:
        """The first offset after records of its newest record's time, or why it is unknown."""
        found: dict[SearchQuery, int] = {}
        unseen: dict[SearchQuery, int] = {}
        for s, window in near.items():
            newest, log = s.trail.steps[0].timestamp_ms, logs[s.target]
            assert isinstance(log, PartitionOffsets)
            end = held[s.target].younger(newest, firsts[s], window.end)
            if end is not None:
                found[s] = end
            elif window.end == log.last_stable:
                found[s] = log.last_stable
            else:
                unseen[s] = newest + 1
        asked, unavailable = self._look_up(unseen)
        return {**found, **asked}, unavailable

    def _look_up(
        self, times: Mapping[SearchQuery, int]
    ) -> tuple[dict[SearchQuery, int], dict[SearchQuery, Unavailable]]:
        """The first target offset of each time; -1 where none is as young."""
        questions = list(dict.fromkeys((s.target, at) for s, at in times.items()))
        answers = self.target.look_up(questions)() if questions else ()
        answered = dict(zip(questions, answers, strict=True))
        found, unavailable = dict[SearchQuery, int](), dict[SearchQuery, Unavailable]()
        for s, at in times.items():
            answer = answered[s.target, at]
            if isinstance(answer, Unavailable):
                unavailable[s] = answer
            else:
                found[s] = answer.offset
        return found, unavailable

    def _held(self, ranges: Mapping[SearchQuery, OffsetRange]) -> "_Held":
        wanted = by_partition((s.target, window) for s, window in ranges.items())
        return {
            place: _PartitionRecords(steps, timed=self.timed(place.topic))
            for place, steps in read_ranges(self.reader, wanted).items()
        }


def _near(firsts: Mapping[SearchQuery, int], logs: Logs) -> dict[SearchQuery, OffsetRange]:
    found = {}
    for s, first in firsts.items():
        log = logs[s.target]
        if isinstance(log, PartitionOffsets) and first >= 0:
            start, end = max(log.log_start, first - BEFORE), min(first + NEAR, log.last_stable)
            found[s] = OffsetRange(start, max(start, end))
    return found


def _window(
    sought: SearchQuery, log: PartitionOffsets, first: int | None, after: int | None, width: int
) -> _Window | None:
    """Where to look; None where there is nothing to look at."""
    if sought.within is not None:
        start, end = sought.within
    elif first is None:
        return None
    elif first < 0:
        # No record on the target is as young: what was consumed before is at its end.
        start, end = log.last_stable - width, log.last_stable
    else:
        start, end = first - BEFORE, log.last_stable
        if after is not None and after >= 0 and width == WIDTHS[0]:
            end = after
    start = max(log.log_start, start)
    end = min(end, log.last_stable, start + BEFORE + width)
    if start >= end:
        return None
    sure = sought.within is not None and end == sought.within.end
    begin = first if first is not None and first >= 0 else None
    return _Window(OffsetRange(start, end), begin, end == log.last_stable, sure)


def _matches(
    windows: Mapping[SearchQuery, _Window], held: "_Held"
) -> Iterator[tuple[SearchQuery, Match]]:
    for s, window in windows.items():
        if match := held[s.target].match(s.trail, window):
            yield s, match


class _PartitionRecords:
    """Records of one partition, ascending."""

    def __init__(self, steps: Records, *, timed: bool) -> None:
        self._timed = timed
        self._offsets = [offset for offset, _ in steps]
        self._names = [self._name(step) for _, step in steps]
        self._at: dict[object, list[int]] = defaultdict(list)
        for offset, name in zip(self._offsets, self._names, strict=True):
            self._at[name].append(offset)
        self._times = [step.timestamp_ms for _, step in steps]

    def younger(self, timestamp_ms: int, start: int, end: int) -> int | None:
        """The first of these offsets whose record is younger."""
        for n in range(bisect_left(self._offsets, start), bisect_left(self._offsets, end)):
            if self._times[n] > timestamp_ms:
                return self._offsets[n]
        return None

    def _name(self, step: Step) -> object:
        return step if self._timed else step.fingerprint

    def match(self, trail: LastConsumed, window: _Window) -> Match | None:
        """Where the newest committed record of the trail is in the window.

        Uncommitted ones tell nothing: where they are not copied, an equal record on the target may
        be one that was committed later, and is not consumed.
        """
        start, end = window.range
        missing = 0
        for number, step in enumerate(trail.steps):
            if number in trail.uncommitted:
                continue
            offsets = self._at.get(self._name(step), ())
            inside = offsets[bisect_left(offsets, start) : bisect_left(offsets, end)]
            if inside:
                position = inside[0] + 1
                if missing and window.first is not None:
                    position = min(position, window.first)
                between = 0 if window.sure and not missing else self._between(trail, inside[0])
                return Match(position, inside[-1] + 1, missing, between, window.to_end)
            missing += 1
        return None

    def _between(self, trail: LastConsumed, offset: int) -> int | None:
        """Records of the trail that may come after the one that was found at this offset.

        The records before it tell which of the trail's equal records it is.
        """
        names = [self._name(step) for step in trail.steps]
        last = bisect_left(self._offsets, offset)
        before = list(reversed(self._names[max(0, last + 1 - len(names)) : last + 1]))
        places = [n for n, name in enumerate(names) if name == before[0]]
        fitting = [n for n in places if all(map(eq, names[n:], before))]
        if trail.uncommitted:  # they may not have been copied
            kept = [n for n in range(len(names)) if n not in trail.uncommitted]
            for place, number in enumerate(kept):
                if all(map(eq, (names[n] for n in kept[place:]), before)):
                    fitting.append(number)
        if len(set(names)) == 1 and len(names) >= LENGTH:
            return None
        return max(fitting or places)


_Held = Mapping[TopicPartition, _PartitionRecords]
