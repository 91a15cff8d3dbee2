"""Sends clients to the target: one of the link's endpoints a step."""

from typing import Any

from drctl.engine.kind import Description, Facts, Seen, State, Trait
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.endpoints import EndpointState, Leaving, in_words
from drctl.model.errors import Unreachable
from drctl.model.plan import Json


class SwitchEndpoint:
    """A rollback restores the endpoint as it was observed before."""

    name = "switch-endpoint"
    traits = Trait.CHANGES | Trait.SWITCHES

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        number, to = settings["number"] + 1, settings["to"]
        asked = f"asked from here, it answers with {to}"
        if settings.get("asked", False):
            asked += f", and a client that connects through it is on {to}"
        title = f"point endpoint {number} ({settings['kind']}) to {to}"
        return Description(title, asked, "put it back as it was", _clients(settings))

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """How it stands now.

        Raises:
            Unreachable: it does not answer.
        """
        number, to = settings["number"], settings["to"]
        before = reader.endpoint(number).observe()
        intent: dict[str, Any] = {"number": number, "to": to, "before": before.to_json()}
        if settings.get("asked", False):
            intent["cluster_id"] = reader.alive(to)
        return intent

    def apply(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        """Switch it, where it is still as it was observed."""
        writer.endpoint(intent["number"]).switch(intent["to"], _before(intent))
        return ()

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """Where it points now, and what is still on its way."""
        now = reader.endpoint(intent["number"]).observe()
        facts = {"endpoint": now.endpoint, "cluster": now.cluster, "cached_seconds": now.cached_s}
        if now.cluster != intent["to"]:
            return Seen(State.WAITING, now.words, facts)
        if now.unfinished:
            return Seen(State.WAITING, f"{now.words}; {now.unfinished[0]}", facts, now.unfinished)
        if "cluster_id" in intent:
            return _asked(intent, Seen(State.DONE, now.words, facts), reader)
        return Seen(State.DONE, now.words, facts)

    def undo(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        """Put it back."""
        writer.endpoint(intent["number"]).restore(_before(intent))
        return ()

    def undone(self, intent: Json, reader: LinkReader) -> Seen:
        """Whether it points where it did."""
        now = reader.endpoint(intent["number"]).observe()
        back = now.cluster == intent["before"]["cluster"]
        return Seen(State.DONE if back else State.WAITING, now.words)


def _clients(settings: Json) -> str:
    """In words; plans of an older drctl do not say how they leave."""
    if "leaving" not in settings:
        return ""
    return in_words(Leaving(settings["leaving"]), settings["from"], settings["to"])


def _asked(intent: Json, pointed: Seen, reader: LinkReader) -> Seen:
    """Whether a client comes to the target, too: caches and health checks may take a while."""
    to, facts = intent["to"], dict(pointed.facts)
    try:
        found = reader.reached(intent["number"], to)
    except Unreachable as silent:
        words = (
            f"{pointed.words}; a client that connects through it gets no answer: {silent.message}"
        )
        return Seen(State.WAITING, words, facts)
    facts["cluster_id"] = found
    if found != intent["cluster_id"]:
        words = (
            f"{pointed.words}; a client that connects through it is on cluster {found}, not on {to}"
        )
        return Seen(State.WAITING, words, facts)
    return Seen(State.DONE, f"{pointed.words}; a client that connects through it is on {to}", facts)


def _before(intent: Json) -> EndpointState:
    return EndpointState.from_json(intent["before"])
