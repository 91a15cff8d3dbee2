"""A plan and its result as JSON documents."""

from typing import Any

from drctl.model.groups import Committed
from drctl.offsets.applying import ApplyPlan, Line
from drctl.offsets.journal import ApplyResult


def plan_document(plan: ApplyPlan, execute: str) -> dict[str, Any]:
    """`drctl/offsets-plan/1`.

    Args:
        execute: the command line that carries the plan out.
    """
    return {
        "schema": "drctl/offsets-plan/1",
        **_head(plan),
        "made": plan.made.isoformat(),
        "totals": {action.value: count for action, count in plan.counts.items()},
        "execute": execute,
        "lines": [_line(line) for line in plan.lines],
    }


def result_document(result: ApplyResult, undo: str) -> dict[str, Any]:
    """`drctl/offsets-apply/1`.

    Args:
        undo: the command line that rolls the run back; empty where nothing was written.
    """
    return {
        "schema": "drctl/offsets-apply/1",
        **_head(result.plan),
        "status": result.status,
        "run": result.run or None,
        "journal": result.journal or None,
        "undo": undo or None,
        "seconds": round(result.seconds, 3),
        "totals": {outcome.value: count for outcome, count in result.counts.items()},
        "lines": [
            {
                **_line(each.line),
                "outcome": each.outcome.value,
                "now": _offset(each.now),
                "reason": each.reason,
            }
            for each in result.results
        ],
    }


def _head(plan: ApplyPlan) -> dict[str, Any]:
    return {
        "cluster": {"name": plan.cluster, "id": plan.cluster_id},
        "origin": plan.origin,
        "notes": list(plan.notes),
        "overrides": [{"guard": o.guard.value, "reason": o.reason} for o in plan.overrides],
    }


def _line(line: Line) -> dict[str, Any]:
    found, rests_on = line.rests_on, None
    if found.method:
        age = None if found.age_seconds is None else round(found.age_seconds, 1)
        rests_on = {"method": found.method, "evidence": found.evidence, "age_seconds": age}
    return {
        "group": line.group,
        "topic": line.partition.topic,
        "partition": line.partition.partition,
        "from": _offset(line.before),
        "to": _offset(line.to),
        "rereads_at_most": line.rereads_at_most,
        "rereads_likely": line.rereads_likely,
        "skips_at_most": line.skips_at_most,
        "skips_only_if": line.skips_only_if or None,
        "rests_on": rests_on,
        "action": line.action.value,
        "guard": line.guard.value if line.guard else None,
        "reason": line.reason,
        "overridden": [guard.value for guard in line.overridden],
    }


def _offset(position: Committed | None) -> int | None:
    return None if position is None else position.offset
