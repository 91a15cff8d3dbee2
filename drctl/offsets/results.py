"""What became of offsets that were to be committed, and plan and result as JSON documents."""

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
    """It was not written, and no precheck had refused it."""
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
    precheck: Precheck | None = None
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
        return Became(Outcome.REFUSED, now, moved(now), Precheck.CHANGED_SINCE)
    if isinstance(answer, Unanswered):
        return Became(Outcome.UNKNOWN, now, f"no answer: {answer.reason}")
    if isinstance(answer, GroupActive):
        return Became(Outcome.REFUSED, now, answer.reason, Precheck.GROUP_ACTIVE)
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

    def result(line: Line) -> LineResult:
        if line.action not in WRITES:
            return LineResult(line, Became(Outcome(line.action.value), line.before, line.reason))
        none = Became(Outcome.FAILED, line.before, why)
        each = found.get((line.group, line.partition), none)
        if each.precheck:
            line = replace(line, action=Action.REFUSED, precheck=each.precheck)
        return LineResult(line, each)

    return tuple(map(result, plan.lines))


class OverrideDocument(Document):
    """A precheck that the engineer passes over."""

    precheck: Annotated[str, ("enum", OVERRIDABLE)]
    reason: Name


class HeadDocument(Document):
    """What is applied.

    Attributes:
        origin: what the positions come from, in words.
        notes: what a person should know of them.
        overrides: prechecks that the engineer passes over.
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
    """What a translation found the position by."""

    read = From(BasedOn)
    method: Name
    evidence: str
    age_seconds: Seconds | None = read(lambda found: rounded(found.age_seconds, 1))


class LineDocument(Document):
    """A position.

    Attributes:
        from_: where the group stands; null: it has no position, or nobody could say.
        to: where it is to stand; null: to have no position, or blocked without one.
        rereads_at_most: records it would read again; null: not known.
        rereads_likely: while the source is silent: what is read again if the group consumed nothing
            since the evidence; null where that is not known, or the source answers.
        skips_at_most: records it would never read; null: not known.
        skips_only_if: the condition under which more is skipped than skips_at_most says; null where
            the source answers, or none is known.
        based_on: what a translation found the position by; null for others.
        precheck: that refused; null: none did.
        reason: why it is not written, or not done; empty where it is.
        overridden: prechecks that failed and were passed over.
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
    """What applying positions would do.

    Attributes:
        execute: the command line that carries it out.
    """

    SCHEMA = "drctl/offsets-plan/1"
    read = From(ApplyPlan)
    made: Moment = read(lambda p: p.made.isoformat())
    totals: Mapping[Action, Count] = read(lambda p: p.counts)
    execute: Name
    lines: tuple[LineDocument, ...]


class ResultDocument(LineDocument):
    """A position, and what became of it.

    Attributes:
        now: as read back; null: no position, or not read back.
    """

    read = From(LineResult)
    outcome: Outcome = read(lambda each: each.became.outcome)
    now: Count | None = read(lambda each: _offset(each.became.now))


def _line_result(each: LineResult) -> ResultDocument:
    line = vars(LineDocument.of(each.line))
    return ResultDocument.of(each, **{**line, "reason": each.became.reason})


class OffsetsApplyDocument(HeadDocument):
    """What became of positions that were applied.

    Attributes:
        status: exit code 0, 3, 4, 5.
        run: by which undo finds it; null: nothing was to be written.
        journal: where the previous positions are kept: the topic on the cluster, and a copy on this
            machine.
        undo: the command line that takes it back.
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
    """`drctl/offsets-apply/1`.

    Args:
        undo: the command line that rolls the run back; empty where nothing was written.
    """
    return OffsetsApplyDocument.of(result, **vars(HeadDocument.of(result.plan)), undo=undo or None)


def _offset(position: Committed | None) -> int | None:
    return None if position is None else position.offset
