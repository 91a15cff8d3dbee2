"""What a run of elections writes down: before the controller is asked, and after it was looked."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from drctl.elections.planning import ElectionPlan, Line, Objection
from drctl.elections.results import LineResult
from drctl.model.journal import ENDED, Entry
from drctl.model.topology import Unavailable

_VERSION = 1


def began(run: str, plan: ElectionPlan, at: datetime) -> Entry:
    """The first entry."""
    return {
        "entry": "began",
        "version": _VERSION,
        "run": run,
        "at": at.isoformat(),
        "kind": plan.kind.value,
        "cluster": plan.cluster,
        "cluster_id": plan.cluster_id,
        "overrides": {guard.value: reason for guard, reason in plan.overrides.items()},
    }


def intents(lines: Iterable[Line]) -> list[Entry]:
    """One entry for each partition that is about to get an election."""
    return [{"entry": "intent", **_intent(line)} for line in lines]


def outcomes(results: Iterable[LineResult]) -> list[Entry]:
    """One entry for each partition that got one."""
    return [
        {
            "entry": "outcome",
            "topic": each.line.place.topic,
            "partition": each.line.place.partition,
            "outcome": each.outcome.value,
            "leader": each.leader,
            "cut": each.cut.reason if isinstance(each.cut, Unavailable) else each.cut,
            "reason": each.reason,
        }
        for each in results
    ]


def ended(status: str, at: datetime) -> Entry:
    """The last entry."""
    return {"entry": ENDED, "status": status, "at": at.isoformat()}


def _intent(line: Line) -> dict[str, Any]:
    seen, loss = line.partition, line.loss
    assert seen is not None
    return {
        "topic": line.place.topic,
        "partition": line.place.partition,
        "leader": seen.leader,
        "epoch": seen.epoch,
        "replicas": list(seen.replicas),
        "in_sync": list(seen.in_sync),
        "to": line.to,
        "loss": None if loss is None else loss.words,
        "overridden": [_objection(each) for each in line.overridden],
    }


def _objection(each: Objection) -> list[str]:
    return [each.guard.value, each.reason]
