"""Abandons a run: ends it without a rollback, and lists the changes that remain."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from drctl.engine import entries
from drctl.engine.kind import Kind, Outcome, Status, Trait
from drctl.engine.ports import Clock
from drctl.engine.run_state import DamagedLine, Effect, RunState, damaged, parse_line
from drctl.model.journal import HeldJournal
from drctl.model.plan import Step

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


def unknown_changes(
    run: RunState | None, read: int, unread: Sequence[bytes], kinds: Mapping[str, Kind]
) -> Mapping[str, str]:
    """Changes that a run may have made after the readable part of its journal, by step id.

    Args:
        run: the readable part; None if not even the plan can be read.
        read: number of its lines.
        unread: the lines after it. Those that are intact by themselves may name a step.
    """
    named = {step: number for number, step in _announced(unread, read)}
    if run is None:
        steps = {step: (f"step {step}", "") for step in named}
    else:
        steps = {step.id: _described(run, step, kinds) for step in _not_begun(run, kinds)}
    return {
        step: f"not known whether it was executed ({_evidence(named.get(step), read)}):"
        f" {title}{rollback}"
        for step, (title, rollback) in steps.items()
    }


def _announced(unread: Sequence[bytes], read: int) -> Iterator[tuple[int, str]]:
    """Number and step of each intact line that announces a change."""
    for number, line in enumerate(unread, read + 1):
        with suppress(DamagedLine):
            match parse_line(line).entry:
                case {"entry": entries.What.INTEND, "step": str() as step}:
                    yield number, step


def _not_begun(run: RunState, kinds: Mapping[str, Kind]) -> Iterator[Step]:
    for step in run.plan.steps:
        changes = step.kind not in kinds or Trait.CHANGES in kinds[step.kind].traits
        if changes and run.effect_of(step.id) is None:
            yield step


def _described(run: RunState, step: Step, kinds: Mapping[str, Kind]) -> tuple[str, str]:
    try:
        found = kinds[step.kind].describe(run.settings_of(step))
    except MALFORMED:
        return f"step {step.id}", ""
    return found.title, f"; rollback: {found.rollback}" if found.rollback else ""


def _evidence(number: int | None, read: int) -> str:
    return f"line {number} says that it began" if number else f"lines 1 to {read} do not name it"


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
