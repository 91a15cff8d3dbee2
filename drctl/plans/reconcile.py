"""The plan of `drctl reconcile`: one step over the records of a gap result."""

from collections import Counter
from collections.abc import Mapping

from drctl.config.link import Link
from drctl.model.plan import Plan
from drctl.reconcile.planning import ReconcilePlan
from drctl.steps.records import ReconcileResult, ResultSettings

NAME = "reconcile"

_PATIENCE_S = 1.0
"""What is sent is read back at once, and never sent again by itself."""


def reconcile_plan(link: Link, found: ReconcilePlan, settings: ResultSettings) -> Plan:
    """The plan; it has no steps where nothing is to be written."""
    step = ReconcileResult().step(ReconcileResult.name, settings, _PATIENCE_S)
    steps = (step,) if found.writes else ()
    return Plan(NAME, link.name, link.source, link.target, steps, _basis(found), settings.overrides)


def _basis(found: ReconcilePlan) -> Mapping[str, str]:
    gap, records = found.gap, Counter[str]()
    for line in found.lines:
        records[f"{line.action.value} {line.to}".strip()] += line.due.records
    return {
        f"cluster {gap.source}": gap.source_id,
        f"cluster {gap.target}": gap.target_id,
        "gap result": gap.id,
        "records": ", ".join(f"{what}: {number}" for what, number in sorted(records.items())),
    }
