"""Findings as JSON, and what `doctor` found as the document `drctl/doctor/1`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated

from drctl.checks.causes import Unseen, told_once
from drctl.checks.diagnosis import Diagnosis
from drctl.model.document import Count, Document, From, Name
from drctl.model.finding import Finding, Status
from drctl.views.text import sentence
from drctl.views.view import Text


class FindingDocument(Document):
    """One answer of one check.

    Attributes:
        evidence: empty where nothing was seen.
        cost: what it would cost in a failover; empty where nothing.
        remedy: what to do; where nothing was checked, what to look at.
        because: the cause, told in `causes`, for which nobody could look; the reason does not
            repeat it.
    """

    read = From(Finding)
    check: Name
    status: Status
    subject: str
    reason: str
    evidence: str
    cost: str
    remedy: str
    because: str | None = read(lambda f: f.because.what if f.because else None)


class CauseDocument(Document):
    """What keeps several checks from looking.

    Attributes:
        because: in a few words; `because` of the findings that it keeps from looking.
        why: as it was told.
    """

    read = From(Unseen)
    because: Name = read(lambda c: c.because.what)
    why: Name = read(lambda c: c.because.why)
    count: Annotated[int, ("minimum", 1)] = read(lambda c: len(c.checks))
    checks: tuple[Name, ...]


def beside(findings: Sequence[Finding], causes: Sequence[Unseen]) -> Iterator[Finding]:
    """Findings that do not repeat the causes that stand beside them; without any other cause."""
    shared = {each.because for each in causes}
    for each in findings:
        because = each.because
        if because is None or because not in shared:
            yield replace(each, because=None)
        else:
            repeated = each.evidence == because.why
            yield replace(each, reason=each.apart, evidence="" if repeated else each.evidence)


class CheckDocument(FindingDocument):
    """One answer of one check, and where it belongs.

    Attributes:
        refuses: a planned failover would be refused for it.
    """

    family: str
    refuses: bool


def _causes(found: Diagnosis) -> tuple[Unseen, ...]:
    return told_once([row.finding for row in found.rows])[1]


def _checks(found: Diagnosis) -> Iterator[CheckDocument]:
    told = beside([row.finding for row in found.rows], _causes(found))
    for row, finding in zip(found.rows, told, strict=True):
        yield CheckDocument.of(row, **vars(FindingDocument.of(finding)))


class DoctorDocument(Document):
    """What `drctl doctor` found.

    Attributes:
        ready: nothing fails, and a planned failover would not be refused.
        silent: clusters that did not answer.
        causes: what keeps checks from looking, each cause once.
    """

    SCHEMA = "drctl/doctor/1"
    read = From(Diagnosis)
    link: str
    source: str
    target: str
    at: datetime = read(lambda d: datetime.fromtimestamp(d.at_ms / 1000, UTC))
    ready: bool
    silent: tuple[str, ...]
    counts: Mapping[Status, Count]
    checks: tuple[CheckDocument, ...] = read(lambda d: tuple(_checks(d)))
    causes: tuple[CauseDocument, ...] = read(lambda d: CauseDocument.each(_causes(d)))


def finding_lines(finding: Finding, style: str, *more: str) -> Iterator[Text]:
    """What a check says, and below it more of what it says, by the names of its fields."""
    words = sentence(f"{finding.check}: {finding.subject}: {finding.reason}")
    yield Text(words, style, f"  {finding.status.value:<11} ")
    for name in more:
        if text := getattr(finding, name):
            yield Text(f"{'':14}{name}: {sentence(text)}", "dim")
