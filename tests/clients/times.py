"""How long clients took, as a table of Markdown."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from tests.clients.applications import Client, Event


class Arrival(NamedTuple):
    """A client's first new record on the target.

    Attributes:
        at_s: None where there was none.
        copies: that it was given there again, from where it was on the source.
    """

    client: Client
    at_s: float | None
    copies: int


def arrivals(clients: Sequence[Client], events: Collection[Event]) -> list[Arrival]:
    """Of each client."""
    found = []
    for client in clients:
        own = [event for event in events if event.client == client.name]
        there = [event.at_s for event in own if event.there]
        copies = sum(event.text.startswith("copy/") for event in own)
        found.append(Arrival(client, min(there, default=None), copies))
    return found


def table(title: str, since: Mapping[str, float], found: Sequence[Arrival], until_s: float) -> str:
    """A row for each client.

    Args:
        since: what the seconds are counted from: its name, and when it was.
        until_s: how long it was watched.
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
