"""How a run comes along, for a view that is drawn again and again while it goes on.

What became of steps is taken from the entries of the journal, what is waited for from the engine's
watcher. The thread that draws gets a value that nobody changes any more.
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
from drctl.views.run_data import Became
from drctl.views.run_reading import Track, course_of

_COUNT = re.compile(r"(\d{1,3}(?:,\d{3})+|\d+) (?=\w)")
"""Step kinds whose text starts with a count of what remains."""

_OVER = frozenset({What.DONE, What.FAILED, What.UNDONE, What.NOT_UNDONE})


class Line(NamedTuple):
    """A step of the plan.

    Attributes:
        spent: seconds that are over; None where this process has not begun it.
        since: when the stretch began that goes on now, by the monotonic clock; None: none does.
        words: what was seen of it last.
    """

    number: int
    id: str
    title: str
    became: Became
    spent: float | None
    since: float | None
    words: str


@dataclass(frozen=True, slots=True)
class Wait:
    """A proof that is not there yet.

    Attributes:
        until: when it is given up, by the monotonic clock.
        left: how much is missing; None where the words do not begin with a number.
        most: the most that was missing, and `since` when that was.
    """

    step: str
    words: str
    until: float
    left: int | None = None
    most: int = 0
    since: float = 0

    def seconds_left(self, now: float) -> float | None:
        """Until nothing is missing, at the pace until now; None where it does not fall."""
        gone, passed = self.most - (self.left or 0), now - self.since
        if self.left is None or gone <= 0 or passed <= 0:
            return None
        return self.left * passed / gone


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The run at one moment.

    Attributes:
        current: id of the step that is being done; empty between two.
        note: what is going on inside it.
        turned_back: why effects are taken back; empty while they are not.
        began: when this process began with it, by the monotonic clock.
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
class LiveCourse:
    """Implements `drctl.engine.ports.Watcher`, and hears what goes into the journal.

    Args:
        entries: what the journal says already, where a run is gone on with.
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
        """Begin with what is known."""
        self._read()
        turned = (str(e["why"]) for e in self.entries if e["entry"] == What.ROLLING_BACK)
        self.snapshot = Snapshot(
            self.plan, self.run, self.monotonic(), self._lines(), rollback_reason=next(turned, "")
        )

    def step(self, identity: str, number: int, total: int) -> None:
        """A step begins."""
        self._begin(identity)

    def waiting(self, identity: str, words: str, left_s: float) -> None:
        """Its proof is not there yet."""
        now = self.monotonic()
        self._since.setdefault(identity, now)
        wait = Wait(identity, words, now + left_s, counted(words))
        self._show(identity, _falling(self.snapshot.wait, wait, now))

    def ended(self, identity: str, words: str, figures: Mapping[str, float]) -> None:
        """It came to an end."""
        self._end(identity)

    def heard(self, entries: Sequence[Entry]) -> None:
        """These stand in the journal now."""
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

    def noted(self, message: str) -> None:
        """Something goes on inside the step."""
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
        """Put a new value where the one who draws looks; an assignment is never half done."""
        note = self.snapshot.note if current == self.snapshot.current else ""
        self.snapshot = replace(
            self.snapshot, lines=self._lines(), current=current, wait=wait, note=note
        )

    def _read(self) -> None:
        """What became of each step; a wait looks often, and changes nothing of it."""
        if self.entries:
            self._tracks = course_of(read_run(self.entries), self.kinds).tracks

    def _lines(self) -> tuple[Line, ...]:
        lines = []
        for number, step in enumerate(self.plan.steps, 1):
            track, since = self._tracks.get(step.id), self._since.get(step.id)
            spent = self._spent.get(step.id, None if since is None else 0.0)
            became = track.became if track else Became.NOT_STARTED
            words = (track.rolled_back or track.words) if track else ""
            title = self.kinds[step.kind].describe(step.settings).title
            lines.append(Line(number, step.id, title, became, spent, since, words))
        return tuple(lines)


@dataclass(frozen=True, slots=True)
class Overheard:
    """Implements `drctl.model.journal.HeldJournal`: tells what was written down."""

    journal: HeldJournal
    heard: Callable[[Sequence[Entry]], None]

    @property
    def run(self) -> str:
        """The name of the run."""
        return self.journal.run

    @property
    def where(self) -> str:
        """The file or topic, for messages."""
        return self.journal.where

    def append(self, entries: Sequence[Entry]) -> None:
        """Write them down, all or none.

        Raises:
            Fenced: another run has taken the link.
            Unknown: they could not be written, or nobody can say whether they were.
        """
        self.journal.append(entries)
        self.heard(entries)

    def check(self) -> None:
        """See that the run holds its link still.

        Raises:
            Fenced: another run has taken it.
        """
        self.journal.check()


def counted(words: str) -> int | None:
    """How much the words say is missing; None where they do not begin with a number."""
    found = _COUNT.match(words)
    return int(found[1].replace(",", "")) if found else None


def _falling(before: Wait | None, now: Wait, at: float) -> Wait:
    """The wait with the most that was ever missing of it."""
    if now.left is None:
        return now
    same = before is not None and before.step == now.step and before.left is not None
    if before is None or not same or now.left > before.most:
        return replace(now, most=now.left, since=at)
    return replace(now, most=before.most, since=before.since)
