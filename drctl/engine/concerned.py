"""Guards that a plan does not need, for it has no step of the kind that they guard."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from drctl.engine.kind import Kind, Trait
from drctl.engine.steps.fences import FENCE_CONSUMERS
from drctl.engine.steps.preflight import Preflight
from drctl.model.finding import Finding
from drctl.model.plan import Plan, Step

NOT_ASKED = "not_asked"
"""Among the settings of a preflight: the guards whose word does not count."""

_OF_A_FENCE = ("fence-not-possible",)


def concerned(steps: Sequence[Step], kinds: Mapping[str, Kind]) -> tuple[Step, ...]:
    """The same steps; a preflight before no fence does not ask whether one is possible."""
    if any(_fences(step, kinds) for step in steps):
        return tuple(steps)
    return tuple(map(_without_fence, steps))


def asked_of(plan: Plan, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """What those guards say that the plan needs."""
    left_out = {name for step in plan.steps for name in step.settings.get(NOT_ASKED, ())}
    return tuple(each for each in findings if each.check not in left_out)


def _fences(step: Step, kinds: Mapping[str, Kind]) -> bool:
    return Trait.FENCES_WRITES in kinds[step.kind].traits or step.kind == FENCE_CONSUMERS.name


def _without_fence(step: Step) -> Step:
    if step.kind != Preflight.name:
        return step
    return replace(step, settings={**step.settings, NOT_ASKED: list(_OF_A_FENCE)})
