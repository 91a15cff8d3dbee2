"""Results of committing offsets; plans and results as JSON documents."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, NamedTuple

from drctl.model.document import Count, Document, From, Moment, Name, Seconds, rounded
from drctl.model.groups import Committed, GroupActive, Positions
from drctl.model.topology import TopicPartition, Unanswered, Unavailable
from drctl.offsets.applying import OVERRIDABLE, WRITES, Action, ApplyPlan, BasedOn, Line, Precheck
from drctl.offsets.snapshot import ClusterDocument

Place = tuple[str, TopicPartition]
"""A group and a partition."""

Answers = Mapping[Place, Unavailable | None]
"""Responses of coordinators to writes of this process: None for success."""


class Change(NamedTuple):
    """A change of a committed offset, as stored in intents; None means no committed offset."""

    group: str
    topic: str
    number: int
    before: Committed | None
    to: Committed | None

    @property
    def partition(self) -> TopicPartition:
        """Topic and partition number."""
        return TopicPartition(self.topic, self.number)

    @property
    def place(self) -> Place:
        """Group and partition."""
        return self.group, self.partition


class Outcome(StrEnum):
    """Outcome for one group and partition."""

    COMMITTED = "committed"
    DELETED = "deleted"
    SAME = "same"
    KEPT = "kept"
    REFUSED = "refused"
    FAILED = "failed"
    """Not written, although no precheck refused it."""
    UNKNOWN = "unknown"
    """Sent; unknown whether it was written."""


WRITTEN = frozenset({Outcome.COMMITTED, Outcome.DELETED})
DONE = WRITTEN | {Outcome.SAME}


class CommitOutcome(NamedTuple):
    """The outcome of one change.

    Attributes:
        now: the committed offset as read back; None if there is none or it could not be read.
        reason: why it is not done; empty if it is.
        sent: whether this process sent it.
    """

    outcome: Outcome
    now: Committed | None
    reason: str = ""
    precheck: Precheck | None = None
    sent: bool = True


def outcome_of(
    change: Change, positions: Positions | Unavailable, answers: Answers
) -> CommitOutcome:
    """Determine the outcome from the response and the offset read back."""
    sent = change.place in answers
    answer = answers.get(change.place)
    refused = isinstance(answer, Unavailable) and not isinstance(answer, Unanswered)
    if isinstance(positions, Unavailable):
        if answer is not None and refused:
            return CommitOutcome(Outcome.FAILED, None, answer.reason)
        reason = f"no response: {answer.reason}" if answer else f"not verified: {positions.reason}"
        return CommitOutcome(Outcome.UNKNOWN, None, reason)
    now = positions.get(change.partition)
    if now == change.to:
        return CommitOutcome(Outcome.DELETED if now is None else Outcome.COMMITTED, now)
    if not sent:
        if now == change.before:
            return CommitOutcome(Outcome.FAILED, now, "it was not sent", sent=False)
        return CommitOutcome(Outcome.REFUSED, now, moved(now), Precheck.CHANGED_SINCE)
    if isinstance(answer, Unanswered):
        return CommitOutcome(Outcome.UNKNOWN, now, f"no response: {answer.reason}")
    if isinstance(answer, GroupActive):
        return CommitOutcome(Outcome.REFUSED, now, answer.reason, Precheck.GROUP_ACTIVE)
    reason = answer.reason if answer else f"written, but {stated(now)} was read back"
    return CommitOutcome(Outcome.FAILED, now, reason)


def stated(position: Committed | None) -> str:
    """Describe a committed offset."""
    return "no committed offset" if position is None else f"committed offset {position.offset}"


def moved(now: Committed | None) -> str:
    """Explain why an offset that changed since the plan is not written."""
    return f"changed since the plan was made: now {stated(now)}"


class LineResult(NamedTuple):
    """A line of a plan and its outcome."""

    line: Line
    commit: CommitOutcome


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """The result of a plan.

    Attributes:
        status: status of the run.
        run: run id for `undo`; empty if nothing was to be written.
        journal: file with the previous offsets; empty if nothing was to be written.
    """

    plan: ApplyPlan
    results: tuple[LineResult, ...]
    status: str
    run: str = ""
    journal: str = ""
    seconds: float = 0.0

    @property
    def counts(self) -> Mapping[Outcome, int]:
        """Number of offsets per outcome."""
        found = Counter(each.commit.outcome for each in self.results)
        return {outcome: found[outcome] for outcome in Outcome}

    @property
    def not_done(self) -> tuple[LineResult, ...]:
        """Lines that are not done, or not known to be."""
        return tuple(each for each in self.results if each.commit.outcome not in DONE)


def results_of(
    plan: ApplyPlan, found: Mapping[Place, CommitOutcome], why: str
) -> tuple[LineResult, ...]:
    """Return the result of every line.

    Args:
        found: outcomes of the lines that were to be written.
        why: why a line without an outcome was not written.
    """

    def result(line: Line) -> LineResult:
        if line.action not in WRITES:
            return LineResult(
                line, CommitOutcome(Outcome(line.action.value), line.before, line.reason)
            )
        none = CommitOutcome(Outcome.FAILED, line.before, why)
        each = found.get((line.group, line.partition), none)
        if each.precheck:
            line = replace(line, action=Action.REFUSED, precheck=each.precheck)
        return LineResult(line, each)

    return tuple(map(result, plan.lines))


class OverrideDocument(Document):
    """A precheck that was overridden."""

    precheck: Annotated[str, ("enum", OVERRIDABLE)]
    reason: Name


class HeadDocument(Document):
    """Common part of plan and result.

    Attributes:
        origin: where the offsets come from.
        notes: warnings.
        overrides: overridden prechecks.
    """

    plan = From(ApplyPlan)
    cluster: ClusterDocument = plan(lambda p: ClusterDocument(name=p.cluster, id=p.cluster_id))
    origin: Name
    notes: tuple[str, ...]
    overrides: tuple[OverrideDocument, ...] = plan(
        lambda p: tuple(
            OverrideDocument(precheck=name, reason=why) for name, why in p.overrides.items()
        )
    )


class BasedOnDocument(Document):
    """The evidence of a translation."""

    read = From(BasedOn)
    method: Name
    evidence: str
    age_seconds: Seconds | None = read(lambda found: rounded(found.age_seconds, 1))


class LineDocument(Document):
    """A committed offset.

    Attributes:
        from_: the offset committed now; null if there is none or it could not be read.
        to: the offset to commit; null to delete the committed offset, or if the line is blocked and
            has no offset.
        rereads_at_most: records that are re-read at most; null if unknown.
        rereads_likely: with an unreachable source: records that are re-read if the group consumed
            nothing since the evidence; null if unknown, or if the source is reachable.
        skips_at_most: records that are skipped at most; null if unknown.
        skips_only_if: condition under which more than skips_at_most is skipped; null if the source
            is reachable, or no condition is known.
        based_on: the evidence of a translation; null for other origins.
        precheck: the precheck that refused it; null if none did.
        reason: why it is not written, or why an unchanged offset is committed again; else empty.
        overridden: prechecks that failed and were overridden.
    """

    line = From(Line)
    group: Name
    topic: Name = line(lambda each: each.partition.topic)
    partition: Count = line(lambda each: each.partition.partition)
    from_: Count | None = line(lambda each: _offset(each.before))
    to: Count | None = line(lambda each: _offset(each.to))
    rereads_at_most: Count | None
    rereads_likely: Count | None
    skips_at_most: Count | None
    skips_only_if: Name | None = line(lambda each: each.skips_only_if or None)
    based_on: BasedOnDocument | None = line(
        lambda each: BasedOnDocument.of(each.based_on) if each.based_on.method else None
    )
    action: Action
    precheck: Precheck | None
    reason: str
    overridden: tuple[Annotated[str, ("enum", OVERRIDABLE)], ...] = line(
        lambda each: tuple(precheck.value for precheck in each.overridden)
    )


class OffsetsPlanDocument(HeadDocument):
    """A plan for committing offsets.

    Attributes:
        execute: the command that executes it.
    """

    SCHEMA = "drctl/offsets-plan/1"
    read = From(ApplyPlan)
    made: Moment = read(lambda p: p.made.isoformat())
    totals: Mapping[Action, Count] = read(lambda p: p.counts)
    execute: Name
    lines: tuple[LineDocument, ...]


class ResultDocument(LineDocument):
    """A committed offset and its outcome.

    Attributes:
        now: the offset as read back; null if there is none or it was not read back.
    """

    read = From(LineResult)
    outcome: Outcome = read(lambda each: each.commit.outcome)
    now: Count | None = read(lambda each: _offset(each.commit.now))


def _line_result(each: LineResult) -> ResultDocument:
    line = vars(LineDocument.of(each.line))
    return ResultDocument.of(each, **{**line, "reason": each.commit.reason})


class OffsetsApplyDocument(HeadDocument):
    """The result of committing offsets.

    Attributes:
        status: done: exit code 0; refused 3; stopped 4; unknown 5.
        run: the run's name, for undo; null if there was nothing to commit.
        journal: where the previous offsets are kept: the topic on the cluster, and a local copy.
        undo: the command that restores the previous offsets.
    """

    SCHEMA = "drctl/offsets-apply/1"
    read = From(ApplyResult)
    status: Annotated[str, ("enum", ("done", "refused", "stopped", "unknown"))]
    run: Name | None = read(lambda r: r.run or None)
    journal: Name | None = read(lambda r: r.journal or None)
    undo: Name | None
    seconds: Seconds = read(lambda r: round(r.seconds, 3))
    totals: Mapping[Outcome, Count] = read(lambda r: r.counts)
    lines: tuple[ResultDocument, ...] = read(lambda r: tuple(map(_line_result, r.results)))


def result_document(result: ApplyResult, undo: str) -> OffsetsApplyDocument:
    """Build the `drctl/offsets-apply/1` document.

    Args:
        undo: the command that rolls back the run; empty if nothing was written.
    """
    return OffsetsApplyDocument.of(result, **vars(HeadDocument.of(result.plan)), undo=undo or None)


def _offset(position: Committed | None) -> int | None:
    return None if position is None else position.offset
