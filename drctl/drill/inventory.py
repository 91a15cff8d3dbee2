"""Everything that a drill must leave unchanged, and what changed between two inventories."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from drctl.drill.cleaning import drill_of
from drctl.drill.clients import AllConnectors
from drctl.model.errors import DrctlError, UsageError
from drctl.model.fencing import PREFIXED, AclReader
from drctl.model.groups import Group, GroupState, Positions
from drctl.model.ports import ClusterReader, GroupReader
from drctl.model.repairs import Acl, Acls
from drctl.model.survey import ClusterSurveyor, Entity
from drctl.model.text import plural
from drctl.model.topology import TopicState, Unavailable

NEVER = (
    "records of other topics and their number",
    "progress of connectors",
    "ACLs on resources other than topics",
    "passwords and other secrets",
)
"""Never compared: data that changes during a drill, and secrets."""


@dataclass(frozen=True, slots=True)
class Holding:
    """Resources of one cluster or of the Connect workers, except those of drills.

    Attributes:
        things: by kind, the name of each resource and a description that reflects changes.
        settings: names and values, by owner (`topic orders`).
        groups: committed offsets of each group.
        active: groups with members, which move their own offsets.
        unseen: what could not be read, and why: a kind, a resource with its kind, or `settings of`
            an owner.
        barred: the same for resources that this user may not read and a drill cannot change.
    """

    things: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    groups: Mapping[str, Positions] = field(default_factory=dict)
    active: frozenset[str] = frozenset()
    unseen: Mapping[str, str] = field(default_factory=dict)
    barred: Mapping[str, str] = field(default_factory=dict)

    @property
    def hidden(self) -> frozenset[str]:
        """Everything that could not be read."""
        return frozenset(self.unseen) | frozenset(self.barred)


@dataclass(frozen=True, slots=True)
class Inventory:
    """All resources that a drill must not change.

    Attributes:
        clusters: by name.
        connect: the workers of the link's replicator.
    """

    clusters: Mapping[str, Holding]
    connect: Holding = field(default_factory=Holding)

    @property
    def places(self) -> Mapping[str, Holding]:
        """All holdings, by the prefix of their report lines."""
        return {**{f"{name}: ": held for name, held in self.clusters.items()}, "": self.connect}


@dataclass(frozen=True, slots=True)
class Compared:
    """Comparison of two inventories.

    Attributes:
        differences: changes by the drill or by others.
        moved: offsets that active members moved.
        counted: number of compared resources.
        unseen: what could not be compared.
        not_compared: what is never compared, or not readable.
    """

    differences: tuple[str, ...]
    moved: int
    counted: int
    unseen: tuple[str, ...]
    not_compared: tuple[str, ...] = ()


def compared(before: Inventory, after: Inventory) -> Compared:
    """The differences of two inventories."""
    differences: list[str] = []
    moved = counted = 0
    unseen: dict[str, None] = {}
    barred: dict[str, None] = {}
    for place, was in before.places.items():
        now = after.places[place]
        differences += (f"{place}{line}" for line in _differences(was, now))
        moved += _moved_by_members(was, now)
        counted += sum(map(len, was.things.values())) + sum(map(len, was.groups.values()))
        # Readable before but not after: more than a missing permission.
        late = {what: why for what, why in now.barred.items() if what not in was.barred}
        for missing in (was.unseen, now.unseen, late):
            unseen |= dict.fromkeys(f"{place}{what}: {why}" for what, why in missing.items())
        barred |= dict.fromkeys(f"{place}{what}: {why}" for what, why in was.barred.items())
    words = (*NEVER, *barred)
    return Compared(tuple(differences), moved, counted, tuple(unseen), words)


def _differences(was: Holding, now: Holding) -> Iterator[str]:
    hidden = was.hidden | now.hidden
    for kind in sorted((was.things.keys() | now.things.keys()) - hidden):
        things = (each.things.get(kind, {}) for each in (was, now))
        seen = ({n: v for n, v in e.items() if f"{kind} {n}" not in hidden} for e in things)
        yield from _changed(kind, *seen)
    # Added and removed resources are listed above.
    for whose in sorted(was.settings.keys() & now.settings.keys()):
        yield from _changed(f"setting of {whose}", was.settings[whose], now.settings[whose])
    for group in sorted(was.groups.keys() | now.groups.keys()):
        if group in was.active | now.active or f"group {group}" in hidden:
            continue
        positions = (
            {str(place): str(at.offset) for place, at in each.groups.get(group, {}).items()}
            for each in (was, now)
        )
        yield from _changed(f"offset of group {group} in", *positions)


def _changed(what: str, was: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(was.keys() | now.keys()):
        before, after = was.get(name), now.get(name)
        if before == after:
            continue
        if before is None:
            yield f"{what} {name} was added"
        elif after is None:
            yield f"{what} {name} was removed"
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
    """Whether it belongs in an inventory."""
    return drill_of(name) is None


T = TypeVar("T")

_BROKERS_OWN = frozenset({"__consumer_offsets", "__transaction_state"})
"""Topics that brokers create for the first consumer group."""

_UNREADABLE = "this user may not read them"


@dataclass(slots=True)
class _Found:
    """Collects the holdings of one cluster."""

    things: dict[str, Mapping[str, str]] = field(default_factory=dict)
    settings: dict[str, Mapping[str, str]] = field(default_factory=dict)
    groups: dict[str, Positions] = field(default_factory=dict)
    active: set[str] = field(default_factory=set)
    unseen: dict[str, str] = field(default_factory=dict)
    barred: dict[str, str] = field(default_factory=dict)


def holding(
    cluster_reader: ClusterReader, groups: GroupReader, acls: AclReader, survey: ClusterSurveyor
) -> Holding:
    """Take the inventory of one cluster.

    Raises:
        Unreachable: it did not answer.
    """
    found = _Found()
    _topics(cluster_reader, found)
    _rules(acls.acls(), found)
    _positions(groups, found)
    _brokers(survey, found)
    _users_and_quotas(survey, found)
    active = frozenset(found.active)
    return Holding(found.things, found.settings, found.groups, active, found.unseen, found.barred)


def connect_holding(connectors: AllConnectors | None) -> Holding:
    """All connectors of the link's workers, including those of other links."""
    if connectors is None:
        return Holding(barred={"connector": "the link configures no Connect workers"})
    try:
        names = connectors.names()
    except DrctlError as error:
        return Holding(unseen={"connector": error.message})
    there: dict[str, str] = {}
    unseen: dict[str, str] = {}
    for name in names:
        try:
            there[name] = _connector(connectors, name)
        except UsageError:
            continue
        except DrctlError as error:
            unseen[f"connector {name}"] = error.message
    return Holding({"connector": there}, unseen=unseen)


