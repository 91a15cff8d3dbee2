"""The same step, for replication in the direction opposite to the plan's own.

Some of these are never taken back: a cluster that was lost and is back stays closed, and what
copied from it stays stopped, whatever becomes of the run that leads home.
"""

from dataclasses import dataclass

from drctl.engine.kind import Description, Facts, Kind, Seen, State, Trait
from drctl.engine.ports import Hands, Look
from drctl.model.plan import Json


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

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """As the kind does.

        Raises:
            Refused: it must not be done; nothing was changed.
            Unreachable: what would be looked at does not answer.
        """
        return self.kind.check(settings, facts, look.other_way())

    def apply(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """As the kind does.

        Raises:
            Unknown: no answer came after something was sent.
        """
        return self.kind.apply(intent, hands.other_way())

    def verify(self, intent: Json, look: Look) -> Seen:
        """As the kind does."""
        return self.kind.verify(intent, look.other_way())

    def undo(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """As the kind does.

        Raises:
            Unknown: no answer came after something was sent.
        """
        return self.kind.undo(intent, hands.other_way())

    def undone(self, intent: Json, look: Look) -> Seen:
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

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """As the kind does.

        Raises:
            Refused: it must not be done; nothing was changed.
            Unreachable: what would be looked at does not answer.
        """
        return self.kind.check(settings, facts, look)

    def apply(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """As the kind does.

        Raises:
            Unknown: no answer came after something was sent.
        """
        return self.kind.apply(intent, hands)

    def verify(self, intent: Json, look: Look) -> Seen:
        """As the kind does."""
        return self.kind.verify(intent, look)

    def undo(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Nothing: it stays."""
        return ()

    def undone(self, intent: Json, look: Look) -> Seen:
        """What stays, and whether it does where that is looked at."""
        seen = self.kind.verify(intent, look) if self.looks else None
        if seen is not None and seen.state is not State.DONE:
            return Seen(seen.state, f"{seen.words}, but: {self.why}", seen.facts, seen.items)
        return Seen(State.DONE, self.why, {"stays": self.name})
