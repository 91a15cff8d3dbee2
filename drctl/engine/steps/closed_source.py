"""Keeps applications from a cluster that was lost and is back, by the means that the link has.

Unlike the fence of a failover it holds while replication writes to the cluster: from then on its
end offsets move, and only the rules are looked at. It is lifted where the cluster is opened.
"""

from dataclasses import dataclass

from drctl.engine.kind import Description, Facts, Kind, Seen, State, Trait
from drctl.engine.ports import Hands, Look
from drctl.engine.steps.command_fence import COMMAND_FENCE
from drctl.engine.steps.fences import FENCE_PRODUCERS
from drctl.engine.steps.manual_fence import MANUAL_FENCE
from drctl.engine.steps.stop_replication import STOPPED
from drctl.model.errors import DrctlError
from drctl.model.plan import Json

_WHY = "a cluster that is back stays closed until its records are found and clients are home"


@dataclass(frozen=True, slots=True)
class ClosedSource:
    """A fence of the source of the other direction; `reverse` names what copies to it."""

    fence: Kind
    name: str

    @property
    def traits(self) -> Trait:
        """What the rules of order need to know."""
        return self.fence.traits | Trait.OTHER_WAY | Trait.STAYS

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        told = self.fence.describe(settings)
        return Description(told.title, told.proof, f"none: {_WHY}")

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """As the fence does.

        Raises:
            Refused: it cannot be set.
            Unreachable: what would be looked at does not answer.
        """
        found = self.fence.check(settings, facts, look.other_way())
        reverse, made_anew = list(settings["reverse"]), settings.get("made_anew", False)
        return {**found, "reverse": reverse, "made_anew": made_anew}

    def apply(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """As the fence does.

        Raises:
            Unknown: no answer came after something was sent.
        """
        return self.fence.apply(intent, hands.other_way())

    def verify(self, intent: Json, look: Look) -> Seen:
        """Whether it holds; and, while nothing copies to the cluster, whether nothing grows."""
        still = _still(intent, look)
        asked = {**intent, "topics": _watched(intent, look) if still else []}
        seen = self.fence.verify(asked, look.other_way())
        # Ends are no facts of this step: what comes home moves them.
        facts = {name: value for name, value in seen.facts.items() if name != "ends"}
        words = seen.words if still else _without_ends(seen)
        return Seen(seen.state, words, facts, seen.items, seen.owes)

    def undo(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Nothing: it stays."""
        return ()

    def undone(self, intent: Json, look: Look) -> Seen:
        """That it stays."""
        return Seen(State.DONE, _WHY, {"stays": self.name} if _changed(intent) else {})


def _still(intent: Json, look: Look) -> bool:
    """Whether end offsets must not move: what copies to the cluster is known, and stopped.

    Where nobody knows it, the search for missing records tells whether anything grew meanwhile.
    """
    if not intent["reverse"]:
        return False
    try:
        states = [look.connectors().state(name).state for name in intent["reverse"]]
    except DrctlError:
        return True
    return all(state == STOPPED for state in states)


def _watched(intent: Json, look: Look) -> list[str]:
    """Topics whose ends must not move; some of a cluster that is filled anew are not there yet."""
    topics: list[str] = intent["topics"]
    if not intent.get("made_anew"):
        return topics
    there = look.site(intent["cluster"]).topic_names()
    return [topic for topic in topics if topic in there]


def _without_ends(seen: Seen) -> str:
    """The words of a proof that has looked at no end offset."""
    if seen.state is not State.DONE:
        return seen.words
    return f"{seen.words.partition(';')[0]}; replication brings home what is new meanwhile"


def _changed(intent: Json) -> bool:
    """Whether there was anything to do; of what a person did nobody knows."""
    return bool(intent["added"]) if "added" in intent else not intent.get("already", False)


CLOSE_SOURCE = ClosedSource(FENCE_PRODUCERS, "close-source")
COMMAND_CLOSE_SOURCE = ClosedSource(COMMAND_FENCE, "command-close-source")
MANUAL_CLOSE_SOURCE = ClosedSource(MANUAL_FENCE, "manual-close-source")
