"""What a plan of a runbook must keep, beside the rules of order that hold for every plan.

A sequence of drctl keeps these by the way it is made; a runbook is written by a person.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from drctl.engine.invariants import violations
from drctl.engine.kind import Kind, Trait
from drctl.engine.registry import KINDS
from drctl.engine.sequences.failback import leads_home
from drctl.model.plan import Duty, Plan, Step

PREFLIGHT = "preflight"

_REQUIRED: Mapping[Trait, str] = {
    Trait.JUDGES: "a guard that may fail guards nothing",
    Trait.TAKES_STOCK: "what is not written down before a change cannot be put back",
    Trait.DRAINS: "what was not copied would stay behind, and nobody would know",
    Trait.STOPS_REPLICATION: "a replicator that runs on appends old records behind new ones",
    Trait.COMMITS_OFFSETS: "consumers without positions begin anywhere",
    Trait.OPENS: "clients would be sent to a cluster that does not take their writes",
    Trait.FINDS_GAP: "records that nobody found cannot be brought over",
    Trait.RECONCILES: "reverse replication would bury the records that were not brought over",
}


_BY_PEOPLE = frozenset({"manual", "manual-check", "manual-change", "command"})


class Broken(NamedTuple):
    """A rule that a plan breaks.

    Attributes:
        step: the id of the step at which it shows.
    """

    step: str
    text: str


def broken(plan: Plan, kinds: Mapping[str, Kind] = KINDS) -> tuple[Broken, ...]:
    """Every rule that the plan breaks."""
    order = (Broken(line.split()[1], line) for line in violations(plan, kinds))
    return (*order, *_unasked(plan, kinds), *_duties(plan, kinds), *_beside_the_way_home(plan))


def _unasked(plan: Plan, kinds: Mapping[str, Kind]) -> Iterator[Broken]:
    """`check` asks only the guards that it names."""
    asked = False
    for step in plan.steps:
        asked = asked or step.kind == PREFLIGHT
        if Trait.OPENS in kinds[step.kind].traits and not asked:
            why = "a target is opened only where every guard of a failover was asked"
            yield Broken(step.id, f"step {step.id} needs {PREFLIGHT} before it: {why}")


def _beside_the_way_home(plan: Plan) -> Iterator[Broken]:
    """Its steps look along the way home; what a runbook says of the link is meant the other way."""
    if not leads_home(plan.steps):
        return
    sequence = next(step.id for step in plan.steps if leads_home([step])).partition(".")[0]
    for step in plan.steps:
        if step.id.partition(".")[0] != sequence and step.kind not in _BY_PEOPLE:
            why = f"beside a way home stand only {', '.join(sorted(_BY_PEOPLE))}"
            yield Broken(step.id, f"step {step.id} looks at the link the other way: {why}")


def _duties(plan: Plan, kinds: Mapping[str, Kind]) -> Iterator[Broken]:
    drains = any(Trait.DRAINS in kinds[step.kind].traits for step in plan.steps)
    for step in plan.steps:
        if why := _must_be_done(step, kinds[step.kind].traits, drains):
            said = f"step {step.id} must be {Duty.REQUIRED.value}, not {step.duty.value}"
            yield Broken(step.id, f"{said}: {why}")


def _must_be_done(step: Step, traits: Trait, drains: bool) -> str:
    """Why it must; empty where it need not, or is required."""
    if step.duty is Duty.REQUIRED:
        return ""
    for trait, why in _REQUIRED.items():
        if trait in traits:
            return why
    if Trait.FENCES_WRITES in traits:
        if drains:
            return "a source that still takes writes is never drained"
        if step.duty is Duty.OPTIONAL:
            return "a fence that could not be set is owed: best-effort"
    return ""
