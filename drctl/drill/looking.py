"""Looks at everything that a drill must leave as it is, through readers alone."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from drctl.drill.inventory import Holding, not_of_a_drill
from drctl.drill.ports import AllConnectors
from drctl.model.acls import Acl, Acls
from drctl.model.errors import DrctlError, UsageError
from drctl.model.fencing import PREFIXED, AclReader
from drctl.model.groups import Group, GroupState, Positions
from drctl.model.ports import ClusterReader, GroupReader
from drctl.model.survey import ClusterSurveyor, Entity
from drctl.model.topology import TopicState, Unavailable

T = TypeVar("T")

_BROKERS_OWN = frozenset({"__consumer_offsets", "__transaction_state"})
"""Brokers make them when the first group reads, whoever's it is."""

_NOT_TOLD = "this user may not see them"


@dataclass(slots=True)
class _Seen:
    """A holding in the making."""

    things: dict[str, Mapping[str, str]] = field(default_factory=dict)
    settings: dict[str, Mapping[str, str]] = field(default_factory=dict)
    groups: dict[str, Positions] = field(default_factory=dict)
    active: set[str] = field(default_factory=set)
    unseen: dict[str, str] = field(default_factory=dict)
    barred: dict[str, str] = field(default_factory=dict)

    def whole(self) -> Holding:
        """As it is kept."""
        return Holding(
            self.things,
            self.settings,
            self.groups,
            frozenset(self.active),
            self.unseen,
            self.barred,
        )


def holding(
    site: ClusterReader, groups: GroupReader, acls: AclReader, survey: ClusterSurveyor
) -> Holding:
    """One cluster.

    Raises:
        Unreachable: it did not answer.
    """
    seen = _Seen()
    _topics(site, seen)
    _rules(acls.acls(), seen)
    _positions(groups, seen)
    _brokers(survey, seen)
    _people(survey, seen)
    return seen.whole()


def connect_holding(connectors: AllConnectors | None) -> Holding:
    """All connectors of the link's workers, whosever they are."""
    if connectors is None:
        return Holding(barred={"connector": "the link names no Connect workers"})
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


def _topics(site: ClusterReader, seen: _Seen) -> None:
    names = sorted(filter(not_of_a_drill, site.topic_names() - _BROKERS_OWN))
    there: dict[str, str] = {}
    for name, state in site.topics(names).items():
        if isinstance(state, Unavailable):
            seen.unseen[f"topic {name}"] = state.reason
        elif isinstance(state, TopicState):
            there[name] = f"{len(state.partitions)} partitions, id {state.topic_id}"
            if state.config:
                seen.settings[f"topic {name}"] = dict(state.config)
            else:
                seen.barred[f"settings of topic {name}"] = _NOT_TOLD
    seen.things["topic"] = there


def _rules(rules: Acls | Unavailable, seen: _Seen) -> None:
    if isinstance(rules, Unavailable):
        seen.unseen["rule"] = rules.reason
    else:
        others = (rule for rule in rules.rules if not_of_a_drill(rule.name))
        seen.things["rule"] = {_rule(each): "" for each in others}


def _rule(rule: Acl) -> str:
    name = f"{rule.name}*" if rule.pattern == PREFIXED else rule.name
    told = f"{rule.permission} {rule.operation} on {name} to {rule.principal}"
    return told if rule.host == "*" else f"{told} from {rule.host}"


def _positions(groups: GroupReader, seen: _Seen) -> None:
    carried = sorted(filter(not_of_a_drill, groups.groups()))
    described, committed = groups.described(carried), groups.committed(carried)
    for name in carried:
        group, found = described[name], committed[name]
        if isinstance(found, Unavailable):
            seen.unseen[f"group {name}"] = found.reason
        elif found and (why := _not_known(group)):
            # Without a position there is nothing that members move: Connect's own are such groups.
            seen.unseen[f"group {name}"] = f"whether somebody reads in it: {why}"
        else:
            seen.groups[name] = found
            if isinstance(group, Group) and group.active:
                seen.active.add(name)


def _not_known(group: Group | Unavailable) -> str:
    """Why nobody knows whether there are members to move its positions; empty where it is known."""
    if isinstance(group, Unavailable):
        return group.reason
    unknown = group.state is GroupState.UNKNOWN and not group.members
    return "its state is not told" if unknown else ""


def _brokers(survey: ClusterSurveyor, seen: _Seen) -> None:
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


def _people(survey: ClusterSurveyor, seen: _Seen) -> None:
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
