"""Leaves a run behind: nobody goes on with it, and what it changed is named."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from drctl.engine import entries
from drctl.engine.kind import Kind, Outcome, Status, Trait
from drctl.engine.ports import Clock
from drctl.engine.run_state import Effect, RunState, damaged
from drctl.model.journal import HeldJournal

MALFORMED = (AttributeError, KeyError, IndexError, TypeError, ValueError)
"""What a kind raises of settings, or an intent, that no drctl wrote."""


def must_be_describable(story: RunState, kinds: Mapping[str, Kind]) -> None:
    """See that the steps of known kinds have settings of these kinds.

    Raises:
        DamagedJournal: one has not.
    """
    for step in story.plan.steps:
        kind = kinds.get(step.kind)
        try:
            if kind is not None:
                kind.describe(story.settings_of(step))
        except MALFORMED as wrong:
            settings = ValueError(f"step {step.id} is no {step.kind}: {wrong!r}")
            raise damaged(story.run, settings) from wrong


def standing(story: RunState, kinds: Mapping[str, Kind]) -> Mapping[str, str]:
    """What the run changed and did not take back, by step, as its journal tells it.

    Nobody looks: what would answer may be gone for ever.
    """
    return dict(_standing(story, kinds))


def abandon(
    story: RunState,
    why: str,
    who: Mapping[str, str],
    journal: HeldJournal,
    kinds: Mapping[str, Kind],
    clock: Clock,
) -> Outcome:
    """End the run as it stands; nothing outside the journal is changed.

    Raises:
        Fenced: another run took the link.
        Unknown: the journal cannot be written.
    """
    at, stands = datetime.fromtimestamp(clock.now(), UTC), standing(story, kinds)
    told = [
        entries.resumed(who, at),
        entries.abandoned(why, stands, at),
        entries.ended(Status.STOPPED.value, at),
    ]
    journal.append(told)
    story.take(told)
    return Outcome(Status.STOPPED, words=why, items=tuple(stands.values()), abandoned=True)


def _standing(story: RunState, kinds: Mapping[str, Kind]) -> Iterator[tuple[str, str]]:
    for step in story.plan.steps:
        kind = kinds.get(step.kind)
        if kind is None:
            if story.effect_of(step.id) is not None:
                yield step.id, f"may stand: step {step.id}, of a kind that this drctl does not know"
        elif Trait.CHANGES in kind.traits:
            left = [e for e in story.effects if e.step == step.id and not e.undone]
            if left:
                try:
                    words = kind.describe(story.settings_of(step))
                except MALFORMED:
                    yield step.id, f"{_became(left)}: step {step.id}, which drctl did not write"
                    continue
                back = f"; its way back: {words.way_back}" if words.way_back else ""
                yield step.id, f"{_became(left)}: {words.title}{back}"


def _became(effects: list[Effect]) -> str:
    if any(effect.undoing for effect in effects):
        return "was begun to be taken back, and may stand"
    return "stands as it was done" if effects[-1].done else "may stand, for it may have been done"
