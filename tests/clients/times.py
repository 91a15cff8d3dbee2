"""How long clients took, as a Markdown table."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from tests.clients.applications import Client, Event


class Arrival(NamedTuple):
    """A client's first new record on the target.

    Attributes:
        at_s: None if there was none.
        copies: number of replicated records that it read again on the target.
    """

    client: Client
    at_s: float | None
    copies: int


def arrivals(clients: Sequence[Client], events: Collection[Event]) -> list[Arrival]:
    """Return the arrival of each client."""
    found = []
    for client in clients:
        own = [event for event in events if event.client == client.name]
        there = [event.at_s for event in own if event.there]
        copies = sum(event.text.startswith("copy/") for event in own)
        found.append(Arrival(client, min(there, default=None), copies))
    return found


def table(title: str, since: Mapping[str, float], found: Sequence[Arrival], until_s: float) -> str:
    """Return a table with one row per client.

    Args:
        since: the start of the measurement: its name and time.
        until_s: how long clients were watched.
    """
    (last,) = list(since.values())[-1:]
    watched = f"not within {until_s - last:.0f} s"
    heads = [*since, "copies read again"]
    lines = [f"| {title} | {' | '.join(heads)} |", f"|---{'|---' * len(heads)}|"]
    for client, at_s, copies in found:
        cells = [watched if at_s is None else f"{at_s - start:.2f} s" for start in since.values()]
        again = "-" if client.produces else str(copies)
        lines.append(f"| {client.name.replace('.', ' ')} | {' | '.join([*cells, again])} |")
    return "\n".join(lines)
