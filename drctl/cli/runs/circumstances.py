"""Looks at a link on which somebody wants to fail over, for the sequences to be built from."""

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from drctl.cli.notices import notices
from drctl.model.errors import DrctlError, Unreachable

if TYPE_CHECKING:
    from drctl.config.link import Link
    from drctl.config.schema import ConnectorsConfig
    from drctl.engine.ports import Look
    from drctl.engine.sequences.circumstances import Circumstances

_SILENT = "does not answer"


def configured(link: "Link") -> "Circumstances":
    """What drctl.yaml says of a link; nobody looks at it."""
    silent = {f"cluster {name}": "" for name in (link.source, link.target)}
    return _with(link, silent, {})


def look_at(link: "Link", sight: "Look", overrides: Mapping[str, str]) -> "Circumstances":
    """What there is; a cluster that does not answer is part of it."""
    with notices().task("looking at both clusters"):
        seen = basis(link, sight, (*_connectors(link), *_reverse(link)))
    return _with(link, seen, overrides)


def _connectors(link: "Link") -> tuple[str, ...]:
    return _named(link.settings.replicator.connectors)


def _reverse(link: "Link") -> tuple[str, ...]:
    """Those that a planned failover starts."""
    reverse = link.settings.replicator.reverse
    return _named(reverse.connectors) if reverse and reverse.after_failover else ()


def _named(connectors: "ConnectorsConfig") -> tuple[str, ...]:
    every = (connectors.source, connectors.checkpoint, connectors.heartbeat)
    return tuple(name for name in every if name)


def _with(link: "Link", seen: Mapping[str, str], overrides: Mapping[str, str]) -> "Circumstances":
    from drctl.config.endpoints import entrance_of
    from drctl.engine.first_records import FIELDS
    from drctl.engine.sequences.circumstances import Circumstances, FenceMethod

    settings, fence = link.settings, link.settings.fence
    return Circumstances(
        link.configured,
        link.source,
        link.target,
        tuple(fence.principals),
        _connectors(link),
        tuple(endpoint.kind for endpoint in settings.endpoints),
        seen,
        overrides,
        reverse=_reverse(link),
        leaving=tuple(endpoint.leaving for endpoint in settings.endpoints),
        entrances=tuple(n for n, each in enumerate(settings.endpoints) if entrance_of(each)),
        fence_method=FenceMethod(fence.method),
        fence_command=tuple(fence.command),
        fence_undo=tuple(fence.undo),
        fence_verify=tuple(fence.verify),
        replicator=settings.replicator.kind,
        stop_command=tuple(settings.replicator.stop),
        start_command=tuple(settings.replicator.start),
        stopped_command=tuple(settings.replicator.stopped),
        source_answers=seen[f"cluster {link.source}"] != _SILENT,
        target_answers=seen[f"cluster {link.target}"] != _SILENT,
        fields=tuple(name for name in FIELDS if name in settings.identity),
    )


def basis(link: "Link", sight: "Look", connectors: tuple[str, ...]) -> Mapping[str, str]:
    """What a plan is built from: each part in words that change when it does."""
    found: dict[str, str] = {}
    for name in (link.source, link.target):
        try:
            overview = sight.site(name).overview()
        except Unreachable:
            found[f"cluster {name}"] = _SILENT
            continue
        found[f"cluster {name}"] = overview.cluster_id
        topics = {t: len(overview.partitions.get(t, ())) for t in _topics(link, sight, name)}
        partitions = sum(topics.values())
        found[f"topics of {name}"] = (
            f"{len(topics)} topics, {partitions} partitions, {_digest(topics)}"
        )
    back = _reverse(link)
    for name in connectors:
        try:
            workers = sight.other_way().connectors() if name in back else sight.connectors()
            found[f"connector {name}"] = workers.state(name).state
        except DrctlError as error:
            found[f"connector {name}"] = error.message
    for number, endpoint in enumerate(link.settings.endpoints):
        try:
            cluster = sight.endpoint(number).observe().cluster or "no known cluster"
        except DrctlError as error:
            cluster = error.message
        found[f"endpoint {number + 1} ({endpoint.kind})"] = cluster
    return found


def _topics(link: "Link", sight: "Look", name: str) -> tuple[str, ...]:
    topics = sight.topics()
    return topics if name == link.source else tuple(map(link.target_topic, topics))


def _digest(topics: Mapping[str, int]) -> str:
    text = "\n".join(f"{name} {number}" for name, number in sorted(topics.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
