"""Which records were decided on and stay missing: a few numbers for very many of them."""

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

Run = tuple[int, int]
"""First and last of consecutive offsets; both belong to it."""

MOST_RUNS = 2_000
"""That are kept with the progress of a lane: some 40 KB."""


class Left(NamedTuple):
    """Records of one partition of the source.

    Attributes:
        runs: their offsets, ascending.
        newest_ms: the newest timestamp of theirs: what is newer at such an offset is another
            record, of a log that was cut and went on.
    """

    runs: tuple[Run, ...]
    newest_ms: int

    def holds(self, offset: int, timestamp_ms: int) -> bool:
        """Whether a record is one of these."""
        return timestamp_ms <= self.newest_ms and self.among(offset)

    def among(self, offset: int) -> bool:
        """Whether one of these has this offset."""
        at = bisect_right(self.runs, offset, key=lambda run: run[0]) - 1
        return at >= 0 and offset <= self.runs[at][1]


@dataclass(slots=True)
class LeftBuilder:
    """Takes records in ascending order, as far as few runs hold them."""

    _runs: list[Run] = field(default_factory=list)
    _newest_ms: int = -1

    def add(self, offset: int, timestamp_ms: int) -> None:
        """One more, behind those before."""
        self._newest_ms = max(self._newest_ms, timestamp_ms)
        if self._runs and self._runs[-1][1] == offset - 1:
            self._runs[-1] = (self._runs[-1][0], offset)
        elif len(self._runs) <= MOST_RUNS:
            self._runs.append((offset, offset))

    @property
    def left(self) -> Left | None:
        """All of them; None where their runs are too many."""
        return Left(tuple(self._runs), self._newest_ms) if len(self._runs) <= MOST_RUNS else None


def joined(these: Left | None, behind: Left | None) -> Left | None:
    """Both; None where one is not known, or their runs are too many together."""
    if these is None or behind is None:
        return None
    first, second = list(these.runs), list(behind.runs)
    if first and second and first[-1][1] == second[0][0] - 1:
        second[0] = (first.pop()[0], second[0][1])
    runs = (*first, *second)
    newest_ms = max(these.newest_ms, behind.newest_ms)
    return Left(runs, newest_ms) if len(runs) <= MOST_RUNS else None
