"""Waits until nobody moves the positions of the link's groups on the source."""

import hashlib
import json

from drctl.engine.kind import Description, Facts, Looking, Seen, State, Trait
from drctl.engine.ports import Look
from drctl.model.errors import Unreachable
from drctl.model.plan import Json
from drctl.model.topology import Unavailable


class Quiesce(Looking):
    """Groups are empty; or, where their reads are fenced, their positions stand still."""

    name = "quiesce-consumers"
    traits = Trait.QUIESCES

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        title = f"wait until consumers have left {settings['cluster']}"
        return Description(title, "groups are empty, or fenced and their positions stand still")

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """Where the groups stand now."""
        cluster = settings["cluster"]
        fenced = "fence-consumers" in facts
        return {"cluster": cluster, "fenced": fenced, "digest": _digest(_positions(cluster, look))}

    def verify(self, intent: Json, look: Look) -> Seen:
        """Who still reads, and whether positions moved since."""
        cluster = intent["cluster"]
        names = look.link_groups(cluster)
        described = look.groups(cluster).described(names)
        active = sorted(
            name
            for name, group in described.items()
            if isinstance(group, Unavailable) or group.active
        )
        facts = {"groups": len(names), "digest": _digest(_positions(cluster, look))}
        if not active:
            return Seen(State.DONE, f"nobody reads in any of {len(names)} groups", facts)
        told = f"{len(active)} of {len(names)} groups are read in: {', '.join(active[:3])}"
        if intent["fenced"] and facts["digest"] == intent["digest"]:
            return Seen(State.DONE, f"{told}; their reads are fenced, positions stand still", facts)
        return Seen(State.WAITING, told, facts, tuple(active))


def _positions(cluster: str, look: Look) -> list[list[object]]:
    """Of all groups.

    Raises:
        Unreachable: those of a group could not be read: whether they stand still is not known.
    """
    rows: list[list[object]] = []
    for name, found in look.groups(cluster).committed(look.link_groups(cluster)).items():
        if isinstance(found, Unavailable):
            raise Unreachable(f"the positions of group {name} cannot be read: {found.reason}")
        rows += [[name, *place, at.offset] for place, at in found.items()]
    return sorted(rows)


def _digest(rows: list[list[object]]) -> str:
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()
