"""A run as JSON: the document that scripts rely on, and everything that the report knows.

Texts are as they stand in the journal; JSON escapes what must not be printed.
"""

from datetime import datetime
from typing import Any

from drctl.views.client_moves import leaving_rows
from drctl.views.run_data import ReportData, Standing, StepReport
from drctl.views.run_lines import next_steps
from drctl.views.text import json_time

_STATUS = {
    # Scripts know four words: what was interrupted can be gone on with, like what stopped.
    Standing.INTERRUPTED: "stopped",
    Standing.NOT_ENDED: "unknown",
}


def run_document(data: ReportData, report: str | None = None) -> dict[str, Any]:
    """The contract's document of a run; `report` is where its page was written."""
    standing = data.ending.standing
    return {
        "schema": "drctl/run/1",
        "run": data.run,
        "status": _STATUS.get(standing, standing.value),
        "steps": [
            {
                "id": step.id,
                "title": step.title,
                "status": step.became.value,
                "started": _at(step.started),
                "seconds": step.seconds,
                "detail": detail(step),
            }
            for step in data.steps
        ],
        "rto_seconds": data.rto.seconds,
        "rpo": {
            "records": data.rpo.records,
            "at_least": data.rpo.lost.at_least.records,
            "at_most": data.rpo.lost.at_most.records,
            "seconds": data.rpo.seconds,
            "exact": data.rpo.exact,
        },
        "owed": list(data.owed.values()),
        "report": report,
    }


def detail(step: StepReport) -> str:
    """What was seen of a step, with everything that is not as wanted."""
    told = [step.words, *step.items, *step.complaints]
    if step.taken_back:
        told.append(f"taken back: {step.taken_back}")
    if step.owed and step.owed != step.words:
        told.append(f"owed: {step.owed}")
    return "; ".join(part for part in dict.fromkeys(told) if part)


def report_document(data: ReportData) -> dict[str, Any]:
    """Everything that the report knows."""
    plan, end = data.plan, data.ending
    return {
        "schema": "drctl/report/1",
        "run": data.run,
        "plan": {
            "name": plan.name,
            "link": plan.link,
            "mode": data.mode,
            "fingerprint": plan.fingerprint,
            "source": {"cluster": plan.source, "id": data.ids.get(plan.source)},
            "target": {"cluster": plan.target, "id": data.ids.get(plan.target)},
        },
        "began": _at(data.began),
        "until": _at(data.until),
        "attempts": [
            {
                "who": each.who,
                "host": each.host,
                "began": _at(each.began),
                "until": _at(each.until),
                "ending": each.ending,
            }
            for each in data.attempts
        ],
        "ending": {
            "standing": end.standing.value,
            "exit_code": None if end.exit_code is None else int(end.exit_code),
            "step": end.step or None,
            "words": end.words,
            "items": list(end.items),
            "turned_back": data.turned_back,
        },
        "writes": {
            "to": data.writes.value,
            "since": _at(data.writes_since),
            "source_fenced": data.fenced,
        },
        "endpoints": {"switched": data.endpoints[0], "all": data.endpoints[1]},
        "rto": {
            "seconds": data.rto.seconds,
            "how": data.rto.how,
            "start": _at(data.rto.start),
            "end": _at(data.rto.end),
        },
        "rpo": {
            **data.rpo.lost.to_json(),
            "seconds": data.rpo.seconds,
            "exact": data.rpo.exact,
            "how": data.rpo.how,
            "evidence": list(data.rpo.evidence),
        },
        "steps": [_step(step) for step in data.steps],
        "clients": [
            {"step": row.step or None, "words": row.words} for row in leaving_rows(data.plan)
        ],
        "spans": [
            {
                "step": span.step or None,
                "doing": span.doing.value,
                "start": _at(span.start),
                "seconds": round(span.seconds, 3),
            }
            for span in data.spans
        ],
        "warned": [{"words": each.words, "checked": each.checked} for each in data.warned],
        "overrides": [{"guard": name, "reason": why} for name, why in data.overrides.items()],
        "owed": [{"step": step, "what": what} for step, what in data.owed.items()],
        "positions": _positions(data),
        "not_checked": list(data.not_checked),
        "unseen": [
            {
                "because": each.what,
                "why": each.why,
                "count": len(each.checks),
                "checks": list(each.checks),
            }
            for each in data.unseen
        ],
        "do_now": [
            {"what": each.what, "why": each.why, "command": each.command or None}
            for each in next_steps(data)
        ],
        "journal": _journal(data),
    }


def _step(step: StepReport) -> dict[str, Any]:
    return {
        "number": step.number,
        "id": step.id,
        "kind": step.kind,
        "title": step.title,
        "proof": step.proof,
        "way_back": step.way_back,
        "duty": step.duty.value,
        "changes": step.changes,
        "status": step.became.value,
        "started": _at(step.started),
        "seconds": step.seconds,
        "waited": step.waited,
        "words": step.words,
        "items": list(step.items),
        "complaints": list(step.complaints),
        "owed": step.owed,
        "taken_back": step.taken_back,
    }


def _positions(data: ReportData) -> dict[str, Any] | None:
    found = data.positions
    if found is None:
        return None
    return {
        "positions": found.positions,
        "same": found.same,
        "rereads_at_most": found.rereads_at_most,
        "rereads_likely": found.rereads_likely,
        "left_out": list(found.left_out),
        "without_offset": list(found.without_offset),
        "groups": [
            {
                "group": g.name,
                "positions": g.positions,
                "rereads_at_most": g.rereads_at_most,
                "rereads_likely": g.rereads_likely,
                "rests_on": g.rests_on or None,
                "age_seconds": None if g.age_seconds is None else round(g.age_seconds, 1),
                "skips_only_if": g.skips_only_if or None,
            }
            for g in found.groups
        ],
    }


def _journal(data: ReportData) -> dict[str, Any] | None:
    chain = data.chain
    if chain is None:
        return None
    return {
        "lines": chain.lines,
        "digest": chain.head.digest,
        "ended": chain.ended,
        "harm": None if chain.harm is None else chain.harm.value,
        "words": chain.words,
    }


def _at(at: datetime | None) -> str | None:
    return None if at is None else json_time(at)
