"""Where groups would resume with the source lost, said before anything is done: beside the plan.

It is no part of the plan: the evidence ages, and the plan stays the same.
"""

from typing import TYPE_CHECKING

from drctl.cli.console import console
from drctl.engine.steps.commit_offsets import CommitOffsets, Foreseen, foreseen
from drctl.model.errors import DrctlError
from drctl.model.plan import Plan
from drctl.report.plan_lines import without_offset

if TYPE_CHECKING:
    from drctl.cli.runs.link_sight import LinkSight


def resuming(plan: Plan, sight: "LinkSight") -> Foreseen | None:
    """What the plan would do with groups; None where the source is not lost, or nobody can say."""
    steps = [step for step in plan.steps if step.kind == CommitOffsets.name]
    if not steps or "unproven_offsets" not in steps[0].settings:
        return None
    try:
        with console().task("looking for the groups' offsets"):
            return foreseen(steps[0].settings, sight)
    except DrctlError as error:
        console().warn(f"where groups would resume cannot be seen: {error.message}")
        return None


def warn_of_groups(plan: Plan, sight: "LinkSight") -> None:
    """Name the groups without an offset to whoever is about to confirm the plan."""
    found = resuming(plan, sight)
    if found is not None and found.without_offset:
        console().warn(without_offset(found.without_offset, plan.target))
