"""Has a connector leave drctl's own copies out: their originals are where they would come to."""

from drctl.engine.copies_filter import drops_copies, filter_to_add
from drctl.engine.kind import Description, Facts, Seen, State, Trait
from drctl.engine.ports import Hands, Look
from drctl.model.plan import Json
from drctl.wire.provenance import HEADER

_UNSETTLED = frozenset({"UNASSIGNED", "RESTARTING"})


class LeaveCopiesOut:
    """Adds a filter to its configuration; nothing else of it is read or kept."""

    name = "leave-copies-out"
    traits = Trait.CHANGES

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        return Description(
            f"have connector {settings['connector']} leave out records with header {HEADER}",
            "its configuration says so",
            "give the keys that were changed their old values",
        )

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """Which keys are to be changed.

        Raises:
            UsageError: there is no such connector.
            Unreachable: no worker answered.
        """
        name = settings["connector"]
        config = look.connectors().config(name)
        changes = {} if drops_copies(config) else filter_to_add(config)
        return {
            "connector": name,
            "changes": changes,
            "before": {key: config.get(key) for key in changes},
        }

    def apply(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Change them."""
        if intent["changes"]:
            hands.connectors().configure(intent["connector"], intent["changes"])
        return ()

    def verify(self, intent: Json, look: Look) -> Seen:
        """Whether it leaves them out."""
        name = intent["connector"]
        if not drops_copies(look.connectors().config(name)):
            return Seen(State.WAITING, f"{name} does not leave out yet what drctl has copied")
        return _settled(name, look) or Seen(State.DONE, f"{name} leaves out what drctl has copied")

    def undo(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Change them back."""
        if intent["changes"]:
            hands.connectors().configure(intent["connector"], intent["before"])
        return ()

    def undone(self, intent: Json, look: Look) -> Seen:
        """Whether they are as before."""
        config = look.connectors().config(intent["connector"])
        others = tuple(key for key, was in intent["before"].items() if config.get(key) != was)
        if others:
            return Seen(State.WAITING, f"{', '.join(others)} are not as before", {}, others)
        return _settled(intent["connector"], look) or Seen(
            State.DONE, "its configuration is as before"
        )


def _settled(name: str, look: Look) -> Seen | None:
    """None once the workers have dealt it out again, as they do when it is configured."""
    state = look.connectors().state(name).state
    if _UNSETTLED.isdisjoint(state.split("+")):
        return None
    return Seen(State.WAITING, f"{name} is {state}")
