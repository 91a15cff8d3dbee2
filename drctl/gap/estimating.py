"""Estimates missing records (at least, about, at most) from offset counts in time ranges.

The assumption behind the numbers is `drctl.model.estimate.ASSUMED`. Other reasons why they may be
wrong are reported as uncertainty, and bounds that would be wrong are relaxed.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from typing import NamedTuple

from drctl.gap.comparison import Progress
from drctl.model.estimate import Missing, PartitionEstimate, TimeRange, Uncertainty
from drctl.model.ports import OffsetReader
from drctl.model.topology import Found, Mark, OffsetRange, TopicPartition, Unavailable

BEFORE_ALL = -1
"""Time of the first cut: before every record, including those without a timestamp."""


class Cut(NamedTuple):
    """A time, and the number of offsets before it on each cluster.

    Attributes:
        source_first: timestamp of the first source record after this time; None if there is none.
    """

    at: int
    source: int
    target: int
    source_first: int | None = None
    target_first: int | None = None


class Piece(NamedTuple):
    """The offsets between two cuts, with precomputed differences.

    Attributes:
        source: number of offsets on the source.
        target: number of offsets on the target.
        excess: how many more the source has.
    """

    left: Cut
    right: Cut
    source: int
    target: int
    excess: int

    @classmethod
    def between(cls, left: Cut, right: Cut) -> "Piece":
        """Build the piece between two cuts."""
        source, target = right.source - left.source, right.target - left.target
        return cls(left, right, source, target, source - target)

    @property
    def narrow(self) -> bool:
        """Whether the time range cannot be divided further."""
        return self.right.at - self.low <= 1

    @property
    def settled(self) -> bool:
        """Whether another cut would give no more information."""
        return self.excess == 0 or self.source == 0 or self.target == 0 or self.narrow

    @property
    def middle(self) -> int:
        """The time of the next cut."""
        return max(self.low + 1, (self.low + self.right.at) // 2)

    @property
    def low(self) -> int:
        """The time of the first record in the piece; the start of the piece if it has none."""
        ours, theirs = self.left.source_first, self.left.target_first
        if ours is None:
            first = self.left.at if theirs is None else theirs
        else:
            first = ours if theirs is None else min(ours, theirs)
        return max(self.left.at, min(first, self.right.at))


@dataclass(frozen=True, slots=True)
class Timeline:
    """A partition on both clusters, divided at some times.

    Attributes:
        cuts: ascending; the first is before all records, the last after all.
        begins: from here on neither cluster has deleted records; None if nothing was deleted.
        newest_source: timestamp of the newest source record.
        given_up: whether a lookup failed, so that no more are made.
    """

    cuts: tuple[Cut, ...]
    begins: int | None = None
    newest_source: int = BEFORE_ALL
    newest_target: int = BEFORE_ALL
    given_up: bool = False

    @property
    def excess(self) -> int:
        """How many more offsets the source has."""
        return Piece.between(self.cuts[0], self.cuts[-1]).excess

    def head(self) -> list[Piece]:
        """Return pieces of which a cluster may have deleted records."""
        if self.begins is None:
            return []
        return [piece for piece in self._pieces() if piece.left.at < self.begins]

    def body(self) -> list[Piece]:
        """Return all other pieces."""
        pieces = self._pieces()
        return [p for p in pieces if p.left.at >= self.begins] if self.begins else pieces

    def with_cut(self, cut: Cut) -> "Timeline":
        """Add a cut; counts never become negative, even if a log start moved."""
        times = [known.at for known in self.cuts]
        place = bisect_left(times, cut.at)
        if times[place] == cut.at:
            return self
        left, right = self.cuts[place - 1], self.cuts[place]
        fitted = cut._replace(
            source=min(max(cut.source, left.source), right.source),
            target=min(max(cut.target, left.target), right.target),
        )
        return replace(self, cuts=(*self.cuts[:place], fitted, *self.cuts[place:]))

    def next_cuts(self) -> tuple[int, ...]:
        """Return the next times to look up: in the first open piece, and in the largest one."""
        if self.given_up:
            return ()
        if len(self.cuts) == 2 and (hints := self._hints()):
            return hints
        open_ones = [piece for piece in self.body() if not piece.settled]
        if not open_ones:
            return ()
        if self.cuts[0].source_first is None and self.cuts[1].at:
            return (0,)  # unknown yet how far back the bisection has to go
        first = next((p for p in open_ones if p.excess > 0), open_ones[0])
        widest = max(open_ones, key=lambda piece: min(piece.source, piece.target))
        return tuple(dict.fromkeys((self._place_in(first), self._place_in(widest))))

    def _hints(self) -> tuple[int, ...]:
        """Return likely times: where replication stopped, or where the target diverged."""
        hints = [] if self.begins is None else [self.begins]
        older = min(self.newest_source, self.newest_target)
        if self.newest_source != self.newest_target and older >= 0:
            hints.append(older + 1)
        return tuple(at for at in hints if self.cuts[0].at < at < self.cuts[-1].at)

    def _place_in(self, piece: Piece) -> int:
        # The last millisecond of the target is often incomplete.
        last = self.newest_target
        if piece.right.at == last + 1 and piece.left.at < last:
            return last
        return piece.middle

    def _pieces(self) -> list[Piece]:
        return [Piece.between(*pair) for pair in pairwise(self.cuts)]


CLOCK_SLACK_MS = 5_000
"""An excess on one cluster and an excess on the other this close in time may be the same records,
out of order: `at least` counts only the difference."""

CROWD = 1_000
"""More offsets in one millisecond of a partition indicate timestamps that are out of order."""

TIME_RANGES_SHOWN = 20
"""Maximum number of time ranges that the result has of one partition."""

SPREAD = 0.25
"""If each half of the replicated records has at least this share of the excess, control records of
transactions are more likely than losses, which come in bursts."""


class Log(NamedTuple):
    """A partition on one cluster.

    Attributes:
        last: the last stable offset.
    """

    partition: TopicPartition
    start: int
    last: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """A unit of comparison, with precomputed sums; hashed by identity.

    Attributes:
        partition: None if all partitions of a topic are compared together.
        source_offsets: offsets up to the last stable offset.
        target_offsets: all offsets up to the end.
        deleted_on_source: offsets before the log start.
        open_on_source: offsets after the last stable offset.
    """

    topic: str
    partition: int | None
    source: tuple[Log, ...]
    target: tuple[Log, ...]
    source_offsets: int = field(init=False)
    target_offsets: int = field(init=False)
    deleted_on_source: int = field(init=False)
    deleted_on_target: int = field(init=False)
    open_on_source: int = field(init=False)
    open_on_target: int = field(init=False)

    def __post_init__(self) -> None:
        """Compute the sums."""
        put = object.__setattr__
        put(self, "source_offsets", sum(log.last - log.start for log in self.source))
        put(self, "target_offsets", sum(log.end - log.start for log in self.target))
        put(self, "deleted_on_source", sum(log.start for log in self.source))
        put(self, "deleted_on_target", sum(log.start for log in self.target))
        put(self, "open_on_source", sum(log.end - log.last for log in self.source))
        put(self, "open_on_target", sum(log.end - log.last for log in self.target))


@dataclass(frozen=True, slots=True)
class Terms:
    """Conditions for comparing a topic.

    Attributes:
        timed: whether records have the same timestamps on both clusters.
        compacted: whether cleanup.policy contains `compact` on either cluster.
        source_compacted: whether cleanup.policy contains `compact` on the source.
        known: whether both configurations are readable.
        transactions: whether transactions may have been used on the source.
    """

    timed: bool = True
    compacted: bool = False
    source_compacted: bool = False
    known: bool = True
    transactions: bool = False
    target_transactions: bool = False

    @property
    def exact(self) -> bool:
        """Whether every offset of the source is a record."""
        return self.known and not self.source_compacted and not self.transactions


class _Found(NamedTuple):
    """The result of counting."""

    missing: Missing = Missing()
    ahead: int = 0
    diverges_from: int | None = None
    stopped_at: int | None = None
    time_ranges: tuple[TimeRange, ...] = ()
    doubts: frozenset[Uncertainty] = frozenset()


class _Seen(NamedTuple):
    """The pieces of a timeline, by kind.

    Attributes:
        head: pieces in which a cluster has deleted records.
        differing: pieces of the body that differ.
        tail: last pieces of the body, without offsets on the target.
        blurred: pieces of the head that extend into the body.
    """

    head: Sequence[Piece]
    body: Sequence[Piece]
    differing: Sequence[Piece]
    tail: Sequence[Piece]
    blurred: Sequence[Piece]

    @property
    def replicated(self) -> Sequence[Piece]:
        """The body without its tail."""
        return self.body[: len(self.body) - len(self.tail)]

    @property
    def spread(self) -> bool:
        """Whether the excess of the source is spread over the whole time range."""
        half = sum(piece.source for piece in self.replicated) / 2
        begin, shares = 0, [0.0, 0.0]
        for piece in self.replicated:
            inside = min(1.0, max(0.0, (half - begin) / max(1, piece.source)))
            begin += piece.source
            shares[0] += max(0, piece.excess) * inside
            shares[1] += max(0, piece.excess) * (1 - inside)
        return min(shares) >= SPREAD * sum(shares) > SPREAD

    @property
    def doubts(self) -> frozenset[Uncertainty]:
        """Uncertainties that the lookups could not resolve."""
        crowded = any(map(_crowded, self.differing))
        coarse = bool(self.blurred) or not all(piece.settled for piece in self.differing)
        found = [Uncertainty.CLOCKS_OUT_OF_ORDER] * crowded + [Uncertainty.COARSE] * coarse
        return frozenset(found)


def judge(unit: Unit, terms: Terms, timeline: Timeline | None) -> PartitionEstimate:
    """Estimate what is missing in a unit; without a timeline, from totals only."""
    found = _by_totals(unit) if timeline is None else _by_time(unit, terms, timeline)
    missing = found.missing
    if not terms.exact:
        missing = Missing(0, missing.estimate, missing.at_most)
    ahead = [Uncertainty.AHEAD_ON_TARGET] if found.ahead else []
    whole = unit.partition is None
    return PartitionEstimate(
        partition=unit.partition,
        source_range=None if whole else _range(unit.source),
        target_range=None if whole else _range(unit.target),
        source_offsets=unit.source_offsets,
        target_offsets=unit.target_offsets,
        missing=missing,
        ahead_on_target=found.ahead,
        undecided=unit.open_on_source,
        diverges_from=found.diverges_from,
        stopped_at=found.stopped_at,
        time_ranges=found.time_ranges,
        uncertainty=tuple(sorted({*found.doubts, *ahead, *_doubts(unit, terms)})),
    )


def _by_totals(unit: Unit) -> _Found:
    source, target = unit.source_offsets, unit.target_offsets
    at_most = unit.open_on_target if source == target else source
    missing = Missing(_never_written(unit), max(0, source - target), at_most)
    return _Found(missing, 0 if unit.deleted_on_source else max(0, target - source))


def _by_time(unit: Unit, terms: Terms, timeline: Timeline) -> _Found:
    seen = _seen(timeline)
    groups = _groups(seen.differing)
    by_tail = terms.compacted or (terms.transactions and seen.spread)
    stopped = begins = next((_begin_of(piece) for piece in seen.tail if piece.source), None)
    if not by_tail:
        begin = next((p for g in groups if _excess(g) > 0 for p in g if p.excess > 0), None)
        begin = begin or next((p for p in seen.differing if p.excess > 0), None)
        begins = None if begin is None or _crowded(begin) else _begin_of(begin)
    return _Found(
        _missing_of_tail(unit, terms, seen) if by_tail else _missing(unit, terms, seen, groups),
        sum(max(0, -piece.excess) for piece in seen.differing),
        begins,
        stopped,
        tuple(
            TimeRange(
                piece.left.at if piece.left.at > 0 else None,
                None if piece.right is timeline.cuts[-1] else piece.right.at,
                piece.source,
                piece.target,
            )
            for piece in seen.differing[:TIME_RANGES_SHOWN]
        ),
        seen.doubts,
    )


def _seen(timeline: Timeline) -> _Seen:
    head, body = timeline.head(), timeline.body()
    kept = len(body)
    while kept and body[kept - 1].target == 0:
        kept -= 1
    differing = [piece for piece in body if piece.excess]
    blurred = [p for p in head if p.excess and p.right.at > (timeline.begins or 0)]
    return _Seen(head, body, differing, body[kept:], blurred)


def _missing(unit: Unit, terms: Terms, seen: _Seen, groups: Sequence[Sequence[Piece]]) -> Missing:
    never_held = max(0, _excess(seen.head) - unit.deleted_on_target)
    excesses = [_excess(group) for group in groups]
    together = sum(max(0, excess) for excess in excesses)
    apart = sum(max(0, piece.excess) for piece in seen.differing)
    return Missing(
        max(_never_written(unit), _not_copied_late([never_held, *excesses])),
        # Control records have the time of the commit, and older records may follow them.
        never_held + (together if terms.transactions else apart),
        _at_most(unit, seen, never_held),
    )


def _not_copied_late(excesses: Sequence[int]) -> int:
    """Sum up excesses of the source, without those that later excesses of the target may explain.

    A record that is copied late follows newer ones, and is counted with them.
    """
    missing = late = 0
    for excess in reversed(excesses):
        missing += max(0, excess - late)
        late = max(0, late - excess)
    return missing


def _missing_of_tail(unit: Unit, terms: Terms, seen: _Seen) -> Missing:
    """Estimate only from records newer than everything on the target."""
    share = 1.0
    if not terms.compacted:
        written = sum(piece.source for piece in seen.replicated)
        share = min(1.0, sum(piece.target for piece in seen.replicated) / max(1, written))
    at_least = _never_written(unit) if terms.exact else 0
    estimate = max(at_least, int(share * sum(piece.source for piece in seen.tail)))
    never_held = max(0, _excess(seen.head) - unit.deleted_on_target)
    return Missing(at_least, estimate, max(estimate, _at_most(unit, seen, never_held)))


def _at_most(unit: Unit, seen: _Seen, never_held: int) -> int:
    """Return all offsets in time ranges that differ, and those of open transactions."""
    old = sum(piece.source for piece in seen.head) - unit.deleted_on_target if never_held else 0
    blurred = sum(piece.source for piece in seen.blurred)
    return max(old, blurred) + sum(p.source for p in seen.differing) + unit.open_on_target


def _never_written(unit: Unit) -> int:
    """Return how many more offsets the source has than were ever written to the target."""
    return max(0, unit.source_offsets - unit.target_offsets - unit.deleted_on_target)


def _groups(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Group differing pieces that are close to each other in time."""
    groups: list[list[Piece]] = []
    for piece in pieces:
        if groups and piece.low - groups[-1][-1].right.at < CLOCK_SLACK_MS:
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return groups


