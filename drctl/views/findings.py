"""Findings as JSON and as text, and the document `drctl/doctor/1`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated

from drctl.checks.causes import Unseen, group_by_cause
from drctl.checks.diagnosis import Diagnosis, Row
from drctl.model.document import Count, Document, From, Name
from drctl.model.finding import Finding, Status
from drctl.views.text import sentence
from drctl.views.view import Text


class FindingDocument(Document):
    """A finding of a check.

    Attributes:
        evidence: the observed values; empty if there are none.
        impact: the consequence for a failover; empty if there is none.
        remedy: what to do; for not-checked, what to check by hand.
        cause: why the check could not run, if several checks share the cause; see `causes`.
    """

    read = From(Finding)
    check: Name
    status: Status
    subject: str
    reason: str
    evidence: str
    impact: str
    remedy: str
    cause: str | None = read(lambda f: f.cause.what if f.cause else None)


class CauseDocument(Document):
    """A cause for which several checks could not run.

    Attributes:
        cause: a short name, as in `cause` of these findings.
        reason: the error, as it was reported.
    """

    read = From(Unseen)
    cause: Name = read(lambda c: c.cause.what)
    reason: Name = read(lambda c: c.cause.why)
    count: Annotated[int, ("minimum", 1)] = read(lambda c: len(c.checks))
    checks: tuple[Name, ...]


def without_shared_causes(
    findings: Sequence[Finding], causes: Sequence[Unseen]
) -> Iterator[Finding]:
    """Yield the findings without the text of shared causes, which are listed separately."""
    shared = {each.cause for each in causes}
    for each in findings:
        cause = each.cause
        if cause is None or cause not in shared:
            yield replace(each, cause=None)
        else:
            repeated = each.evidence == cause.why
            yield replace(each, reason=each.apart, evidence="" if repeated else each.evidence)


class CheckDocument(FindingDocument):
    """A finding of a check, with its family.

    Attributes:
        blocks_failover: whether it blocks a planned failover.
    """

    family: str
    blocks_failover: bool = From(Row)(lambda row: row.refuses)


def _causes(found: Diagnosis) -> tuple[Unseen, ...]:
    return group_by_cause([row.finding for row in found.rows])[1]


def _checks(found: Diagnosis) -> Iterator[CheckDocument]:
    findings = without_shared_causes([row.finding for row in found.rows], _causes(found))
    for row, finding in zip(found.rows, findings, strict=True):
        yield CheckDocument.of(row, **vars(FindingDocument.of(finding)))


class DoctorDocument(Document):
    """What `drctl doctor` found.

    Attributes:
        ready: nothing fails, and nothing blocks a planned failover.
        unreachable: clusters that did not answer.
        causes: why checks could not run, each cause once.
    """

    SCHEMA = "drctl/doctor/1"
    read = From(Diagnosis)
    link: str
    source: str
    target: str
    at: datetime = read(lambda d: datetime.fromtimestamp(d.at_ms / 1000, UTC))
    ready: bool
    unreachable: tuple[str, ...] = read(lambda d: d.silent)
    counts: Mapping[Status, Count]
    checks: tuple[CheckDocument, ...] = read(lambda d: tuple(_checks(d)))
    causes: tuple[CauseDocument, ...] = read(lambda d: CauseDocument.each(_causes(d)))


_LABELS = {"reason": "Reason", "evidence": "Evidence", "impact": "Impact", "remedy": "Fix"}


def finding_lines(finding: Finding, style: str, *more: str) -> Iterator[Text]:
    """Yield a finding as one line, and the named fields on the lines below."""
    words = sentence(f"{finding.check}: {finding.subject}: {finding.reason}")
    yield Text(words, style, f"  {finding.status.value:<11} ")
    for name in more:
        label = f"{_LABELS[name]}: "
        for line in filter(None, getattr(finding, name).split("\n")):
            yield Text(f"{'':14}{label}{sentence(line)}", "dim")
            label = " " * len(label)
