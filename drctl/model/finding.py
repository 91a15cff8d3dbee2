"""What a check says of something that was looked at, or that could not be."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Status(StrEnum):
    """How something stands."""

    OK = "ok"
    WARN = "warn"
    """It works, and would cost something in a failover."""
    FAIL = "fail"
    """A failover would go wrong."""
    NOT_CHECKED = "not-checked"
    """Nobody looked, or nobody could: this is never ok."""


class Because(NamedTuple):
    """What kept somebody from looking, where it keeps others from it, too.

    Attributes:
        what: in a few words: `cluster a does not answer`.
        why: as it was told.
    """

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One answer of one check.

    Attributes:
        check: its name in the registry.
        subject: what was looked at: a connector, a topic, a principal.
        reason: what is true of it, in words for a person.
        evidence: what was seen, as it was seen; empty where nothing was.
        cost: what it would cost in a failover; empty where nothing.
        remedy: what to do; where nothing was checked, what to look at.
        because: what kept it from looking; None where nothing did, or nothing else is kept by it.
    """

    check: str
    status: Status
    subject: str
    reason: str
    evidence: str = ""
    cost: str = ""
    remedy: str = ""
    because: Because | None = None

    @property
    def apart(self) -> str:
        """The reason without what is told of others, too."""
        return self.reason if self.because is None else without(self.reason, self.because)


def without(text: str, because: Because) -> str:
    """A text, where the cause that it repeats is told elsewhere."""
    return text.replace(f": {because.why}", "").replace(because.why, because.what)
