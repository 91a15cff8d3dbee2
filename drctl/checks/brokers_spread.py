"""How work and replicas are spread over brokers and racks."""

from collections import Counter
from collections.abc import Iterator

from drctl.checks.check import Family, NotObserved, Verdict, check, ok, seen, warn
from drctl.checks.observed import Observed
from drctl.checks.sides import DESCRIBE, Side, of_each
from drctl.checks.wording import listed, several
from drctl.model.finding import Status

_FAMILY = Family.BROKERS
_SKEW = 0.1
"""Kafka itself begins to move leaders there (leader.imbalance.per.broker.percentage)."""

_UNEVEN = 1.5
_FEW = 10
"""With so few partitions a broker nothing is said of how evenly they are spread."""


@check(
    "replicas-spread",
    _FAMILY,
    "every broker holds replicas, and none more than half as many again as the average",
    Status.WARN,
)
def spread(observed: Observed) -> Iterator[Verdict]:
    """Whether brokers stand idle, or one of them carries too much."""
    yield from of_each(observed, _spread)


def _spread(side: Side) -> Verdict:
    brokers, partitions = sorted(side.layout().brokers), side.partitions()
    held = Counter(node for each in partitions.values() for node in each.assigned)
    told = several(f"broker {node}: {held[node]:,} replicas" for node in brokers)
    average = sum(held.values()) / max(1, len(brokers))
    idle = [node for node in brokers if not held[node]]
    full = [node for node in brokers if held[node] > _UNEVEN * average]
    if average < _FEW or not (idle or full):
        return ok(side.subject, "replicas are spread evenly", told)
    which = f"brokers {listed(idle)} hold none" if idle else f"brokers {listed(full)} hold most"
    cost = "after a failover the load of two clusters is on few brokers"
    cure = "spread them: kafka-reassign-partitions"
    return warn(side.subject, f"replicas are not spread evenly: {which}", told, cost, cure)


@check(
    "racks-spread",
    _FAMILY,
    "the replicas of every partition are in more than one rack",
    Status.WARN,
)
def racks(observed: Observed) -> Iterator[Verdict]:
    """Whether a rack, or an availability zone, can take partitions with it."""
    yield from of_each(observed, _racks)


def _racks(side: Side) -> Verdict:
    brokers, partitions = side.layout().brokers, side.partitions()
    named = {node: broker.rack for node, broker in brokers.items() if broker.rack}
    if len(named) < len(brokers):
        reason = f"{len(brokers) - len(named):,} of {len(brokers):,} brokers name no rack"
        cure = "set broker.rack on every broker, or look where they stand"
        raise NotObserved(side.subject, reason, cure)
    every = sorted(set(named.values()))
    several_replicas = {p: each for p, each in partitions.items() if len(each.assigned) > 1}
    together = [
        p
        for p, each in several_replicas.items()
        if len({named.get(node, str(node)) for node in each.assigned}) == 1
    ]
    told = f"racks {listed(every)}"
    if len(every) == 1:
        cost = "what takes that rack takes the cluster"
        cure = "spread the brokers over racks, or availability zones"
        return warn(side.subject, "all of its brokers are in one rack", told, cost, cure)
    if together:
        reason = f"all replicas of {len(together):,} partitions are in one rack: {listed(together)}"
        cost = "what takes that rack takes them offline"
        return warn(side.subject, reason, told, cost, "move them: kafka-reassign-partitions")
    return ok(side.subject, "the replicas of every partition are in several racks", told)


@check(
    "leader-skew",
    _FAMILY,
    "at most a tenth of the partitions are led by another replica than the preferred one",
    Status.WARN,
)
def skew(observed: Observed) -> Iterator[Verdict]:
    """Whether elections after a restart were never taken back."""
    yield from of_each(observed, _skew)


def _skew(side: Side) -> Verdict:
    partitions = side.partitions()
    several_replicas = {p: each for p, each in partitions.items() if len(each.assigned) > 1}
    moved = [p for p, each in several_replicas.items() if each.leader != each.assigned[0]]
    told = f"{len(moved):,} of {len(several_replicas):,} partitions"
    if len(moved) <= _SKEW * len(several_replicas):
        return ok(side.subject, "leaders are the preferred ones", told)
    leaders = Counter(each.leader for each in partitions.values())
    led = several(f"broker {node} leads {count:,}" for node, count in sorted(leaders.items()))
    cost = "few brokers do the work of all, in the hour in which there is most of it"
    reason = "many partitions are not led by their preferred replica"
    return warn(side.subject, reason, f"{told}; {led}", cost, "drctl elect preferred")


@check(
    "broker-ids",
    _FAMILY,
    "the clusters have no broker id in common, or no gateway stands before both",
)
def ids(observed: Observed) -> Iterator[Verdict]:
    """Whether something that talks to both clusters can confuse their brokers."""
    link, survey = observed.link, observed.survey
    subject = f"brokers of {link.source} and {link.target}"
    here = seen(survey.source.layout, subject, f"those of {link.source} are", DESCRIBE)
    there = seen(survey.target.layout, subject, f"those of {link.target} are", DESCRIBE)
    common = sorted(here.brokers.keys() & there.brokers.keys())
    if not common:
        yield ok(subject, "no id is used twice")
        return
    yield ok(
        subject,
        f"ids {listed(common)} are used by both",
        "clients that bootstrap anew forget the ids that they knew (docs/clients.md)",
        "a gateway that joins both clusters into one needs ids that are unique over both",
    )
