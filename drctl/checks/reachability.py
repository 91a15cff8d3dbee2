"""Whether every broker answers, and whether brokers agree on versions and features."""

from collections.abc import Iterator, Mapping

from drctl.checks.brokers import Side, each_cluster, of_each, sides
from drctl.checks.causes import NOBODY
from drctl.checks.check import Family, Prechecks, check, listed, nodes, several
from drctl.checks.observed import Observed
from drctl.checks.verdict import NotObserved, Verdict, fail, ok, require, require_queried, warn
from drctl.model.finding import Status
from drctl.model.groups import Group, GroupProtocol
from drctl.model.health import CHECK_NETWORK, NEITHER_RESPONDS, Silent, brief_reasons
from drctl.model.survey import BrokerFeatures, Capability
from drctl.model.text import plural
from drctl.model.topology import Unavailable

_FAMILY = Family.REACHABILITY
_LOOK = "query each broker: kafka-broker-api-versions.sh --bootstrap-server HOST:PORT"
_METADATA = "metadata.version"


@check(NOBODY, _FAMILY, Status.FAIL, prechecks=Prechecks(overridable=False))
def nobody(observed: Observed) -> Verdict:
    """At least one of the two clusters answers."""
    ends = {observed.link.source: observed.source, observed.link.target: observed.target}
    subject, remedy = f"clusters {' and '.join(ends)}", CHECK_NETWORK
    known = [
        require_queried(each, subject, "whether they answer is", remedy) for each in ends.values()
    ]
    silent = [each.reason for each in known if isinstance(each, Silent)]
    if len(silent) < len(ends):
        return ok(subject, "at least one of them answers")
    return fail(
        subject,
        NEITHER_RESPONDS,
        brief_reasons(silent),
        "the state of both is unknown; both may be healthy and only unreachable from this host",
        remedy,
    )


@check("brokers-answer", _FAMILY, Status.FAIL)
@each_cluster
def answer(side: Side) -> Verdict:
    """Every broker of both clusters answers when it is queried directly."""
    asked = require(side.survey.features, side.subject, "whether its brokers answer is", _LOOK)
    silent = {node: why for node, why in asked.items() if isinstance(why, Unavailable)}
    if silent:
        details = several(why.reason for _, why in sorted(silent.items()))
        reason = f"brokers that do not answer: {len(silent):,} of {len(asked):,}"
        impact = "partitions that they lead are unavailable"
        remedy = (
            "check that they are running and that their advertised listeners are reachable from"
            " this host"
        )
        return fail(side.subject, reason, details, impact, remedy)
    if not asked:
        raise NotObserved(side.subject, "its metadata lists no broker", _LOOK)
    layout = side.survey.layout
    if isinstance(layout, Unavailable):
        return ok(side.subject, f"every broker ({len(asked):,}) answers")
    holders = {node for each in layout.partitions.values() for node in each.assigned}
    if absent := sorted(holders - layout.brokers.keys()):
        reason = f"replicas are assigned to brokers that are not in the cluster: {nodes(absent)}"
        impact = "their partitions have fewer replicas, and some may have none"
        details = f"brokers in the cluster: {listed(sorted(layout.brokers))}"
        return fail(
            side.subject, reason, details, impact, "restart them: drctl runbook show broker-failure"
        )
    took = f"metadata request took {layout.seconds:.2f} s"
    return ok(side.subject, f"every broker ({len(asked):,}) answers", took)


@check("broker-versions", _FAMILY, Status.WARN)
def versions(observed: Observed) -> Iterator[Verdict]:
    """Brokers of a cluster run one version, and the target's features are not older."""
    yield from of_each(observed, _one_version)
    levels = [_levels(side) for side in sides(observed)]
    if all(levels):
        yield _compared(observed, *levels)


