"""From counts in stretches of time to what is missing at least, about, and at most.

What the three numbers rest on is `drctl.model.estimate.ASSUMED`; all else that may be wrong with
them is a doubt, and where a doubt would make a bound wrong the bound gives way.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from drctl.gap.stretches import Piece, Timeline
from drctl.model.estimate import Doubt, Missing, PartitionEstimate, Stretch
from drctl.model.topology import OffsetRange, TopicPartition

CLOCK_SLACK_MS = 5_000
"""More on one side and more on the other this near to each other may be the same records, out
of order: `at least` counts only what is left of the two."""

CROWD = 1_000
"""Offsets in one millisecond of one partition that no clock in order would give."""

STRETCHES_TOLD = 20
"""Stretches that the result has of one partition."""

SPREAD = 0.25
"""Where each half of the replicated records has this share of what the source has more, control
records of transactions are the likelier reason than losses, which come in bursts."""


class Log(NamedTuple):
    """One partition of one side.

    Attributes:
        last: the last stable offset.
    """

    partition: TopicPartition
    start: int
    last: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """What is compared with what; a key, by its identity. Sums are made once: there are many.

    Attributes:
        partition: None where all partitions of a topic are compared with all.
        source_offsets: those whose transactions have ended.
        target_offsets: all that may be records.
        deleted_on_source: offsets before the log starts.
        open_on_source: offsets behind the last stable ones.
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
        """Add up."""
        put = object.__setattr__
        put(self, "source_offsets", sum(log.last - log.start for log in self.source))
        put(self, "target_offsets", sum(log.end - log.start for log in self.target))
        put(self, "deleted_on_source", sum(log.start for log in self.source))
        put(self, "deleted_on_target", sum(log.start for log in self.target))
        put(self, "open_on_source", sum(log.end - log.last for log in self.source))
        put(self, "open_on_target", sum(log.end - log.last for log in self.target))


@dataclass(frozen=True, slots=True)
class Terms:
    """What is known of a topic before its offsets are looked at.

    Attributes:
        timed: whether records have the same timestamps on both sides.
        compacted: whether a side's cleanup.policy contains `compact`.
        source_compacted: whether the source's does.
        known: whether both configurations could be read.
        transactions: whether the source cluster has ever run any, or may have.
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
    """What counting gave."""

    missing: Missing = Missing()
    ahead: int = 0
    diverges_from: int | None = None
    stopped_at: int | None = None
    stretches: tuple[Stretch, ...] = ()
    doubts: frozenset[Doubt] = frozenset()


class _Seen(NamedTuple):
    """A timeline, sorted by what it says.

    Attributes:
        head: pieces in which a side has deleted something.
        differing: those of the body.
        tail: the last pieces of the body, of which the target has nothing.
        blurred: those of the head that reach into the time after it.
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
        """Whether what the source has more is in all of its time rather than in one place."""
        half = sum(piece.source for piece in self.replicated) / 2
        begin, shares = 0, [0.0, 0.0]
        for piece in self.replicated:
            inside = min(1.0, max(0.0, (half - begin) / max(1, piece.source)))
            begin += piece.source
            shares[0] += max(0, piece.excess) * inside
            shares[1] += max(0, piece.excess) * (1 - inside)
        return min(shares) >= SPREAD * sum(shares) > SPREAD

    @property
    def doubts(self) -> frozenset[Doubt]:
        """What look-ups could not tell."""
        crowded = any(map(_crowded, self.differing))
        coarse = bool(self.blurred) or not all(piece.settled for piece in self.differing)
        found = [Doubt.CLOCKS_OUT_OF_ORDER] * crowded + [Doubt.COARSE] * coarse
        return frozenset(found)


def judge(unit: Unit, terms: Terms, timeline: Timeline | None) -> PartitionEstimate:
    """What is missing of a unit; without a timeline, from its totals."""
    found = _by_totals(unit) if timeline is None else _by_stretches(unit, terms, timeline)
    missing = found.missing
    if not terms.exact:
        missing = Missing(0, missing.estimate, missing.at_most)
    ahead = [Doubt.AHEAD_ON_TARGET] if found.ahead else []
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
        stretches=found.stretches,
        uncertainty=tuple(sorted({*found.doubts, *ahead, *_doubts(unit, terms)})),
    )


def _by_totals(unit: Unit) -> _Found:
    source, target = unit.source_offsets, unit.target_offsets
    at_most = unit.open_on_target if source == target else source
    missing = Missing(_never_written(unit), max(0, source - target), at_most)
    return _Found(missing, 0 if unit.deleted_on_source else max(0, target - source))


