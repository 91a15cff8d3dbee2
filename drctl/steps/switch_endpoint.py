"""Points an endpoint of the link to the target; one step per endpoint."""

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
        number: the number of the endpoint, from 0.
        to: the cluster that the endpoint should point to.
        came_from: the cluster that clients leave.
        redirect: how clients leave it; None if unknown.
        probed: whether drctl also connects through the endpoint.
    """

    number: int
    kind: str
    to: str
    came_from: Annotated[str, Field(alias="from")] = ""
    redirect: ClientRedirect | None = None
    probed: bool = False


@dataclass(frozen=True, slots=True)
class SwitchIntent:
    """The endpoint to switch.

    Attributes:
        before: its observed state before.
        cluster_id: the id of the cluster that a client must reach; empty if drctl does not connect.
    """

    number: int
    to: str
    before: EndpointState
    cluster_id: str = ""


@dataclass(frozen=True, slots=True)
class SwitchFacts:
    """Where the endpoint points.

    Attributes:
        cached_seconds: how long caches may still return the previous target.
        cluster_id: the id of the cluster that a client reached.
    """

    endpoint: str
    cluster: str | None
    cached_seconds: Number
    cluster_id: str = ""


class SwitchEndpoint(StepKind[SwitchSettings, SwitchIntent, SwitchFacts]):
    """Switches an endpoint; a rollback restores its observed previous state."""

    name = "switch-endpoint"
    traits = Trait.CHANGES | Trait.SWITCHES

    def describe(self, settings: SwitchSettings) -> Description:
        """Describe the step for plans and reports."""
        to, clients = settings.to, ""
        proof = f"the endpoint, as read from this host, points to {to}"
        if settings.probed:
            proof += f", and a client that connects through it is on {to}"
        if settings.redirect:
            clients = in_words(settings.redirect, settings.came_from, to)
        title = f"point endpoint {settings.number + 1} ({settings.kind}) to {to}"
        return Description(title, proof, "restore its previous state", clients)

    def check(self, settings: SwitchSettings, facts: Facts, reader: LinkReader) -> SwitchIntent:
        """Read the endpoint's state.

        Raises:
            Unreachable: it does not respond.
        """
        number, to = settings.number, settings.to
        before = reader.endpoint(number).observe()
        return SwitchIntent(
            number, to, before, reader.live_cluster_id(to) if settings.probed else ""
        )

    def apply(self, intent: SwitchIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Switch the endpoint, unless it has changed since it was observed."""
        writer.endpoint(intent.number).switch(intent.to, intent.before)
        return ()

    def verify(self, intent: SwitchIntent, reader: LinkReader) -> Readback[SwitchFacts]:
        """Verify where the endpoint points, and that no change is pending."""
        now = reader.endpoint(intent.number).observe()
        facts = SwitchFacts(now.endpoint, now.cluster, now.cached_s)
        if now.cluster != intent.to:
            return Readback(State.WAITING, now.message, facts)
        if now.unfinished:
            return Readback(
                State.WAITING, f"{now.message}; {now.unfinished[0]}", facts, now.unfinished
            )
        if intent.cluster_id:
            return _verify_client(intent, now.message, facts, reader)
        return Readback(State.DONE, now.message, facts)

    def undo(self, intent: SwitchIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Restore the previous state."""
        writer.endpoint(intent.number).restore(intent.before)
        return ()

    def verify_undo(self, intent: SwitchIntent, reader: LinkReader) -> Readback[SwitchFacts]:
        """Verify that the endpoint points to the previous cluster."""
        now = reader.endpoint(intent.number).observe()
        back = now.cluster == intent.before.cluster
        return Readback(State.DONE if back else State.WAITING, now.message)


def _verify_client(
    intent: SwitchIntent, pointed: str, facts: SwitchFacts, reader: LinkReader
) -> Readback[SwitchFacts]:
    """Verify that a client reaches the target: caches and health checks may delay that."""
    client = f"{pointed}; a client that connects through it"
    try:
        found = reader.reached(intent.number, intent.to)
    except Unreachable as silent:
        return Readback(State.WAITING, f"{client} gets no answer: {silent.message}", facts)
    facts = replace(facts, cluster_id=found)
    if found != intent.cluster_id:
        message = f"{client} is on cluster {found}, not on {intent.to}"
        return Readback(State.WAITING, message, facts)
    return Readback(State.DONE, f"{client} is on {intent.to}", facts)
