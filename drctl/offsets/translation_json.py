"""The result of a translation as JSON documents, and its exit code."""

from collections.abc import Mapping
from typing import Any

from drctl.model.errors import ExitCode
from drctl.model.translation import Answer, Translation
from drctl.offsets.choosing import NO_EVIDENCE, NoAnswer
from drctl.offsets.link_translation import LinkTranslated
from drctl.offsets.translating import NEVER, Explained

SCHEMA = "drctl/offsets/1"
EXPLAINED = "drctl/offsets-explain/1"


def translation_document(
    link: str, source: str, target: str, result: LinkTranslated
) -> Mapping[str, Any]:
    """All rows.

    Args:
        link: its name, and those of its clusters.
    """
    known = result.source
    return {
        "schema": SCHEMA,
        "link": link,
        "from": source,
        "to": target,
        "target": {"cluster": target, "id": result.target_id},
        "complete": exit_code(result) is not ExitCode.UNKNOWN,
        "source_unreachable": known.silent,
        "groups_not_seen": [{"group": g, "reason": r} for g, r in sorted(known.unseen.items())],
        "not_translatable": [
            {"group": g, "reason": r} for g, r in sorted(known.untranslatable.items())
        ],
        "positions_elsewhere": known.elsewhere,
        "groups_elsewhere": known.others,
        "missing_evidence": list(result.missing),
        "rows": [row_document(row.translation) for row in result.rows],
    }


def row_document(row: Translation) -> dict[str, Any]:
    """One row as contracted; numbers are null where they are unknown."""
    answer, partition = row.answer, row.place.partition
    return {
        "group": row.place.group,
        "topic": partition.topic,
        "partition": partition.partition,
        "target_topic": row.target.topic if row.target else None,
        "source_offset": row.source_offset,
        "target_offset": answer.target_offset if answer else None,
        "method": answer.method.value if answer else None,
        "rereads_at_most": answer.rereads_at_most if answer else None,
        "rereads_likely": answer.rereads_likely if answer else None,
        "skips_at_most": answer.skips_at_most if answer else None,
        "skips_only_if": (answer.skips_only_if or None) if answer else None,
        "evidence": answer.evidence if answer else "",
        "age_seconds": _rounded(answer.age_seconds) if answer else None,
        "contradictions": list(row.contradictions),
        "blocked": row.blocked or None,
    }


def explained_document(row: Explained) -> Mapping[str, Any]:
    """One row with what every method says."""
    return {
        "schema": EXPLAINED,
        "row": row_document(row.translation),
        "methods": [_said(method, said) for method, said in row.said],
    }


def exit_code(result: LinkTranslated) -> ExitCode:
    """Unknown where evidence is missing; found where a row must be looked at; else done."""
    rows = [row.translation for row in result.rows if row.translation.blocked != NEVER]
    lacking = any(row.blocked == NO_EVIDENCE for row in rows)
    if lacking or result.source.unseen or result.source.silent or result.missing:
        return ExitCode.UNKNOWN
    return ExitCode.FOUND if any(map(questionable, rows)) else ExitCode.DONE


def questionable(row: Translation) -> bool:
    """Whether a person has to check it before it is applied."""
    skips = row.answer is not None and row.answer.skips_at_most != 0
    return bool(row.blocked or row.contradictions or skips)


def _said(method: str, said: Answer | NoAnswer) -> dict[str, Any]:
    if isinstance(said, NoAnswer):
        return {"method": method, "answer": None, "why": said.reason}
    answer = {
        "target_offset": said.target_offset,
        "rereads_at_most": said.rereads_at_most,
        "rereads_likely": said.rereads_likely,
        "skips_at_most": said.skips_at_most,
        "skips_only_if": said.skips_only_if or None,
        "age_seconds": _rounded(said.age_seconds),
    }
    return {"method": method, "answer": answer, "why": said.evidence}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
