"""Drills as JSON and in words: the plan of one, its result, what was cleaned up, all that were."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from drctl.drill.cleaning import Scratch
from drctl.drill.planning import LeftOut, Rehearsal
from drctl.drill.result import Past, Result, Verdict
from drctl.steps.registry import KINDS
from drctl.views.run_words import length
from drctl.views.text import json_time, plain, plural, sentence

VERDICTS = {
    Verdict.PASSED: "passed",
    Verdict.WORSE: "worse than allowed",
    Verdict.FAILED: "did not go through",
    Verdict.UNKNOWN: "not known",
    Verdict.DIED: "died",
}

COLUMNS = ("Began, UTC", "Link", "How", "Verdict", "RTO", "Lost", "Read again", "Skipped", "Why")
"""Of `past_row`."""

_SINCE = {
    "refused": "since the first write that the source refused",
    "last-write": "since the last write that the source took",
}


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
        "left_out": _left_out(planned.left_out),
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
        "began": json_time(result.began),
        "seconds": round(result.seconds, 3),
        "verdict": result.verdict.value,
        "reasons": list(result.reasons),
        **_measures(result),
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
        "left_out": _left_out(result.left_out),
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
        "began": json_time(past.began),
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


def _measures(result: Result) -> dict[str, Any]:
    measures = result.measures
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


def _left_out(steps: Sequence[LeftOut]) -> list[dict[str, str]]:
    return [{"id": each.id, "title": each.title, "why": each.why} for each in steps]


@dataclass(frozen=True, slots=True)
class Figure:
    """A measure, and how it is meant."""

    name: str
    value: str
    how: str


def figures(result: Result) -> tuple[Figure, ...]:
    """RTO, RPO and translation error; none where nothing was measured."""
    measures = result.measures
    if measures is None:
        return ()
    outage, loss, translation = measures.outage, measures.loss, measures.translation
    promised = "no position was committed"
    if translation.promised is not None:
        promised = f"{translation.promised:,} at most were promised"
    return (
        Figure(
            "RTO",
            "not measured" if outage.seconds is None else length(outage.seconds),
            f"first write after {_length(outage.write_s)}, first record read after"
            f" {_length(outage.read_s)}, {_SINCE[outage.since]}",
        ),
        Figure(
            "RPO",
            plural(loss.missing, "record"),
            f"of {loss.acknowledged:,} acknowledged; of the last {length(loss.seconds)} of writes",
        ),
        Figure(
            "Read again",
            plural(translation.reread, "record"),
            f"of {translation.finished:,} that were finished; {promised}",
        ),
        Figure("Skipped", plural(translation.skipped, "record"), "of those on the target"),
    )


def untouched(result: Result) -> str:
    """Whether everything else is as it was."""
    found = result.compared
    if found is None:
        return "whether all else is as it was is not known"
    told = f"{found.counted:,} things compared, and the settings of topics and brokers"
    if found.moved:
        told += f"; {plural(found.moved, 'position')} moved by members of their groups"
    changed = plural(len(found.differences), "difference") if found.differences else "as before"
    return f"{told}: {changed}"


def past_row(past: Past) -> tuple[str, ...]:
    """A drill in the table of all."""
    return (
        f"{past.began:%Y-%m-%d %H:%M}",
        plain(past.link),
        plain(" ".join(filter(None, (past.mode, past.inject)))) or "-",
        VERDICTS[past.verdict],
        "-" if past.rto_s is None else length(past.rto_s),
        "-" if past.missing is None else f"{past.missing:,}",
        "-" if past.reread is None else f"{past.reread:,}",
        "-" if past.skipped is None else f"{past.skipped:,}",
        sentence(past.reasons[0]) if past.reasons else "",
    )


def _length(seconds: float | None) -> str:
    return "a time that is not known" if seconds is None else length(seconds)
