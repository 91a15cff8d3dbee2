"""The same step, for replication in the direction opposite to the plan's own.

Some of these are never taken back: a cluster that was lost and is back stays closed, and what
copied from it stays stopped, whatever becomes of the run that leads home.
"""

from dataclasses import dataclass, replace

from drctl.engine.kind import Description, Facts, Kind, Seen, State, Trait
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.errors import Refused
from drctl.model.plan import Json
from drctl.steps.source_offsets import going_on, gone_on, log_ends


@dataclass(frozen=True, slots=True)
class OtherWay:
    """A kind that is handed the other direction."""

    kind: Kind
    name: str

    @property
    def traits(self) -> Trait:
        """What the rules of order need to know."""
        return self.kind.traits | Trait.OTHER_WAY

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        return self.kind.describe(settings)

    def check(self, settings: Json, facts: Facts, look: LinkReader) -> Json:
        """As the kind does.

        Raises:
            Refused: it must not be done; nothing was changed.
            Unreachable: what would be looked at does not answer.
        """
        return self.kind.check(settings, facts, look.other_way())

    def apply(self, intent: Json, hands: LinkWriter) -> tuple[str, ...]:
        """As the kind does.

        Raises:
            Unknown: no answer came after something was sent.
        """
        return self.kind.apply(intent, hands.other_way())

    def verify(self, intent: Json, look: LinkReader) -> Seen:
        """As the kind does."""
        return self.kind.verify(intent, look.other_way())

    def undo(self, intent: Json, hands: LinkWriter) -> tuple[str, ...]:
        """As the kind does.

        Raises:
            Unknown: no answer came after something was sent.
        """
        return self.kind.undo(intent, hands.other_way())

    def undone(self, intent: Json, look: LinkReader) -> Seen:
        """As the kind does."""
        return self.kind.undone(intent, look.other_way())


@dataclass(frozen=True, slots=True)
class Stays:
    """A kind whose effect stays where the run turns back.

    Attributes:
        why: it stays, in words that stand behind "none:".
        looks: whether the kind is looked at where the run turns back: it may not stand any more.
    """

    kind: Kind
    name: str
    why: str
    looks: bool = False

    @property
    def traits(self) -> Trait:
        """What the rules of order need to know."""
        return self.kind.traits | Trait.STAYS

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        told = self.kind.describe(settings)
        return Description(told.title, told.proof, f"none: {self.why}")

    def check(self, settings: Json, facts: Facts, look: LinkReader) -> Json:
        """As the kind does.

        Raises:
            Refused: it must not be done; nothing was changed.
            Unreachable: what would be looked at does not answer.
        """
        return self.kind.check(settings, facts, look)

    def apply(self, intent: Json, hands: LinkWriter) -> tuple[str, ...]:
        """As the kind does.

        Raises:
            Unknown: no answer came after something was sent.
        """
        return self.kind.apply(intent, hands)

    def verify(self, intent: Json, look: LinkReader) -> Seen:
        """As the kind does."""
        return self.kind.verify(intent, look)

    def undo(self, intent: Json, hands: LinkWriter) -> tuple[str, ...]:
        """Nothing: it stays."""
        return ()

    def undone(self, intent: Json, look: LinkReader) -> Seen:
        """What stays, and whether it does where that is looked at."""
        seen = self.kind.verify(intent, look) if self.looks else None
        if seen is not None and seen.state is not State.DONE:
            return Seen(seen.state, f"{seen.words}, but: {self.why}", seen.facts, seen.items)
        return Seen(State.DONE, self.why, {"stays": self.name})


_HINT = "see that it is stopped, and stays so; drctl failback --check-order says what came of it"
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class WhileStopped:
    """A kind that is done only while the old replication stands still.

    Attributes:
        refuses: whether it is not done either where the old replication has gone on and was
            stopped again. Else that is owed: by then it is on both clusters.
    """

    kind: Kind
    refuses: bool = True

    @property
    def name(self) -> str:
        """The kind's own."""
        return self.kind.name

    @property
    def traits(self) -> Trait:
        """What the rules of order need to know."""
        return self.kind.traits

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        return self.kind.describe(settings)

    def check(self, settings: Json, facts: Facts, look: LinkReader) -> Json:
        """As the kind does, if the old replication is still stopped.

        Raises:
            Refused: it must not be done; nothing was changed.
            Unreachable: what would be looked at does not answer.
        """
        if running := going_on(facts, look):
            raise Refused(f"{'; '.join(running)}: it was to stay stopped", _HINT)
        moved = gone_on(facts, look)
        if moved and self.refuses:
            raise Refused(f"{_told(moved)}: it was let go on while it was to stay stopped", _HINT)
        found = self.kind.check(settings, facts, look)
        if moved := moved and _by_itself(settings["source"], facts, look):
            found = {**found, "gone_on": list(moved)}
        return found

    def apply(self, intent: Json, hands: LinkWriter) -> tuple[str, ...]:
        """As the kind does.

        Raises:
            Unknown: no answer came after something was sent.
        """
        return self.kind.apply(intent, hands)

    def verify(self, intent: Json, look: LinkReader) -> Seen:
        """As the kind does; what the old replication has copied meanwhile is owed."""
        seen = self.kind.verify(intent, look)
        moved = intent.get("gone_on", ())
        if seen.state is not State.DONE or not moved:
            return seen
        owes = (
            f"{_told(moved)}: it was let go on while it was to stay stopped; what it copied stands"
            " behind newer records, and may be there twice"
        )
        return replace(seen, owes="; ".join(filter(None, (seen.owes, owes))))

    def undo(self, intent: Json, hands: LinkWriter) -> tuple[str, ...]:
        """As the kind does.

        Raises:
            Unknown: no answer came after something was sent.
        """
        return self.kind.undo(intent, hands)

    def undone(self, intent: Json, look: LinkReader) -> Seen:
        """As the kind does."""
        return self.kind.undone(intent, look)


def _by_itself(source: str, facts: Facts, look: LinkReader) -> tuple[str, ...]:
    """A run that was here before may have told it to begin where its source ends.

    Had it come there by itself, its copies would have come home since, and the end moved on.
    """
    old = look.other_way()
    ends = log_ends(old.site(source), old.topics())
    return gone_on(facts, look, {place: end - 1 for place, end in ends.items()})


def _told(moved: tuple[str, ...]) -> str:
    more = len(moved) - _SHOWN
    return "; ".join((*moved[:_SHOWN], *((f"{more} more",) if more > 0 else ())))
