"""Has a connector leave drctl's own copies out: their originals are where they would come to.

Where they are not, for that cluster has lost them, the connector takes the copies along again.
Either stays where the run turns back, as the copies do: a connector that could not be stopped, or
that somebody lets go on, still brings home what belongs there, and no more.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from drctl.engine.copies_filter import drops_copies, filter_to_add, filter_to_take_out
from drctl.engine.kind import Description, Facts, Seen, State, Trait
from drctl.engine.ports import Hands, Look
from drctl.model.plan import Json
from drctl.wire.provenance import HEADER

_OUT = "what drctl has copied is there for good, and must not come back with whatever starts it"
_ALONG = "a cluster that was emptied gets what drctl has copied in no other way"
_UNSETTLED = frozenset({"UNASSIGNED", "RESTARTING"})


@dataclass(frozen=True, slots=True)
class LeaveCopiesOut:
    """Adds a filter to its configuration, or takes it out; nothing else of it is read or kept.

    Attributes:
        out: whether copies are to be left out.
    """

    name: str
    out: bool

    @property
    def traits(self) -> Trait:
        """What the rules of order need to know."""
        return Trait.CHANGES | Trait.STAYS

    @property
    def _why(self) -> str:
        return _OUT if self.out else _ALONG

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        what = "leave out" if self.out else "take along"
        return Description(
            f"have connector {settings['connector']} {what} records with header {HEADER}",
            "its configuration says so",
            f"none: {self._why}",
        )

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """Which keys are to be changed.

        Raises:
            UsageError: there is no such connector.
            Unreachable: no worker answered.
        """
        name = settings["connector"]
        config = look.connectors().config(name)
        changes: Mapping[str, str | None] = {}
        if drops_copies(config) is not self.out:
            changes = filter_to_add(config) if self.out else filter_to_take_out(config)
        return {"connector": name, "changes": dict(changes)}

    def apply(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Change them."""
        if intent["changes"]:
            hands.connectors().configure(intent["connector"], intent["changes"])
        return ()

    def verify(self, intent: Json, look: Look) -> Seen:
        """Whether it does so."""
        name = intent["connector"]
        drops = drops_copies(look.connectors().config(name))
        words = f"{name} {'leaves out' if drops else 'takes along'} what drctl has copied"
        if drops is not self.out:
            return Seen(State.WAITING, f"{words}, still")
        return _settled(name, look) or Seen(State.DONE, words)

    def undo(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Nothing: it stays."""
        return ()

    def undone(self, intent: Json, look: Look) -> Seen:
        """That it stays."""
        return Seen(State.DONE, self._why, {"stays": self.name} if intent["changes"] else {})


def _settled(name: str, look: Look) -> Seen | None:
    """None once the workers have dealt it out again, as they do when it is configured."""
    state = look.connectors().state(name).state
    if _UNSETTLED.isdisjoint(state.split("+")):
        return None
    return Seen(State.WAITING, f"{name} is {state}")
