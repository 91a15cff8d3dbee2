"""What a kind of step is: it looks, it does, it proves, and it can be taken back.

Only `apply` and `undo` are handed something that can write (`Hands`); everything else gets
something that can only look (`Look`). mypy holds it, tests/engine/test_no_writes.py proves it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Flag, StrEnum, auto
from typing import Protocol

from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.errors import ExitCode
from drctl.model.plan import Json


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


class State(StrEnum):
    """How the effect of a step stands."""

    DONE = "done"
    WAITING = "waiting"
    """Not yet; it may still come."""
    FAILED = "failed"
    """It will not come by waiting."""
    UNKNOWN = "unknown"
    """What would tell does not answer."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a look at the effect of a step showed.

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
    """From here on there is no automatic way back: the target may have taken writes."""
    SWITCHES = auto()
    VERIFIES = auto()
    STARTS_REPLICATION = auto()
    TAKES_STOCK = auto()
    FINDS_GAP = auto()
    RECONCILES = auto()
    EMPTIES = auto()
    """What a cluster holds is given up, to be copied anew."""
    JUDGES = auto()
    """It lets the plan go on only where the guards allow it."""
    OTHER_WAY = auto()
    """It is about replication in the direction opposite to the plan's own."""
    STAYS = auto()
    """What it did is not taken back where the run turns back: `undone` says what stays, and why."""


@dataclass(frozen=True, slots=True)
class Description:
    """A step in words, for plans, runbooks and reports.

    Attributes:
        title: what is done, a short line.
        proof: how it will be known that it was.
        way_back: how it is taken back; empty where it cannot be.
        clients: what becomes of clients that are connected to the old cluster; empty where the
            step has nothing to say of it.
    """

    title: str
    proof: str
    way_back: str = ""
    clients: str = ""


Facts = Mapping[str, Json]
"""What the steps before have shown: by kind, the newest of each."""


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

    def check(self, settings: Json, facts: Facts, look: LinkReader) -> Json:
        """Look, and say what would be done: everything needed to do it, again, or to undo it.

        Raises:
            Refused: it must not be done; nothing was changed.
            Unreachable: what would be looked at does not answer.
        """

    def apply(self, intent: Json, hands: LinkWriter) -> tuple[str, ...]:
        """Do it; doing it twice is as doing it once. What was complained of, item by item.

        Raises:
            Unknown: no answer came after something was sent.
        """

    def verify(self, intent: Json, look: LinkReader) -> Seen:
        """Look whether it is done; asked again and again until it is or time is up."""

    def undo(self, intent: Json, hands: LinkWriter) -> tuple[str, ...]:
        """Put back what was there before; what was complained of, item by item.

        Raises:
            Unknown: no answer came after something was sent.
        """

    def undone(self, intent: Json, look: LinkReader) -> Seen:
        """Look whether it was put back."""


class Polling:
    """A kind that changes nothing: there is nothing to apply, and nothing to take back."""

    def apply(self, intent: Json, hands: LinkWriter) -> tuple[str, ...]:
        """Nothing is done."""
        return ()

    def undo(self, intent: Json, hands: LinkWriter) -> tuple[str, ...]:
        """Nothing was done."""
        return ()

    def undone(self, intent: Json, look: LinkReader) -> Seen:
        """Nothing was done."""
        return Seen(State.DONE, "nothing was changed")
