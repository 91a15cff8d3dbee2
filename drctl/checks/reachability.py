"""Whether every broker answers for itself, and whether all of them are of one mind."""

from collections.abc import Iterator, Mapping

from drctl.checks.brokers import Side, each_cluster, of_each, sides
from drctl.checks.causes import NOBODY
from drctl.checks.check import Family, Prechecks, check, listed, several
from drctl.checks.observed import Observed
from drctl.checks.verdict import NotObserved, Verdict, fail, ok, require, require_asked, warn
from drctl.model.finding import Status
from drctl.model.health import Silent
from drctl.model.survey import BrokerFeatures
from drctl.model.topology import Unavailable

_FAMILY = Family.REACHABILITY
_LOOK = "ask each broker: `kafka-broker-api-versions --bootstrap-server HOST:PORT`"
_METADATA = "metadata.version"


@check(NOBODY, _FAMILY, Status.FAIL, prechecks=Prechecks(overridable=False))
def nobody(observed: Observed) -> Verdict:
    """At least one of the two clusters answers."""
    ends = {observed.link.source: observed.source, observed.link.target: observed.target}
    subject, remedy = f"clusters {' and '.join(ends)}", "look at this machine's own network first"
    known = [
        require_asked(each, subject, "whether they answer is", remedy) for each in ends.values()
    ]
    silent = [each.reason for each in known if isinstance(each, Silent)]
    if len(silent) < len(ends):
        return ok(subject, "not both of them are silent")
    return fail(
        subject,
        f"neither answers: {remedy}",
        "; ".join(silent),
        "nothing is known of either; where this machine cannot reach them, they may both be well",
        f"{remedy}: its name servers, routes, VPN and firewall; then see that the brokers run",
    )


@check("brokers-answer", _FAMILY, Status.FAIL)
@each_cluster
def answer(side: Side) -> Verdict:
    """Every broker of both clusters answers when it is asked alone."""
    asked = require(side.survey.features, side.subject, "whether its brokers answer is", _LOOK)
    silent = {node: why for node, why in asked.items() if isinstance(why, Unavailable)}
    if silent:
        told = several(why.reason for _, why in sorted(silent.items()))
        reason = f"{len(silent):,} of {len(asked):,} brokers do not answer"
        cost = "what they lead stands still, and clients that reach only them see an outage"
        remedy = "see that they run, and that their addresses can be reached from here"
        return fail(side.subject, reason, told, cost, remedy)
    if not asked:
        raise NotObserved(side.subject, "it names no broker", _LOOK)
    layout = side.survey.layout
    if isinstance(layout, Unavailable):
        return ok(side.subject, f"all {len(asked):,} brokers answer")
    holders = {node for each in layout.partitions.values() for node in each.assigned}
    if absent := sorted(holders - layout.brokers.keys()):
        reason = f"brokers {listed(absent)} hold replicas and are not there"
        cost = "what they held is on fewer brokers now, and some of it may be on none"
        told = f"brokers that are there: {listed(sorted(layout.brokers))}"
        return fail(side.subject, reason, told, cost, "bring them back; runbook broker-failure")
    took = f"metadata came in {layout.seconds:.2f} s"
    return ok(side.subject, f"all {len(asked):,} brokers answer", took)


@check("broker-versions", _FAMILY, Status.WARN)
def versions(observed: Observed) -> Iterator[Verdict]:
    """Brokers of a cluster have one version, and the target's level is not below the source's."""
    yield from of_each(observed, _one_version)
    levels = [_levels(side) for side in sides(observed)]
    if all(levels):
        yield _compared(observed, *levels)


def _one_version(side: Side) -> Verdict:
    asked = require(
        side.survey.features, side.subject, "which versions its brokers are of is", _LOOK
    )
    known = {node: each for node, each in asked.items() if isinstance(each, BrokerFeatures)}
    tops = {node: each.supported.get(_METADATA, 0) for node, each in known.items()}
    if not any(tops.values()):
        raise NotObserved(side.subject, f"its brokers do not tell their {_METADATA}", _LOOK)
    told = several(f"broker {node} up to {top}" for node, top in sorted(tops.items()))
    evidence = f"{_METADATA} is {_levels(side).get(_METADATA, 0)}; {told}"
    if len(set(tops.values())) > 1:
        cost = "brokers that know less lead partitions, too: what clients may do depends on luck"
        remedy = "finish the upgrade, or take it back"
        return warn(side.subject, "its brokers are of several versions", evidence, cost, remedy)
    return ok(side.subject, "its brokers are of one version", evidence)


def _levels(side: Side) -> Mapping[str, int]:
    """What its brokers agreed on."""
    asked = side.survey.features
    if isinstance(asked, Unavailable):
        return {}
    agreed = [each.finalized for each in asked.values() if isinstance(each, BrokerFeatures)]
    return agreed[0] if agreed else {}


def _compared(observed: Observed, ours: Mapping[str, int], theirs: Mapping[str, int]) -> Verdict:
    subject = f"features of cluster {observed.link.target}"
    lower = {name: level for name, level in ours.items() if theirs.get(name, 0) < level}
    if lower:
        told = several(
            f"{name} is {theirs.get(name, 0)}, on the source {level}"
            for name, level in sorted(lower.items())
        )
        cost = "clients that need what the source has are refused on the target"
        remedy = "raise them there: kafka-features upgrade"
        return warn(subject, f"{len(lower):,} are lower than on the source", told, cost, remedy)
    told = ", ".join(f"{name}={level}" for name, level in sorted(theirs.items()))
    return ok(subject, "none is lower than on the source", told)
