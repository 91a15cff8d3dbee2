"""`drctl failover`: moves a link's clients from its source to its target."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from drctl.cli.grammar import Acting, Answers, Grace, LinkName, Patience, asks, times, words_of
from drctl.model.loss import Mode

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.model.plan import Plan
    from drctl.plans.inputs import Circumstances


@dataclass(frozen=True, kw_only=True)
class Failover(Acting):
    """What the command line says."""

    link: LinkName = None
    mode: Annotated[
        Mode, typer.Option(help="planned: both clusters are alive. unplanned: the source is lost.")
    ] = Mode.PLANNED
    patience: Patience = "10m"
    grace: Grace = "20s"
    answer: Answers = ()


@asks
def failover(given: Failover) -> int:
    """Move a link's clients from its source to its target, in an order that loses nothing.

    Without --execute nothing is changed: the plan is printed, with what stands against it. Exit
    codes: 0 done, or nothing stands against the plan; 1 done, and something is owed; 3 refused, or
    everything was put back; 4 stopped part-way; 5 unknown: drctl resume looks first; 130
    interrupted.
    """
    from drctl.cli.running import show_or_run

    timeout_s, grace_s = times(given.patience, given.grace)

    def make(_config: "Config", seen: "Circumstances") -> "Plan":
        from drctl.plans.failover import failover as sequence

        return sequence(given.mode, replace(seen, timeout_s=timeout_s, grace_s=grace_s))

    told = words_of(given, "mode", "patience", "grace", link=None, override=(), answer=())
    lost = given.mode is Mode.UNPLANNED
    return show_or_run(given, ["failover", *told], make, lost=lost)
