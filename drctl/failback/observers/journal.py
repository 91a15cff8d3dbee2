"""Journals of runs and progress of `drctl reconcile`, as stored on the target."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from drctl.engine.entries import What
from drctl.engine.failback_state import Search
from drctl.engine.kind import Status, Trait
from drctl.engine.run_state import RunState, decoding, run_states_of
from drctl.failback.facts import DAMAGED, Decided, Decision, JournaledRun, LeftMissing
from drctl.model.errors import DamagedJournal
from drctl.model.journal import JournalReader
from drctl.model.typed_json import read_as
from drctl.plans.failback import is_failback
from drctl.reconcile.progress import Key, Progress, left_missing_of
from drctl.steps.enable_writes import EnableWrites
from drctl.steps.rebuild import EmptyRecovered
from drctl.steps.records import FindMissing
from drctl.steps.registry import KINDS
from drctl.steps.set_start_offsets import SET_START_OFFSETS


def observe_decisions(kept: Callable[[], Mapping[Key, Progress]], source_id: str) -> Decided:
    """Count the decided records of each result of `drctl gap`, by decision.

    Args:
        source_id: id of the cluster that the records come from.

    Raises:
        Unreachable: the target did not answer.
        Unknown: the stored progress is not readable by this version.
    """
    found: dict[str, Counter[Decision]] = {}
    for key, progress in kept().items():
        if key.source_id != source_id:
            continue
        for each in progress.segments:
            decision = Decision(key.record_set.order.value, each.action.value)
            found.setdefault(key.result, Counter())[decision] += each.records + each.gone
    return found


def observe_left_missing(
    kept: Callable[[], Mapping[Key, Progress]], source_id: str, topic_ids: Mapping[str, str]
) -> LeftMissing:
    """Offsets of the current topics that were quarantined or discarded.

    Args:
        topic_ids: current ids of the source's topics; recreated topics do not count.

    Raises:
        Unreachable: the target did not answer.
        Unknown: the stored progress is not readable by this version.
    """
    found = left_missing_of(kept(), source_id, topic_ids)
    return {
        place: _merged(run for left in lefts for run in left.runs) for place, lefts in found.items()
    }


def _merged(runs: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(runs):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(merged[-1][1], last)
        else:
            merged.append((first, last))
    return tuple(merged)


_RUNS = 10


def observe_journal(reader: JournalReader, source: str, link: str = "") -> tuple[JournaledRun, ...]:
    """Read the newest runs, newest first; a finished failback clears older outstanding actions.

    Reads until a run has moved clients. Includes runs with a damaged journal.

    Args:
        source: the cluster that clients fail back to.
        link: only runs known to be of this link; empty: all.

    Raises:
        Unknown: the journal cannot be read.
    """
    found: list[JournaledRun] = []
    switched_back = moved = False
    for number, run in enumerate(reader.runs()):
        if number >= _RUNS and moved:
            break
        for each in _run(reader, run, source, switched_back, link):
            switched_back = switched_back or each.switched_back
            moved = moved or bool(each.switched_back or each.left)
            if number < _RUNS or moved or each.damaged:
                found.append(each)
    return tuple(found)


def _run(
    reader: JournalReader, run: str, source: str, switched_back: bool, link: str
) -> Iterator[JournaledRun]:
    try:
        for state in run_states_of(reader, run):
            if link in ("", state.plan.link):
                with decoding(run):
                    found = _journaled(state, source, switched_back)
                yield found
    except DamagedJournal as wrong:
        if link:
            return
        unknown = () if switched_back else (f"its changes are unknown: {wrong.message}",)
        yield JournaledRun(run, "unknown", DAMAGED, unknown)


def _journaled(state: RunState, source: str, switched_back: bool) -> JournaledRun:
    failing_back = is_failback(state.plan.steps)
    completed = failing_back and state.status == Status.DONE
    facts = state.facts_by_kind()
    located = facts.named(FindMissing.name, Search)
    return JournaledRun(
        state.run,
        state.plan.name,
        state.status or "not ended",
        () if switched_back else tuple(state.outstanding.values()),
        completed,
        failing_back and not state.status,
        state.began if not failing_back and _enabled_writes(state) else None,
        None if switched_back or completed else _fenced(state, source),
        "" if located is None else located.id,
        {} if located is None else located.boundaries,
        SET_START_OFFSETS.name in facts,
        EmptyRecovered.name in facts and not completed,
    )


def _enabled_writes(state: RunState) -> bool:
    """Whether the run enabled writes to the target, or may have, without rolling that back."""
    opening = {step.id for step in state.plan.steps if step.kind == EnableWrites.name}
    return any(each.step in opening and not each.undone for each in state.effects)


@dataclass(frozen=True, slots=True)
class _Fence:
    """The intent of a fence of any kind."""

    cluster: str = ""


def _fenced(state: RunState, source: str) -> datetime | None:
    """When its fence of the source was last verified; None if never set, or set and lifted."""
    traits = {step.id: KINDS[step.kind].traits for step in state.plan.steps if step.kind in KINDS}
    fences = {
        each.step
        for each in state.effects
        if Trait.FENCES_WRITES in (of := traits.get(each.step, Trait.NONE))
        and read_as(_Fence, each.intent).cluster == source
        and (Trait.IRREVERSIBLE in of or not (each.undoing or each.undone))
    }
    times = [e["at"] for e in state.entries if e["entry"] == What.DONE and e["step"] in fences]
    return datetime.fromisoformat(times[-1]) if times else None
