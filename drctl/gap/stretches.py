"""How many offsets each side has, stretch of time by stretch of time, from look-ups alone.

A look-up finds the first record that is at or after a time. All before it is older, all behind
it may be anything where clocks are out of order: a stretch holds what stands between two such
places, and for one log and a part of it the places are the same.
"""

from bisect import bisect_left
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

BEFORE_ALL = -1
"""The time of the first cut: before every record, also those that have no time."""


class Cut(NamedTuple):
    """A time, and what stands before the place to which it leads on each side.

    Attributes:
        source_first: timestamp of the source's first record behind it; None where there is none.
    """

    at: int
    source: int
    target: int
    source_first: int | None = None
    target_first: int | None = None


class Piece(NamedTuple):
    """What stands between two cuts. Differences are made once: there are many pieces.

    Attributes:
        source: offsets of the source.
        target: offsets of the target.
        excess: how many more the source has.
    """

    left: Cut
    right: Cut
    source: int
    target: int
    excess: int

    @classmethod
    def between(cls, left: Cut, right: Cut) -> "Piece":
        """What stands between these."""
        source, target = right.source - left.source, right.target - left.target
        return cls(left, right, source, target, source - target)

    @property
    def narrow(self) -> bool:
        """Whether no time is left between its ends."""
        return self.right.at - self.low <= 1

    @property
    def settled(self) -> bool:
        """Whether a cut in it would tell nothing more."""
        return self.excess == 0 or self.source == 0 or self.target == 0 or self.narrow

    @property
    def middle(self) -> int:
        """Where to cut it."""
        return max(self.low + 1, (self.low + self.right.at) // 2)

    @property
    def low(self) -> int:
        """The time of its first record; its beginning where it has none."""
        ours, theirs = self.left.source_first, self.left.target_first
        if ours is None:
            first = self.left.at if theirs is None else theirs
        else:
            first = ours if theirs is None else min(ours, theirs)
        return max(self.left.at, min(first, self.right.at))


@dataclass(frozen=True, slots=True)
class Timeline:
    """Both sides of one partition, cut at some times.

    Attributes:
        cuts: ascending; the first is before all, the last behind all.
        begins: from here on neither side has deleted anything; None where nothing was deleted.
        newest_source: no record of the source is younger than this.
        given_up: whether a look-up failed, so that no more are made.
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
        """Pieces of the time that a side has deleted records of, if only of their beginning."""
        if self.begins is None:
            return []
        return [piece for piece in self._pieces() if piece.left.at < self.begins]

    def body(self) -> list[Piece]:
        """All other pieces."""
        pieces = self._pieces()
        return [p for p in pieces if p.left.at >= self.begins] if self.begins else pieces

    def with_cut(self, cut: Cut) -> "Timeline":
        """The same, cut once more; a log that lost its head meanwhile makes no negative counts."""
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
        """Where to look now: the first stretch that is not settled, and the one that hides most."""
        if self.given_up:
            return ()
        if len(self.cuts) == 2 and (hints := self._hints()):
            return hints
        open_ones = [piece for piece in self.body() if not piece.settled]
        if not open_ones:
            return ()
        if self.cuts[0].source_first is None and self.cuts[1].at:
            return (0,)  # how far the bisection has to go back is not known yet
        first = next((p for p in open_ones if p.excess > 0), open_ones[0])
        widest = max(open_ones, key=lambda piece: min(piece.source, piece.target))
        return tuple(dict.fromkeys((self._place_in(first), self._place_in(widest))))

    def _hints(self) -> tuple[int, ...]:
        """Where replication stopped if it just stopped; where the target goes on by itself."""
        hints = [] if self.begins is None else [self.begins]
        older = min(self.newest_source, self.newest_target)
        if self.newest_source != self.newest_target and older >= 0:
            hints.append(older + 1)
        return tuple(at for at in hints if self.cuts[0].at < at < self.cuts[-1].at)

    def _place_in(self, piece: Piece) -> int:
        # The last millisecond of the target is often cut through.
        last = self.newest_target
        if piece.right.at == last + 1 and piece.left.at < last:
            return last
        return piece.middle

    def _pieces(self) -> list[Piece]:
        return [Piece.between(*pair) for pair in pairwise(self.cuts)]
