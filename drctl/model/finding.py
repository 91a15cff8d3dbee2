"""What a check says of something that was looked at, or that could not be."""

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How something stands."""

    OK = "ok"
    WARN = "warn"
    """It works, and would cost something in a failover."""
    FAIL = "fail"
    """A failover would go wrong."""
    NOT_CHECKED = "not-checked"
    """Nobody looked, or nobody could: this is never ok."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One answer of one check.

    Attributes:
        check: its name in the registry.
        subject: what was looked at: a connector, a topic, a principal.
        reason: what is true of it, in words for a person.
        evidence: what was seen, as it was seen; empty where nothing was.
        cost: what it would cost in a failover; empty where nothing.
        cure: what to do; where nothing was checked, what to look at.
    """

    check: str
    status: Status
    subject: str
    reason: str
    evidence: str = ""
    cost: str = ""
    cure: str = ""
