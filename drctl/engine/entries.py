"""The entries of a run's journal, with one constructor for each.

An entry is JSON. `intend` is durable before its effect begins and holds everything needed to
apply it again or to roll it back; the entries after it record what was observed.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from drctl.engine.kind import Readback
from drctl.model.plan import Json, Plan

VERSION = 1

Entry = Mapping[str, Any]

NOTHING: Mapping[str, str] = MappingProxyType({})


class What(StrEnum):
    """The kinds of entries."""

    BEGAN = "began"
    RESUMED = "resumed"
    ABANDONED = "abandoned"
    INTEND = "intend"
    APPLIED = "applied"
    DONE = "done"
    FAILED = "failed"
    OBSERVED = "observed"
    STALE = "stale"
    OUTSTANDING = "outstanding"
    SKIPPED = "skipped"
    ROLLING_BACK = "rolling-back"
    UNDOING = "undoing"
    UNDONE = "undone"
    NOT_UNDONE = "not-undone"
    INTERRUPTED = "interrupted"
    ENDED = "ended"


def began(run: str, plan: Plan, who: Mapping[str, str], at: datetime) -> Entry:
    """The first entry: the complete plan, and who executes it."""
    head = {"version": VERSION, "run": run, "fingerprint": plan.fingerprint}
    return _entry(What.BEGAN, at, **head, who=dict(who), plan=plan.to_json())


def resumed(who: Mapping[str, str], at: datetime, overrides: Mapping[str, str] = NOTHING) -> Entry:
    """The run was resumed, with these prechecks overridden: name to reason."""
    return _entry(What.RESUMED, at, who=dict(who), overrides=dict(overrides))


def abandoned(why: str, left_changed: Mapping[str, str], at: datetime) -> Entry:
    """The run was abandoned, with these changes remaining: step to description."""
    return _entry(What.ABANDONED, at, why=why, left_changed=dict(left_changed))


def intend(step: str, effect: int, intent: Json, at: datetime) -> Entry:
    """An effect is about to be applied."""
    return _entry(What.INTEND, at, step=step, effect=effect, intent=dict(intent))


def applied(step: str, effect: int, errors: Sequence[str], at: datetime) -> Entry:
    """Applying the effect returned errors; it is read back next."""
    return _entry(What.APPLIED, at, step=step, effect=effect, errors=list(errors))


def done(step: str, effect: int, seen: Readback, at: datetime) -> Entry:
    """The effect is verified."""
    found = {"message": seen.message, "facts": dict(seen.facts or {}), "items": list(seen.items)}
    return _entry(What.DONE, at, step=step, effect=effect, **found)


def failed(step: str, seen: Readback, at: datetime) -> Entry:
    """The step failed, or its state is unknown."""
    return _entry(What.FAILED, at, step=step, **_observed(seen))


def observed(step: str, effect: int, seen: Readback, at: datetime) -> Entry:
    """The state of an earlier effect, as read back later."""
    state, message = seen.state.value, seen.message
    return _entry(What.OBSERVED, at, step=step, effect=effect, state=state, message=message)


def stale(step: str, effect: int, why: str, at: datetime) -> Entry:
    """The effect is outdated; the step is checked again."""
    return _entry(What.STALE, at, step=step, effect=effect, message=why)


def outstanding(step: str, what: str, at: datetime) -> Entry:
    """An outstanding action for a later run."""
    return _entry(What.OUTSTANDING, at, step=step, what=what)


def skipped(step: str, seen: Readback, at: datetime) -> Entry:
    """An optional step failed; the run continues without it."""
    return _entry(What.SKIPPED, at, step=step, **_observed(seen))


def rolling_back(step: str, why: str, at: datetime) -> Entry:
    """The rollback begins: effects are rolled back, newest first."""
    return _entry(What.ROLLING_BACK, at, step=step, why=why)


def undoing(step: str, effect: int, at: datetime) -> Entry:
    """An effect is about to be rolled back."""
    return _entry(What.UNDOING, at, step=step, effect=effect)


def undone(step: str, effect: int, message: str, at: datetime) -> Entry:
    """The rollback of an effect is verified."""
    return _entry(What.UNDONE, at, step=step, effect=effect, message=message)


def not_undone(step: str, effect: int, seen: Readback, at: datetime) -> Entry:
    """An effect could not be rolled back, or its state is unknown."""
    return _entry(What.NOT_UNDONE, at, step=step, effect=effect, **_observed(seen))


def interrupted(step: str, at: datetime) -> Entry:
    """The engineer asked to stop."""
    return _entry(What.INTERRUPTED, at, step=step)


def ended(status: str, at: datetime) -> Entry:
    """The last entry of a run that cannot be resumed."""
    return _entry(What.ENDED, at, status=status)


def _observed(seen: Readback) -> dict[str, Any]:
    return {"state": seen.state.value, "message": seen.message, "items": list(seen.items)}


def _entry(what: What, at: datetime, /, **fields: Any) -> Entry:
    return {"entry": what.value, "at": at.isoformat(), **fields}
