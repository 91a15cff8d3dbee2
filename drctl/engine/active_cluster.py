"""On which cluster the clients of a link are, as the journals of its runs record it."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from drctl.engine.entries import What
from drctl.engine.kind import Kind, Trait
from drctl.engine.run_state import RunState
from drctl.model.active_cluster import Moved, Unfinished


def moved(runs: Iterable[RunState], target: str, kinds: Mapping[str, Kind]) -> Moved | None:
    """The run that moved clients to the target; None where no run did, or a later one moved them.

    Args:
        runs: of the link's runs, the newest first; read only up to the one that tells.

    Raises:
        DamagedJournal: a journal that would have to say it cannot be read.
    """
    for run in runs:
        if opened := _with(run, kinds, Trait.ENABLES_WRITES):
            if run.plan.target != target:
                return None
            since = max(_done_at(run, step) for step in opened)
            return Moved(run.run, run.plan.name, int(since.timestamp() * 1000))
    return None


def unfinished(run: RunState, kinds: Mapping[str, Kind]) -> Unfinished | None:
    """The run as one that is not finished; None where it has ended."""
    if run.status:
        return None
    who = f"{run.who.get('user', '?')} on {run.who.get('host', '?')}"
    source, target = run.plan.source, run.plan.target
    fenced = set(_with(run, kinds, Trait.FENCES_WRITES))
    writes = ""
    if _with(run, kinds, Trait.ENABLES_WRITES):
        writes = f"{target} is open for writes"
    elif fenced.difference(_with(run, kinds, Trait.OPPOSITE_DIRECTION)):
        writes = f"nobody can write: {source} is fenced, and {target} is not open"
    return Unfinished(run.run, run.plan.name, who, writes)


def _with(run: RunState, kinds: Mapping[str, Kind], trait: Trait) -> list[str]:
    """Ids of the steps of this trait that are done, and were not rolled back."""
    return [
        step.id
        for step in run.plan.steps
        if step.kind in kinds and trait in kinds[step.kind].traits and step.id in run.facts
    ]


def _done_at(run: RunState, step: str) -> datetime:
    times = [e["at"] for e in run.entries if e["entry"] == What.DONE and e.get("step") == step]
    return datetime.fromisoformat(times[-1]) if times else run.began
