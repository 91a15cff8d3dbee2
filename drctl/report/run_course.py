"""The course of a run, entry by entry: what became of each step, and what its time was spent on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from drctl.engine.entries import Entry, What
from drctl.engine.kind import Kind, Trait
from drctl.engine.story import Story, damaged
from drctl.report.run_data import Became, Doing, Span

_FORWARD = frozenset({What.DONE, What.FAILED, What.LOOKED, What.OWED, What.PASSED, What.APPLIED})
_BACKWARD = frozenset({What.UNDOING, What.UNDONE, What.NOT_UNDONE})
_BEGUN_BACK = "it was begun to take it back, and nothing was written down after that"


@dataclass(slots=True)
class Track:
    """What is known of a step so far.

    Attributes:
        announced: whether its effect stands in the journal.
        proven: when it was first seen to be done, by its present effect.
        failed: it could not be done, whatever was put back afterwards.
    """

    became: Became = Became.NOT_BEGUN
    started: datetime | None = None
    announced: datetime | None = None
    proven: datetime | None = None
    failed: bool = False
    words: str = ""
    items: tuple[str, ...] = ()
    complaints: list[str] = field(default_factory=list)
    taken_back: str = ""


@dataclass(slots=True)
class Course:
    """The whole run.

    Attributes:
        begins: numbers of the entries with which somebody began or went on.
    """

    tracks: dict[str, Track]
    spans: list[Span] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    times: list[datetime] = field(default_factory=list)


def moment_of(entry: Entry) -> datetime:
    """When it was written.

    Raises:
        KeyError, TypeError, ValueError: it does not say.
    """
    at = datetime.fromisoformat(entry["at"])
    if at.tzinfo is None:
        raise ValueError(f"{entry['at']} has no time zone")
    return at


def course_of(story: Story, kinds: Mapping[str, Kind]) -> Course:
    """Follow the entries.

    Raises:
        Unknown: one of them is not what this drctl writes.
    """
    course = Course({step.id: Track() for step in story.plan.steps})
    changing = {
        step.id
        for step in story.plan.steps
        if step.kind in kinds and Trait.CHANGES in kinds[step.kind].traits
    }
    for entry in story.entries:
        try:
            _take(course, entry, changing)
        except (KeyError, TypeError, ValueError) as wrong:
            raise damaged(story.run, wrong) from wrong
    return course


def _take(course: Course, entry: Entry, changing: set[str]) -> None:
    at, what = moment_of(entry), What(entry["entry"])
    last = course.times[-1] if course.times else at
    if what in (What.BEGAN, What.RESUMED):
        course.begins.append(len(course.times))
        if what is What.RESUMED:
            course.spans.append(Span("", Doing.NOBODY, last, at))
    elif step := str(entry.get("step", "")):
        track = course.tracks[step]
        doing = _doing(what, track, step in changing)
        if doing is not None and at > last:
            course.spans.append(Span(step, doing, last, at))
        track.started = track.started or last
        _note(track, what, entry, at)
    course.times.append(at)


def _doing(what: What, track: Track, changes: bool) -> Doing | None:
    """What the time since the last entry was spent on."""
    if what in _BACKWARD:
        return Doing.TAKING_BACK
    if what is What.INTEND or (what in _FORWARD and track.announced is None):
        return Doing.LOOKING
    if what in _FORWARD or what is What.INTERRUPTED:
        if track.announced is None:
            return None
        return Doing.EFFECT if changes and not track.complaints else Doing.WAITING
    return None


def _note(track: Track, what: What, entry: Entry, at: datetime) -> None:
    match what:
        case What.INTEND:
            track.became, track.announced, track.proven = Became.BEGUN, at, None
            track.words, track.items, track.taken_back = "", (), ""
            track.complaints.clear()
        case What.APPLIED:
            track.complaints += map(str, entry["complaints"])
        case What.DONE:
            track.became, track.failed = Became.DONE, False
            track.proven = track.proven or at
            _say(track, entry)
        case What.FAILED:
            unknown = entry["state"] == "unknown"
            track.became, track.failed = (Became.UNKNOWN if unknown else Became.FAILED), True
            _say(track, entry)
        case What.PASSED:
            track.became = Became.PASSED
            _say(track, entry)
        case What.OWED if track.became is not Became.DONE:
            track.became, track.words = Became.OWED, str(entry["what"])
        case What.LOOKED if entry["state"] != "done":
            track.became, track.proven, track.words = Became.BEGUN, None, str(entry["words"])
        case What.STALE:
            track.became, track.announced, track.proven = Became.NOT_BEGUN, None, None
            track.words = str(entry["words"])
        case What.UNDOING:
            track.became, track.taken_back = Became.NOT_TAKEN_BACK, _BEGUN_BACK
        case What.UNDONE:
            track.became = Became.FAILED if track.failed else Became.TAKEN_BACK
            track.taken_back = str(entry["words"])
        case What.NOT_UNDONE:
            track.taken_back = str(entry["words"])
            track.items = tuple(map(str, entry["items"]))
        case _:
            pass


def _say(track: Track, entry: Entry) -> None:
    track.words = str(entry["words"])
    track.items = tuple(map(str, entry["items"]))
