"""What the loss of brokers would do: replicas, replicas in sync, elections of a stale leader."""

from collections.abc import Iterator, Mapping

from drctl.checks.check import Family, NotObserved, Verdict, check, fail, ok, warn
from drctl.checks.observed import Observed
from drctl.checks.sides import Side, of_each
from drctl.checks.wording import listed, several
from drctl.model.finding import Status
from drctl.model.survey import Replicas
from drctl.model.topology import TopicPartition, TopicState

_FAMILY = Family.BROKERS
_MIN_ISR, _UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"
_BACK = "bring the brokers back that hold them, and wait until they have caught up"

Partitions = Mapping[TopicPartition, Replicas]


@check("partitions-offline", _FAMILY, "every partition has a leader", Status.FAIL)
def offline(observed: Observed) -> Iterator[Verdict]:
    """Whether there are partitions that nobody can read or write."""
    yield from of_each(observed, _offline)


def _offline(side: Side) -> Verdict:
    partitions, alive = side.partitions(), side.layout().brokers
    without = [p for p, each in partitions.items() if each.leader not in alive]
    counted = f"{len(partitions):,} partitions looked at"
    if not without:
        return ok(side.subject, "every partition has a leader", counted)
    reason = f"{len(without):,} partitions have no leader: {listed(without)}"
    cost = "nothing can be written to them or read from them, by replication either"
    return fail(side.subject, reason, counted, cost, f"{_BACK}; runbook all-replicas-down")


@check(
    "partitions-under-min-isr",
    _FAMILY,
    "every partition has as many replicas in sync as `min.insync.replicas` asks for",
    Status.FAIL,
)
def under_min_isr(observed: Observed) -> Iterator[Verdict]:
    """Whether there are partitions that take no record with acks=all."""
    yield from of_each(observed, _under_min_isr)


def _under_min_isr(side: Side) -> Verdict:
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


@check("replicas-behind", _FAMILY, "every replica is in sync", Status.WARN)
def behind(observed: Observed) -> Iterator[Verdict]:
    """Whether the next broker that fails takes more with it."""
    yield from of_each(observed, _behind)


def _behind(side: Side) -> Verdict:
    partitions = side.partitions()
    late = {p: each for p, each in partitions.items() if len(each.in_sync) < len(each.assigned)}
    if not late:
        return ok(side.subject, "every replica is in sync", f"{len(partitions):,} partitions")
    brokers = sorted({node for e in late.values() for node in {*e.assigned} - {*e.in_sync}})
    told = several(f"{p}: in sync {listed(each.in_sync) or 'nobody'}" for p, each in late.items())
    reason = f"{len(late):,} partitions have replicas behind, on brokers {listed(brokers)}"
    cost = "the next broker that fails takes more with it than it should"
    return warn(side.subject, reason, told, cost, _BACK)


@check(
    "eligible-leaders",
    _FAMILY,
    "where a single replica is in sync, another one is eligible to lead (KIP-966)",
    Status.WARN,
)
def eligible(observed: Observed) -> Iterator[Verdict]:
    """Whether the loss of one more broker leaves only an unclean election."""
    yield from of_each(observed, _eligible)


def _eligible(side: Side) -> Verdict:
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
    cure = "bring the other brokers back first; `drctl elect show` tells what each replica holds"
    return warn(side.subject, reason, told, cost, cure)


@check(
    "replication-factor",
    _FAMILY,
    "every partition is on more than one broker",
    Status.WARN,
)
def factor(observed: Observed) -> Iterator[Verdict]:
    """Whether a single broker can take data with it."""
    yield from of_each(observed, _factor)


def _factor(side: Side) -> Verdict:
    partitions = side.partitions()
    alone = sorted({p.topic for p, each in partitions.items() if len(each.assigned) < 2})
    factors = sorted({len(each.assigned) for each in partitions.values()})
    told = f"replication factors {listed(factors) or 'none'}"
    if not alone:
        return ok(side.subject, "every partition is on more than one broker", told)
    reason = f"{len(alone):,} topics have partitions with one replica: {listed(alone)}"
    cost = "with that broker they are gone, and what was not copied yet is lost"
    cure = "raise their replication factor: kafka-reassign-partitions"
    return warn(side.subject, reason, told, cost, cure)


@check(
    "min-isr-and-replicas",
    _FAMILY,
    "`min.insync.replicas` is above 1 and below the number of replicas, where there are several",
    Status.WARN,
)
def min_isr(observed: Observed) -> Iterator[Verdict]:
    """Whether acks=all means something, and survives a broker."""
    yield from of_each(observed, _min_isr)


def _min_isr(side: Side) -> Verdict:
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
        cure = f"set {_MIN_ISR} to one less than their replicas"
        return warn(side.subject, reason, told, cost, cure)
    reason = f"{len(weak):,} topics have {_MIN_ISR}=1"
    cost = "an acknowledged record may be on one broker alone, and is lost with it"
    return warn(side.subject, reason, told, cost, f"set {_MIN_ISR}=2 where there are 3 replicas")


@check(
    "unclean-election",
    _FAMILY,
    "no topic of the link has `unclean.leader.election.enable`",
    Status.WARN,
)
def unclean(observed: Observed) -> Iterator[Verdict]:
    """Whether a replica that lacks records may become leader by itself."""
    yield from of_each(observed, _unclean)


def _unclean(side: Side) -> Verdict:
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
    cure = f"set {_UNCLEAN}=false; `drctl elect unclean` elects one where somebody decides it"
    return warn(side.subject, reason, f"{_UNCLEAN}=true", cost, cure)


@check(
    "broker-loss",
    _FAMILY,
    "the loss of any one broker takes no partition offline, and leaves all of them writable",
    Status.WARN,
)
def loss(observed: Observed) -> Iterator[Verdict]:
    """What would go with each broker now."""
    yield from of_each(observed, _loss)


def _loss(side: Side) -> Verdict:
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
    cure = "more replicas, or replicas in sync (rows replication-factor and replicas-behind)"
    return warn(side.subject, reason, told, cost, cure)


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
