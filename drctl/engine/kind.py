"""What a kind of step is: it looks, it does, it proves, and it can be taken back.

Only `apply` and `undo` are handed something that can write (`Hands`); everything else gets
something that can only look (`Look`). mypy holds it, tests/engine/test_no_writes.py proves it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Flag, StrEnum, auto
from typing import Protocol

from drctl.engine.ports import Hands, Look
from drctl.model.plan import Json


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

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """Look, and say what would be done: everything needed to do it, again, or to undo it.

        Raises:
            Refused: it must not be done; nothing was changed.
            Unreachable: what would be looked at does not answer.
        """

    def apply(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Do it; doing it twice is as doing it once. What was complained of, item by item.

        Raises:
            Unknown: no answer came after something was sent.
        """

    def verify(self, intent: Json, look: Look) -> Seen:
        """Look whether it is done; asked again and again until it is or time is up."""

    def undo(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Put back what was there before; what was complained of, item by item.

        Raises:
            Unknown: no answer came after something was sent.
        """

    def undone(self, intent: Json, look: Look) -> Seen:
        """Look whether it was put back."""


class Looking:
    """A kind that changes nothing: there is nothing to apply, and nothing to take back."""

    def apply(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Nothing is done."""
        return ()

    def undo(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Nothing was done."""
        return ()

    def undone(self, intent: Json, look: Look) -> Seen:
        """Nothing was done."""
        return Seen(State.DONE, "nothing was changed")