def _excess(pieces: Sequence[Piece]) -> int:
    return sum(piece.excess for piece in pieces)


def _begin_of(piece: Piece) -> int:
    """Return the timestamp of the first source record in a piece, if known."""
    first = piece.left.source_first
    return max(piece.left.at, 0) if first is None else max(first, piece.left.at)


def _crowded(piece: Piece) -> bool:
    return (piece.source > CROWD or piece.target > CROWD) and piece.narrow


def _doubts(unit: Unit, terms: Terms) -> list[Uncertainty]:
    conditions = (
        (Uncertainty.TRANSACTIONS, terms.transactions and unit.source),
        (Uncertainty.TRANSACTIONS_ON_TARGET, terms.target_transactions and unit.target),
        (Uncertainty.OPEN_TRANSACTION, unit.open_on_source),
        (Uncertainty.OPEN_TRANSACTION_ON_TARGET, unit.open_on_target),
        (Uncertainty.COMPACTED, terms.compacted),
        (Uncertainty.TIMES_NOT_COMPARABLE, not terms.timed),
        (Uncertainty.DELETED_ON_SOURCE, unit.deleted_on_source),
        (Uncertainty.DELETED_ON_TARGET, unit.deleted_on_target),
        (Uncertainty.CONFIGURATION_UNKNOWN, not terms.known),
        (Uncertainty.NOT_ON_TARGET, unit.source and not unit.target),
        (Uncertainty.WHOLE_TOPIC, unit.partition is None),
    )
    return [doubt for doubt, holds in conditions if holds]


