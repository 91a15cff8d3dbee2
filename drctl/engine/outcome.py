"""What a run came to, in the words and codes of the contract."""

from dataclasses import dataclass
from enum import StrEnum

from drctl.model.errors import ExitCode


class Status(StrEnum):
    """How a run stands."""

    DONE = "done"
    REFUSED = "refused"
    """Nothing is changed: it was not begun, or everything was put back."""
    STOPPED = "stopped"
    """Something is changed; `drctl resume` goes on."""
    UNKNOWN = "unknown"
    """Something that was sent was not seen to be done; `drctl resume` looks first."""
    INTERRUPTED = "interrupted"


_CODES = {
    Status.DONE: ExitCode.DONE,
    Status.REFUSED: ExitCode.REFUSED,
    Status.STOPPED: ExitCode.STOPPED,
    Status.UNKNOWN: ExitCode.UNKNOWN,
    Status.INTERRUPTED: ExitCode.INTERRUPTED,
}

FINAL = frozenset({Status.DONE, Status.REFUSED})
"""Nobody goes on with these."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a run, or of one attempt at it.

    Attributes:
        step: the step that it ended at; empty where all are done.
        items: what is not as wanted, each named.
        owes: whether something is left to a later run.
        over: whether nobody goes on with it though something is changed: that is as it should stay.
        abandoned: whether somebody left it behind as it stood.
    """

    status: Status
    step: str = ""
    words: str = ""
    items: tuple[str, ...] = ()
    owes: bool = False
    over: bool = False
    abandoned: bool = False

    @property
    def exit_code(self) -> ExitCode:
        """What the process exits with: never 0 where something is owed."""
        if self.abandoned or (self.status is Status.DONE and self.owes):
            return ExitCode.FOUND
        return _CODES[self.status]
