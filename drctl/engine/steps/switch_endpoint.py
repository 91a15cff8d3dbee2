"""Sends clients to the target: one of the link's endpoints a step."""

from drctl.engine.kind import Description, Facts, Seen, State, Trait
from drctl.engine.ports import Hands, Look
from drctl.model.endpoints import EndpointState
from drctl.model.plan import Json


class SwitchEndpoint:
    """The way back is the endpoint as it was seen before."""

    name = "switch-endpoint"
    traits = Trait.CHANGES | Trait.SWITCHES

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        return Description(
            f"point endpoint {settings['number'] + 1} ({settings['kind']}) to {settings['to']}",
            f"asked from here, it answers with {settings['to']}",
            "put it back as it was",
        )

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """How it stands now.

        Raises:
            Unreachable: it does not answer.
        """
        number = settings["number"]
        before = look.endpoint(number).observe()
        return {"number": number, "to": settings["to"], "before": before.to_json()}

    def apply(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Switch it, where it stands as it was seen."""
        hands.endpoint(intent["number"]).switch(intent["to"], _before(intent))
        return ()

    def verify(self, intent: Json, look: Look) -> Seen:
        """Where it points now, and what is still on its way."""
        now = look.endpoint(intent["number"]).observe()
        facts = {"endpoint": now.endpoint, "cluster": now.cluster, "cached_seconds": now.cached_s}
        if now.cluster != intent["to"]:
            return Seen(State.WAITING, now.words, facts)
        if now.unfinished:
            return Seen(State.WAITING, f"{now.words}; {now.unfinished[0]}", facts, now.unfinished)
        return Seen(State.DONE, now.words, facts)

    def undo(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Put it back."""
        hands.endpoint(intent["number"]).restore(_before(intent))
        return ()

    def undone(self, intent: Json, look: Look) -> Seen:
        """Whether it points where it did."""
        now = look.endpoint(intent["number"]).observe()
        back = now.cluster == intent["before"]["cluster"]
        return Seen(State.DONE if back else State.WAITING, now.words)


def _before(intent: Json) -> EndpointState:
    return EndpointState.from_json(intent["before"])
