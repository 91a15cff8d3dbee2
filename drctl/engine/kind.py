"""A kind of step: what it checks, does, reads back, and how it is rolled back.

Only `apply` and `undo` are handed something that can write (`LinkWriter`); everything else gets
something that can only look (`LinkReader`). mypy checks it, tests/engine/test_no_writes.py proves
it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Flag, StrEnum, auto
from typing import Protocol, TypeVar

from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.errors import ExitCode
from drctl.model.plan import Json
from drctl.model.topology import Unavailable

T = TypeVar("T")


class Status(StrEnum):
    """The status of a run."""

    DONE = "done"
    REFUSED = "refused"
    """Nothing is changed: it was not begun, or everything was put back."""
    STOPPED = "stopped"
    """Something is changed; `drctl resume` continues."""
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
"""Nobody resumes these."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a run, or of one attempt at it.

    Attributes:
        step: the step that it ended at; empty where all are done.
        items: what is not as wanted, each named.
        owes: whether something is left to a later run.
        over: whether nobody resumes it though something is changed: that is as it should stay.
        abandoned: whether somebody gave it up as it was.
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


class State(StrEnum):
    """The state of a step's effect."""

    DONE = "done"
    WAITING = "waiting"
    """Not yet; it may still come."""
    FAILED = "failed"
    """It will not come by waiting."""
    UNKNOWN = "unknown"
    """What would tell does not answer."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An observation of a step's effect.

    Attributes:
        words: what is true, for a person.
        facts: what later steps and the report need of it.
        items: what is not as wanted, each named: a partition, a group, a connector.
        owes: what is done, but for this, which a later run must do; empty where it is all.
    """

    state: State
    words: str
    facts: Json = field(default_factory=dict)
    items: tuple[str, ...] = ()
    owes: str = ""


class Trait(Flag):
    """What the rules of order need to know of a kind; see `drctl.engine.invariants`."""

    NONE = 0
    CHANGES = auto()
    """It has an effect outside."""
    FENCES_WRITES = auto()
    DRAINS = auto()
    QUIESCES = auto()
    REQUESTS_STOP = auto()
    """Replication is told to stop; that it has is for a later step to prove."""
    STOPS_REPLICATION = auto()
    PREPARES_GROUPS = auto()
    COMMITS_OFFSETS = auto()
    SKIPS_PRODUCER_IDS = auto()
    OPENS = auto()
    """From here on nothing is rolled back automatically: the target may have taken writes."""
    SWITCHES = auto()
    VERIFIES = auto()
    STARTS_REPLICATION = auto()
    TAKES_STOCK = auto()
    FINDS_GAP = auto()
    RECONCILES = auto()
    EMPTIES = auto()
    """What a cluster holds is given up, to be copied again from scratch."""
    JUDGES = auto()
    """It lets the plan continue only where the prechecks allow it."""
    OTHER_WAY = auto()
    """It is about replication in the direction opposite to the plan's own."""
    STAYS = auto()
    """A rollback leaves what it did: `undone` says what stays, and why."""


@dataclass(frozen=True, slots=True)
class Description:
    """A step in words, for plans, runbooks and reports.

    Attributes:
        title: what is done, a short line.
        proof: how it will be known that it was.
        way_back: how it is rolled back; empty where it cannot be.
        clients: what becomes of clients that are connected to the old cluster; empty where the
            step has nothing to say of it.
    """

    title: str
    proof: str
    way_back: str = ""
    clients: str = ""


Facts = Mapping[str, Json]
"""The facts of the steps before: by kind, the newest of each."""


class Kind(Protocol):
    """One kind of step."""

    @property
    def name(self) -> str:
        """The name in plans, runbooks and journals."""

    @property
    def traits(self) -> Trait:
        """What the rules of order need to know."""

    def describe(self, settings: Json) -> Description:
        """The step in words."""

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """Look, and say what would be done: everything needed to do it, again, or to undo it.

        Raises:
            Refused: it must not be done; nothing was changed.
            Unreachable: what would be looked at does not answer.
        """

    def apply(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        """Do it; doing it twice is as doing it once. What was complained of, item by item.

        Raises:
            Unknown: no answer came after something was sent.
        """

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """Look whether it is done; asked again and again until it is or time is up."""

    def undo(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        """Put back what was there before; what was complained of, item by item.

        Raises:
            Unknown: no answer came after something was sent.
        """

    def undone(self, intent: Json, reader: LinkReader) -> Seen:
        """Look whether it was put back."""


def complaints(
    answers: Mapping[T, Unavailable | None], name: Callable[[T], str] = str
) -> tuple[str, ...]:
    """What `apply` and `undo` return: each item that was not done, and why."""
    return tuple(f"{name(item)}: {why.reason}" for item, why in answers.items() if why)


class Permanent:
    """A kind whose effect is not rolled back; its `undone` says what stays."""

    def undo(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        """Nothing is rolled back."""
        return ()


class Polling(Permanent):
    """A kind by which drctl changes nothing: nothing to apply, and nothing to roll back."""

    def apply(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        """Nothing is done."""
        return ()

    def undone(self, intent: Json, reader: LinkReader) -> Seen:
        """Nothing was done."""
        return Seen(State.DONE, "nothing was changed")
