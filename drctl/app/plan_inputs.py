"""Reads the state of a link from which a plan is built."""

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from drctl.app.loss import ESTIMATING
from drctl.app.notices import notices
from drctl.model.errors import DrctlError, Unreachable
from drctl.model.loss import Loss, not_estimated
from drctl.model.plan import Plan
from drctl.model.text import plural
from drctl.steps.commit_offsets import CommitOffsets, Foreseen, foreseen
from drctl.steps.source_connectors import MoveSourcePositions, expected
from drctl.steps.stop_replication import MeasureLoss
from drctl.views.plan_text import without_offset

if TYPE_CHECKING:
    from drctl.app.link_reader import ClusterLinkReader
    from drctl.config.link import Link
    from drctl.connectors.moving import MovedConnector
    from drctl.engine.ports import LinkReader
    from drctl.plans.inputs import PlanInputs

_UNREACHABLE = "does not answer"


def configured(link: "Link") -> "PlanInputs":
    """The inputs that drctl.yaml has for a link, without contacting any cluster."""
    unknown = {f"cluster {name}": "" for name in (link.source, link.target)}
    return _with(link, unknown, {})


def look_at(link: "Link", reader: "LinkReader", overrides: Mapping[str, str]) -> "PlanInputs":
    """The inputs for a plan; an unreachable cluster is recorded as such."""
    with notices().task("checking both clusters"):
        observed = basis(link, reader, (*connector_names(link), *_reverse(link)))
    return _with(link, observed, overrides)


def connector_names(link: "Link") -> tuple[str, ...]:
    """The names of the connectors that replicate a link."""
    return link.settings.replicator.connectors.named


def source_connector_names(link: "Link") -> frozenset[str]:
    """The names of the link's source connectors, on the workers of either cluster."""
    sources = link.settings.source_connectors
    return frozenset(n for pair in sources.pairs.items() for n in pair) if sources else frozenset()


def _reverse(link: "Link") -> tuple[str, ...]:
    """The names of the connectors that a planned failover starts."""
    reverse = link.settings.replicator.reverse
    return reverse.connectors.named if reverse and reverse.after_failover else ()


def _with(link: "Link", basis: Mapping[str, str], overrides: Mapping[str, str]) -> "PlanInputs":
    from drctl.config.endpoints import bootstrap_of
    from drctl.plans.inputs import FenceMethod, PlanInputs
    from drctl.steps.first_records import FIELDS

    settings, fence = link.settings, link.settings.fence
    return PlanInputs(
        link.configured,
        link.source,
        link.target,
        tuple(fence.principals),
        connector_names(link),
        tuple(endpoint.kind for endpoint in settings.endpoints),
        basis,
        overrides,
        reverse=_reverse(link),
        redirects=tuple(endpoint.leaving for endpoint in settings.endpoints),
        probed_endpoints=tuple(
            n for n, each in enumerate(settings.endpoints) if bootstrap_of(each)
        ),
        fence_method=FenceMethod(fence.method),
        fence_groups=fence.groups,
        fence_command=tuple(fence.command),
        fence_undo=tuple(fence.undo),
        fence_verify=tuple(fence.verify),
        replicator=settings.replicator.kind,
        stop_command=tuple(settings.replicator.stop),
        start_command=tuple(settings.replicator.start),
        stopped_command=tuple(settings.replicator.stopped),
        source_answers=basis[f"cluster {link.source}"] != _UNREACHABLE,
        target_answers=basis[f"cluster {link.target}"] != _UNREACHABLE,
        fields=tuple(name for name in FIELDS if name in settings.identity),
        source_connectors=dict(settings.source_connectors.pairs)
        if settings.source_connectors
        else {},
        origin_header=settings.origin_header or "",
    )


def basis(link: "Link", reader: "LinkReader", connectors: tuple[str, ...]) -> Mapping[str, str]:
    """The observed state that a plan is based on; a changed value makes the plan outdated."""
    found: dict[str, str] = {}
    for name in (link.source, link.target):
        try:
            overview = reader.cluster_reader(name).overview()
        except Unreachable:
            found[f"cluster {name}"] = _UNREACHABLE
            continue
        found[f"cluster {name}"] = overview.cluster_id
        topics = {t: len(overview.partitions.get(t, ())) for t in _topics(link, reader, name)}
        partitions = sum(topics.values())
        found[f"topics of {name}"] = (
            f"{plural(len(topics), 'topic')}, {plural(partitions, 'partition')}, {_digest(topics)}"
        )
    back = _reverse(link)
    for name in connectors:
        try:
            workers = reader.reversed().connectors() if name in back else reader.connectors()
            found[f"connector {name}"] = workers.state(name).state
        except DrctlError as error:
            found[f"connector {name}"] = error.message
    for number, endpoint in enumerate(link.settings.endpoints):
        try:
            cluster = reader.endpoint(number).observe().cluster or "an unknown cluster"
        except DrctlError as error:
            cluster = error.message
        found[f"endpoint {number + 1} ({endpoint.kind})"] = cluster
    return found


def _topics(link: "Link", reader: "LinkReader", name: str) -> tuple[str, ...]:
    topics = reader.topics()
    return topics if name == link.source else tuple(map(link.target_topic, topics))


def _digest(topics: Mapping[str, int]) -> str:
    text = "\n".join(f"{name} {number}" for name, number in sorted(topics.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def estimated(plan: Plan, reader: "ClusterLinkReader") -> Loss | None:
    """The loss that the plan would estimate now; None if no step of it estimates the loss."""
    if not any(step.kind == MeasureLoss.name for step in plan.steps):
        return None
    try:
        with notices().task(ESTIMATING) as task:
            return reader.loss(task)
    except DrctlError as error:
        return not_estimated(error.message)


def warn_of_loss(plan: Plan, reader: "ClusterLinkReader") -> None:
    """Warn of the estimated loss before the user confirms the plan."""
    loss = estimated(plan, reader)
    if loss is not None:
        notices().warn(f"{loss.message}; run without --execute to see the evidence")


def resuming(plan: Plan, reader: "ClusterLinkReader") -> Foreseen | None:
    """Where the plan would have groups resume; None if the source is not lost, or it is unknown."""
    kind = CommitOffsets()
    found = [kind.read_settings(each.settings) for each in plan.steps if each.kind == kind.name]
    if not found or found[0].unproven_offsets is None:
        return None
    try:
        with notices().task("translating the offsets of groups"):
            return foreseen(found[0], reader)
    except DrctlError as error:
        notices().warn(f"resume offsets of groups are unknown: {error.message}")
        return None


def moved_connectors(plan: Plan, reader: "ClusterLinkReader") -> "tuple[MovedConnector, ...]":
    """What the link's source connectors would do; none if the plan moves none, or it is unknown."""
    kind = MoveSourcePositions()
    found = [kind.read_settings(each.settings) for each in plan.steps if each.kind == kind.name]
    if not found:
        return ()
    try:
        with notices().task("reading the positions of source connectors"):
            return expected(found[0], reader)
    except DrctlError as error:
        notices().warn(f"what source connectors will do is unknown: {error.message}")
        return ()


def warn_of_groups(plan: Plan, reader: "ClusterLinkReader") -> None:
    """Warn of groups without an offset before the user confirms the plan."""
    found = resuming(plan, reader)
    if found is not None and found.without_offset:
        notices().warn(without_offset(found.without_offset, plan.target))
