"""Findings as JSON, and what `doctor` found as the document `drctl/doctor/1`."""

from collections.abc import Sequence
from typing import Any

from drctl.checks.causes import Unseen, told_once
from drctl.checks.diagnosis import Diagnosis
from drctl.model.finding import Finding
from drctl.views.text import json_time_of


def finding_json(finding: Finding, causes: Sequence[Unseen]) -> dict[str, Any]:
    """One of them.

    Args:
        causes: those that stand beside, in `causes`.
    """
    because = finding.because
    shared = because if because in {each.because for each in causes} else None
    repeated = shared is not None and finding.evidence == shared.why
    return {
        "check": finding.check,
        "status": finding.status.value,
        "subject": finding.subject,
        "reason": finding.apart if shared else finding.reason,
        "evidence": "" if repeated else finding.evidence,
        "cost": finding.cost,
        "cure": finding.cure,
        "because": shared.what if shared else None,
    }


def causes_json(causes: Sequence[Unseen]) -> list[dict[str, Any]]:
    """What keeps checks from looking, each cause once."""
    return [
        {
            "because": each.because.what,
            "why": each.because.why,
            "count": len(each.checks),
            "checks": list(each.checks),
        }
        for each in causes
    ]


def doctor_document(found: Diagnosis) -> dict[str, Any]:
    """All of it."""
    causes = told_once([row.finding for row in found.rows])[1]
    return {
        "schema": "drctl/doctor/1",
        "link": found.link,
        "source": found.source,
        "target": found.target,
        "at": json_time_of(found.at_ms),
        "ready": found.ready,
        "silent": list(found.silent),
        "counts": {status.value: count for status, count in found.counts.items()},
        "checks": [
            {
                **finding_json(row.finding, causes),
                "family": row.family.value,
                "refuses": row.refuses,
            }
            for row in found.rows
        ],
        "causes": causes_json(causes),
    }
