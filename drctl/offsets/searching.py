"""Finds on the target the last records that a group consumed on the source.

It never skips records: it uses the earliest record that may be the last consumed one. If the last
consumed record is not on the target, it uses the newest one that is.
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
"""Number of records read before the first one with the right timestamp."""

WIDTHS = (2_000, 20_000)
"""Number of records to search in the first and in the second attempt."""

NEAR = BEFORE
"""Number of records read from the first one with the right timestamp on, to find the end of that
timestamp: another lookup would be more expensive."""


class SearchQuery(NamedTuple):
    """The last consumed records to find in a target partition.

    Attributes:
        within: offsets to search, if known better than from its timestamp.
    """

    target: TopicPartition
    consumed: LastConsumed
    within: OffsetRange | None = None


class Match(NamedTuple):
    """Where the last consumed records are on the target.

    Attributes:
        position: offset after the newest consumed record that was found; if several records may be
            this one, after the earliest of them.
        latest: likewise, after the latest of them.
        missing: number of the newest committed records that were not found.
        between: how many of the consumed records (including uncommitted ones) may follow the
            match, because some of them are equal; None if unknown.
        to_end: whether everything was read up to the end of the log.
    """

    position: int
    latest: int
    missing: int
    between: int | None
    to_end: bool

    @property
    def exact(self) -> bool:
        """Whether the match is certainly the last consumed record."""
        return not self.missing and self.between == 0 and self.latest == self.position


@dataclass(frozen=True, slots=True)
class _Window:
    """The offsets to search.

    Attributes:
        first: first record with the timestamp of the last consumed one; None if unknown.
        sure: whether the last consumed record is certain to be in it.
    """

    range: OffsetRange
    first: int | None
    to_end: bool
    sure: bool

    def inside(self, other: OffsetRange) -> bool:
        """Return whether the whole window is within these offsets."""
        return other.start <= self.range.start and self.range.end <= other.end


@dataclass(frozen=True, slots=True)
class TargetSearch:
    """Finds the last consumed records of many offsets at once.

    Attributes:
        timed_topics: whether records keep their timestamps on the target, by target topic.
    """

    target: ClusterReader
    reader: RangeReader
    timed_topics: Mapping[str, bool]

    def timed(self, topic: str) -> bool:
        """Return whether records keep their timestamps in this target topic."""
        return self.timed_topics.get(topic, False)

    def find(self, sought: Iterable[SearchQuery]) -> Mapping[SearchQuery, Match | Unavailable]:
        """Answer all queries; return matches and failed timestamp lookups.

        Raises:
            Unreachable: the target did not answer.
            ScanFailed: the records could not be read completely.
        """
        waiting = dict.fromkeys(
            s
            for s in sought
            if s.consumed.steps and (s.within is not None or self.timed(s.target.topic))
        )
        logs = self.target.offsets({s.target for s in waiting})
        by_time = {s: s.consumed.steps[0].timestamp_ms for s in waiting if s.within is None}
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
        """Return the current logs of these target partitions.

        Raises:
            Unreachable: the target did not answer.
        """
        return self.target.offsets(places)

    def following(
        self, places: Mapping[TopicPartition, Sequence[OffsetRange]]
    ) -> Mapping[TopicPartition, tuple[PartitionOffsets, Records]]:
        """Read the current offsets of each log, then its records in these ranges.

        Raises:
            Unreachable: the target did not answer.
            ScanFailed: the records could not be read completely.
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
        """Return what identifies a record in this target topic."""
        return step if self.timed(topic) else step.fingerprint

    def _ends(
        self,
        firsts: Mapping[SearchQuery, int],
        near: Mapping[SearchQuery, OffsetRange],
        held: "_Held",
        logs: Logs,
    ) -> tuple[Mapping[SearchQuery, int], Mapping[SearchQuery, Unavailable]]:
        """Return the first offset after records with the newest timestamp, or why it is unknown."""
        found: dict[SearchQuery, int] = {}
        unseen: dict[SearchQuery, int] = {}
        for s, window in near.items():
            newest, log = s.consumed.steps[0].timestamp_ms, logs[s.target]
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
        """Look up the first target offset of each timestamp; -1 if there is none."""
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
    """Return the offsets to search; None if there are none."""
    if sought.within is not None:
        start, end = sought.within
    elif first is None:
        return None
    elif first < 0:
        # No record on the target is that new: earlier consumed records are at its end.
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
        if match := held[s.target].match(s.consumed, window):
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
        """Return the first of these offsets with a newer record."""
        for n in range(bisect_left(self._offsets, start), bisect_left(self._offsets, end)):
            if self._times[n] > timestamp_ms:
                return self._offsets[n]
        return None

    def _name(self, step: Step) -> object:
        return step if self._timed else step.fingerprint

    def match(self, consumed: LastConsumed, window: _Window) -> Match | None:
        """Find the newest of the consumed committed records in the window.

        Uncommitted records are ignored: if they were not copied, an equal record on the target may
        have been committed later and not be consumed.
        """
        start, end = window.range
        missing = 0
        for number, step in enumerate(consumed.steps):
            if number in consumed.uncommitted:
                continue
            offsets = self._at.get(self._name(step), ())
            inside = offsets[bisect_left(offsets, start) : bisect_left(offsets, end)]
            if inside:
                position = inside[0] + 1
                if missing and window.first is not None:
                    position = min(position, window.first)
                between = 0 if window.sure and not missing else self._between(consumed, inside[0])
                return Match(position, inside[-1] + 1, missing, between, window.to_end)
            missing += 1
        return None

    def _between(self, consumed: LastConsumed, offset: int) -> int | None:
        """Return how many consumed records may follow the match at this offset.

        The records before it show which of several equal consumed records it is.
        """
        names = [self._name(step) for step in consumed.steps]
        last = bisect_left(self._offsets, offset)
        before = list(reversed(self._names[max(0, last + 1 - len(names)) : last + 1]))
        places = [n for n, name in enumerate(names) if name == before[0]]
        fitting = [n for n in places if all(map(eq, names[n:], before))]
        if consumed.uncommitted:  # they may not have been copied
            kept = [n for n in range(len(names)) if n not in consumed.uncommitted]
            for place, number in enumerate(kept):
                if all(map(eq, (names[n] for n in kept[place:]), before)):
                    fitting.append(number)
        if len(set(names)) == 1 and len(names) >= LENGTH:
            return None
        return max(fitting or places)


_Held = Mapping[TopicPartition, _PartitionRecords]
