"""Other links between the same two clusters: while one was lost, what copies over them waited."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from drctl.model.connectors import Connector
from drctl.model.finding import Finding, Status
from drctl.model.pasting import put, quote
from drctl.model.topology import Unavailable

GUARD = "other-links"

_IDLE = frozenset({"STOPPED", "PAUSED"})


@dataclass(frozen=True, slots=True)
class OtherLink:
    """A link that the way home is not about.

    Attributes:
        named: connectors that drctl.yaml names for it.
        known: all that its workers have.
    """

    name: str
    source: str
    target: str
    named: tuple[str, ...]
    known: Mapping[str, Connector] | Unavailable


def other_links(links: Iterable[OtherLink]) -> Iterator[Finding]:
    """What of them does not run; nothing of it keeps anybody from coming home."""
    for link in links:
        if isinstance(link.known, Unavailable):
            reason = f"whether it is copied over is not known: {link.known.reason}"
            yield Finding(GUARD, Status.WARN, f"link {link.name}", reason)
            continue
        for name in link.named:
            yield from _standing(link, name, link.known.get(name))


def _standing(link: OtherLink, name: str, connector: Connector | None) -> Iterator[Finding]:
    if connector is None:
        told, cure = "is not on the workers", "see `replicator.connectors` of the link"
    elif "FAILED" in _states(connector):
        told, cure = "has failed", f"drctl connect recover --link {quote(link.name)}"
    elif connector.state in _IDLE:
        told = f"is {connector.state}"
        cure = f"where nobody meant that: {put('', name, 'resume')}"
    else:
        return
    reason = f"connector {name} {told}: nothing comes from {link.source} to {link.target}"
    yield Finding(GUARD, Status.WARN, f"link {link.name}", reason, cure=cure)


def _states(connector: Connector) -> frozenset[str]:
    return frozenset((connector.state, *(task.state for task in connector.tasks)))
