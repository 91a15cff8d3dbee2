"""Abandons a run: ends it without a rollback, and lists the changes that remain."""

from collections.abc import Mapping
from datetime import UTC, datetime

from drctl.engine import entries
from drctl.engine.kind import Kind, Outcome, Status, Trait
from drctl.engine.ports import Clock
from drctl.engine.run_state import Effect, RunState, damaged
from drctl.model.journal import HeldJournal

MALFORMED = (AttributeError, KeyError, IndexError, TypeError, ValueError)
"""Errors that a kind raises for settings or intents that drctl did not write."""


def check_settings(run: RunState, kinds: Mapping[str, Kind]) -> None:
    """Check that the settings of each step match its kind.

    Raises:
        DamagedJournal: they do not.
    """
    for step in run.plan.steps:
        kind = kinds.get(step.kind)
        try:
            if kind is not None:
                kind.describe(run.settings_of(step))
        except MALFORMED as wrong:
            invalid = ValueError(f"settings of step {step.id} do not match {step.kind}: {wrong!r}")
            raise damaged(run.run, invalid) from wrong


def remaining_changes(run: RunState, kinds: Mapping[str, Kind]) -> Mapping[str, str]:
    """Changes that the journal does not report as rolled back, by step id.

    Only the journal is read: the clusters may be gone for good.
    """
    found: dict[str, str] = {}
    for step in run.plan.steps:
        kind = kinds.get(step.kind)
        if kind is None:
            if run.effect_of(step.id) is not None:
                why = "its kind is unknown to this version of drctl"
                found[step.id] = f"may still be in effect: step {step.id} ({why})"
            continue
        left = [each for each in run.effects if each.step == step.id and not each.undone]
        if not left or Trait.CHANGES not in kind.traits:
            continue
        try:
            description = kind.describe(run.settings_of(step))
        except MALFORMED:
            found[step.id] = f"{_status(left)}: step {step.id}, which drctl did not write"
            continue
        rollback = f"; rollback: {description.rollback}" if description.rollback else ""
        found[step.id] = f"{_status(left)}: {description.title}{rollback}"
    return found


def abandon(
    run: RunState,
    why: str,
    who: Mapping[str, str],
    journal: HeldJournal,
    kinds: Mapping[str, Kind],
    clock: Clock,
) -> Outcome:
    """End the run without changing anything outside the journal.

    Raises:
        Fenced: another run took over the link.
        Unknown: the journal cannot be written.
    """
    at, remaining = datetime.fromtimestamp(clock.now(), UTC), remaining_changes(run, kinds)
    last = [
        entries.resumed(who, at),
        entries.abandoned(why, remaining, at),
        entries.ended(Status.STOPPED.value, at),
    ]
    journal.append(last)
    run.take(last)
    return Outcome(Status.STOPPED, message=why, items=tuple(remaining.values()), abandoned=True)


def _status(effects: list[Effect]) -> str:
    if any(effect.undoing for effect in effects):
        return "may still be in effect (its rollback began but is not known to have finished)"
    return "in effect" if effects[-1].done else "may be in effect"
