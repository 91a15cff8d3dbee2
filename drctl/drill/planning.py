"""The engine's own plan of a failover, without the steps that a rehearsal must not take."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from drctl.engine.invariants import violations
from drctl.engine.registry import KINDS
from drctl.engine.sequences.circumstances import Circumstances, Mode
from drctl.engine.sequences.failover import failover
from drctl.model.errors import Refused
from drctl.model.plan import Plan, Step

_SHARED = "its connectors carry other topics, too: to stop them would stop those"
_PERSON = "a rehearsal asks nobody: its own writer and reader stop by themselves"
_BY_COMMAND = "the site's command would fence the applications; the drill's writer stops by itself"

LEFT_OUT: Mapping[str, str] = {
    "request-stop": _SHARED,
    "stop-replication": _SHARED,
    "confirm-stop": _SHARED,
    "command-stop-replication": _SHARED,
    "manual-stop-replication": _SHARED,
    "switch-endpoint": "the link's applications would be sent to the target",
    "skip-producer-ids": "it changes which ids the target's brokers give to every producer",
    "manual-fence": _PERSON,
    "command-fence": _BY_COMMAND,
    "manual": _PERSON,
    "manual-change": _PERSON,
}
"""Kinds of steps that would touch more than the drill's own things, and why each would."""

_LIVE = "a rehearsal: its own writer writes until the fence"
_NO_IDS = "a rehearsal: its own writer has no producer id, and no id is skipped"
_NO_FENCE = "a rehearsal: the link's own fence is not set, the drill's writer stops by itself"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A step of the real plan that the rehearsal does without."""

    id: str
    title: str
    why: str


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What the engine carries out, and what it does not."""

    plan: Plan
    left_out: tuple[LeftOut, ...]


def overrides(fenced: bool) -> Mapping[str, str]:
    """Guards that are passed over because it is a rehearsal, with the reason."""
    passed = {"replication-lag": _LIVE, "producer-ids-collide": _NO_IDS}
    return passed if fenced else {**passed, "fence-not-possible": _NO_FENCE}


def rehearsal(mode: Mode, seen: Circumstances, readers: tuple[str, ...]) -> Rehearsal:
    """The plan of the real failover, held to its rules of order, then without some steps.

    Args:
        readers: whom reading is denied; never drctl's own user, which has to compare.

    Raises:
        Refused: the real plan breaks a rule.
    """
    whole = failover(mode, seen)
    broken = violations(whole, KINDS)
    if broken:
        raise Refused("; ".join(broken), "drctl failover shows the plan")
    kept = tuple(_own(step, readers) for step in whole.steps if step.kind not in LEFT_OUT)
    left_out = tuple(
        LeftOut(step.id, KINDS[step.kind].describe(step.settings).title, LEFT_OUT[step.kind])
        for step in whole.steps
        if step.kind in LEFT_OUT
    )
    return Rehearsal(replace(whole, name=f"drill-{mode.value}", steps=kept), left_out)


def _own(step: Step, readers: tuple[str, ...]) -> Step:
    if step.kind != "fence-consumers":
        return step
    return replace(step, settings={**step.settings, "principals": list(readers)})
