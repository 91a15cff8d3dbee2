"""Resilience to broker loss: replicas, in-sync replicas, unclean elections, balance."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial, wraps
from typing import NamedTuple

from drctl.checks.check import Family, Judge, check, listed, nodes, several
from drctl.checks.observed import ClusterSurvey, Observed, Topics
from drctl.checks.verdict import NotObserved, Verdict, fail, ok, require, separately, warn
from drctl.model.finding import Status
from drctl.model.survey import Layout, Replicas
from drctl.model.text import kafka_tool, plural
from drctl.model.topology import TopicPartition, TopicState, Unavailable


def describe_topics(cluster: str) -> str:
    """The remedy where topics and replicas of a cluster are not known."""
    return f"describe its topics: {kafka_tool('kafka-topics.sh', cluster)} --describe"


class Side(NamedTuple):
    """One cluster.

    Attributes:
        topics: the link's topics, or their copies.
        carried: whether the link replicates a topic of this name.
    """

    name: str
    survey: ClusterSurvey
    topics: Topics | Unavailable
    carried: Callable[[str], bool]

    @property
    def subject(self) -> str:
        """The cluster, for messages."""
        return f"cluster {self.name}"

    def layout(self) -> Layout:
        """Its brokers and replicas.

        Raises:
            NotObserved: they are not known.
        """
        return require(
            self.survey.layout,
            self.subject,
            "its brokers and replicas are",
            describe_topics(self.name),
        )

    def partitions(self) -> Mapping[TopicPartition, Replicas]:
        """The partitions that a failover needs: of the link's topics and of internal topics.

        Raises:
            NotObserved: they are not known.
        """
        known = self.layout().partitions
        return {
            place: each
            for place, each in known.items()
            if place.topic.startswith("__") or self.carried(place.topic)
        }

    def configured(self) -> Mapping[str, TopicState]:
        """Its topics of the link whose configuration is readable.

        Raises:
            NotObserved: they are not known.
        """
        known = require(self.topics, self.subject, "its topics are", describe_topics(self.name))
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
    """Judge each cluster; if one cannot be judged, the other still is."""
    return separately(partial(judge, side) for side in sides(observed))


def each_cluster(judge: Callable[[Side], Verdict]) -> Judge:
    """Turn a judge of one cluster into a judge of a link."""
    return wraps(judge)(lambda observed: of_each(observed, judge))


_FAMILY = Family.BROKERS
_MIN_ISR, _UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"
_BACK = "restart the brokers that hold them, and wait until they are in sync"

Partitions = Mapping[TopicPartition, Replicas]


@check("partitions-offline", _FAMILY, Status.FAIL)
@each_cluster
def offline(side: Side) -> Verdict:
    """Every partition has a leader."""
    partitions, alive = side.partitions(), side.layout().brokers
    without = [p for p, each in partitions.items() if each.leader not in alive]
    counted = f"{plural(len(partitions), 'partition')} checked"
    if not without:
        return ok(side.subject, "every partition has a leader", counted)
    reason = (
        f"{plural(len(without), 'partition has', 'partitions have')} no leader: {listed(without)}"
    )
    impact = "clients and replication can neither write nor read these partitions"
    return fail(
        side.subject, reason, counted, impact, f"{_BACK}: drctl runbook show all-replicas-down"
    )


@check("partitions-under-min-isr", _FAMILY, Status.FAIL)
@each_cluster
def under_min_isr(side: Side) -> Verdict:
    """Every partition has as many replicas in sync as `min.insync.replicas` requires."""
    least = {name: _least(state) for name, state in side.configured().items()}
    looked = {p: each for p, each in side.partitions().items() if p.topic in least}
    short = {
        p: each
        for p, each in looked.items()
        if len(each.in_sync) < min(least[p.topic], len(each.assigned))
    }
    if not short:
        evidence = f"{plural(len(looked), 'partition')} checked"
        return ok(side.subject, "every partition has enough replicas in sync", evidence)
    evidence = several(
        f"{p} has {len(each.in_sync)} of {least[p.topic]}" for p, each in short.items()
    )
    reason = f"{plural(len(short), 'partition has', 'partitions have')} too few replicas in sync"
    return fail(side.subject, reason, evidence, "producers with acks=all fail on them", _BACK)


@check("replicas-out-of-sync", _FAMILY, Status.WARN)
@each_cluster
def out_of_sync(side: Side) -> Verdict:
    """Every replica is in sync."""
    partitions = side.partitions()
    late = {p: each for p, each in partitions.items() if len(each.in_sync) < len(each.assigned)}
    if not late:
        return ok(side.subject, "every replica is in sync", plural(len(partitions), "partition"))
    brokers = sorted({node for e in late.values() for node in {*e.assigned} - {*e.in_sync}})
    evidence = several(f"{p}: in sync {listed(each.in_sync) or 'none'}" for p, each in late.items())
    reason = (
        f"{plural(len(late), 'partition has', 'partitions have')} replicas out of sync, on"
        f" {nodes(brokers)}"
    )
    impact = "the loss of one more broker can make partitions unavailable"
    return warn(side.subject, reason, evidence, impact, _BACK)


@check("eligible-leaders", _FAMILY, Status.WARN)
@each_cluster
def eligible(side: Side) -> Verdict:
    """Where a single replica is in sync, another one is eligible to lead (KIP-966)."""
    late = {p: e for p, e in side.partitions().items() if len(e.in_sync) < len(e.assigned)}
    if not late:
        return ok(side.subject, "every replica is in sync")
    unreported = [p for p, each in late.items() if each.eligible is None]
    if unreported:
        count = plural(len(unreported), "partition")
        reason = f"brokers do not report eligible leader replicas of {count}"
        raise NotObserved(side.subject, reason, "inspect the replicas: drctl elect show")
    alone = [p for p, each in late.items() if len(each.in_sync) < 2 and not each.eligible]
    evidence = several(
        f"{p}: eligible {listed(late[p].eligible or ()) or 'none'}" for p in alone or late
    )
    if not alone:
        return ok(side.subject, "other replicas could lead without data loss", evidence)
    reason = (
        f"{plural(len(alone), 'partition has', 'partitions have')} at most one complete replica"
    )
    impact = "if it is lost, the next leader is missing acknowledged records"
    remedy = "restart the other brokers first; compare the replicas: drctl elect show"
    return warn(side.subject, reason, evidence, impact, remedy)


@check("replication-factor", _FAMILY, Status.WARN)
@each_cluster
def factor(side: Side) -> Verdict:
    """Every partition is on more than one broker."""
    partitions = side.partitions()
    alone = sorted({p.topic for p, each in partitions.items() if len(each.assigned) < 2})
    factors = sorted({len(each.assigned) for each in partitions.values()})
    evidence = f"replication factors {listed(factors) or 'none'}"
    if not alone:
        return ok(side.subject, "every partition is on more than one broker", evidence)
    reason = (
        f"{plural(len(alone), 'topic has', 'topics have')} partitions with one replica:"
        f" {listed(alone)}"
    )
    impact = "if the broker of the only replica is lost, so are its unreplicated records"
    remedy = "raise their replication factor: kafka-reassign-partitions.sh"
    return warn(side.subject, reason, evidence, impact, remedy)


@check("min-isr-and-replicas", _FAMILY, Status.WARN)
@each_cluster
def min_isr(side: Side) -> Verdict:
    """If a topic has several replicas, `min.insync.replicas` is above 1 and below their number."""
    states = side.configured()
    replicas: dict[str, int] = {}
    for place, each in side.partitions().items():
        replicas[place.topic] = max(len(each.assigned), replicas.get(place.topic, 0))
    rows = [(n, _least(s), replicas[n]) for n, s in states.items() if replicas.get(n, 0) > 1]
    stops = [row for row in rows if row[1] >= row[2]]
    weak = [row for row in rows if row[1] < 2]
    if not rows:
        return ok(side.subject, "no topic has several replicas: see replication-factor")
    if not stops and not weak:
        evidence = f"{plural(len(rows), 'topic')} with several replicas"
        return ok(
            side.subject, "acks=all waits for two brokers and survives the loss of one", evidence
        )
    evidence = several(
        f"{name}: {_MIN_ISR}={least} of {of} replicas" for name, least, of in stops + weak
    )
    if stops:
        reason = (
            f"{plural(len(stops), 'topic requires', 'topics require')} every replica to be in sync"
        )
        impact = "a restart of any broker blocks producers with acks=all"
        remedy = f"set {_MIN_ISR} to one less than the replication factor"
        return warn(side.subject, reason, evidence, impact, remedy)
    reason = f"{plural(len(weak), 'topic has', 'topics have')} {_MIN_ISR}=1"
    impact = "an acknowledged record may be on one broker only, and is lost with it"
    return warn(
        side.subject, reason, evidence, impact, f"set {_MIN_ISR}=2 on topics with 3 replicas"
    )


@check("unclean-election", _FAMILY, Status.WARN)
@each_cluster
def unclean(side: Side) -> Verdict:
    """No topic of the link has `unclean.leader.election.enable`."""
    states = side.configured()
    found = [name for name, state in states.items() if state.config.get(_UNCLEAN) == "true"]
    if not found:
        evidence = f"{plural(len(states), 'topic')} checked"
        return ok(side.subject, "no incomplete replica becomes leader automatically", evidence)
    reason = (
        f"{plural(len(found), 'topic allows', 'topics allow')} unclean elections: {listed(found)}"
    )
    impact = (
        "after a loss of their leaders, acknowledged records are missing and"
        " translated offsets point to other records"
    )
    remedy = (
        f"set {_UNCLEAN}=false; if an unclean election is unavoidable, run `drctl elect unclean`"
    )
    return warn(side.subject, reason, f"{_UNCLEAN}=true", impact, remedy)


@check("broker-loss", _FAMILY, Status.WARN)
@each_cluster
def loss(side: Side) -> Verdict:
    """The loss of any one broker leaves all partitions online and writable."""
    partitions, brokers = side.partitions(), sorted(side.layout().brokers)
    states = side.configured()
    least = {name: _least(state) for name, state in states.items()}
    worst = [(node, *_lost_with(node, partitions, least)) for node in brokers]
    bad = [row for row in worst if row[1] or row[2]]
    if not bad:
        evidence = f"{nodes(brokers)}; {plural(len(partitions), 'partition')}"
        return ok(side.subject, "any one broker can be lost", evidence)
    evidence = several(
        f"without broker {node}: {plural(gone, 'partition')} offline, acks=all fails on"
        f" {short:,} more"
        for node, gone, short in bad
    )
    lost = [node for node, _, _ in bad]
    which = nodes(lost) if len(bad) == 1 else f"any of {nodes(lost)}"
    reason = f"the loss of {which} makes partitions unavailable"
    impact = "offline partitions are neither replicated nor drained until that broker is back"
    remedy = "add replicas, or get them in sync (see replication-factor, replicas-out-of-sync)"
    return warn(side.subject, reason, evidence, impact, remedy)


def _lost_with(node: int, partitions: Partitions, least: Mapping[str, int]) -> tuple[int, int]:
    """Partitions that go offline with a broker, and others that reject acks=all."""
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
"""Kafka's own threshold for moving leaders (leader.imbalance.per.broker.percentage)."""

