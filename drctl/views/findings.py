"""What `doctor` found, as the document `drctl/doctor/1`."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from drctl.checks.causes import Unseen, told_once
from drctl.checks.diagnosis import Diagnosis, Row
from drctl.model.finding import Finding


def finding_json(finding: Finding, told: Sequence[Unseen]) -> dict[str, Any]:
    """One of them.

    Args:
        told: causes that are told beside, in `causes`.
    """
    because, found = finding.because, {each.because for each in told}
    shared = because is not None and because in found
    repeated = shared and because is not None and finding.evidence == because.why
    return {
        "check": finding.check,
        "status": finding.status.value,
        "subject": finding.subject,
        "reason": finding.apart if shared else finding.reason,
        "evidence": "" if repeated else finding.evidence,
        "cost": finding.cost,
        "cure": finding.cure,
        "because": because.what if shared and because is not None else None,
    }


def causes_json(told: Sequence[Unseen]) -> list[dict[str, Any]]:
    """What keeps checks from looking, each cause once."""
    return [
        {
            "because": each.because.what,
            "why": each.because.why,
            "count": len(each.checks),
            "checks": list(each.checks),
        }
        for each in told
    ]


SCHEMA = "drctl/doctor/1"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def doctor_document(found: Diagnosis) -> dict[str, Any]:
    """All of it."""
    told = told_once([row.finding for row in found.rows])[1]
    return {
        "schema": SCHEMA,
        "link": found.link,
        "source": found.source,
        "target": found.target,
        "at": (_EPOCH + timedelta(milliseconds=found.at_ms)).isoformat(timespec="milliseconds"),
        "ready": found.ready,
        "silent": list(found.silent),
        "counts": {status.value: count for status, count in found.counts.items()},
        "checks": [_row(row, told) for row in found.rows],
        "causes": causes_json(told),
    }


def _row(row: Row, told: Sequence[Unseen]) -> dict[str, Any]:
    found = finding_json(row.finding, told)
    return {**found, "family": row.family.value, "refuses": row.refuses}
