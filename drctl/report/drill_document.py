"""Drills as JSON: the plan of one, its result, what was cleaned up, and all that were."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from drctl.drill.history import Past
from drctl.drill.measuring import Measures
from drctl.drill.names import Scratch
from drctl.drill.planning import Rehearsal
from drctl.drill.result import Result
from drctl.engine.registry import KINDS


def plan_document(
    planned: Rehearsal,
    scratch: Scratch,
    target_topic: Callable[[str], str],
    inject: str,
    refresh_s: float,
    left: Sequence[str],
    execute: str,
) -> dict[str, Any]:
    """What a drill would make and do."""
    plan = planned.plan
    return {
        "schema": "drctl/drill-plan/1",
        "link": plan.link,
        "source": plan.source,
        "target": plan.target,
        "plan": plan.name,
        "inject": inject or None,
        "scratch": {
            "source_topics": [scratch.topic],
            "target_topics": [target_topic(scratch.topic), scratch.canary],
            "groups": [scratch.group],
            "principals": [
                each
                for step in plan.steps
                if step.kind == "fence-producers"
                for each in step.settings["principals"]
            ],
        },
        "seen_within_seconds": refresh_s,
        "steps": [
            {"id": step.id, "title": KINDS[step.kind].describe(step.settings).title}
            for step in plan.steps
        ],
        "left_out": [_left_out(each.id, each.title, each.why) for each in planned.left_out],
        "leftovers": list(left),
        "execute": execute,
    }


def result_document(result: Result, page: str | None) -> dict[str, Any]:
    """What a drill came to."""
    compared = result.compared
    return {
        "schema": "drctl/drill/1",
        "drill": result.scratch.drill,
        "link": result.link,
        "source": result.source,
        "target": result.target,
        "mode": result.mode,
        "inject": result.inject or None,
        "began": _at(result.began),
        "seconds": round(result.seconds, 3),
        "verdict": result.verdict.value,
        "reasons": list(result.reasons),
        **_measures(result.measures, result),
        "steps": [
            {
                "id": step.id,
                "title": step.title,
                "status": step.status,
                "seconds": step.seconds,
                "detail": step.detail,
            }
            for step in result.steps
        ],
        "left_out": [_left_out(each.id, each.title, each.why) for each in result.left_out],
        "untouched": None
        if compared is None
        else {
            "compared": compared.counted,
            "differences": list(compared.differences),
            "moved_by_members": compared.moved,
            "not_seen": list(compared.unseen),
            "not_compared": list(compared.not_compared),
        },
        "cleaned": {"deleted": list(result.deleted), "left": list(result.left)},
        "journal": result.journal or None,
        "history": page,
    }


def clean_document(
    link: str, deleted: Sequence[str], left: Sequence[str], done: bool, execute: str
) -> dict[str, Any]:
    """What dead drills left, and what became of it."""
    return {
        "schema": "drctl/drill-clean/1",
        "link": link,
        "executed": done,
        "deleted": list(deleted),
        "left": list(left),
        "execute": execute,
    }


def history_document(drills: Sequence[Past], damaged: int, page: str | None) -> dict[str, Any]:
    """All drills of this machine, the oldest first."""
    return {
        "schema": "drctl/drill-history/1",
        "drills": [_past(past) for past in drills],
        "damaged_lines": damaged,
        "page": page,
    }


def _past(past: Past) -> dict[str, Any]:
    return {
        "drill": past.drill,
        "link": past.link,
        "began": _at(past.began),
        "mode": past.mode or None,
        "inject": past.inject or None,
        "verdict": past.verdict.value,
        "reasons": list(past.reasons),
        "rto_seconds": past.rto_s,
        "acknowledged": past.acknowledged,
        "missing": past.missing,
        "rpo_seconds": past.rpo_s,
        "reread": past.reread,
        "skipped": past.skipped,
        "steps": dict(past.seconds),
    }


def _measures(measures: Measures | None, result: Result) -> dict[str, Any]:
    limits = {"rto": result.limits.rto_s, "rpo": result.limits.rpo_s}
    if measures is None:
        return {"rto": None, "rpo": None, "translation": None, "limits": limits}
    outage, loss, translation = measures.outage, measures.loss, measures.translation
    return {
        "rto": {
            "seconds": outage.seconds,
            "since": outage.since,
            "write_seconds": outage.write_s,
            "read_seconds": outage.read_s,
        },
        "rpo": {
            "acknowledged": loss.acknowledged,
            "missing": loss.missing,
            "seconds": loss.seconds,
            "duplicated": loss.duplicated,
            "examples": list(loss.examples),
        },
        "translation": {
            "finished": translation.finished,
            "reread": translation.reread,
            "promised": translation.promised,
            "skipped": translation.skipped,
            "left_out": translation.left_out,
            "examples": list(translation.examples),
        },
        "limits": limits,
    }


def _left_out(identity: str, title: str, why: str) -> dict[str, str]:
    return {"id": identity, "title": title, "why": why}


def _at(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds")
