"""What two clusters and a link's Connect workers hold, and what changed between two looks."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from drctl.drill.names import drill_of
from drctl.model.groups import Positions

NEVER = (
    "records of other topics, and how many there are",
    "how far connectors are",
    "rules about anything but topics",
    "passwords and other secrets",
)
"""Applications and replication go on meanwhile, and secrets are told to nobody."""


@dataclass(frozen=True, slots=True)
class Holding:
    """One cluster, or the Connect workers, without what drills made.

    Attributes:
        things: by their kind: the name of each, and what it is, in words that change when it does.
        settings: by whose they are, in words (`topic orders`): names and values.
        groups: what each has committed.
        active: groups in which somebody reads: their members move their positions.
        unseen: what had to be looked at and could not be, and why. A kind of thing, one thing of
            it with its kind, or `settings of` somebody's.
        barred: the same of what this user may not see, and a drill has no way to touch.
    """

    things: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    groups: Mapping[str, Positions] = field(default_factory=dict)
    active: frozenset[str] = frozenset()
    unseen: Mapping[str, str] = field(default_factory=dict)
    barred: Mapping[str, str] = field(default_factory=dict)

    @property
    def hidden(self) -> frozenset[str]:
        """All that nobody knows of."""
        return frozenset(self.unseen) | frozenset(self.barred)


@dataclass(frozen=True, slots=True)
class Inventory:
    """Everything that a drill must leave as it is.

    Attributes:
        clusters: by name.
        connect: the workers that replicate the link.
    """

    clusters: Mapping[str, Holding]
    connect: Holding = field(default_factory=Holding)

    @property
    def places(self) -> Mapping[str, Holding]:
        """All of them, by how a line about them begins."""
        return {**{f"{name}: ": held for name, held in self.clusters.items()}, "": self.connect}


@dataclass(frozen=True, slots=True)
class Compared:
    """Two looks.

    Attributes:
        differences: that nobody but the drill, or somebody else meanwhile, can have made.
        moved: positions that members of active groups moved themselves.
        counted: how many things were compared.
        unseen: what had to be compared, and could not be.
        not_compared: what is not looked at, or may not be.
    """

    differences: tuple[str, ...]
    moved: int
    counted: int
    unseen: tuple[str, ...]
    not_compared: tuple[str, ...] = ()


def compared(before: Inventory, after: Inventory) -> Compared:
    """What is not as it was, each named."""
    differences: list[str] = []
    moved = counted = 0
    unseen: dict[str, None] = {}
    barred: dict[str, None] = {}
    for place, was in before.places.items():
        now = after.places[place]
        differences += (f"{place}{line}" for line in _differences(was, now))
        moved += _moved_by_members(was, now)
        counted += sum(map(len, was.things.values())) + sum(map(len, was.groups.values()))
        # What could be seen at first, and could not afterwards, is more than a missing right.
        late = {what: why for what, why in now.barred.items() if what not in was.barred}
        for missing in (was.unseen, now.unseen, late):
            unseen |= dict.fromkeys(f"{place}{what}: {why}" for what, why in missing.items())
        barred |= dict.fromkeys(f"{place}{what}: {why}" for what, why in was.barred.items())
    told = (*NEVER, *barred)
    return Compared(tuple(differences), moved, counted, tuple(unseen), told)


def _differences(was: Holding, now: Holding) -> Iterator[str]:
    hidden = was.hidden | now.hidden
    for kind in sorted((was.things.keys() | now.things.keys()) - hidden):
        things = (each.things.get(kind, {}) for each in (was, now))
        seen = ({n: v for n, v in e.items() if f"{kind} {n}" not in hidden} for e in things)
        yield from _changed(kind, *seen)
    # Of what is gone, or new, it is said above.
    for whose in sorted(was.settings.keys() & now.settings.keys()):
        yield from _changed(f"setting of {whose}", was.settings[whose], now.settings[whose])
    for group in sorted(was.groups.keys() | now.groups.keys()):
        if group in was.active | now.active or f"group {group}" in hidden:
            continue
        positions = (
            {str(place): str(at.offset) for place, at in each.groups.get(group, {}).items()}
            for each in (was, now)
        )
        yield from _changed(f"position of group {group} in", *positions)


def _changed(what: str, was: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(was.keys() | now.keys()):
        before, after = was.get(name), now.get(name)
        if before == after:
            continue
        if before is None:
            yield f"{what} {name} is new"
        elif after is None:
            yield f"{what} {name} is gone"
        else:
            yield f"{what} {name}: {before} -> {after}"


def _moved_by_members(was: Holding, now: Holding) -> int:
    return sum(
        was.groups.get(group, {}).get(place) != now.groups.get(group, {}).get(place)
        for group in was.active | now.active
        if f"group {group}" not in was.hidden | now.hidden
        for place in was.groups.get(group, {}).keys() | now.groups.get(group, {}).keys()
    )


def not_of_a_drill(name: str) -> bool:
    """Whether it belongs into an inventory."""
    return drill_of(name) is None
