"""Which cluster a link's clients use, according to the journals of its runs."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from drctl.engine.entries import What
from drctl.engine.kind import Kind, Trait
from drctl.engine.run_state import RunState, decoding
from drctl.model.active_cluster import Moved, Unfinished
from drctl.model.plan import Plan
from drctl.model.repairs import Acl
from drctl.model.typed_json import read_as


def last_move(runs: Iterable[RunState], target: str, kinds: Mapping[str, Kind]) -> Moved | None:
    """The last run that moved clients, if it moved them to the target; otherwise None.

    Args:
        runs: runs of the link, newest first; read only up to the last move.

    Raises:
        DamagedJournal: the journal of that run, or of a newer run, cannot be read.
    """
    for run in runs:
        if enabled := _done(run, kinds, Trait.ENABLES_WRITES):
            if run.plan.target != target:
                return None
            since = max(_done_at(run, step) for step in enabled)
            since_ms = int(since.timestamp() * 1000)
            return Moved(run.run, run.plan.name, since_ms, tuple(_denied(run)))
    return None


def _denied(run: RunState) -> Iterator[Acl]:
    """The ACLs of the fences that a run has set on the source."""
    with decoding(run.run):
        for effect in run.effects:
            on_source = effect.intent.get("cluster") == run.plan.source
            if effect.done and effect.current and on_source:
                yield from read_as(tuple[Acl, ...], effect.intent.get("rules", ()))


def unfinished(run: RunState, kinds: Mapping[str, Kind]) -> Unfinished | None:
    """Describe an unfinished run; None if it ended."""
    if run.status:
        return None
    who = f"{run.who.get('user', '?')} on {run.who.get('host', '?')}"
    source, target = run.plan.source, run.plan.target
    fenced = set(_done(run, kinds, Trait.FENCES_WRITES))
    writes = ""
    if _done(run, kinds, Trait.ENABLES_WRITES):
        writes = f"writes are enabled on {target}"
    elif fenced.difference(_done(run, kinds, Trait.OPPOSITE_DIRECTION)):
        writes = f"clients cannot write: {source} is fenced, and writes are not enabled on {target}"
    return Unfinished(run.run, run.plan.name, who, writes)


def changes(plan: Plan, kinds: Mapping[str, Kind]) -> bool:
    """Whether a plan has a step that changes anything, or one that this version does not know."""
    return any(
        step.kind not in kinds or Trait.CHANGES in kinds[step.kind].traits for step in plan.steps
    )


def _done(run: RunState, kinds: Mapping[str, Kind], trait: Trait) -> list[str]:
    """Ids of steps with this trait that are done and not rolled back."""
    return [
        step.id
        for step in run.plan.steps
        if step.kind in kinds and trait in kinds[step.kind].traits and step.id in run.facts
    ]


def _done_at(run: RunState, step: str) -> datetime:
    times = [e["at"] for e in run.entries if e["entry"] == What.DONE and e.get("step") == step]
    return datetime.fromisoformat(times[-1]) if times else run.began
