"""A finding: the answer of a check."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Status(StrEnum):
    """The result of a check."""

    OK = "ok"
    WARN = "warn"
    """It works, but would cause trouble in a failover."""
    FAIL = "fail"
    """A failover would fail or lose data."""
    NOT_CHECKED = "not-checked"
    """It was not or could not be checked; this never counts as ok."""


class SharedCause(NamedTuple):
    """Why checks could not run, if several share the cause.

    Attributes:
        what: a short name: `cluster a does not answer`.
        why: the error as reported.
    """

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding of a check.

    Attributes:
        check: its name in the registry.
        subject: what was checked: a connector, a topic, a principal.
        reason: the result, as text.
        evidence: the observed values; empty if there are none.
        impact: the consequence in a failover; empty if there is none.
        remedy: what to do; for not-checked, what to check by hand.
        cause: why it could not run, if other checks share the cause; else None.
    """

    check: str
    status: Status
    subject: str
    reason: str
    evidence: str = ""
    impact: str = ""
    remedy: str = ""
    cause: SharedCause | None = None

    @property
    def apart(self) -> str:
        """The reason without the text of the shared cause."""
        return self.reason if self.cause is None else without(self.reason, self.cause)


def without(text: str, cause: SharedCause) -> str:
    """Remove a shared cause from a text; it is reported separately."""
    return text.replace(f": {cause.why}", "").replace(cause.why, cause.what)
