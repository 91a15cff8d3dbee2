"""What a run writes down before and after; for people, and as evidence of decisions."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from drctl.model.journal import Entry
from drctl.model.topology import TopicPartition
from drctl.reconcile.planning import Line, ReconcilePlan
from drctl.reconcile.progress import Lane, Progress
from drctl.reconcile.results import LineResult

_VERSION = 1


def began(run: str, plan: ReconcilePlan, at: datetime) -> Entry:
    """The first entry."""
    gap = plan.gap
    return {
        "entry": "began",
        "version": _VERSION,
        "run": run,
        "at": at.isoformat(),
        "result": gap.id,
        "link": gap.link,
        "source": [gap.source, gap.source_id],
        "target": [gap.target, gap.target_id],
        "overrides": {each.guard.value: each.reason for each in plan.overrides},
        "passed": [f"{o.guard}: {o.place}: {o.reason}" for o in plan.objections if o.passed],
    }


def taken(over: Mapping[Lane, Progress]) -> list[Entry]:
    """One entry for each lane of which another result's decisions are kept with this one."""
    return [
        {
            "entry": "taken-over",
            "lane": [*lane.place, lane.order.value],
            "through": progress.through,
            "records": progress.records,
        }
        for lane, progress in over.items()
    ]


def intents(lines: Iterable[Line]) -> list[Entry]:
    """One entry for each lane that is about to be acted upon."""
    return [
        {
            "entry": "intent",
            "lane": [*line.lane.place, line.lane.order.value],
            "action": line.action.value,
            "to": line.to,
            "after": line.through,
            "records": line.due.records,
        }
        for line in lines
    ]


def gone(offsets: Iterable[tuple[TopicPartition, int]]) -> list[Entry]:
    """One entry for each partition that does not hold wanted records any more: all of them."""
    by_place: dict[TopicPartition, list[int]] = {}
    for place, offset in offsets:
        by_place.setdefault(place, []).append(offset)
    return [
        {"entry": "gone", "topic": place.topic, "partition": place.partition, "offsets": offsets}
        for place, offsets in by_place.items()
    ]


def outcomes(results: Iterable[LineResult]) -> list[Entry]:
    """One entry for each lane."""
    return [
        {
            "entry": "outcome",
            "lane": [*each.line.lane.place, each.line.lane.order.value],
            "action": each.line.action.value,
            "outcome": each.outcome.value,
            "records": each.count.records,
            "gone": each.count.gone,
            "reason": each.reason,
        }
        for each in results
    ]


def ended(status: str, at: datetime) -> Entry:
    """The last entry."""
    return {"entry": "ended", "status": status, "at": at.isoformat()}
