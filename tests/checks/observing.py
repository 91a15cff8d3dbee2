"""What was observed, from a case written in YAML."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from drctl.checks.observed import NOT_LOOKED_AT, Connector, Observed
from drctl.config.loading import read
from drctl.model.acls import Acl, Acls
from drctl.model.topology import TopicState, Unavailable

GONE = "<gone>"
CLUSTERS = {"a": {"bootstrap": "a:1"}, "b": {"bootstrap": "b:1"}}


def merged(base: Any, change: Any) -> Any:
    """The base with a case's changes; `<gone>` takes a key away."""
    if not isinstance(base, Mapping) or not isinstance(change, Mapping):
        return change
    both = {**base, **{k: merged(base.get(k), v) for k, v in change.items()}}
    return {k: v for k, v in both.items() if v != GONE}


def observed(case: Mapping[str, Any]) -> Observed:
    """A text in place of a mapping says why it could not be observed."""
    link = {"from": "a", "to": "b", "topics": [".*"], **case["link"]}
    text = yaml.safe_dump({"clusters": CLUSTERS, "links": {"main": link}})
    groups, acls, worker = (case.get(name) for name in ("source_groups", "acls", "worker"))
    return Observed(
        read(text, Path("x.yaml")).link(),
        _connectors(case.get("connectors")),
        _connectors(case.get("reverse")),
        worker if isinstance(worker, dict) else _unavailable(worker),
        _topics(case.get("source_topics")),
        _topics(case.get("target_topics")),
        tuple(groups) if isinstance(groups, list) else _unavailable(groups),
        _acls(acls) if isinstance(acls, list) or acls is False else _unavailable(acls),
    )


def _unavailable(reason: str | None) -> Unavailable:
    return NOT_LOOKED_AT if reason is None else Unavailable(reason)


def _connectors(given: Any) -> dict[str, Connector] | Unavailable:
    if not isinstance(given, dict):
        return _unavailable(given)
    return {
        name: Connector(
            name,
            config.get("kind", "source"),
            {k: str(v) for k, v in config.items() if k != "kind"},
        )
        for name, config in given.items()
    }


def _topics(given: Any) -> dict[str, TopicState | Unavailable | None] | Unavailable:
    if not isinstance(given, dict):
        return _unavailable(given)
    return {
        name: TopicState(name, {0: 1}, config)
        if isinstance(config, dict)
        else (Unavailable(config) if config else None)
        for name, config in given.items()
    }


def _acls(given: Any) -> Acls:
    """`ALLOW User:app WRITE LITERAL:topic HOST` each; false where there is no authorizer."""
    rules = []
    for line in given or ():
        permission, principal, operation, resource, host = line.split()
        pattern, _, name = resource.partition(":")
        rules.append(Acl(name, pattern, principal, host, operation, permission))
    return Acls(given is not False, tuple(rules))
