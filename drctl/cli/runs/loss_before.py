"""What a plan would probably lose, estimated before anything is done: a fact beside the plan.

It is no part of the plan: it grows while nobody does anything, and the plan stays the same.
"""

from typing import TYPE_CHECKING

from drctl.cli.console import console
from drctl.cli.runs.loss_sight import ESTIMATING
from drctl.engine.steps.measure_loss import MeasureLoss
from drctl.model.errors import DrctlError
from drctl.model.loss import Loss, not_estimated
from drctl.model.plan import Plan

if TYPE_CHECKING:
    from drctl.cli.runs.link_sight import LinkSight


def estimated(plan: Plan, sight: "LinkSight") -> Loss | None:
    """What a step of the plan would say now; None where it has no step that estimates."""
    if not any(step.kind == MeasureLoss.name for step in plan.steps):
        return None
    try:
        with console().task(ESTIMATING) as task:
            return sight.loss(task)
    except DrctlError as error:
        return not_estimated(error.message)


def warn_of_loss(plan: Plan, sight: "LinkSight") -> None:
    """Say it to whoever is about to be asked whether the plan is to be carried out."""
    loss = estimated(plan, sight)
    if loss is not None:
        console().warn(f"{loss.words}; without --execute it is shown what this rests on")
