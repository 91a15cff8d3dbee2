"""What a plan would probably lose, and where groups would resume: facts beside the plan.

They are no part of it: the loss grows and evidence ages while nobody does anything, and the plan
stays the same.
"""

from typing import TYPE_CHECKING

from drctl.cli.notices import notices
from drctl.cli.runs.loss_sight import ESTIMATING
from drctl.engine.steps.commit_offsets import CommitOffsets, Foreseen, foreseen
from drctl.engine.steps.measure_loss import MeasureLoss
from drctl.model.errors import DrctlError
from drctl.model.loss import Loss, not_estimated
from drctl.model.plan import Plan
from drctl.report.plan_lines import without_offset

if TYPE_CHECKING:
    from drctl.cli.runs.link_sight import LinkSight


def estimated(plan: Plan, sight: "LinkSight") -> Loss | None:
    """What a step of the plan would say now; None where it has no step that estimates."""
    if not any(step.kind == MeasureLoss.name for step in plan.steps):
        return None
    try:
        with notices().task(ESTIMATING) as task:
            return sight.loss(task)
    except DrctlError as error:
        return not_estimated(error.message)


def warn_of_loss(plan: Plan, sight: "LinkSight") -> None:
    """Say it to whoever is about to be asked whether the plan is to be carried out."""
    loss = estimated(plan, sight)
    if loss is not None:
        notices().warn(f"{loss.words}; without --execute it is shown what this rests on")


def resuming(plan: Plan, sight: "LinkSight") -> Foreseen | None:
    """What the plan would do with groups; None where the source is not lost, or nobody can say."""
    steps = [step for step in plan.steps if step.kind == CommitOffsets.name]
    if not steps or "unproven_offsets" not in steps[0].settings:
        return None
    try:
        with notices().task("looking for the groups' offsets"):
            return foreseen(steps[0].settings, sight)
    except DrctlError as error:
        notices().warn(f"where groups would resume cannot be seen: {error.message}")
        return None


def warn_of_groups(plan: Plan, sight: "LinkSight") -> None:
    """Name the groups without an offset to whoever is about to confirm the plan."""
    found = resuming(plan, sight)
    if found is not None and found.without_offset:
        notices().warn(without_offset(found.without_offset, plan.target))
