"""Waits until nobody moves the positions of the link's groups on the source."""

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from time import monotonic
from typing import Any

from drctl.engine.kind import Description, Facts, Looking, Seen, State, Trait
from drctl.engine.ports import Look
from drctl.engine.steps.last_look import fenced_ends
from drctl.model.errors import Unreachable
from drctl.model.plan import Json
from drctl.model.topology import Unavailable

Rows = list[tuple[str, str, int, int]]
"""Group, topic, partition and committed offset."""

_MOMENT_S = 6.0
"""Positions that did not move for so long will not soon: clients commit every 5 s by default."""


class Quiesce(Looking):
    """Groups are empty; or, where their reads are fenced, their positions stand still.

    While reads are not fenced yet (`drain_window`) it is enough that waiting gains nothing: every
    group has committed up to the fenced ends, or no position has moved for a moment.
    """

    name = "quiesce-consumers"
    traits = Trait.QUIESCES

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._unmoved: dict[str, tuple[str, float]] = {}

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        if settings.get("drain_window", False):
            title = f"let consumers read {settings['cluster']} to its fenced end"
            proof = "groups are empty or have committed it all, or no position moves any more"
            return Description(title, proof)
        title = f"wait until consumers have left {settings['cluster']}"
        return Description(title, "groups are empty, or fenced and their positions stand still")

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """Where the groups stand now."""
        cluster = settings["cluster"]
        fenced = "fence-consumers" in facts
        intent: dict[str, Any] = {
            "cluster": cluster,
            "fenced": fenced,
            "digest": _digest(_positions(cluster, look.link_groups(cluster), look)),
        }
        if settings.get("drain_window", False):
            intent["ends"] = fenced_ends(facts)
        return intent

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
        rows = _positions(cluster, names, look)
        digest = _digest(rows)
        facts = {"groups": len(names), "digest": digest}
        if not active:
            return Seen(State.DONE, f"nobody reads in any of {len(names)} groups", facts)
        told = f"{len(active)} of {len(names)} groups are read in: {', '.join(active[:3])}"
        if intent["fenced"] and digest == intent["digest"]:
            return Seen(State.DONE, f"{told}; their reads are fenced, positions stand still", facts)
        if "ends" in intent:
            told = f"{told}; {_left(rows, active, intent['ends'])}"
            if why := self._gains_nothing(intent, digest, rows, active):
                return Seen(State.DONE, f"{told}: {why}", facts)
        return Seen(State.WAITING, told, facts, tuple(active))

    def _gains_nothing(self, intent: Json, digest: str, rows: Rows, active: list[str]) -> str:
        """Why nobody needs to wait any longer; empty where waiting helps."""
        if not _unread(rows, active, intent["ends"]):
            return "waiting gains nothing"
        # What stood before belongs to another wait where the digest at its beginning was another.
        kept, since = self._unmoved.get(intent["digest"], ("", 0.0))
        if kept != digest:
            self._unmoved[intent["digest"]] = digest, self._clock()
            return ""
        waited = self._clock() - since
        return f"no position has moved for {waited:.0f} s" if waited >= _MOMENT_S else ""


def _unread(rows: Rows, active: list[str], ends: Mapping[str, int]) -> int:
    """Records up to the fenced ends that groups with members have not committed yet."""
    committed: dict[str, dict[str, dict[int, int]]] = {}
    for group, topic, partition, offset in rows:
        committed.setdefault(group, {}).setdefault(topic, {})[partition] = offset
    unread = 0
    for place, end in ends.items():
        topic, _, number = place.rpartition("-")
        for group in active:
            found = committed.get(group, {})
            # Whoever reads a topic reads all of it, as far as anybody can tell.
            if topic in found or not found:
                unread += max(0, end - found.get(topic, {}).get(int(number), 0))
    return unread


def _left(rows: Rows, active: list[str], ends: Mapping[str, int]) -> str:
    unread = _unread(rows, active, ends)
    return (
        f"{unread:,} records up to the fenced end are not committed"
        if unread
        else ("they have committed all that is there")
    )


def _positions(cluster: str, names: Collection[str], look: Look) -> Rows:
    """Of all of these groups.

    Raises:
        Unreachable: those of a group could not be read: whether they stand still is not known.
    """
    rows: Rows = []
    for name, found in look.groups(cluster).committed(names).items():
        if isinstance(found, Unavailable):
            raise Unreachable(f"the positions of group {name} cannot be read: {found.reason}")
        rows += [(name, *place, at.offset) for place, at in found.items()]
    return sorted(rows)


def _digest(rows: Rows) -> str:
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()
