"""Abandons a run: nobody resumes it, and what it leaves changed is named."""

from collections.abc import Mapping
from datetime import UTC, datetime

from drctl.engine import entries
from drctl.engine.kind import Kind, Outcome, Status, Trait
from drctl.engine.ports import Clock
from drctl.engine.run_state import Effect, RunState, damaged
from drctl.model.journal import HeldJournal

MALFORMED = (AttributeError, KeyError, IndexError, TypeError, ValueError)
"""What a kind raises of settings, or an intent, that no drctl wrote."""


def must_be_describable(run: RunState, kinds: Mapping[str, Kind]) -> None:
    """Check that the settings of each step are those of its kind.

    Raises:
        DamagedJournal: they are not.
    """
    for step in run.plan.steps:
        kind = kinds.get(step.kind)
        try:
            if kind is not None:
                kind.describe(run.settings_of(step))
        except MALFORMED as wrong:
            settings = ValueError(f"step {step.id} is no {step.kind}: {wrong!r}")
            raise damaged(run.run, settings) from wrong


def standing(run: RunState, kinds: Mapping[str, Kind]) -> Mapping[str, str]:
    """What the run changed and did not roll back, by step, as its journal records it.

    No cluster is asked: what would answer may be gone for ever.
    """
    found: dict[str, str] = {}
    for step in run.plan.steps:
        kind = kinds.get(step.kind)
        if kind is None:
            if run.effect_of(step.id) is not None:
                unknown = "of a kind that this drctl does not know"
                found[step.id] = f"may stand: step {step.id}, {unknown}"
            continue
        left = [each for each in run.effects if each.step == step.id and not each.undone]
        if not left or Trait.CHANGES not in kind.traits:
            continue
        try:
            words = kind.describe(run.settings_of(step))
        except MALFORMED:
            found[step.id] = f"{_became(left)}: step {step.id}, which drctl did not write"
            continue
        back = f"; its way back: {words.rollback}" if words.rollback else ""
        found[step.id] = f"{_became(left)}: {words.title}{back}"
    return found


def abandon(
    run: RunState,
    why: str,
    who: Mapping[str, str],
    journal: HeldJournal,
    kinds: Mapping[str, Kind],
    clock: Clock,
) -> Outcome:
    """End the run as it is; nothing outside the journal is changed.

    Raises:
        Fenced: another run took the link.
        Unknown: the journal cannot be written.
    """
    at, stands = datetime.fromtimestamp(clock.now(), UTC), standing(run, kinds)
    last = [
        entries.resumed(who, at),
        entries.abandoned(why, stands, at),
        entries.ended(Status.STOPPED.value, at),
    ]
    journal.append(last)
    run.take(last)
    return Outcome(Status.STOPPED, words=why, items=tuple(stands.values()), abandoned=True)


def _became(effects: list[Effect]) -> str:
    if any(effect.undoing for effect in effects):
        return "its rollback was started, so it may stand"
    return "stands as it was done" if effects[-1].done else "may stand, for it may have been done"
