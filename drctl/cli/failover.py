"""`drctl failover`: moves clients from the source cluster of a link to its target."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from drctl.cli.grammar import (
    Answers,
    DrainTimeout,
    LinkName,
    PlanRequest,
    WaitForConsumers,
    drain_times,
    takes_request,
    words_of,
)
from drctl.model.loss import Mode

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.model.plan import Plan
    from drctl.plans.inputs import PlanInputs


@dataclass(frozen=True, kw_only=True)
class Failover(PlanRequest):
    """Arguments and options."""

    link: LinkName = None
    mode: Annotated[
        Mode, typer.Option(help="planned: both clusters are up. unplanned: the source is lost.")
    ] = Mode.PLANNED
    timeout: DrainTimeout = "10m"
    wait_for_consumers: WaitForConsumers = "20s"
    answer: Answers = ()


@takes_request
def failover(given: Failover) -> int:
    """Move clients from the source cluster to the target.

    Fences the source, waits until replication has caught up, commits translated offsets for the
    consumer groups and moves the clients. Without --execute nothing is changed: the plan and its
    blockers are printed.

    Examples:
        drctl failover                              # plan, both clusters up
        drctl failover --execute                    # planned failover (switchover)
        drctl failover --mode unplanned --execute   # the source is lost
    """
    from drctl.cli.running import plan_over_link

    timeout_s, drain_window_s = drain_times(given.timeout, given.wait_for_consumers)

    def make(_config: "Config", seen: "PlanInputs") -> "Plan":
        from drctl.plans.failover import failover as sequence

        return sequence(
            given.mode, replace(seen, timeout_s=timeout_s, drain_window_s=drain_window_s)
        )

    shown = ("mode", "timeout", "wait_for_consumers")
    words = words_of(given, *shown, link=None, override=(), answer=())
    lost = given.mode is Mode.UNPLANNED
    return plan_over_link(given, ["failover", *words], make, lost=lost)
