"""Where the clients of a link are, as the journals of its runs tell."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from drctl.engine.entries import What
from drctl.engine.kind import Kind, Trait
from drctl.engine.run_state import RunState
from drctl.model.active_cluster import Moved, Unfinished


def moved(stories: Iterable[RunState], target: str, kinds: Mapping[str, Kind]) -> Moved | None:
    """The run by which clients are on the target; no story is read behind one that says so.

    Args:
        stories: of the link's runs, the newest first.

    Raises:
        DamagedJournal: a journal that would have to say it cannot be read.
    """
    for story in stories:
        if opened := _with(story, kinds, Trait.OPENS):
            if story.plan.target != target:
                return None
            since = max(_done_at(story, step) for step in opened)
            return Moved(story.run, story.plan.name, int(since.timestamp() * 1000))
    return None


def unfinished(story: RunState, kinds: Mapping[str, Kind]) -> Unfinished | None:
    """The run as one that stands half-way; None where it has ended."""
    if story.status:
        return None
    who = f"{story.who.get('user', '?')} on {story.who.get('host', '?')}"
    return Unfinished(story.run, story.plan.name, who, _writes(story, kinds))


def _writes(story: RunState, kinds: Mapping[str, Kind]) -> str:
    source, target = story.plan.source, story.plan.target
    if _with(story, kinds, Trait.OPENS):
        return f"{target} is open for writes"
    closed = _with(story, kinds, Trait.FENCES_WRITES)
    other_way = _with(story, kinds, Trait.OTHER_WAY)
    if any(step not in other_way for step in closed):
        return f"nobody can write: {source} is fenced, and {target} is not open"
    return ""


def _with(story: RunState, kinds: Mapping[str, Kind], trait: Trait) -> list[str]:
    """Ids of the steps of this trait that are done, and were not taken back."""
    return [
        step.id
        for step in story.plan.steps
        if step.kind in kinds and trait in kinds[step.kind].traits and step.id in story.facts
    ]


def _done_at(story: RunState, step: str) -> datetime:
    times = [e["at"] for e in story.entries if e["entry"] == What.DONE and e.get("step") == step]
    return datetime.fromisoformat(times[-1]) if times else story.began