def _by_stretches(unit: Unit, terms: Terms, timeline: Timeline) -> _Found:
    seen = _seen(timeline)
    groups = _groups(seen.differing)
    by_tail = terms.compacted or (terms.transactions and seen.spread)
    stopped = begins = _first_time(seen.tail)
    if not by_tail:
        begin = next((p for g in groups if _excess(g) > 0 for p in g if p.excess > 0), None)
        begin = begin or next((p for p in seen.differing if p.excess > 0), None)
        begins = None if begin is None or _crowded(begin) else _begin_of(begin)
    return _Found(
        _missing_of_tail(unit, terms, seen) if by_tail else _missing(unit, terms, seen, groups),
        sum(max(0, -piece.excess) for piece in seen.differing),
        begins,
        stopped,
        tuple(_told(seen.differing, timeline)),
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
    together = sum(max(0, _excess(group)) for group in groups)
    apart = sum(max(0, piece.excess) for piece in seen.differing)
    return Missing(
        max(_never_written(unit), never_held + together),
        # Control records carry the time of the commit, and draw what is older behind it.
        never_held + (together if terms.transactions else apart),
        _at_most(unit, seen, never_held),
    )


def _missing_of_tail(unit: Unit, terms: Terms, seen: _Seen) -> Missing:
    """Where counts in time mean little: what is newer than everything on the target."""
    share = 1.0
    if not terms.compacted:
        written = sum(piece.source for piece in seen.replicated)
        share = min(1.0, sum(piece.target for piece in seen.replicated) / max(1, written))
    at_least = _never_written(unit) if terms.exact else 0
    estimate = max(at_least, int(share * sum(piece.source for piece in seen.tail)))
    never_held = max(0, _excess(seen.head) - unit.deleted_on_target)
    return Missing(at_least, estimate, max(estimate, _at_most(unit, seen, never_held)))


def _at_most(unit: Unit, seen: _Seen, never_held: int) -> int:
    """Everything in stretches that differ, and what an open transaction may take back."""
    old = sum(piece.source for piece in seen.head) - unit.deleted_on_target if never_held else 0
    blurred = sum(piece.source for piece in seen.blurred)
    return max(old, blurred) + sum(p.source for p in seen.differing) + unit.open_on_target


def _never_written(unit: Unit) -> int:
    """Records more than were ever written to the target, whatever became of them there."""
    return max(0, unit.source_offsets - unit.target_offsets - unit.deleted_on_target)


def _groups(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Pieces that differ, those near to each other in time together."""
    groups: list[list[Piece]] = []
    for piece in pieces:
        if groups and piece.low - groups[-1][-1].right.at < CLOCK_SLACK_MS:
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return groups


def _excess(pieces: Sequence[Piece]) -> int:
    return sum(piece.excess for piece in pieces)


def _first_time(pieces: Sequence[Piece]) -> int | None:
    return next((_begin_of(piece) for piece in pieces if piece.source), None)


def _begin_of(piece: Piece) -> int:
    """The source's first record in it, as far as it can be told."""
    first = piece.left.source_first
    return max(piece.left.at, 0) if first is None else max(first, piece.left.at)


def _crowded(piece: Piece) -> bool:
    return (piece.source > CROWD or piece.target > CROWD) and piece.narrow


def _doubts(unit: Unit, terms: Terms) -> list[Doubt]:
    conditions = (
        (Doubt.TRANSACTIONS, terms.transactions and unit.source),
        (Doubt.TRANSACTIONS_ON_TARGET, terms.target_transactions and unit.target),
        (Doubt.OPEN_TRANSACTION, unit.open_on_source),
        (Doubt.OPEN_TRANSACTION_ON_TARGET, unit.open_on_target),
        (Doubt.COMPACTED, terms.compacted),
        (Doubt.TIMES_NOT_COMPARABLE, not terms.timed),
        (Doubt.DELETED_ON_SOURCE, unit.deleted_on_source),
        (Doubt.DELETED_ON_TARGET, unit.deleted_on_target),
        (Doubt.CONFIGURATION_UNKNOWN, not terms.known),
        (Doubt.NOT_ON_TARGET, unit.source and not unit.target),
        (Doubt.WHOLE_TOPIC, unit.partition is None),
    )
    return [doubt for doubt, holds in conditions if holds]


def _range(logs: Sequence[Log]) -> OffsetRange | None:
    return OffsetRange(logs[0].start, logs[0].end) if logs else None


def _told(pieces: Sequence[Piece], timeline: Timeline) -> Iterator[Stretch]:
    for piece in pieces[:STRETCHES_TOLD]:
        yield Stretch(
            piece.left.at if piece.left.at > 0 else None,
            None if piece.right is timeline.cuts[-1] else piece.right.at,
            piece.source,
            piece.target,
        )
