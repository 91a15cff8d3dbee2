"""Sends clients to the target: one of the link's endpoints a step."""

from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

from drctl.engine.kind import Description, Facts, Readback, State, StepKind, Trait
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.endpoints import ClientRedirect, EndpointState, in_words
from drctl.model.errors import Unreachable
from drctl.model.typed_json import Number


@dataclass(frozen=True, slots=True)
class SwitchSettings:
    """Settings from the plan.

    Attributes:
        number: of the endpoint, from 0.
        came_from: the cluster that clients leave.
        redirect: how they leave it; plans of an older drctl do not say.
        probed: whether drctl connects through it, too.
    """

    number: int
    kind: str
    to: str
    came_from: Annotated[str, Field(alias="from")] = ""
    redirect: ClientRedirect | None = None
    probed: bool = False


@dataclass(frozen=True, slots=True)
class SwitchIntent:
    """What is switched.

    Attributes:
        before: as it was observed.
        cluster_id: of the cluster that a client has to come to; empty where none is tried.
    """

    number: int
    to: str
    before: EndpointState
    cluster_id: str = ""


@dataclass(frozen=True, slots=True)
class SwitchFacts:
    """Where it points.

    Attributes:
        cached_seconds: for how long others may still remember what it was before.
        cluster_id: of the cluster that a client came to.
    """

    endpoint: str
    cluster: str | None
    cached_seconds: Number
    cluster_id: str = ""


class SwitchEndpoint(StepKind[SwitchSettings, SwitchIntent, SwitchFacts]):
    """A rollback restores the endpoint as it was observed before."""

    name = "switch-endpoint"
    traits = Trait.CHANGES | Trait.SWITCHES

    def describe(self, settings: SwitchSettings) -> Description:
        """Describe the step for plans and reports."""
        to, clients = settings.to, ""
        proof = f"asked from here, it answers with {to}"
        if settings.probed:
            proof += f", and a client that connects through it is on {to}"
        if settings.redirect:
            clients = in_words(settings.redirect, settings.came_from, to)
        title = f"point endpoint {settings.number + 1} ({settings.kind}) to {to}"
        return Description(title, proof, "put it back as it was", clients)

    def check(self, settings: SwitchSettings, facts: Facts, reader: LinkReader) -> SwitchIntent:
        """How it stands now.

        Raises:
            Unreachable: it does not answer.
        """
        number, to = settings.number, settings.to
        before = reader.endpoint(number).observe()
        return SwitchIntent(
            number, to, before, reader.live_cluster_id(to) if settings.probed else ""
        )

    def apply(self, intent: SwitchIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Switch it, where it is still as it was observed."""
        writer.endpoint(intent.number).switch(intent.to, intent.before)
        return ()

    def verify(self, intent: SwitchIntent, reader: LinkReader) -> Readback[SwitchFacts]:
        """Where it points now, and what is still on its way."""
        now = reader.endpoint(intent.number).observe()
        facts = SwitchFacts(now.endpoint, now.cluster, now.cached_s)
        if now.cluster != intent.to:
            return Readback(State.WAITING, now.words, facts)
        if now.unfinished:
            return Readback(
                State.WAITING, f"{now.words}; {now.unfinished[0]}", facts, now.unfinished
            )
        if intent.cluster_id:
            return _asked(intent, now.words, facts, reader)
        return Readback(State.DONE, now.words, facts)

    def undo(self, intent: SwitchIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Put it back."""
        writer.endpoint(intent.number).restore(intent.before)
        return ()

    def verify_undo(self, intent: SwitchIntent, reader: LinkReader) -> Readback[SwitchFacts]:
        """Whether it points where it did."""
        now = reader.endpoint(intent.number).observe()
        back = now.cluster == intent.before.cluster
        return Readback(State.DONE if back else State.WAITING, now.words)


def _asked(
    intent: SwitchIntent, pointed: str, facts: SwitchFacts, reader: LinkReader
) -> Readback[SwitchFacts]:
    """Whether a client comes to the target, too: caches and health checks may take a while."""
    client = f"{pointed}; a client that connects through it"
    try:
        found = reader.reached(intent.number, intent.to)
    except Unreachable as silent:
        return Readback(State.WAITING, f"{client} gets no answer: {silent.message}", facts)
    facts = replace(facts, cluster_id=found)
    if found != intent.cluster_id:
        words = f"{client} is on cluster {found}, not on {intent.to}"
        return Readback(State.WAITING, words, facts)
    return Readback(State.DONE, f"{client} is on {intent.to}", facts)