def _range(logs: Sequence[Log]) -> OffsetRange | None:
    return OffsetRange(logs[0].start, logs[0].end) if logs else None


LOOK_UPS = 30_000
"""Maximum number of lookups per cluster."""

ROUNDS = 100
"""Maximum number of lookup rounds; 2**42 ms are more than a century."""

_NEVER = 1 << 62
_NONE = (BEFORE_ALL, BEFORE_ALL)

Answer = Found | Unavailable
Answers = Sequence[Answer]
Newest = tuple[int, int]
"""The largest timestamps on the source and on the target."""
Request = tuple[Unit, int]
"""A unit, and what to look up in all its logs: a time, or a `Mark`."""


class _Place(NamedTuple):
    """The result of looking up a time in all logs of a unit on one cluster.

    Attributes:
        before: number of offsets before the time.
        first: smallest timestamp found; None if none.
    """

    before: int
    first: int | None


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Narrows down when units differ.

    Attributes:
        look_ups: maximum number of lookups per cluster.
    """

    source: OffsetReader
    target: OffsetReader
    progress: Progress
    look_ups: int = LOOK_UPS

    def differing(self, units: Sequence[Unit], timed: bool) -> Mapping[Unit, Newest | None]:
        """Return units with different totals or newest records, and their newest timestamps.

        Args:
            timed: whether records may have the same timestamps on both clusters.

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
        """Return a timeline for each unit, if lookups are useful.

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
        """Return the largest timestamp on each cluster; omitted if one is unknown."""
        wanted = [(unit, int(Mark.NEWEST)) for unit in units]
        return {
            unit: (_largest(ours), _largest(theirs))
            for unit, ours, theirs in zip(units, *self._ask(wanted, wanted), strict=True)
            if not _failed(ours) and not _failed(theirs)
        }

    def _begun(self, units: Mapping[Unit, Newest | None]) -> dict[Unit, Timeline]:
        """Return initial timelines.

        The first record is not needed if replication may just have stopped.
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
        """Look up the wanted times; times after the newest record need no lookup."""
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
        """Look up all logs of each unit on both clusters in parallel."""
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
        (Cut(BEFORE_ALL, 0, 0, first, second), Cut(last, unit.source_offsets, unit.target_offsets)),
        _begins(unit, ours, theirs) if ours or theirs else None,
        *newest,
    )


def _affordable(timelines: Mapping[Unit, Timeline], left: int, every: bool) -> Iterable[Request]:
    """Return the next lookups: all units in the first round, then those with the largest gap."""
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
    """Sum up answers, limited to the offsets that were read first."""
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
    """Return the time from which on neither cluster has deleted records.

    Late records near the start of the logs may be on one cluster only.
    """
    oldest = [
        answer.timestamp_ms + CLOCK_SLACK_MS if answer.offset >= 0 else _NEVER
        for log, answer in zip((*unit.source, *unit.target), (*ours, *theirs), strict=True)
        if log.start > 0 and isinstance(answer, Found)
    ]
    return max(oldest, default=None)
