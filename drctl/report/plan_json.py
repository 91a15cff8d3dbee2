"""A plan as JSON: the same plan and findings give the same text, so that two can be compared.

But for `loss` and `groups`: they change while nobody does anything, and are left out of what is
compared.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from drctl.checks.causes import told_once
from drctl.engine.kind import Kind
from drctl.engine.registry import KINDS
from drctl.engine.steps.commit_offsets import Foreseen
from drctl.model.finding import Finding, Status
from drctl.model.loss import Loss
from drctl.model.plan import Plan, Step
from drctl.report.finding_json import causes_json, finding_json
from drctl.report.leaving_lines import leaving_rows
from drctl.report.plan_lines import objections_told, worst_first
from drctl.report.run_reading import described


def plan_document(
    plan: Plan,
    findings: Sequence[Finding],
    violations: Sequence[str],
    execute: str,
    kinds: Mapping[str, Kind] = KINDS,
    loss: Loss | None = None,
    groups: Foreseen | None = None,
) -> dict[str, Any]:
    """The document.

    Args:
        findings: what the guards say now.
        violations: rules of order that the plan breaks.
        execute: the command line that carries it out.
        loss: what is probably lost now; None where nobody asked.
        groups: where groups would resume by what is known now; likewise.
    """
    told = told_once([each for each in findings if each.status is not Status.OK])[1]
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
        "loss": None if loss is None else loss.to_json(),
        "groups": None if groups is None else _groups(groups),
        "findings": [finding_json(each, told) for each in worst_first(findings)],
        "causes": causes_json(told),
        "refused": [
            *({"by": "order", "guard": None, "reason": each, "cure": ""} for each in violations),
            *(
                {"by": "guard", "guard": each.guard, "reason": each.words, "cure": each.cure}
                for each in objections_told(plan, findings)
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


def _groups(groups: Foreseen) -> dict[str, Any]:
    return {
        "positions": groups.positions,
        "rereads_at_most": groups.rereads_at_most,
        "rereads_likely": groups.rereads_likely,
        "without_offset": list(groups.without_offset),
        "left_out": list(groups.left_out),
        "groups": [
            {
                "group": name,
                "rereads_at_most": each.at_most,
                "rereads_likely": each.likely,
                "rests_on": each.rests_on[0],
                "age_seconds": None if each.rests_on[1] is None else round(each.rests_on[1], 1),
                "skips_only_if": each.rests_on[2] or None,
            }
            for name, each in groups.rows.items()
        ],
    }
