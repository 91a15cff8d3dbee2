"""A run as JSON: the summary for scripts, and the full report.

Texts are as in the journal; JSON escapes control characters.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal

from drctl.connectors.moving import MovedConnectorDocument
from drctl.engine.run_state import ChainVerdict, Damage
from drctl.model.document import Count, Document, From, Name, Seconds
from drctl.model.loss import LossRangeDocument, Mode
from drctl.views.client_moves import LeavingRow, leaving_rows
from drctl.views.findings import CauseDocument
from drctl.views.run_data import (
    Attempt,
    CommittedOffsets,
    Doing,
    Ending,
    ReportData,
    Rpo,
    Rto,
    RunStatus,
    Span,
    StepReport,
    StepStatus,
    Warned,
    Writes,
)
from drctl.views.run_lines import NextStep, next_steps

_STATUS = {
    # Scripts get four values: an interrupted run can be resumed, like a stopped one.
    RunStatus.INTERRUPTED: "stopped",
    RunStatus.NOT_ENDED: "unknown",
}


class RunStepDocument(Document):
    """A step of a run, for scripts.

    Attributes:
        started: null if it was not started.
        seconds: duration without the time between attempts; null if it was not started.
        detail: observations and problems.
    """

    read = From(StepReport)
    id: Name
    title: Name
    status: StepStatus
    started: datetime | None
    seconds: Seconds | None
    detail: str = read(lambda s: detail(s))


class RunRpoDocument(Document):
    """Records that were not replicated; null if a number is unknown.

    Attributes:
        at_least: lower bound.
        at_most: upper bound.
        seconds: the period in which they were written.
        exact: false for an estimate, or if nothing is known.
    """

    read = From(Rpo)
    records: Count | None = read(lambda r: r.records)
    at_least: Count | None = read(lambda r: r.lost.at_least.records)
    at_most: Count | None = read(lambda r: r.lost.at_most.records)
    seconds: Seconds | None
    exact: bool


class RunDocument(Document):
    """The result of a run.

    Attributes:
        run: its name, for resume, journal and report.
        status: the exit code is 0 for done (1 with outstanding actions), 3 for refused, 4 or 130
            for stopped, 5 for unknown.
        rto_seconds: from the first moment at which a write may be refused (unplanned: from the
            command) until clients can write again; null if it was not measured.
        outstanding: what the run could not do and a later one must do.
        report: the HTML page; null if none was written.
    """

    SCHEMA = "drctl/run/1"
    read = From(ReportData)
    run: Name
    status: Annotated[str, ("enum", ("done", "refused", "stopped", "unknown"))] = read(
        lambda d: _STATUS.get(d.ending.status, d.ending.status.value)
    )
    steps: tuple[RunStepDocument, ...]
    rto_seconds: Seconds | None = read(lambda d: d.rto.seconds)
    rpo: RunRpoDocument
    outstanding: tuple[Name, ...] = read(lambda d: tuple(d.outstanding.values()))
    report: Name | None = None


def detail(step: StepReport) -> str:
    """Join the observations and problems of a step."""
    parts = [step.message, *step.items, *step.errors]
    if step.rolled_back:
        parts.append(f"rolled back: {step.rolled_back}")
    if step.outstanding and step.outstanding != step.message:
        parts.append(f"outstanding: {step.outstanding}")
    return "; ".join(part for part in dict.fromkeys(parts) if part)


class SideDocument(Document):
    """A cluster of the plan.

    Attributes:
        cluster: its name in drctl.yaml.
        id: id of the Kafka cluster; null if it was not observed.
    """

    cluster: Name
    id: Name | None


class ReportPlanDocument(Document):
    """The plan.

    Attributes:
        mode: empty if the plan has none.
    """

    read = From(ReportData)
    name: Name = read(lambda d: d.plan.name)
    link: Name = read(lambda d: d.plan.link)
    mode: Mode | Literal[""] = read(lambda d: Mode(d.mode) if d.mode else "")
    fingerprint: Annotated[str, ("pattern", "^[0-9a-f]{16}$")] = read(lambda d: d.plan.fingerprint)
    source: SideDocument = read(lambda d: _side(d, d.plan.source))
    target: SideDocument = read(lambda d: _side(d, d.plan.target))


def _side(data: ReportData, name: str) -> SideDocument:
    return SideDocument(cluster=name, id=data.ids.get(name))


class EndingDocument(Document):
    """How the run ended, and where.

    Attributes:
        status: not-ended means that it is in progress, or that its process is gone.
        exit_code: null if it has not ended.
        step: the step at which it ended or continues; null if all are done.
        rollback_reason: empty if nothing was rolled back.
    """

    read = From(Ending)
    status: RunStatus
    exit_code: Literal[0, 1, 3, 4, 5, 130] | None
    step: Name | None = read(lambda e: e.step or None)
    message: str
    items: tuple[str, ...]
    rollback_reason: str


class WritesDocument(Document):
    """Where applications can write.

    Attributes:
        to: where applications can write.
        source_fenced: whether the fence of its producers was verified, and is still in place.
    """

    read = From(ReportData)
    to: Writes = read(lambda d: d.writes)
    since: datetime | None = read(lambda d: d.writes_since)
    source_fenced: bool = read(lambda d: d.fenced)


class EndpointsDocument(Document):
    """How many endpoints of the plan were switched."""

    read = From(ReportData)
    switched: Count = read(lambda d: d.endpoints[0])
    all: Count = read(lambda d: d.endpoints[1])


class ReportRpoDocument(LossRangeDocument):
    """Records that were not replicated.

    Attributes:
        seconds: the period in which they were written; null if unknown.
        exact: false for an estimate, or if nothing is known.
        evidence: what an estimate is based on, each item with its age when the loss was estimated.
    """

    seconds: Seconds | None
    exact: bool
    how: Name
    evidence: tuple[Name, ...]


class SpanDocument(Document):
    """A period of time.

    Attributes:
        step: null between attempts.
    """

    read = From(Span)
    step: Name | None = read(lambda s: s.step or None)
    doing: Doing
    start: datetime
    seconds: Seconds = read(lambda s: round(s.seconds, 3))


class OverrideDocument(Document):
    """A precheck that was overridden."""

    precheck: Name
    reason: Name


class OutstandingDocument(Document):
    """What a later run must do."""

    step: Name
    what: Name


class ChainDocument(Document):
    """Whether the journal is intact.

    Attributes:
        damage: null if it is intact.
    """

    read = From(ChainVerdict)
    lines: Count
    digest: Annotated[str, ("pattern", "^[0-9a-f]{64}$")] = read(lambda c: c.head.digest)
    ended: bool
    damage: Damage | None
    message: str


class ReportDocument(Document):
    """The full report of a run.

    Attributes:
        until: time of the last journal entry.
        clients: what happens to clients that are connected to the source.
        spans: what the time was spent on, in order.
        warned: warnings of prechecks, and failures that were overridden.
        overrides: prechecks that were overridden.
        committed_offsets: the offsets committed for consumers; null if there are none.
        source_connectors: what the link's source connectors do on the target, and why.
        not_checked: what was not or could not be checked.
        causes: what kept prechecks from running, each cause once.
        journal: null if it was not checked.
    """

    SCHEMA = "drctl/report/1"
    read = From(ReportData)
    run: Name
    plan: ReportPlanDocument = read(ReportPlanDocument.of)
    began: datetime
    until: datetime
    attempts: tuple[Attempt, ...]
    ending: EndingDocument = read(
        lambda d: EndingDocument.of(d.ending, rollback_reason=d.rollback_reason)
    )
    writes: WritesDocument = read(WritesDocument.of)
    endpoints: EndpointsDocument = read(EndpointsDocument.of)
    rto: Rto
    rpo: ReportRpoDocument = read(
        lambda d: ReportRpoDocument.of(d.rpo, **vars(LossRangeDocument.of(d.rpo.lost)))
    )
    steps: tuple[StepReport, ...]
    clients: tuple[LeavingRow, ...] = read(lambda d: leaving_rows(d.plan))
    spans: tuple[SpanDocument, ...]
    warned: tuple[Warned, ...]
    overrides: tuple[OverrideDocument, ...] = read(lambda d: override_documents(d.overrides))
    outstanding: tuple[OutstandingDocument, ...] = read(
        lambda d: tuple(
            OutstandingDocument(step=step, what=what) for step, what in d.outstanding.items()
        )
    )
    committed_offsets: CommittedOffsets | None
    source_connectors: tuple[MovedConnectorDocument, ...]
    not_checked: tuple[Name, ...]
    causes: tuple[CauseDocument, ...] = read(
        lambda d: tuple(
            CauseDocument(cause=u.what, reason=u.why, count=len(u.checks), checks=u.checks)
            for u in d.unseen
        )
    )
    do_now: tuple[NextStep, ...] = read(next_steps)
    journal: ChainDocument | None = read(lambda d: ChainDocument.of(d.chain) if d.chain else None)


def override_documents(overrides: Mapping[str, str]) -> tuple[OverrideDocument, ...]:
    """Return overridden prechecks, each with its reason."""
    return tuple(OverrideDocument(precheck=name, reason=why) for name, why in overrides.items())
