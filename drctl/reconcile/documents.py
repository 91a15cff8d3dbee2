"""A plan or its result as a JSON document."""

from typing import Any

from drctl.reconcile.policy import Action
from drctl.reconcile.progress import TOPIC
from drctl.reconcile.results import LineResult, ReconcileResult

SCHEMA = "drctl/reconcile/1"

_CONSEQUENCES = (
    (
        Action.COPY,
        "what was appended to a topic cannot be taken back: the header __drctl_provenance finds"
        " the copies",
    ),
    (
        Action.QUARANTINE,
        "what was appended to a quarantine topic stays there; applications do not read it",
    ),
    (
        Action.DISCARD,
        "a discard is noted on the target for good: no later run brings these records over, and"
        " they are gone when the source deletes them",
    ),
    (Action.EXPORT, "an export changes nothing on either cluster"),
)


def way_back(result: ReconcileResult) -> str:
    """Whether what was done, or would be, can be rolled back."""
    ours = {line.action for line in result.plan.acting}
    told = [words for action, words in _CONSEQUENCES if action in ours]
    return "; ".join(told) or "nothing is done that would have to be taken back"


def document(result: ReconcileResult, folder: str, execute: str) -> dict[str, Any]:
    """`drctl/reconcile/1`.

    Args:
        folder: of the gap result.
        execute: the command line that carries it out, or continues.
    """
    plan, gap = result.plan, result.plan.gap
    return {
        "schema": SCHEMA,
        "link": gap.link,
        "gap": {"dir": folder, "id": gap.id, "started": gap.started},
        "source": {"cluster": gap.source, "id": gap.source_id},
        "target": {"cluster": gap.target, "id": gap.target_id},
        "executed": bool(result.run),
        "status": result.status,
        "execute": execute,
        "run": result.run or None,
        "journal": result.journal or None,
        "exported": result.exported or None,
        "progress_topic": TOPIC,
        "seconds": round(result.seconds, 3),
        "failure": result.failure or None,
        "objections": [
            {
                "guard": each.guard.value,
                "topic": each.place.topic if each.place else None,
                "partition": each.place.partition if each.place else None,
                "reason": each.reason,
                "overridden": each.passed,
            }
            for each in plan.objections
        ],
        "overrides": [{"guard": o.guard.value, "reason": o.reason} for o in plan.overrides],
        "notes": list(plan.notes),
        "totals": _totals(result),
        "lines": [_line(each) for each in result.results],
        "gone": [
            {
                "topic": place.topic,
                "partition": place.partition,
                "records": gone.records,
                "offsets": [list(run) for run in gone.runs],
            }
            for place, gone in sorted(result.gone.items())
        ],
        "way_back": way_back(result),
    }


def _totals(result: ReconcileResult) -> dict[str, int]:
    lines = result.plan.lines
    return {
        "records": sum(line.all.records for line in lines),
        "bytes": sum(line.all.bytes for line in lines),
        "done_before": sum(line.all.records - line.due.records for line in lines),
        "due": sum(line.due.records for line in lines if line.acts),
        "refused": sum(line.due.records for line in result.plan.refused),
        "done": sum(each.count.records for each in result.results),
        "gone": sum(each.count.gone for each in result.results),
        "left_out": result.plan.left_out,
    }


def _line(each: LineResult) -> dict[str, Any]:
    line = each.line
    return {
        "topic": line.lane.place.topic,
        "partition": line.lane.place.partition,
        "order": line.lane.order.value,
        "records": line.all.records,
        "bytes": line.all.bytes,
        "due": line.due.records,
        "due_bytes": line.due.bytes,
        "action": line.action.value,
        "to": line.to or None,
        "before": [
            {
                "action": segment.action.value,
                "through": segment.through,
                "records": segment.records,
                "gone": segment.gone,
                "to": segment.to or None,
            }
            for segment in line.done
        ],
        "guard": line.guard.value if line.guard else None,
        "reason": each.reason,
        "outcome": each.outcome.value,
        "done": each.count.records,
        "gone": each.count.gone,
    }
