"""Look-ups by time, each round where it tells most: where in time the sides differ."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

from drctl.gap.comparison import Progress
from drctl.gap.estimating import CLOCK_SLACK_MS, Log, Unit
from drctl.gap.stretches import BEFORE_ALL, Cut, Timeline
from drctl.model.ports import OffsetReader
from drctl.model.topology import Found, Mark, TopicPartition, Unavailable

LOOK_UPS = 30_000
"""Look-ups of each cluster by which differences are narrowed down, at most."""

ROUNDS = 100
"""Rounds of look-ups, at most; 2**42 ms are more than a century."""

_NEVER = 1 << 62
_NONE = (BEFORE_ALL, BEFORE_ALL)

Answer = Found | Unavailable
Answers = Sequence[Answer]
Newest = tuple[int, int]
"""The largest timestamps of the source and of the target."""
Request = tuple[Unit, int]
"""A unit, and what is asked of all its logs: a time, or a `Mark`."""


class _Place(NamedTuple):
    """Where a time leads in all logs of one side of a unit.

    Attributes:
        before: offsets before it.
        first: the smallest timestamp that was found; None where nothing was.
    """

    before: int
    first: int | None


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Cuts the time of those units whose sides differ.

    Attributes:
        look_ups: of each cluster, at most.
    """

    source: OffsetReader
    target: OffsetReader
    progress: Progress
    look_ups: int = LOOK_UPS

    def differing(self, units: Sequence[Unit], timed: bool) -> Mapping[Unit, Newest | None]:
        """Those units whose totals or whose newest records differ, and those, as far as known.

        Args:
            timed: whether records may have the same timestamps on both sides.

        Raises:
            Unreachable: a cluster did not answer.
        """
        held = [unit for unit in units if unit.source and unit.source_offsets]
        self.progress("comparing the newest records", 0, len(held))
        newest = self._newest([unit for unit in held if timed and unit.target])
        unequal = {u for u in units if u.source_offsets != u.target_offsets}
        apart = {unit for unit, (ours, theirs) in newest.items() if ours != theirs}
        return {u: newest.get(u) for u in units if u in unequal or u in apart}

    def run(self, units: Mapping[Unit, Newest | None]) -> Mapping[Unit, Timeline]:
        """A timeline for each unit of which look-ups can tell anything.

        Raises:
            Unreachable: a cluster did not answer.
        """
        timelines = self._begun(units)
        left = self.look_ups
        for number in range(ROUNDS):
            self.progress("narrowing down where they differ", number, ROUNDS)
            wanted = list(_affordable(timelines, left, every=number == 0))
            if not wanted:
                break
            left -= sum(_cost(unit) for unit, _ in wanted)
            self._cut(timelines, wanted)
        return timelines

    def _newest(self, units: Sequence[Unit]) -> Mapping[Unit, Newest]:
        """The largest timestamp on each side; left out where one could not be had."""
        wanted = [(unit, int(Mark.NEWEST)) for unit in units]
        return {
            unit: (_largest(ours), _largest(theirs))
            for unit, ours, theirs in zip(units, *self._ask(wanted, wanted), strict=True)
            if not _failed(ours) and not _failed(theirs)
        }

    def _begun(self, units: Mapping[Unit, Newest | None]) -> dict[Unit, Timeline]:
        """Timelines that are not cut yet.

        Where replication may just have stopped, the first record need not be known for that.
        """
        known = {u: n or _NONE for u, n in units.items() if n or not u.target}
        needed = [(unit, 0) for unit, newest in known.items() if _needs_first(unit, newest)]
        ours, theirs = self._ask(needed, needed)
        begun = {unit: _timeline(unit, newest) for unit, newest in known.items()}
        for (unit, _), first, other in zip(needed, ours, theirs, strict=True):
            if _failed(first) or _failed(other):
                del begun[unit]
            else:
                begun[unit] = _timeline(unit, known[unit], first, other)
        return begun

    def _cut(self, timelines: dict[Unit, Timeline], wanted: Sequence[Request]) -> None:
        """Behind the newest record nobody need look."""
        ours = [(u, at) for u, at in wanted if at <= timelines[u].newest_source]
        theirs = [(u, at) for u, at in wanted if at <= timelines[u].newest_target]
        found = self._ask(ours, theirs)
        source, target = (
            dict(zip(*pair, strict=True)) for pair in zip((ours, theirs), found, strict=True)
        )
        for request in wanted:
            unit, at = request
            here, there = source.get(request), target.get(request)
            if _failed(here or ()) or _failed(there or ()):
                timelines[unit] = replace(timelines[unit], given_up=True)
                continue
            left = _place(unit.source, here, True) if here else _Place(unit.source_offsets, None)
            right = (
                _place(unit.target, there, False) if there else _Place(unit.target_offsets, None)
            )
            cut = Cut(at, left.before, right.before, left.first, right.first)
            timelines[unit] = timelines[unit].with_cut(cut)

    def _ask(
        self, ours: Sequence[Request], theirs: Sequence[Request]
    ) -> tuple[list[Answers], list[Answers]]:
        """The answers for all logs of each unit, of both sides; the clusters work at once."""
        here = [unit.source for unit, _ in ours]
        there = [unit.target for unit, _ in theirs]
        asked = (
            self.source.look_up(_questions(here, ours)),
            self.target.look_up(_questions(there, theirs)),
        )
        return _grouped(here, asked[0]()), _grouped(there, asked[1]())


