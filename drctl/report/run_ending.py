"""How a run stands, and how each attempt at it ended, from the entries alone."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from drctl.engine.entries import Entry, What
from drctl.engine.kind import Kind, Trait
from drctl.engine.outcome import Outcome, Status
from drctl.engine.story import Story
from drctl.report.run_course import Course
from drctl.report.run_data import Attempt, Ending, Standing

_ENDINGS = {
    Standing.DONE: "came to the end",
    Standing.REFUSED: "ended with nothing changed",
    Standing.STOPPED: "stopped",
    Standing.UNKNOWN: "ended without knowing",
    Standing.INTERRUPTED: "was interrupted",
    Standing.NOT_ENDED: "wrote nothing more",
}
_LEFT_BEHIND = "left it behind"


def attempts(story: Story, kinds: Mapping[str, Kind], course: Course) -> tuple[Attempt, ...]:
    """Everybody who carried the run out."""
    found = []
    edges = [*course.begins, len(story.entries)]
    for first, after in pairwise(edges):
        who = story.entries[first].get("who", {})
        standing, step = _stands(story, kinds, story.entries[:after], first)
        where = f" at {step}" if step else ""
        left = any(e["entry"] == What.ABANDONED for e in story.entries[first:after])
        found.append(
            Attempt(
                str(who.get("user") or who.get("who") or "somebody"),
                str(who.get("host") or "an unknown host"),
                course.times[first],
                course.times[after - 1],
                f"{_LEFT_BEHIND if left else _ENDINGS[standing]}{where}",
            )
        )
    return tuple(found)


def ending(story: Story, kinds: Mapping[str, Kind], course: Course) -> Ending:
    """How the run stands after its last entry."""
    standing, step = _stands(story, kinds, story.entries, course.begins[-1])
    words, items = _told(story, standing, step)
    if standing is Standing.NOT_ENDED:
        return Ending(standing, step, words, items, None)
    outcome = Outcome(
        Status(standing.value), owes=bool(story.owed), abandoned=bool(story.abandoned)
    )
    over = standing is Standing.STOPPED and bool(story.status) and not story.abandoned
    return Ending(standing, step, words, items, outcome.exit_code, over)


def _stands(
    story: Story, kinds: Mapping[str, Kind], told: Sequence[Entry], first: int
) -> tuple[Standing, str]:
    """After these entries, of which the last attempt begins with the one of this number."""
    last = told[-1]
    match What(last["entry"]):
        case What.ENDED:
            standing = Standing(last["status"])
            return standing, "" if standing is Standing.DONE else _turned_at(told) or _next(story)
        case What.INTERRUPTED:
            return Standing.INTERRUPTED, str(last["step"])
        case What.FAILED:
            return _failed(story, kinds, told)
        case What.LOOKED if last["state"] == "unknown":
            return Standing.UNKNOWN, str(last["step"])
        case What.UNDONE | What.NOT_UNDONE:
            return _put_back(story, kinds, told, first)
        case _:
            return Standing.NOT_ENDED, str(last.get("step", "")) or _next(story)


def _failed(story: Story, kinds: Mapping[str, Kind], told: Sequence[Entry]) -> tuple[Standing, str]:
    step = str(told[-1]["step"])
    if told[-1]["state"] == "unknown":
        return Standing.UNKNOWN, step
    intended = {str(entry["step"]) for entry in told if entry["entry"] == What.INTEND}
    if not any(Trait.OPENS in _traits(story, kinds, each) for each in intended):
        # It would have been turned back: whoever wrote this did not come to that.
        return Standing.NOT_ENDED, step
    verifies = Trait.VERIFIES in _traits(story, kinds, step)
    return (Standing.UNKNOWN if verifies else Standing.STOPPED), step


def _put_back(
    story: Story, kinds: Mapping[str, Kind], told: Sequence[Entry], first: int
) -> tuple[Standing, str]:
    """Stopped where each effect was tried; else the one who did it is gone."""
    undone = {e["effect"] for e in told if e["entry"] == What.UNDONE}
    standing = {
        entry["effect"]
        for entry in told
        if entry["entry"] == What.INTEND
        and entry["effect"] not in undone
        and Trait.CHANGES in _traits(story, kinds, entry["step"])
    }
    tried = [e for e in told[first:] if e["entry"] == What.NOT_UNDONE and e["effect"] in standing]
    if not tried or standing != {entry["effect"] for entry in tried}:
        return Standing.NOT_ENDED, str(told[-1]["step"])
    unknown = any(entry["state"] == "unknown" for entry in tried)
    return (Standing.UNKNOWN if unknown else Standing.STOPPED), str(tried[0]["step"])


def _told(story: Story, standing: Standing, step: str) -> tuple[str, tuple[str, ...]]:
    """What was seen there, and what is not as wanted, each named."""
    if standing is Standing.DONE:
        return "", ()
    if story.abandoned:
        return story.abandoned, ()
    if standing is Standing.REFUSED or (standing is Standing.STOPPED and story.status):
        return story.turned_back, _items(story, step, What.FAILED)
    for entry in reversed(story.entries):
        if entry.get("step") == step and "words" in entry:
            return str(entry["words"]), tuple(map(str, entry.get("items", ())))
    return "", ()


def _items(story: Story, step: str, what: What) -> tuple[str, ...]:
    for entry in reversed(story.entries):
        if entry["entry"] == what and entry.get("step") == step:
            return tuple(map(str, entry.get("items", ())))
    return ()


def _turned_at(told: Sequence[Entry]) -> str:
    return next((str(e["step"]) for e in reversed(told) if e["entry"] == What.TURNED_BACK), "")


def _next(story: Story) -> str:
    return next((step.id for step in story.plan.steps if not story.is_done(step.id)), "")


def _traits(story: Story, kinds: Mapping[str, Kind], step: str) -> Trait:
    kind = kinds.get(story.plan.step(step).kind)
    return Trait.NONE if kind is None else kind.traits
