"""What tells clients where their cluster is: how it stands now, and what can change it.

A reader cannot write. `drctl.endpoints` implements both.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Protocol

from pydantic import Field

from drctl.model.errors import Refused, Stopped
from drctl.model.typed_json import Number


class ClientRedirect(StrEnum):
    """By what means."""

    CUT = "cut"
    """What they come through cuts their connections."""
    LEFT_OPEN = "left-open"
    """It could, and is told not to."""
    LOOKED_UP = "looked-up"
    """They ask again where to go once they have lost every connection."""
    READ_AT_START = "read-at-start"
    """They read where to go when they start."""
    BY_SITE = "by-site"
    """The site's own means, which drctl does not know."""


_WORDS: Mapping[ClientRedirect, str] = {
    ClientRedirect.CUT: (
        "its sessions to {old} are cut, and clients that come through it connect anew, to {new};"
        " who is connected to a broker of {old} past it stays"
    ),
    ClientRedirect.LEFT_OPEN: (
        "open sessions to {old} are not cut (cut_sessions: false): clients stay there until they"
        " are restarted, or somebody cuts their sessions"
    ),
    ClientRedirect.LOOKED_UP: (
        "clients look it up again when they have lost every broker: while {old} lives they stay"
        " there until they are restarted, or its listener is closed"
    ),
    ClientRedirect.READ_AT_START: (
        "clients read it when they start: they stay on {old} until they are restarted"
    ),
    ClientRedirect.BY_SITE: (
        "whether the site's command cuts connections, drctl cannot see: where it does not, clients"
        " stay on {old} until they are restarted, or its listener is closed"
    ),
}


def in_words(leaving: ClientRedirect, old: str, new: str) -> str:
    """What becomes of clients that are connected to the old cluster."""
    return _WORDS[leaving].format(old=old, new=new)


class EndpointRejected(Refused):
    """An endpoint answered, and did nothing of what was asked."""


class EndpointMoved(Refused):
    """An endpoint is not as it was when it was looked at; nothing was changed."""


class EndpointFailed(Stopped):
    """An endpoint did part of what was asked, or may have."""


@dataclass(frozen=True, slots=True)
class EndpointState:
    """Where an endpoint points, and everything needed to put it back to that.

    It goes into journals: it holds no secrets.

    Attributes:
        endpoint: which one: its kind, its name, and where it was asked.
        cluster: name of the cluster that clients are sent to; None where it is none, or several,
            or cannot be told.
        words: what was seen, for a person.
        evidence: the same as it was seen, in a form of each kind's own; JSON can hold it.
        unfinished: what is not yet as a switch to this cluster leaves it, each in words: open
            sessions, caches, servers that do not take clients.
        cached_s: for how long caches may give out this answer after it has changed.
    """

    endpoint: str
    cluster: str | None
    words: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    unfinished: tuple[str, ...] = ()
    cached_s: Annotated[Number, Field(alias="cached_seconds")] = 0.0


class EndpointReader(Protocol):
    """Looks at one endpoint; has nothing that changes it."""

    @property
    def endpoint(self) -> str:
        """Which one: the same text for the same endpoint, whoever asks."""

    def observe(self) -> EndpointState:
        """Where it points now.

        Raises:
            Unreachable: it does not answer.
            EndpointRejected: it answers, and does not let itself be looked at.
        """


class EndpointWriter(Protocol):
    """Changes one endpoint."""

    @property
    def endpoint(self) -> str:
        """Which one: the same text for the same endpoint, whoever asks."""

    def switch(self, to: str, before: EndpointState) -> None:
        """Point it to the cluster of this name; doing it twice is as doing it once.

        Args:
            before: how it was when the switch was decided. What is neither so, nor as the switch
                leaves it, was changed by somebody else, and stays.

        Raises:
            EndpointMoved: somebody else has changed it since.
            EndpointRejected: it answers, and does not do it; nothing was changed.
            EndpointFailed: it did part of it, or may have.
            Unreachable: it could not be asked; nothing was changed.
            Unknown: no answer came after it had been asked.
        """

    def restore(self, before: EndpointState) -> None:
        """Put it back as it was; doing it twice is as doing it once.

        What is neither so, nor as a switch leaves it, was changed by somebody else, and stays.

        Raises:
            EndpointMoved: somebody else has changed it since.
            EndpointRejected: it answers, and does not do it; nothing was changed.
            EndpointFailed: it did part of it, or may have.
            Unreachable: it could not be asked; nothing was changed.
            Unknown: no answer came after it had been asked.
        """


def must_be_of(endpoint: str, state: EndpointState) -> None:
    """A state is put back where it was seen.

    Raises:
        EndpointMoved: it is another endpoint's.
    """
    if state.endpoint != endpoint:
        raise EndpointMoved(
            f"what was seen is of {state.endpoint}, and this is {endpoint}",
            "use the drctl.yaml that the run began with",
        )
