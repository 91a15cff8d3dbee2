"""What two clusters and a link's connectors hold, and what changed between two looks."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from drctl.drill.names import drill_of
from drctl.model.acls import Acl
from drctl.model.groups import Positions


@dataclass(frozen=True, slots=True)
class Holding:
    """One cluster, without what drills made.

    Attributes:
        topics: name to partitions and id, in words.
        settings: of topics that could be read.
        rules: about topics.
        groups: what each has committed.
        active: groups in which somebody reads: their members move their positions.
        unseen: what could not be looked at, in words.
    """

    topics: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    rules: frozenset[Acl] = frozenset()
    groups: Mapping[str, Positions] = field(default_factory=dict)
    active: frozenset[str] = frozenset()
    unseen: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Inventory:
    """Everything that a drill must leave as it is.

    Attributes:
        clusters: by name.
        connectors: of the link: state and configuration, in words that change when they do.
    """

    clusters: Mapping[str, Holding]
    connectors: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Compared:
    """Two looks.

    Attributes:
        differences: that nobody but the drill, or somebody else meanwhile, can have made.
        moved: positions that members of active groups moved themselves.
        counted: how many things were compared.
        unseen: what could not be looked at.
    """

    differences: tuple[str, ...]
    moved: int
    counted: int
    unseen: tuple[str, ...]


def compared(before: Inventory, after: Inventory) -> Compared:
    """What is not as it was, each named."""
    differences: list[str] = []
    moved = counted = 0
    unseen: dict[str, None] = {}
    for name in before.clusters:
        was, now = before.clusters[name], after.clusters[name]
        differences += (f"{name}: {line}" for line in _differences(was, now))
        moved += _moved_by_members(was, now)
        counted += len(was.topics) + len(was.rules) + sum(map(len, was.groups.values()))
        unseen |= dict.fromkeys(f"{name}: {each}" for each in (*was.unseen, *now.unseen))
    differences += _changed("connector", before.connectors, after.connectors)
    counted += len(before.connectors)
    return Compared(tuple(differences), moved, counted, tuple(unseen))


def _differences(was: Holding, now: Holding) -> Iterator[str]:
    yield from _changed("topic", was.topics, now.topics)
    for topic in sorted(was.settings.keys() & now.settings.keys()):
        yield from _changed(f"setting of {topic}", was.settings[topic], now.settings[topic])
    for rule in sorted(was.rules ^ now.rules):
        what = "is gone" if rule in was.rules else "is new"
        yield f"rule {rule.permission} {rule.operation} on {rule.name} to {rule.principal} {what}"
    for group in sorted(was.groups.keys() | now.groups.keys()):
        if group in was.active | now.active:
            continue
        positions = [
            {str(place): str(at.offset) for place, at in each.groups.get(group, {}).items()}
            for each in (was, now)
        ]
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
        for place in was.groups.get(group, {}).keys() | now.groups.get(group, {}).keys()
    )


def not_of_a_drill(name: str) -> bool:
    """Whether it belongs into an inventory."""
    return drill_of(name) is None
