"""Drills that were: a line of JSON each, the newest last, and what a line says."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from drctl.config.secret import masked_document
from drctl.model.strict_json import read_json


class Verdict(StrEnum):
    """What a drill came to."""

    PASSED = "passed"
    WORSE = "worse"
    """It went through, and a measure is worse than allowed; or something else changed."""
    FAILED = "failed"
    """It did not go through; what it had made is gone."""
    UNKNOWN = "unknown"
    """Evidence is missing: of how it went, or of whether all else is as it was."""
    DIED = "died"
    """Its process was gone before it ended; a later one cleaned up."""


@dataclass(frozen=True, slots=True)
class Past:
    """One drill.

    Attributes:
        began: with a time zone.
        mode: `planned` or `unplanned`; empty where it did not come so far.
        reasons: why it did not pass.
        seconds: of its steps, by their ids.
    """

    drill: str
    link: str
    began: datetime
    verdict: Verdict
    mode: str = ""
    inject: str = ""
    rto_s: float | None = None
    write_s: float | None = None
    read_s: float | None = None
    acknowledged: int | None = None
    missing: int | None = None
    rpo_s: float | None = None
    reread: int | None = None
    skipped: int | None = None
    reasons: tuple[str, ...] = ()
    seconds: tuple[tuple[str, float], ...] = ()

    def line(self) -> bytes:
        """As it stands in the file, without secrets."""
        data = {**asdict(self), "began": self.began.isoformat(), "seconds": dict(self.seconds)}
        return json.dumps(masked_document(data), separators=(",", ":")).encode()


def read(lines: Iterable[bytes]) -> tuple[tuple[Past, ...], int]:
    """The drills of a file, the oldest first; and how many lines do not tell of one."""
    found: dict[str, Past] = {}
    damaged = 0
    for line in lines:
        past = _read(line)
        if past is None:
            damaged += 1
        else:
            found[past.drill] = past
    return tuple(sorted(found.values(), key=lambda past: past.began)), damaged


def _read(line: bytes) -> Past | None:
    try:
        data: dict[str, Any] = read_json(line)
        began = datetime.fromisoformat(data.pop("began"))
        seconds = tuple((str(k), float(v)) for k, v in data.pop("seconds").items())
        reasons = tuple(map(str, data.pop("reasons")))
        past = Past(
            began=began,
            verdict=Verdict(data.pop("verdict")),
            reasons=reasons,
            seconds=seconds,
            **data,
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return past if began.tzinfo is not None and _sound(past) else None


def _sound(past: Past) -> bool:
    """Whether every field is of its kind; a file may hold anything."""
    texts = (past.drill, past.link, past.mode, past.inject)
    times = (past.rto_s, past.write_s, past.read_s, past.rpo_s)
    counts = (past.acknowledged, past.missing, past.reread, past.skipped)
    return (
        all(isinstance(each, str) for each in texts)
        and all(each is None or type(each) in (int, float) for each in times)
        and all(each is None or type(each) is int for each in counts)
    )