def _questions(
    sides: Sequence[Sequence[Log]], requests: Sequence[Request]
) -> list[tuple[TopicPartition, int]]:
    pairs = zip(sides, requests, strict=True)
    return [(log.partition, when) for logs, (_, when) in pairs for log in logs]


def _grouped(sides: Sequence[Sequence[Log]], answers: Sequence[Answer]) -> list[Answers]:
    left = iter(answers)
    return [tuple(islice(left, len(logs))) for logs in sides]


def _needs_first(unit: Unit, newest: Newest) -> bool:
    deleted = unit.deleted_on_source or unit.deleted_on_target
    return bool(deleted) or not unit.target or newest[0] == newest[1]


def _timeline(unit: Unit, newest: Newest, ours: Answers = (), theirs: Answers = ()) -> Timeline:
    first = second = None
    if ours or theirs:
        first = _place(unit.source, ours, True).first
        second = _place(unit.target, theirs, False).first
    last = max(*newest, *(at for at in (first, second) if at is not None), 0) + 1
    return Timeline(
        (
            Cut(BEFORE_ALL, 0, 0, first, second),
            Cut(last, unit.source_offsets, unit.target_offsets),
        ),
        _begins(unit, ours, theirs) if ours or theirs else None,
        *newest,
    )


def _affordable(timelines: Mapping[Unit, Timeline], left: int, every: bool) -> Iterable[Request]:
    """What to ask next: of all in the first round, then of those that lack most."""
    spent, limit = 0, left if every else left // 4
    asked = ((unit, line, line.next_cuts()) for unit, line in timelines.items())
    waiting = [item for item in asked if item[2]]
    waiting.sort(key=lambda item: -abs(item[1].excess))
    for unit, _, cuts in waiting:
        cost = len(cuts) * _cost(unit)
        if spent + cost <= limit:
            spent += cost
            yield from ((unit, at) for at in cuts)


def _cost(unit: Unit) -> int:
    return max(len(unit.source), len(unit.target))


def _failed(answers: Sequence[Answer]) -> bool:
    return any(isinstance(answer, Unavailable) for answer in answers)


def _largest(answers: Sequence[Answer]) -> int:
    return max((a.timestamp_ms for a in answers if isinstance(a, Found)), default=BEFORE_ALL)


def _place(logs: Sequence[Log], answers: Sequence[Answer], stable: bool) -> _Place:
    """Within the logs as they were when they were first looked at."""
    before, firsts = 0, []
    for log, answer in zip(logs, answers, strict=True):
        assert isinstance(answer, Found)
        end = log.last if stable else log.end
        if 0 <= answer.offset < end:
            before += max(0, answer.offset - log.start)
            firsts.append(answer.timestamp_ms)
        else:
            before += end - log.start
    return _Place(before, min(firsts, default=None))


def _begins(unit: Unit, ours: Sequence[Answer], theirs: Sequence[Answer]) -> int | None:
    """A time from which on no side has deleted anything.

    Late records of the logs' first moments may be on one side only.
    """
    oldest = [
        answer.timestamp_ms + CLOCK_SLACK_MS if answer.offset >= 0 else _NEVER
        for log, answer in zip((*unit.source, *unit.target), (*ours, *theirs), strict=True)
        if log.start > 0 and isinstance(answer, Found)
    ]
    return max(oldest, default=None)
