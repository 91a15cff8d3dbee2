"""Whether what copied from a cluster that is back is still stopped, and still where it stopped.

What it appends while the way home is under way stands behind newer records on both clusters, and
no comparison of one with the other tells: what both have twice is equal.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from drctl.engine.kind import Facts
from drctl.engine.ports import Look
from drctl.engine.returning import Offsets
from drctl.engine.source_offsets import kept_offsets
from drctl.engine.steps.stop_replication import STOPPED

_NOTHING: Offsets = {}


def going_on(facts: Facts, look: Look) -> tuple[str, ...]:
    """Connectors of the old replication that are not stopped any more, each in words.

    Args:
        facts: of the steps before; where none has stopped connectors, there is nothing to look at.

    Raises:
        Unreachable: no worker answered.
    """
    boundary = _boundary(facts)
    if not boundary:
        return ()
    connectors = look.other_way().connectors()
    states = {name: connectors.state(name).state for name in boundary}
    return tuple(f"{name} is {state}" for name, state in states.items() if state != STOPPED)


def gone_on(facts: Facts, look: Look, told: Offsets = _NOTHING) -> tuple[str, ...]:
    """Partitions in which the old replication is not where it was stopped, each in words.

    Args:
        facts: as above.
        told: where a run that was here before may have told it to go on; that is no move.

    Raises:
        Unreachable: no worker answered.
    """
    boundary = _boundary(facts)
    if not boundary:
        return ()
    connectors = look.other_way().connectors()
    return tuple(
        words
        for name, before in boundary.items()
        for words in _moved(name, before, connectors.offsets(name), told)
    )


def _boundary(facts: Facts) -> Mapping[str, Any]:
    """What the connectors kept when they were stopped, by name."""
    found: Mapping[str, Any] = facts.get("keep-stopped", {}).get("boundary", {})
    return found


def _moved(name: str, before: Any, now: Any, told: Offsets) -> Iterator[str]:
    stood, stands = kept_offsets(name, before), kept_offsets(name, now)
    for place in sorted(stood.keys() | stands.keys()):
        was, at = stood.get(place), stands.get(place)
        if at != was and (place not in told or at != told[place]):
            yield f"{name} stood at {_at(was)} of {place}, and stands at {_at(at)}"


def _at(offset: int | None) -> str:
    return "the beginning" if offset is None else f"offset {offset}"