def _connector(connectors: AllConnectors, name: str) -> str:
    state = connectors.state(name).state
    # Only its digest leaves here: a configuration may hold passwords.
    text = json.dumps(sorted(connectors.config(name).items()))
    return f"{state}, configuration {hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _topics(cluster_reader: ClusterReader, seen: _Found) -> None:
    names = sorted(filter(not_of_a_drill, cluster_reader.topic_names() - _BROKERS_OWN))
    there: dict[str, str] = {}
    for name, state in cluster_reader.topics(names).items():
        if isinstance(state, Unavailable):
            seen.unseen[f"topic {name}"] = state.reason
        elif isinstance(state, TopicState):
            there[name] = f"{plural(len(state.partitions), 'partition')}, id {state.topic_id}"
            if state.config:
                seen.settings[f"topic {name}"] = dict(state.config)
            else:
                seen.barred[f"settings of topic {name}"] = _UNREADABLE
    seen.things["topic"] = there


def _rules(rules: Acls | Unavailable, seen: _Found) -> None:
    if isinstance(rules, Unavailable):
        seen.unseen["ACL"] = rules.reason
    else:
        others = (rule for rule in rules.rules if not_of_a_drill(rule.name))
        seen.things["ACL"] = {_rule(each): "" for each in others}


def _rule(rule: Acl) -> str:
    name = f"{rule.on}*" if rule.pattern == PREFIXED else rule.on
    words = f"{rule.permission} {rule.operation} on {name} to {rule.principal}"
    return words if rule.host == "*" else f"{words} from {rule.host}"


def _positions(groups: GroupReader, seen: _Found) -> None:
    carried = sorted(filter(not_of_a_drill, groups.groups()))
    described, committed = groups.described(carried), groups.committed(carried)
    for name in carried:
        group, found = described[name], committed[name]
        if isinstance(found, Unavailable):
            seen.unseen[f"group {name}"] = found.reason
        elif found and (why := _not_known(group)):
            # Without a position there is nothing that members move: Connect's own are such groups.
            seen.unseen[f"group {name}"] = f"whether it has members is unknown: {why}"
        else:
            seen.groups[name] = found
            if isinstance(group, Group) and group.active:
                seen.active.add(name)


def _not_known(group: Group | Unavailable) -> str:
    """Why it is unknown whether the group has members; empty if known."""
    if isinstance(group, Unavailable):
        return group.reason
    unknown = group.state is GroupState.UNKNOWN and not group.members
    return "its state was not reported" if unknown else ""


def _brokers(survey: ClusterSurveyor, seen: _Found) -> None:
    brokers = _tried(survey.settings)
    if isinstance(brokers, Unavailable):
        seen.barred["broker"] = brokers.reason
        return
    seen.things["broker"] = {str(node): "" for node in brokers}
    for node, found in brokers.items():
        if isinstance(found, Unavailable):
            seen.barred[f"settings of broker {node}"] = found.reason
        else:
            seen.settings[f"broker {node}"] = found


def _users_and_quotas(survey: ClusterSurveyor, seen: _Found) -> None:
    users, quotas = _tried(survey.scram_users), _tried(survey.quotas)
    if isinstance(users, Unavailable):
        seen.barred["SCRAM user"] = users.reason
    else:
        seen.things["SCRAM user"] = dict.fromkeys(users, "")
    if isinstance(quotas, Unavailable):
        seen.barred["quota"] = quotas.reason
    else:
        seen.things["quota"] = {
            f"{key} of {_entity(entity)}": f"{value:g}"
            for entity, limits in quotas.items()
            for key, value in limits.items()
        }


def _entity(entity: Entity) -> str:
    return ", ".join(f"{kind} {name or '<default>'}" for kind, name in entity)


def _tried(question: Callable[[], T]) -> T | Unavailable:
    try:
        return question()
    except DrctlError as error:
        return Unavailable(error.message)
