"""`drctl failover`: moves a link's clients from its source to its target."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from drctl.cli.grammar import (
    Answers,
    Execute,
    ExpectPlan,
    Grace,
    LinkName,
    Overrides,
    Patience,
    PlanOut,
    Yes,
)
from drctl.model.loss import Mode

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.model.plan import Plan
    from drctl.plans.inputs import Circumstances


def failover(
    link: LinkName = None,
    mode: Annotated[
        Mode,
        typer.Option(help="planned: both clusters are alive. unplanned: the source is lost."),
    ] = Mode.PLANNED,
    execute: Execute = False,
    yes: Yes = False,
    override: Overrides = None,
    answer: Answers = None,
    patience: Patience = "10m",
    grace: Grace = "20s",
    plan_out: PlanOut = None,
    expect_plan: ExpectPlan = None,
) -> int:
    """Move a link's clients from its source to its target, in an order that loses nothing.

    Without --execute nothing is changed: the plan is printed, with what stands against it. Exit
    codes: 0 done, or nothing stands against the plan; 1 done, and something is owed; 3 refused, or
    everything was put back; 4 stopped part-way; 5 unknown: drctl resume looks first; 130
    interrupted.
    """
    from drctl.cli.grammar import times
    from drctl.cli.running import PlanOptions, show_or_run

    patience_s, grace_s = times(patience, grace)

    def make(_config: "Config", seen: "Circumstances") -> "Plan":
        from drctl.plans.failover import failover as sequence

        return sequence(mode, replace(seen, patience_s=patience_s, grace_s=grace_s))

    given = PlanOptions(
        ("failover", "--mode", mode.value, "--patience", patience, "--grace", grace),
        link,
        mode is Mode.UNPLANNED,
        execute,
        yes,
        tuple(override or ()),
        tuple(answer or ()),
        plan_out,
        expect_plan,
    )
    return show_or_run(given, make)
