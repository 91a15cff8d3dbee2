"""A plan as JSON: the same plan and findings give the same text, so that two can be compared.

But for `loss`: it grows while nobody does anything, and is left out of what is compared.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from drctl.engine.kind import Kind
from drctl.engine.ports import Loss
from drctl.engine.registry import KINDS
from drctl.model.finding import Finding
from drctl.model.plan import Plan, Step
from drctl.report.leaving_lines import leaving_rows
from drctl.report.plan_lines import objections, worst_first
from drctl.report.run_reading import described


def plan_document(
    plan: Plan,
    findings: Sequence[Finding],
    violations: Sequence[str],
    execute: str,
    kinds: Mapping[str, Kind] = KINDS,
    loss: Loss | None = None,
) -> dict[str, Any]:
    """The document.

    Args:
        findings: what the guards say now.
        violations: rules of order that the plan breaks.
        execute: the command line that carries it out.
        loss: what is probably lost now; None where nobody asked.
    """
    return {
        "schema": "drctl/plan/1",
        "name": plan.name,
        "link": plan.link,
        "source": plan.source,
        "target": plan.target,
        "fingerprint": plan.fingerprint,
        "basis": dict(sorted(plan.basis.items())),
        "overrides": [
            {"guard": guard, "reason": why} for guard, why in sorted(plan.overrides.items())
        ],
        "steps": [_step(step, kinds) for step in plan.steps],
        "clients": [
            {"step": row.step or None, "words": row.words} for row in leaving_rows(plan, kinds)
        ],
        "loss": None if loss is None else _loss(loss),
        "findings": [_finding(each) for each in worst_first(findings)],
        "refused": [
            *({"by": "order", "guard": None, "reason": each, "cure": ""} for each in violations),
            *(
                {
                    "by": "guard",
                    "guard": each.check,
                    "reason": f"{each.subject}: {each.reason}",
                    "cure": each.cure,
                }
                for each in objections(plan, findings)
            ),
        ],
        "execute": execute,
    }


def _step(step: Step, kinds: Mapping[str, Kind]) -> dict[str, Any]:
    words = described(step, kinds)
    return {
        "id": step.id,
        "kind": step.kind,
        "title": words.title,
        "proof": words.proof,
        "way_back": words.way_back,
        "settings": dict(step.settings),
        "duty": step.duty.value,
        "patience_seconds": step.patience_s,
    }


def _loss(loss: Loss) -> dict[str, Any]:
    return {
        "records": loss.records,
        "at_least": loss.at_least,
        "seconds": loss.seconds,
        "words": loss.words,
        "evidence": list(loss.evidence),
    }


def _finding(finding: Finding) -> dict[str, str]:
    return {
        "check": finding.check,
        "status": finding.status.value,
        "subject": finding.subject,
        "reason": finding.reason,
        "evidence": finding.evidence,
        "cost": finding.cost,
        "cure": finding.cure,
    }
