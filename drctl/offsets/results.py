"""What became of offsets that were to be committed, and plan and result as JSON documents."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple

from drctl.model.groups import Committed, Occupied, Positions
from drctl.model.topology import TopicPartition, Unanswered, Unavailable
from drctl.offsets.applying import WRITES, Action, ApplyPlan, Guard, Line

Place = tuple[str, TopicPartition]
"""A group and a partition."""

Answers = Mapping[Place, Unavailable | None]
"""What coordinators said to writes of this process: None where they did as they were told."""


class Change(NamedTuple):
    """A committed offset that is changed, as intents hold it; None is no committed offset."""

    group: str
    topic: str
    number: int
    before: Committed | None
    to: Committed | None

    @property
    def partition(self) -> TopicPartition:
        """The topic and the number."""
        return TopicPartition(self.topic, self.number)

    @property
    def place(self) -> Place:
        """The group and the partition."""
        return self.group, self.partition


class Outcome(StrEnum):
    """How it ended for one group and partition."""

    COMMITTED = "committed"
    DELETED = "deleted"
    SAME = "same"
    KEPT = "kept"
    REFUSED = "refused"
    FAILED = "failed"
    """It was not written, and no guard had refused it."""
    UNKNOWN = "unknown"
    """It was sent; whether it was written is not known."""


WRITTEN = frozenset({Outcome.COMMITTED, Outcome.DELETED})
DONE = WRITTEN | {Outcome.SAME}


class Became(NamedTuple):
    """What became of one change.

    Attributes:
        now: the committed offset as read back; None where there is none, or it could not be read.
        reason: why it is not done; empty where it is.
        sent: whether this process sent it.
    """

    outcome: Outcome
    now: Committed | None
    reason: str = ""
    guard: Guard | None = None
    sent: bool = True


def became(change: Change, positions: Positions | Unavailable, answers: Answers) -> Became:
    """What was read back, compared with what was answered."""
    sent = change.place in answers
    answer = answers.get(change.place)
    refused = isinstance(answer, Unavailable) and not isinstance(answer, Unanswered)
    if isinstance(positions, Unavailable):
        if answer is not None and refused:
            return Became(Outcome.FAILED, None, answer.reason)
        said = f"no answer: {answer.reason}" if answer else f"not read back: {positions.reason}"
        return Became(Outcome.UNKNOWN, None, said)
    now = positions.get(change.partition)
    if now == change.to:
        return Became(Outcome.DELETED if now is None else Outcome.COMMITTED, now)
    if not sent:
        if now == change.before:
            return Became(Outcome.FAILED, now, "it was not sent", sent=False)
        return Became(Outcome.REFUSED, now, moved(now), Guard.CHANGED_SINCE)
    if isinstance(answer, Unanswered):
        return Became(Outcome.UNKNOWN, now, f"no answer: {answer.reason}")
    if isinstance(answer, Occupied):
        return Became(Outcome.REFUSED, now, answer.reason, Guard.GROUP_ACTIVE)
    said = answer.reason if answer else f"written, but {stated(now)} was read back"
    return Became(Outcome.FAILED, now, said)


def stated(position: Committed | None) -> str:
    """A committed offset in words."""
    return "no position" if position is None else f"position {position.offset}"


def moved(now: Committed | None) -> str:
    """Why an offset that is not as it was planned from is left alone."""
    return f"it has been moved since the plan was made: {stated(now)} now"


class LineResult(NamedTuple):
    """A line of a plan, and what became of it."""

    line: Line
    became: Became


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """What became of a plan.

    Attributes:
        status: the status of the run.
        run: by which `undo` finds it; empty where nothing was to be written.
        journal: where the offsets from before are kept; empty as above.
    """

    plan: ApplyPlan
    results: tuple[LineResult, ...]
    status: str
    run: str = ""
    journal: str = ""
    seconds: float = 0.0

    @property
    def counts(self) -> Mapping[Outcome, int]:
        """How many positions ended in each way."""
        found = Counter(each.became.outcome for each in self.results)
        return {outcome: found[outcome] for outcome in Outcome}

    @property
    def not_done(self) -> tuple[LineResult, ...]:
        """Every position that is not where it was wanted, or may not be."""
        return tuple(each for each in self.results if each.became.outcome not in DONE)


def results_of(plan: ApplyPlan, found: Mapping[Place, Became], why: str) -> tuple[LineResult, ...]:
    """What became of every line.

    Args:
        found: of the lines that were to be written.
        why: why nothing became of one that is not there.
    """
    return tuple(_result(line, found, why) for line in plan.lines)


def _result(line: Line, found: Mapping[Place, Became], why: str) -> LineResult:
    before = line.before
    if line.action not in WRITES:
        return LineResult(line, Became(Outcome(line.action.value), before, line.reason))
    each = found.get((line.group, line.partition), Became(Outcome.FAILED, before, why))
    if each.guard:
        line = replace(line, action=Action.REFUSED, guard=each.guard)
    return LineResult(line, each)


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
            _line(line) | {"outcome": b.outcome.value, "now": _offset(b.now), "reason": b.reason}
            for line, b in result.results
        ],
    }


def _head(plan: ApplyPlan) -> dict[str, Any]:
    return {
        "cluster": {"name": plan.cluster, "id": plan.cluster_id},
        "origin": plan.origin,
        "notes": list(plan.notes),
        "overrides": [{"guard": name, "reason": why} for name, why in plan.overrides.items()],
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