def _one_version(side: Side) -> Verdict:
    asked = require(side.survey.features, side.subject, "the version of its brokers is", _LOOK)
    known = {node: each for node, each in asked.items() if isinstance(each, BrokerFeatures)}
    tops = {node: each.supported.get(_METADATA, 0) for node, each in known.items()}
    if not any(tops.values()):
        raise NotObserved(side.subject, f"its brokers do not report {_METADATA}", _LOOK)
    details = several(f"broker {node} supports up to {top}" for node, top in sorted(tops.items()))
    evidence = f"{_METADATA} is {_levels(side).get(_METADATA, 0)}; {details}"
    if len(set(tops.values())) > 1:
        impact = "which features a client can use depends on the broker that it reaches"
        remedy = "finish the upgrade or roll it back"
        return warn(side.subject, "its brokers run several versions", evidence, impact, remedy)
    return ok(side.subject, "its brokers run one version", evidence)


def _levels(side: Side) -> Mapping[str, int]:
    """The finalized feature levels of a cluster."""
    asked = side.survey.features
    if isinstance(asked, Unavailable):
        return {}
    agreed = [each.finalized for each in asked.values() if isinstance(each, BrokerFeatures)]
    return agreed[0] if agreed else {}


def _compared(observed: Observed, ours: Mapping[str, int], theirs: Mapping[str, int]) -> Verdict:
    subject = f"features of cluster {observed.link.target}"
    lower = {name: level for name, level in ours.items() if theirs.get(name, 0) < level}
    if lower:
        details = several(
            f"{name} is {theirs.get(name, 0)} (source: {level})"
            for name, level in sorted(lower.items())
        )
        impact = "clients that use newer features of the source fail on the target"
        remedy = "upgrade them on the target: kafka-features.sh upgrade"
        return warn(
            subject,
            f"lower than on the source: {plural(len(lower), 'feature level')}",
            details,
            impact,
            remedy,
        )
    details = ", ".join(f"{name}={level}" for name, level in sorted(theirs.items()))
    return ok(subject, "no feature level is lower than on the source", details)


_SINCE = {
    Capability.CONSUMER_GROUPS: "only in Kafka 4.0 or later with group.version=1",
    Capability.ELIGIBLE_LEADERS: (
        "only in Kafka 4.0 or later with eligible.leader.replicas.version=1"
    ),
    Capability.QUORUM: "only in KRaft mode",
}
_ENABLE = "upgrade the target: kafka-features.sh upgrade"


@check("broker-capabilities", _FAMILY, Status.WARN, Status.FAIL)
def capabilities(observed: Observed) -> Iterator[Verdict]:
    """The target supports KIP-848 groups if the source does."""
    yield from of_each(observed, _capable)
    source, target = sides(observed)
    if Capability.CONSUMER_GROUPS not in _missing(target):
        return
    readers = observed.survey.readers
    modern = [
        name
        for name, group in sorted({} if isinstance(readers, Unavailable) else readers.items())
        if isinstance(group, Group) and group.protocol is GroupProtocol.CONSUMER
    ]
    impact = "clients with group.protocol=consumer cannot consume there"
    if modern:
        reason = f"it does not support KIP-848 groups, but the link has: {listed(modern)}"
        remedy = f"set group.protocol=classic in these applications, or {_ENABLE}"
        since = _SINCE[Capability.CONSUMER_GROUPS]
        yield fail(target.subject, reason, since, impact, remedy)
    elif Capability.CONSUMER_GROUPS not in _missing(source):
        reason = "it does not support KIP-848 groups, but the source does"
        yield warn(target.subject, reason, _SINCE[Capability.CONSUMER_GROUPS], impact, _ENABLE)


def _capable(side: Side) -> Verdict:
    asked = require(side.survey.features, side.subject, "what its brokers can do is", _LOOK)
    if not any(isinstance(each, BrokerFeatures) for each in asked.values()):
        raise NotObserved(side.subject, "no broker answers", _LOOK)
    missing = _missing(side)
    if not missing:
        return ok(
            side.subject,
            "its release supports everything that drctl uses",
            listed(list(Capability)),
        )
    evidence = several(f"{each}: {_SINCE[each]}" for each in missing)
    return ok(side.subject, f"it does not support {listed(missing)}", evidence)


def _missing(side: Side) -> list[Capability]:
    """What at least one of the brokers that answer cannot do."""
    asked = side.survey.features
    known = [] if isinstance(asked, Unavailable) else asked.values()
    found = {m for each in known if isinstance(each, BrokerFeatures) for m in each.missing}
    return [each for each in Capability if each in found]
