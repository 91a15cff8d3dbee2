"""Endpoints, through which clients find their cluster: state, reader and writer.

`drctl.endpoints` implements the protocols; a reader cannot write.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Protocol

from pydantic import Field

from drctl.model.errors import Refused, Stopped
from drctl.model.typed_json import Number


class ClientRedirect(StrEnum):
    """How connected clients get to the new cluster."""

    CUT = "cut"
    """The proxy closes their connections."""
    LEFT_OPEN = "left-open"
    """The proxy could close them, but is configured not to."""
    LOOKED_UP = "looked-up"
    """They look the endpoint up again after losing every connection."""
    READ_AT_START = "read-at-start"
    """They read the endpoint at startup."""
    BY_COMMAND = "by-command"
    """A user-supplied command, whose effect drctl does not know."""


_WORDS: Mapping[ClientRedirect, str] = {
    ClientRedirect.CUT: (
        "the proxy closes its sessions to {old}, and clients reconnect to {new}; clients that"
        " bypass the proxy stay connected to {old}"
    ),
    ClientRedirect.LEFT_OPEN: (
        "the proxy does not close open sessions to {old} (cut_sessions: false): clients stay"
        " connected to {old} until they are restarted or their sessions are closed"
    ),
    ClientRedirect.LOOKED_UP: (
        "clients look up the endpoint again after losing every broker: while {old} is up, they stay"
        " connected to {old} until they are restarted or its listener is closed"
    ),
    ClientRedirect.READ_AT_START: (
        "clients read the endpoint at startup: they stay connected to {old} until they are"
        " restarted"
    ),
    ClientRedirect.BY_COMMAND: (
        "drctl cannot see whether your command closes connections: if not, clients stay on {old}"
        " until they are restarted or its listener is closed"
    ),
}


def in_words(leaving: ClientRedirect, old: str, new: str) -> str:
    """Explain what happens to clients connected to the old cluster."""
    return _WORDS[leaving].format(old=old, new=new)


class EndpointRejected(Refused):
    """An endpoint rejected the request; nothing was changed."""


class EndpointMoved(Refused):
    """An endpoint changed since it was observed; nothing was changed."""


class EndpointFailed(Stopped):
    """An endpoint was changed in part, or may have been."""


@dataclass(frozen=True, slots=True)
class EndpointState:
    """Where an endpoint points, with everything needed to restore it.

    It is stored in journals and holds no secrets.

    Attributes:
        endpoint: kind, name and address of the endpoint.
        cluster: name of the cluster that clients are sent to; None if there is none, if there are
            several, or if it is unknown.
        message: the state as text.
        evidence: the observed state as JSON, specific to the kind.
        unfinished: what a switch to this cluster has yet to finish, as text: open sessions,
            caches, servers that accept no clients.
        cached_s: how long caches may serve the old answer after a change.
    """

    endpoint: str
    cluster: str | None
    message: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    unfinished: tuple[str, ...] = ()
    cached_s: Annotated[Number, Field(alias="cached_seconds")] = 0.0


class EndpointReader(Protocol):
    """Reads one endpoint."""

    @property
    def endpoint(self) -> str:
        """A unique, stable description of the endpoint."""

    def observe(self) -> EndpointState:
        """Observe where the endpoint points now.

        Raises:
            Unreachable: it does not answer.
            EndpointRejected: it answers and denies access.
        """


class EndpointWriter(Protocol):
    """Changes one endpoint."""

    @property
    def endpoint(self) -> str:
        """A unique, stable description of the endpoint."""

    def switch(self, to: str, before: EndpointState) -> None:
        """Point the endpoint to the cluster of this name. Idempotent.

        Args:
            before: the state when the switch was planned. If the endpoint is neither in this state
                nor switched, somebody else has changed it, and that change is kept.

        Raises:
            EndpointMoved: it was changed by someone else.
            EndpointRejected: it rejected the request; nothing was changed.
            EndpointFailed: it was changed in part, or may have been.
            Unreachable: it could not be reached; nothing was changed.
            Unknown: no answer came to the request.
        """

    def restore(self, before: EndpointState) -> None:
        """Restore the earlier state. Idempotent.

        If the endpoint is neither switched nor in the earlier state, somebody else has changed it,
        and that change is kept.

        Raises:
            EndpointMoved: it was changed by someone else.
            EndpointRejected: it rejected the request; nothing was changed.
            EndpointFailed: it was changed in part, or may have been.
            Unreachable: it could not be reached; nothing was changed.
            Unknown: no answer came to the request.
        """


def must_be_of(endpoint: str, state: EndpointState) -> None:
    """Require the state to belong to this endpoint.

    Raises:
        EndpointMoved: it belongs to another endpoint.
    """
    if state.endpoint != endpoint:
        raise EndpointMoved(
            f"the stored state belongs to {state.endpoint}, not to {endpoint}",
            "use the drctl.yaml with which the run was started",
        )
