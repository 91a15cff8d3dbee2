"""What `doctor` found, as the document `drctl/doctor/1`."""

from datetime import UTC, datetime, timedelta
from typing import Any

from drctl.checks.diagnosis import Diagnosis, Row

SCHEMA = "drctl/doctor/1"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def doctor_document(found: Diagnosis) -> dict[str, Any]:
    """All of it."""
    return {
        "schema": SCHEMA,
        "link": found.link,
        "source": found.source,
        "target": found.target,
        "at": (_EPOCH + timedelta(milliseconds=found.at_ms)).isoformat(timespec="milliseconds"),
        "ready": found.ready,
        "silent": list(found.silent),
        "counts": {status.value: count for status, count in found.counts.items()},
        "checks": [_row(row) for row in found.rows],
    }


def _row(row: Row) -> dict[str, Any]:
    finding = row.finding
    return {
        "check": finding.check,
        "family": row.family.value,
        "status": finding.status.value,
        "refuses": row.refuses,
        "subject": finding.subject,
        "reason": finding.reason,
        "evidence": finding.evidence,
        "cost": finding.cost,
        "cure": finding.cure,
    }
