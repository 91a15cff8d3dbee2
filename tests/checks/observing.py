"""Observations from a case in YAML."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from drctl.checks.observed import NOT_QUERIED, Observed
from drctl.config.loading import read
from drctl.model.replication import Connector, Task
from drctl.model.topology import TopicState, Unavailable
from tests.checks.precheck_cases import acls as read_acls
from tests.checks.precheck_cases import guarded
from tests.checks.surveying import surveyed

_NO_CONFIG = {"kind", "state", "tasks", "stack_trace"}
GONE = "<gone>"
CLUSTERS = {name: {"bootstrap": f"{name}:1"} for name in ("a", "b", "c", "source", "target")}


def merged(base: Any, change: Any) -> Any:
    """Return the base with a case's changes; `<gone>` removes a key."""
    if not isinstance(base, Mapping) or not isinstance(change, Mapping):
        return change
    both = {**base, **{k: merged(base.get(k), v) for k, v in change.items()}}
    return {k: v for k, v in both.items() if v != GONE}


def observed(case: Mapping[str, Any]) -> Observed:
    """Return the observations; a text in place of a mapping says why it could not be read."""
    link = {"from": "a", "to": "b", "topics": [".*"], **case["link"]}
    links = {"main": link, **case.get("links", {})}
    document = {"clusters": CLUSTERS, "links": links, "policy": case.get("policy", {})}
    if "key" in case:
        document["journal"] = {"key": case["key"]}
    config = read(yaml.safe_dump(document), Path("x.yaml"))
    beside = case.get("neighbours")
    groups, acls, worker = (case.get(name) for name in ("source_groups", "acls", "worker"))
    return Observed(
        config.link("main"),
        _connectors(case.get("connectors")),
        _connectors(case.get("reverse")),
        worker if isinstance(worker, dict) else _unavailable(worker),
        _topics(case.get("source_topics")),
        _topics(case.get("target_topics")),
        tuple(groups) if isinstance(groups, list) else _unavailable(groups),
        read_acls(acls) if isinstance(acls, list) or acls is False else _unavailable(acls),
        **guarded(case),
        policy=config.file.policy,
        neighbours=config.beside(config.link("main")) if beside is True else _unavailable(beside),
        survey=surveyed(case),
    )


def _unavailable(reason: str | None) -> Unavailable:
    return NOT_QUERIED if reason is None else Unavailable(reason)


def _connectors(given: Any) -> dict[str, Connector] | Unavailable:
    if not isinstance(given, dict):
        return _unavailable(given)
    return {
        name: Connector(
            name,
            config.get("kind", "source"),
            {k: str(v) for k, v in config.items() if k not in _NO_CONFIG},
            config.get("state", ""),
            tuple(Task(n, *task) for n, task in enumerate(config.get("tasks", ()))),
            config.get("stack_trace", ""),
        )
        for name, config in given.items()
    }


def _topics(given: Any) -> dict[str, TopicState | Unavailable | None] | Unavailable:
    if not isinstance(given, dict):
        return _unavailable(given)
    return {
        name: TopicState(
            name, dict.fromkeys(range(config.get("partitions", 1)), 1), _config(config)
        )
        if isinstance(config, dict)
        else (Unavailable(config) if config else None)
        for name, config in given.items()
    }


def _config(given: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in given.items() if key != "partitions"}
