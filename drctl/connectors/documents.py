"""Plans and results about connectors as JSON."""

from collections.abc import Mapping, Sequence
from typing import Any

from drctl.connectors.applying import Line, OffsetsPlan
from drctl.connectors.diagnosis import explained_json
from drctl.connectors.recovery_plan import Backoff, RecoverPlan
from drctl.connectors.results import OffsetsResult, Restarted, Treated

Document = dict[str, Any]


def recover_plan_document(plan: RecoverPlan, backoff: Backoff, execute: str) -> Document:
    """The plan for connectors that failed."""
    return {
        "schema": "drctl/connect-recover-plan/1",
        **_plan(plan),
        "backoff": [
            {"attempt": row.attempt, "delay_seconds": row.delay_s, "total_seconds": row.total_s}
            for row in backoff.rows()
        ],
        "execute": execute,
    }


def recover_document(
    plan: RecoverPlan,
    run: str,
    code: int,
    restarts: Sequence[Restarted] = (),
    treated: Treated | None = None,
) -> Document:
    """The outcome of such a plan."""
    return {
        "schema": "drctl/connect-recover/1",
        **_plan(plan),
        "run": run,
        "code": code,
        "connectors": [
            {
                "connector": each.name,
                "ending": each.ending.value,
                "restarts": each.attempts,
                "said": each.said,
                "explained": explained_json(each.explained),
            }
            for each in restarts
        ],
        "remedied": None
        if treated is None
        else {
            "code": int(treated.code),
            "words": treated.words,
            "before": treated.before,
            "done": list(treated.done),
        },
    }


def offsets_plan_document(plan: OffsetsPlan, execute: str) -> Document:
    """What positions would be written."""
    return {
        "schema": "drctl/connect-offsets-plan/1",
        **_head(plan),
        "lines": [{**_line(line), "action": line.action.value} for line in plan.lines],
        "execute": execute,
    }


def offsets_result_document(result: OffsetsResult, undo: str) -> Document:
    """What positions were written."""
    return {
        "schema": "drctl/connect-offsets-apply/1",
        **_head(result.plan),
        "run": result.run,
        "status": result.exit_code.name.lower(),
        "before": result.before,
        "undo": undo,
        "lines": [
            {
                **_line(each.line),
                "outcome": each.outcome.value,
                "now": _offset(each.now),
                "reason": each.reason or each.line.reason,
            }
            for each in result.results
        ],
    }


def _plan(plan: RecoverPlan) -> Document:
    return {
        "workers": plan.workers,
        "overrides": dict(plan.overrides),
        "remedy": plan.remedy.value if plan.remedy else None,
        "lines": [
            {
                "connector": line.connector.name,
                "plugin": line.connector.plugin,
                "action": line.action.value,
                "explained": explained_json(line.explained),
                "steps": list(line.steps),
                "consequence": line.consequence,
                "refused": line.refused,
            }
            for line in plan.lines
        ],
    }


def _head(plan: OffsetsPlan) -> Document:
    return {
        "workers": plan.workers,
        "origin": plan.origin,
        "overrides": {guard.value: reason for guard, reason in plan.overrides.items()},
    }


def _line(line: Line) -> Document:
    return {
        "connector": line.connector,
        "from": line.came_from,
        "partition": dict(line.partition),
        "before": _offset(line.before),
        "to": _offset(line.to),
        "guard": line.guard.value if line.guard else None,
        "reason": line.reason,
        "overridden": line.overridden,
    }


def _offset(offset: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    return None if offset is None else dict(offset)