_UNEVEN = 1.5
_FEW = 10
"""With fewer partitions per broker, balance is not judged."""


@check("replica-balance", _FAMILY, Status.WARN)
@each_cluster
def spread(side: Side) -> Verdict:
    """Every broker holds replicas, and none more than 1.5 times the average."""
    brokers, partitions = sorted(side.layout().brokers), side.partitions()
    held = Counter(node for each in partitions.values() for node in each.assigned)
    evidence = several(f"broker {node}: {plural(held[node], 'replica')}" for node in brokers)
    average = sum(held.values()) / max(1, len(brokers))
    idle = [node for node in brokers if not held[node]]
    full = [node for node in brokers if held[node] > _UNEVEN * average]
    if average < _FEW or not (idle or full):
        return ok(side.subject, "replicas are spread evenly", evidence)
    which = f"none on {nodes(idle)}" if idle else f"most on {nodes(full)}"
    impact = "after a failover, few brokers carry the load of both clusters"
    remedy = "rebalance them: kafka-reassign-partitions.sh"
    return warn(side.subject, f"replicas are not spread evenly: {which}", evidence, impact, remedy)


@check("rack-spread", _FAMILY, Status.WARN)
@each_cluster
def racks(side: Side) -> Verdict:
    """The replicas of every partition are in more than one rack."""
    brokers, partitions = side.layout().brokers, side.partitions()
    named = {node: broker.rack for node, broker in brokers.items() if broker.rack}
    if len(named) < len(brokers):
        reason = f"brokers without broker.rack: {len(brokers) - len(named):,} of {len(brokers):,}"
        remedy = "set broker.rack on every broker"
        raise NotObserved(side.subject, reason, remedy)
    every = sorted(set(named.values()))
    several_replicas = {p: each for p, each in partitions.items() if len(each.assigned) > 1}
    together = [
        p
        for p, each in several_replicas.items()
        if len({named.get(node, str(node)) for node in each.assigned}) == 1
    ]
    evidence = f"racks {listed(every)}"
    if len(every) == 1:
        impact = "the failure of that rack takes the whole cluster offline"
        remedy = "spread the brokers over racks, or availability zones"
        return warn(side.subject, "all of its brokers are in one rack", evidence, impact, remedy)
    if together:
        reason = (
            f"all replicas of {plural(len(together), 'partition')} are in one rack:"
            f" {listed(together)}"
        )
        impact = "the failure of that rack takes them offline"
        remedy = "move them: kafka-reassign-partitions.sh"
        return warn(side.subject, reason, evidence, impact, remedy)
    return ok(side.subject, "the replicas of every partition are in several racks", evidence)


@check("leader-skew", _FAMILY, Status.WARN)
@each_cluster
def skew(side: Side) -> Verdict:
    """At most a tenth of the partitions are led by a replica other than the preferred one."""
    partitions = side.partitions()
    several_replicas = {p: each for p, each in partitions.items() if len(each.assigned) > 1}
    moved = [p for p, each in several_replicas.items() if each.leader != each.assigned[0]]
    evidence = (
        f"led by another replica: {len(moved):,} of {plural(len(several_replicas), 'partition')}"
    )
    if len(moved) <= _SKEW * len(several_replicas):
        return ok(side.subject, "leaders are the preferred ones", evidence)
    leaders = Counter(each.leader for each in partitions.values())
    led = several(f"broker {node} leads {count:,}" for node, count in sorted(leaders.items()))
    impact = "a few brokers carry most of the load"
    reason = "many partitions are not led by their preferred replica"
    return warn(side.subject, reason, f"{evidence}; {led}", impact, "drctl elect preferred")
