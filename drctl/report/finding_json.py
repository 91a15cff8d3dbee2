"""A finding as JSON: a cause that several share is told once, beside them."""

from collections.abc import Sequence
from typing import Any

from drctl.checks.causes import Unseen
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
