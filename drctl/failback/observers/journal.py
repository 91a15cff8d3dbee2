"""What the target keeps of runs and of `drctl reconcile`: evidence beside what is observed."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from drctl.engine.entries import What
from drctl.engine.kind import Status, Trait
from drctl.engine.run_state import RunState, run_states_of, understood
from drctl.failback.facts import DAMAGED, Decided, Decision, JournaledRun, LeftMissing
from drctl.model.errors import DamagedJournal
from drctl.model.journal import JournalReader
from drctl.model.typed_json import read_as
from drctl.plans.failback import is_failback
from drctl.reconcile.progress import Key, Progress, left_missing_of
from drctl.steps.enable_writes import EnableWrites
from drctl.steps.registry import KINDS


def observe_decisions(kept: Callable[[], Mapping[Key, Progress]], source_id: str) -> Decided:
    """By result of `drctl gap`: how many records were treated how.

    Args:
        source_id: id of the cluster that the records come from.

    Raises:
        Unreachable: the target did not answer.
        Unknown: what it keeps is not what this drctl understands.
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
    """What any result has left missing of the topics as they are.

    Args:
        topic_ids: of the source's topics now: one that was recreated holds other records.

    Raises:
        Unreachable: the target did not answer.
        Unknown: what it keeps is not what this drctl understands.
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
    """The newest first; actions from before a finished failback are outstanding no more.

    Older ones than the newest few are read until one of them has moved clients. One whose journal
    is damaged is among them, and keeps none of the others from being seen.

    Args:
        source: the cluster that clients are led back to.
        link: where the reader knows runs of others, too: only what is known to be of this one.

    Raises:
        Unknown: the journal cannot be read.
    """
    found: list[JournaledRun] = []
    home = moved = False
    for number, run in enumerate(reader.runs()):
        if number >= _RUNS and moved:
            break
        for told in _run(reader, run, source, home, link):
            home = home or told.home
            moved = moved or bool(told.home or told.left)
            if number < _RUNS or moved or told.damaged:
                found.append(told)
    return tuple(found)


def _run(
    reader: JournalReader, run: str, source: str, home: bool, link: str
) -> Iterator[JournaledRun]:
    try:
        for state in run_states_of(reader, run):
            if link in ("", state.plan.link):
                with understood(run):
                    told = _told(state, source, home)
                yield told
    except DamagedJournal as wrong:
        if link:
            return
        unknown = () if home else (f"what it did is not known: {wrong.message}",)
        yield JournaledRun(run, "unknown", DAMAGED, unknown)


def _told(state: RunState, source: str, home: bool) -> JournaledRun:
    failing_back = is_failback(state.plan.steps)
    endpoints_on_source = failing_back and state.status == Status.DONE
    return JournaledRun(
        state.run,
        state.plan.name,
        state.status or "not ended",
        () if home else tuple(state.outstanding.values()),
        endpoints_on_source,
        failing_back and not state.status,
        state.began if not failing_back and _opened(state) else None,
        None if home or endpoints_on_source else _fenced(state, source),
    )


def _opened(state: RunState) -> bool:
    """Whether it opened the target to clients, or may have, and did not take that back."""
    opening = {step.id for step in state.plan.steps if step.kind == EnableWrites.name}
    return any(each.step in opening and not each.undone for each in state.effects)


@dataclass(frozen=True, slots=True)
class _Fence:
    """What is needed of the intent of a fence, of whatever kind."""

    cluster: str = ""


def _fenced(state: RunState, source: str) -> datetime | None:
    """When the fence of the source that it has set, and has not lifted, was last seen to hold."""
    traits = {step.id: KINDS[step.kind].traits for step in state.plan.steps if step.kind in KINDS}
    stands = {
        each.step
        for each in state.effects
        if Trait.FENCES_WRITES in (of := traits.get(each.step, Trait.NONE))
        and read_as(_Fence, each.intent).cluster == source
        and (Trait.IRREVERSIBLE in of or not (each.undoing or each.undone))
    }
    times = [e["at"] for e in state.entries if e["entry"] == What.DONE and e["step"] in stands]
    return datetime.fromisoformat(times[-1]) if times else None
