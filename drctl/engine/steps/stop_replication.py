"""Stops the connectors that replicate the link; where they came to is the boundary."""

from collections.abc import Callable

from drctl.engine.kind import Description, Facts, Seen, State, Trait
from drctl.engine.ports import Hands, Look
from drctl.model.errors import DrctlError
from drctl.model.plan import Json

STOPPED, RUNNING, PAUSED = "STOPPED", "RUNNING", "PAUSED"

Act = Callable[[str, str], None]


class StopReplication:
    """Their tasks end, their configuration and offsets stay."""

    name = "stop-replication"
    traits = Trait.CHANGES | Trait.STOPS_REPLICATION

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        names = ", ".join(settings["connectors"])
        return Description(
            f"stop replication: connectors {names}",
            "Connect says STOPPED of each and of all tasks",
            "let those go on that ran before",
        )

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """How they stand now.

        Raises:
            UsageError: there is no such connector.
            Unreachable: no worker answered.
        """
        connectors = look.connectors()
        return {"before": {name: connectors.state(name).state for name in settings["connectors"]}}

    def apply(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Stop them; one that is stopped stays so."""
        connectors = hands.connectors()
        return _each(intent, lambda name, _before: connectors.stop(name))

    def verify(self, intent: Json, look: Look) -> Seen:
        """How they stand now, and how far they came."""
        connectors = look.connectors()
        states = {name: connectors.state(name).state for name in intent["before"]}
        others = tuple(f"{name} is {state}" for name, state in states.items() if state != STOPPED)
        if others:
            return Seen(State.WAITING, "; ".join(others), {}, others)
        boundary = {name: list(connectors.offsets(name)) for name in states}
        return Seen(State.DONE, f"{len(states)} connectors are stopped", {"boundary": boundary})

    def undo(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Let those go on that ran, and idle that idled."""
        connectors = hands.connectors()

        def back(name: str, before: str) -> None:
            if before != STOPPED:
                (connectors.pause if before == PAUSED else connectors.resume)(name)

        return _each(intent, back)

    def undone(self, intent: Json, look: Look) -> Seen:
        """Whether they stand as before; one that had failed need only not be stopped."""
        connectors = look.connectors()
        others = []
        for name, before in intent["before"].items():
            now = connectors.state(name).state
            if now != before and (before in (RUNNING, PAUSED, STOPPED) or now == STOPPED):
                others.append(f"{name} is {now}, was {before}")
        if others:
            return Seen(State.WAITING, "; ".join(others), {}, tuple(others))
        return Seen(State.DONE, "the connectors are as they were")


def _each(intent: Json, act: Act) -> tuple[str, ...]:
    """One that does not do as told does not keep the others."""
    complaints = []
    for name, before in intent["before"].items():
        try:
            act(name, before)
        except DrctlError as error:
            complaints.append(f"{name}: {error.message}")
    return tuple(complaints)
