"""Looks at everything that a drill must leave as it is, through readers alone."""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping

from drctl.drill.inventory import Holding, Inventory, not_of_a_drill
from drctl.engine.ports import ConnectorsReader
from drctl.model.acls import Acl
from drctl.model.errors import DrctlError
from drctl.model.fencing import AclReader
from drctl.model.groups import Group, Positions
from drctl.model.ports import ClusterReader, GroupReader
from drctl.model.topology import TopicState, Unavailable

_BROKERS_OWN = frozenset({"__consumer_offsets", "__transaction_state"})
"""Brokers make them when the first group reads, whoever's it is."""


def holding(site: ClusterReader, groups: GroupReader, acls: AclReader) -> Holding:
    """One cluster.

    Raises:
        Unreachable: it did not answer.
    """
    names = sorted(filter(not_of_a_drill, site.topic_names() - _BROKERS_OWN))
    states = site.topics(names)
    seen = {name: state for name, state in states.items() if isinstance(state, TopicState)}
    rules = acls.acls()
    carried = sorted(filter(not_of_a_drill, groups.groups()))
    described, committed = groups.described(carried), groups.committed(carried)
    unseen = [*_unread("topic", states), *_unread("group", committed)]
    if isinstance(rules, Unavailable):
        unseen.append(f"rules: {rules.reason}")
    return Holding(
        {n: f"{len(s.partitions)} partitions, id {s.topic_id}" for n, s in seen.items()},
        {n: dict(s.config) for n, s in seen.items() if s.config},
        frozenset() if isinstance(rules, Unavailable) else _rules(rules.rules),
        {n: found for n, found in committed.items() if not isinstance(found, Unavailable)},
        frozenset(n for n, found in described.items() if _active(found)),
        tuple(unseen),
    )


def inventory(
    clusters: Mapping[str, Holding], connectors: ConnectorsReader | None, names: Collection[str]
) -> Inventory:
    """All of it; a connector that does not answer is in it as that."""
    if connectors is None:
        return Inventory(clusters)
    return Inventory(clusters, {name: _connector(connectors, name) for name in names})


def _connector(connectors: ConnectorsReader, name: str) -> str:
    try:
        state = connectors.state(name).state
        # Only its digest leaves here: a configuration may hold passwords.
        text = json.dumps(sorted(connectors.config(name).items()))
    except DrctlError as error:
        return error.message
    return f"{state}, configuration {hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _unread(
    kind: str, found: Mapping[str, TopicState | Positions | Unavailable | None]
) -> list[str]:
    return [f"{kind} {n}: {e.reason}" for n, e in found.items() if isinstance(e, Unavailable)]


def _rules(rules: Iterable[Acl]) -> frozenset[Acl]:
    return frozenset(rule for rule in rules if not_of_a_drill(rule.name))


def _active(found: Group | Unavailable) -> bool:
    return isinstance(found, Unavailable) or found.active
