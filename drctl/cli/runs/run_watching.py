"""Tells how a run comes along: drawn on a terminal, elsewhere a line for each event."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from drctl.cli.console import console
from drctl.cli.runs import live_screen
from drctl.cli.terminal import one_line
from drctl.engine.kind import Kind
from drctl.engine.registry import KINDS
from drctl.model.plan import Plan

if TYPE_CHECKING:
    from drctl.engine.ports import Clock, Watcher
    from drctl.model.journal import Entry, HeldJournal

_EVERY_S = 5.0


@dataclass(slots=True)
class Lines:
    """Implements `drctl.engine.ports.Watcher`."""

    plan: Plan
    kinds: Mapping[str, Kind]
    _told: float = field(default=0.0, init=False)

    def step(self, identity: str, number: int, total: int) -> None:
        """A step begins."""
        self._told = time.monotonic()
        step = self.plan.step(identity)
        title = self.kinds[step.kind].describe(step.settings).title
        console().progress(f"[{number}/{total}] {one_line(title)}")

    def waiting(self, identity: str, words: str, left_s: float) -> None:
        """Its proof is not there yet; not told more often than a person reads."""
        if time.monotonic() - self._told >= _EVERY_S:
            self._told = time.monotonic()
            console().progress(f"      {one_line(words)} ({left_s:.0f} s left)")

    def ended(self, identity: str, words: str, figures: Mapping[str, float]) -> None:
        """It came to an end."""
        console().progress(f"      {one_line(words)} ({figures['seconds']:.1f} s)")


@dataclass(frozen=True, slots=True)
class Watched:
    """What the engine is to tell of, and to write to."""

    watcher: "Watcher"
    journal: "HeldJournal"


@contextmanager
def watched(
    plan: Plan, journal: "HeldJournal", clock: "Clock", entries: "Sequence[Entry]" = ()
) -> Iterator[Watched]:
    """Show a run while the block carries it out.

    Args:
        entries: what its journal says already, where it is gone on with.
    """
    if not live_screen.wanted():
        yield Watched(Lines(plan, KINDS), journal)
        return
    from drctl.cli.runs.live_course import LiveCourse, Overheard
    from drctl.cli.runs.live_picture import Picture

    course = LiveCourse(plan, KINDS, journal.run, clock.monotonic, entries)

    def draw() -> Picture:
        return Picture(course.snapshot, clock.monotonic(), stopping=clock.stopping)

    with live_screen.shown(draw, course.noted):
        yield Watched(course, Overheard(journal, course.heard))
