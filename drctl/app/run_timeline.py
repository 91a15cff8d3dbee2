"""The progress of a run, for a live view.

The state of each step comes from the journal's entries, and what it waits for from the engine's
watcher. The thread that draws the view gets an immutable snapshot.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from drctl.engine.entries import What
from drctl.engine.kind import Kind
from drctl.engine.run_state import read_run
from drctl.model.journal import Entry, HeldJournal
from drctl.model.plan import Plan
from drctl.views.run_data import StepStatus
from drctl.views.run_reading import Track, course_of

_COUNT = re.compile(r"(\d{1,3}(?:,\d{3})+|\d+) (?=\w)")
"""Step kinds whose text starts with a count of what remains."""

_OVER = frozenset({What.DONE, What.FAILED, What.UNDONE, What.NOT_UNDONE})


class Line(NamedTuple):
    """A step of the plan.

    Attributes:
        spent: seconds of completed attempts; None if this process has not started it.
        since: when the current attempt started, by the monotonic clock; None if there is none.
        message: the last observation.
    """

    number: int
    id: str
    title: str
    status: StepStatus
    spent: float | None
    since: float | None
    message: str


@dataclass(frozen=True, slots=True)
class Wait:
    """A verification that is still waiting.

    Attributes:
        until: its deadline, by the monotonic clock.
        left: how much is missing; None if `message` does not begin with a number.
        most: the highest value of `left` so far, at the time `since`.
    """

    step: str
    message: str
    until: float
    left: int | None = None
    most: int = 0
    since: float = 0

    def seconds_left(self, now: float) -> float | None:
        """Seconds until nothing is missing, at the current rate; None if `left` does not fall."""
        done, passed = self.most - (self.left or 0), now - self.since
        if self.left is None or done <= 0 or passed <= 0:
            return None
        return self.left * passed / done


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The run at one moment.

    Attributes:
        current: the id of the current step; empty between steps.
        note: what the step is doing.
        rollback_reason: why effects are rolled back; empty if they are not.
        began: when this process started with the run, by the monotonic clock.
    """

    plan: Plan
    run: str
    began: float
    lines: tuple[Line, ...]
    current: str = ""
    wait: Wait | None = None
    note: str = ""
    rollback_reason: str = ""


@dataclass(slots=True)
class LiveTimeline:
    """Implements `drctl.engine.ports.Watcher`, and observes the journal's entries.

    Args:
        entries: the journal's entries so far, if the run is resumed.
    """

    plan: Plan
    kinds: Mapping[str, Kind]
    run: str
    monotonic: Callable[[], float]
    entries: Sequence[Entry] = ()
    snapshot: Snapshot = field(init=False)
    _spent: dict[str, float] = field(default_factory=dict, init=False)
    _since: dict[str, float] = field(default_factory=dict, init=False)
    _tracks: Mapping[str, Track] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Start with the entries so far."""
        self._read()
        reasons = (str(e["why"]) for e in self.entries if e["entry"] == What.ROLLING_BACK)
        self.snapshot = Snapshot(
            self.plan, self.run, self.monotonic(), self._lines(), rollback_reason=next(reasons, "")
        )

    def step(self, identity: str, number: int, total: int) -> None:
        """A step begins."""
        self._begin(identity)

    def waiting(self, identity: str, message: str, left_s: float) -> None:
        """A step's verification is still waiting."""
        now = self.monotonic()
        self._since.setdefault(identity, now)
        wait = Wait(identity, message, now + left_s, counted(message))
        self._show(identity, _falling(self.snapshot.wait, wait, now))

    def ended(self, identity: str, message: str, figures: Mapping[str, float]) -> None:
        """A step ended."""
        self._end(identity)

    def appended(self, entries: Sequence[Entry]) -> None:
        """Entries were appended to the journal."""
        self.entries = [*self.entries, *entries]
        self._read()
        for entry in entries:
            what, step = What(entry["entry"]), str(entry.get("step", ""))
            if what is What.ROLLING_BACK:
                self.snapshot = replace(self.snapshot, rollback_reason=str(entry["why"]))
            elif what is What.UNDOING:
                self._begin(step)
            elif what in _OVER:
                self._end(step)
        self.snapshot = replace(self.snapshot, lines=self._lines())

    def progressed(self, message: str) -> None:
        """A step reported its progress."""
        self.snapshot = replace(self.snapshot, note=message.strip())

    def _begin(self, step: str) -> None:
        for other in [*self._since]:
            self._stop(other)
        self._since[step] = self.monotonic()
        self._show(step, None)

    def _end(self, step: str) -> None:
        self._stop(step)
        self._show("", None)

    def _stop(self, step: str) -> None:
        since = self._since.pop(step, None)
        if since is not None:
            self._spent[step] = self._spent.get(step, 0) + self.monotonic() - since

    def _show(self, current: str, wait: Wait | None) -> None:
        """Replace the snapshot; assignment is atomic, so the drawing thread needs no lock."""
        note = self.snapshot.note if current == self.snapshot.current else ""
        self.snapshot = replace(
            self.snapshot, lines=self._lines(), current=current, wait=wait, note=note
        )

    def _read(self) -> None:
        """Update the state of each step, which waits do not change."""
        if self.entries:
            self._tracks = course_of(read_run(self.entries), self.kinds).tracks

    def _lines(self) -> tuple[Line, ...]:
        lines = []
        for number, step in enumerate(self.plan.steps, 1):
            track, since = self._tracks.get(step.id), self._since.get(step.id)
            spent = self._spent.get(step.id, None if since is None else 0.0)
            status = track.status if track else StepStatus.NOT_STARTED
            message = (track.rolled_back or track.message) if track else ""
            title = self.kinds[step.kind].describe(step.settings).title
            lines.append(Line(number, step.id, title, status, spent, since, message))
        return tuple(lines)


@dataclass(frozen=True, slots=True)
class ObservedJournal:
    """Implements `drctl.model.journal.HeldJournal`: reports what was appended."""

    journal: HeldJournal
    appended: Callable[[Sequence[Entry]], None]

    @property
    def run(self) -> str:
        """The name of the run."""
        return self.journal.run

    @property
    def where(self) -> str:
        """The file or topic, for messages."""
        return self.journal.where

    def append(self, entries: Sequence[Entry]) -> None:
        """Append entries, all or none.

        Raises:
            Fenced: another run has locked the link.
            Unknown: they could not be written, or it is unknown whether they were.
        """
        self.journal.append(entries)
        self.appended(entries)

    def check(self) -> None:
        """Check that the run still holds its link.

        Raises:
            Fenced: another run has locked it.
        """
        self.journal.check()


def counted(message: str) -> int | None:
    """The number that the words begin with; None if there is none."""
    found = _COUNT.match(message)
    return int(found[1].replace(",", "")) if found else None


def _falling(before: Wait | None, now: Wait, at: float) -> Wait:
    """The current wait, with the highest missing number so far."""
    if now.left is None:
        return now
    same = before is not None and before.step == now.step and before.left is not None
    if before is None or not same or now.left > before.most:
        return replace(now, most=now.left, since=at)
    return replace(now, most=before.most, since=before.since)
