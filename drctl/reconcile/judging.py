"""Reads back what a run left, and says how each line ended."""

from collections.abc import Callable, Mapping

from drctl.model.errors import Unknown
from drctl.model.topology import PartitionOffsets, TopicPartition, Unavailable
from drctl.reconcile.executing import Execution
from drctl.reconcile.planning import Line
from drctl.reconcile.policy import RECORDED
from drctl.reconcile.progress import Kept, Lane, Progress, Segment
from drctl.reconcile.results import Count, LineResult, Outcome, left_alone

Logs = Mapping[TopicPartition, PartitionOffsets | Unavailable]


def judged(
    execution: Execution,
    read_kept: Callable[[], Kept],
    read_logs: Callable[[list[TopicPartition]], Logs],
    failure: str,
) -> tuple[LineResult, ...]:
    """Every line of the plan, held against what the target says now.

    Args:
        failure: why the run ended early; empty where it did not.
    """
    plan = execution.plan
    acted = [line for line in plan.acting if line.action in RECORDED]
    kept: Mapping[Lane, Progress] = {}
    logs: Logs = {}
    silent = ""
    if acted or plan.noted:
        try:
            own = (plan.gap.id, plan.gap.source_id)
            kept = {k.lane: p for k, p in read_kept().items() if (k.result, k.source_id) == own}
            logs = read_logs(sorted({_there(ln, s) for ln in acted for s in _sent(kept, ln)}))
        except Unknown as error:
            silent = error.message
    acting = {line.lane for line in plan.acting}
    return tuple(
        _line(line, execution, kept, logs, silent, failure)
        if line.lane in acting
        else _noted(line, plan.noted, kept, failure or silent)
        for line in plan.lines
    )


def _noted(
    line: Line, noted: Mapping[Lane, Progress], kept: Mapping[Lane, Progress], failure: str
) -> LineResult:
    """Of a line that does nothing; what was taken over has to be there."""
    expected = noted.get(line.lane)
    if expected is None or kept.get(line.lane) == expected:
        return left_alone(line)
    reason = failure or "what other results have decided was not read back"
    return LineResult(line, Outcome.UNKNOWN, Count(), reason)


def _line(
    line: Line,
    execution: Execution,
    kept: Mapping[Lane, Progress],
    logs: Logs,
    silent: str,
    failure: str,
) -> LineResult:
    lane = line.lane
    count = execution.counts.get(lane, Count())
    if line.action not in RECORDED:
        whole = count.records + count.gone == line.due.records and bool(execution.exported)
        return LineResult(line, Outcome.DONE if whole else Outcome.PARTIAL, count, failure)
    if silent:
        return LineResult(line, Outcome.UNKNOWN, count, f"written, not read back: {silent}")
    known, expected = kept.get(lane), execution.reached.get(lane)
    reached = known.through if known else -1
    if lane in execution.uncommitted and known == expected:
        return LineResult(line, Outcome.UNKNOWN, count, failure)
    if reached < (expected.through if expected else -1):
        reason = f"progress was read back as {reached}"
        return LineResult(line, Outcome.UNKNOWN, count, reason)
    for segment in known.segments if known else ():
        if wrong := _unread(line, segment, logs):
            return LineResult(line, Outcome.UNKNOWN, count, wrong)
    if known is not None and known.records == line.all.records:
        return LineResult(line, Outcome.DONE, count)
    if known is not None and reached >= line.all.last:
        reason = f"{known.records} records are noted of {line.all.records}"
        return LineResult(line, Outcome.UNKNOWN, count, reason)
    return LineResult(line, Outcome.PARTIAL, count, failure)


def _sent(kept: Mapping[Lane, Progress], line: Line) -> list[Segment]:
    known = kept.get(line.lane)
    return [s for s in known.segments if s.to_last >= 0] if known else []


def _there(line: Line, segment: Segment) -> TopicPartition:
    return TopicPartition(segment.to, line.lane.place.partition)


def _unread(line: Line, segment: Segment, logs: Logs) -> str:
    """Why the target does not show what progress says; empty where it does."""
    if segment.to_last < 0:
        return ""
    place = _there(line, segment)
    log = logs.get(place, Unavailable("it was not read back"))
    if isinstance(log, Unavailable):
        return f"{place}: {log.reason}"
    if log.last_stable <= segment.to_last:
        return f"{place} is committed up to {log.last_stable}, not to {segment.to_last}"
    return ""
