"""What the loss of brokers would do: replicas, replicas in sync, elections of a stale leader."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial, wraps
from typing import NamedTuple

from drctl.checks.check import Family, Judge, check, listed, several
from drctl.checks.observed import ClusterSurvey, Observed, Topics
from drctl.checks.verdict import NotObserved, Verdict, fail, ok, require, separately, warn
from drctl.model.finding import Status
from drctl.model.survey import Layout, Replicas
from drctl.model.topology import TopicPartition, TopicState, Unavailable

DESCRIBE_CLUSTER = "`kafka-topics --describe` and `kafka-configs --describe` show it"


class Side(NamedTuple):
    """One cluster.

    Attributes:
        topics: of the link, or their copies.
        carried: whether a topic of this name is one of these.
    """

    name: str
    survey: ClusterSurvey
    topics: Topics | Unavailable
    carried: Callable[[str], bool]

    @property
    def subject(self) -> str:
        """In words for a person."""
        return f"cluster {self.name}"

    def layout(self) -> Layout:
        """Its brokers and replicas.

        Raises:
            NotObserved: nobody has seen them.
        """
        return require(
            self.survey.layout, self.subject, "its brokers and replicas are", DESCRIBE_CLUSTER
        )

    def partitions(self) -> Mapping[TopicPartition, Replicas]:
        """Those that a failover needs: of the link's topics, and of Kafka's and drctl's own.

        Raises:
            NotObserved: nobody has seen them.
        """
        known = self.layout().partitions
        return {
            place: each
            for place, each in known.items()
            if place.topic.startswith("__") or self.carried(place.topic)
        }

    def configured(self) -> Mapping[str, TopicState]:
        """Its topics of the link whose configuration may be read.

        Raises:
            NotObserved: nobody has seen them.
        """
        known = require(self.topics, self.subject, "its topics are", DESCRIBE_CLUSTER)
        return {
            name: state
            for name, state in sorted(known.items())
            if isinstance(state, TopicState) and state.config and self.carried(name)
        }


def sides(observed: Observed) -> tuple[Side, Side]:
    """The source and the target."""
    link, survey = observed.link, observed.survey

    def copy(name: str) -> bool:
        origin = link.source_topic(name)
        return origin is not None and link.carries(origin)

    return (
        Side(link.source, survey.source, observed.source_topics, link.carries),
        Side(link.target, survey.target, observed.target_topics, copy),
    )


def of_each(observed: Observed, judge: Callable[[Side], Verdict]) -> Iterator[Verdict]:
    """One verdict on each cluster; a dead one keeps nobody from judging the other."""
    return separately(partial(judge, side) for side in sides(observed))


def each_cluster(judge: Callable[[Side], Verdict]) -> Judge:
    """Make a judge of a link of one that judges a cluster."""
    return wraps(judge)(lambda observed: of_each(observed, judge))


_FAMILY = Family.BROKERS
_MIN_ISR, _UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"
_BACK = "bring the brokers back that hold them, and wait until they have caught up"

Partitions = Mapping[TopicPartition, Replicas]


@check("partitions-offline", _FAMILY, Status.FAIL)
@each_cluster
def offline(side: Side) -> Verdict:
    """Every partition has a leader."""
    partitions, alive = side.partitions(), side.layout().brokers
    without = [p for p, each in partitions.items() if each.leader not in alive]
    counted = f"{len(partitions):,} partitions looked at"
    if not without:
        return ok(side.subject, "every partition has a leader", counted)
    reason = f"{len(without):,} partitions have no leader: {listed(without)}"
    cost = "nothing can be written to them or read from them, by replication either"
    return fail(side.subject, reason, counted, cost, f"{_BACK}; runbook all-replicas-down")


@check("partitions-under-min-isr", _FAMILY, Status.FAIL)
@each_cluster
def under_min_isr(side: Side) -> Verdict:
    """Every partition has as many replicas in sync as `min.insync.replicas` asks for."""
    least = {name: _least(state) for name, state in side.configured().items()}
    looked = {p: each for p, each in side.partitions().items() if p.topic in least}
    short = {
        p: each
        for p, each in looked.items()
        if len(each.in_sync) < min(least[p.topic], len(each.assigned))
    }
    if not short:
        told = f"{len(looked):,} partitions looked at"
        return ok(side.subject, "every partition has enough replicas in sync", told)
    told = several(f"{p} has {len(each.in_sync)} of {least[p.topic]}" for p, each in short.items())
    reason = f"{len(short):,} partitions have too few replicas in sync"
    return fail(side.subject, reason, told, "they take no record with acks=all", _BACK)


@check("replicas-behind", _FAMILY, Status.WARN)
@each_cluster
def behind(side: Side) -> Verdict:
    """Every replica is in sync."""
    partitions = side.partitions()
    late = {p: each for p, each in partitions.items() if len(each.in_sync) < len(each.assigned)}
    if not late:
        return ok(side.subject, "every replica is in sync", f"{len(partitions):,} partitions")
    brokers = sorted({node for e in late.values() for node in {*e.assigned} - {*e.in_sync}})
    told = several(f"{p}: in sync {listed(each.in_sync) or 'nobody'}" for p, each in late.items())
    reason = f"{len(late):,} partitions have replicas behind, on brokers {listed(brokers)}"
    cost = "the next broker that fails takes more with it than it should"
    return warn(side.subject, reason, told, cost, _BACK)


@check("eligible-leaders", _FAMILY, Status.WARN)
@each_cluster
def eligible(side: Side) -> Verdict:
    """Where a single replica is in sync, another one is eligible to lead (KIP-966)."""
    late = {p: e for p, e in side.partitions().items() if len(e.in_sync) < len(e.assigned)}
    if not late:
        return ok(side.subject, "every replica is in sync: no other need be eligible")
    untold = [p for p, each in late.items() if each.eligible is None]
    if untold:
        reason = (
            f"of {len(untold):,} partitions the brokers do not tell which replicas are eligible"
        )
        raise NotObserved(side.subject, reason, "`drctl elect show` looks at each replica")
    alone = [p for p, each in late.items() if len(each.in_sync) < 2 and not each.eligible]
    told = several(f"{p}: eligible {listed(e.eligible or ()) or 'nobody'}" for p, e in late.items())
    if not alone:
        return ok(side.subject, "others could lead without a loss", told)
    reason = f"{len(alone):,} partitions have one replica that holds everything, or none"
    cost = "when it is lost, the next leader lacks acknowledged records"
    remedy = "bring the other brokers back first; `drctl elect show` tells what each replica holds"
    return warn(side.subject, reason, told, cost, remedy)


@check("replication-factor", _FAMILY, Status.WARN)
@each_cluster
def factor(side: Side) -> Verdict:
    """Every partition is on more than one broker."""
    partitions = side.partitions()
    alone = sorted({p.topic for p, each in partitions.items() if len(each.assigned) < 2})
    factors = sorted({len(each.assigned) for each in partitions.values()})
    told = f"replication factors {listed(factors) or 'none'}"
    if not alone:
        return ok(side.subject, "every partition is on more than one broker", told)
    reason = f"{len(alone):,} topics have partitions with one replica: {listed(alone)}"
    cost = "with that broker they are gone, and what was not copied yet is lost"
    remedy = "raise their replication factor: kafka-reassign-partitions"
    return warn(side.subject, reason, told, cost, remedy)


@check("min-isr-and-replicas", _FAMILY, Status.WARN)
@each_cluster
def min_isr(side: Side) -> Verdict:
    """`min.insync.replicas` is above 1, and below the number of replicas if that is above 1."""
    states = side.configured()
    replicas: dict[str, int] = {}
    for place, each in side.partitions().items():
        replicas[place.topic] = max(len(each.assigned), replicas.get(place.topic, 0))
    rows = [(n, _least(s), replicas[n]) for n, s in states.items() if replicas.get(n, 0) > 1]
    stops = [row for row in rows if row[1] >= row[2]]
    weak = [row for row in rows if row[1] < 2]
    if not rows:
        return ok(side.subject, "no topic has several replicas: see row replication-factor")
    if not stops and not weak:
        told = f"{len(rows):,} topics with several replicas"
        return ok(side.subject, "acks=all means two brokers, and survives the loss of one", told)
    told = several(
        f"{name}: {_MIN_ISR}={least} of {of} replicas" for name, least, of in stops + weak
    )
    if stops:
        reason = f"{len(stops):,} topics ask for all of their replicas"
        cost = "when any broker is restarted they take no record with acks=all"
        remedy = f"set {_MIN_ISR} to one less than their replicas"
        return warn(side.subject, reason, told, cost, remedy)
    reason = f"{len(weak):,} topics have {_MIN_ISR}=1"
    cost = "an acknowledged record may be on one broker alone, and is lost with it"
    return warn(side.subject, reason, told, cost, f"set {_MIN_ISR}=2 where there are 3 replicas")


@check("unclean-election", _FAMILY, Status.WARN)
@each_cluster
def unclean(side: Side) -> Verdict:
    """No topic of the link has `unclean.leader.election.enable`."""
    states = side.configured()
    found = [name for name, state in states.items() if state.config.get(_UNCLEAN) == "true"]
    if not found:
        told = f"{len(states):,} topics looked at"
        return ok(side.subject, "no replica that lacks records becomes leader by itself", told)
    reason = f"{len(found):,} topics allow it: {listed(found)}"
    cost = (
        "when their leaders are lost a stale replica takes over: acknowledged records are gone, and"
        " offsets that were translated mean other records"
    )
    remedy = f"set {_UNCLEAN}=false; `drctl elect unclean` elects one where somebody decides it"
    return warn(side.subject, reason, f"{_UNCLEAN}=true", cost, remedy)


@check("broker-loss", _FAMILY, Status.WARN)
@each_cluster
def loss(side: Side) -> Verdict:
    """The loss of any one broker takes no partition offline, and leaves all of them writable."""
    partitions, brokers = side.partitions(), sorted(side.layout().brokers)
    states = side.configured()
    least = {name: _least(state) for name, state in states.items()}
    worst = [(node, *_lost_with(node, partitions, least)) for node in brokers]
    bad = [row for row in worst if row[1] or row[2]]
    if not bad:
        told = f"brokers {listed(brokers)}, {len(partitions):,} partitions"
        return ok(side.subject, "any one broker may be lost", told)
    told = several(
        f"broker {node}: {gone:,} go offline, {short:,} more take no acks=all"
        for node, gone, short in bad
    )
    names = listed([node for node, _, _ in bad])
    which = f"broker {names}" if len(bad) == 1 else f"any of brokers {names}"
    reason = f"the loss of {which} takes partitions with it"
    cost = "what goes offline is neither replicated nor fenced until that broker is back"
    remedy = "more replicas, or replicas in sync (rows replication-factor and replicas-behind)"
    return warn(side.subject, reason, told, cost, remedy)


def _lost_with(node: int, partitions: Partitions, least: Mapping[str, int]) -> tuple[int, int]:
    """How many go offline with a broker, and how many others take no acks=all any more."""
    gone = short = 0
    for place, each in partitions.items():
        if node not in each.in_sync:
            continue
        left = len(each.in_sync) - 1
        gone += not left
        wanted = min(least.get(place.topic, 1), len(each.assigned))
        short += bool(left) and left < wanted
    return gone, short


def _least(state: TopicState) -> int:
    text = state.config.get(_MIN_ISR, "1")
    return int(text) if text.isdecimal() else 1


_SKEW = 0.1
"""Kafka itself begins to move leaders there (leader.imbalance.per.broker.percentage)."""

_UNEVEN = 1.5
_FEW = 10
"""With so few partitions a broker nothing is said of how evenly they are spread."""


@check("replicas-spread", _FAMILY, Status.WARN)
@each_cluster
def spread(side: Side) -> Verdict:
    """Every broker holds replicas, and none more than half as many again as the average."""
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
    remedy = "spread them: kafka-reassign-partitions"
    return warn(side.subject, f"replicas are not spread evenly: {which}", told, cost, remedy)


@check("racks-spread", _FAMILY, Status.WARN)
@each_cluster
def racks(side: Side) -> Verdict:
    """The replicas of every partition are in more than one rack."""
    brokers, partitions = side.layout().brokers, side.partitions()
    named = {node: broker.rack for node, broker in brokers.items() if broker.rack}
    if len(named) < len(brokers):
        reason = f"{len(brokers) - len(named):,} of {len(brokers):,} brokers name no rack"
        remedy = "set broker.rack on every broker, or look where they stand"
        raise NotObserved(side.subject, reason, remedy)
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
        remedy = "spread the brokers over racks, or availability zones"
        return warn(side.subject, "all of its brokers are in one rack", told, cost, remedy)
    if together:
        reason = f"all replicas of {len(together):,} partitions are in one rack: {listed(together)}"
        cost = "what takes that rack takes them offline"
        return warn(side.subject, reason, told, cost, "move them: kafka-reassign-partitions")
    return ok(side.subject, "the replicas of every partition are in several racks", told)


@check("leader-skew", _FAMILY, Status.WARN)
@each_cluster
def skew(side: Side) -> Verdict:
    """At most a tenth of the partitions are led by another replica than the preferred one."""
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


@check("broker-ids", _FAMILY)
def ids(observed: Observed) -> Verdict:
    """The clusters have no broker id in common, or no gateway stands before both."""
    link, survey = observed.link, observed.survey
    subject = f"brokers of {link.source} and {link.target}"
    here = require(survey.source.layout, subject, f"those of {link.source} are", DESCRIBE_CLUSTER)
    there = require(survey.target.layout, subject, f"those of {link.target} are", DESCRIBE_CLUSTER)
    common = sorted(here.brokers.keys() & there.brokers.keys())
    if not common:
        return ok(subject, "no id is used twice")
    return ok(
        subject,
        f"ids {listed(common)} are used by both",
        "clients that bootstrap anew forget the ids that they knew (docs/howto/clients.md)",
        "a gateway that joins both clusters into one needs ids that are unique over both",
    )
