"""Whether records could go round, and whether copies are what they should be."""

import re

from drctl.checks.check import (
    BOTH,
    Family,
    Prechecks,
    check,
    duration,
    listed,
    reasons,
    several,
    split,
)
from drctl.checks.connector_settings import SOURCE
from drctl.checks.observed import Observed
from drctl.checks.verdict import NotObserved, Verdict, fail, ok, require, warn
from drctl.config.fields import UNCHANGED
from drctl.config.link import Link
from drctl.config.mirrors import arrives_as, brokers, simple_class
from drctl.model.finding import Status
from drctl.model.replication import Connector
from drctl.model.text import put
from drctl.model.topology import Unavailable

_FAMILY = Family.REPLICATION
_RECENT_MS = 10 * 60_000
_IDENTITY = "IdentityReplicationPolicy"
_IDLE = ("STOPPED", "PAUSED")
_LOOK = "look whether both directions run at once"


@check("cycles", _FAMILY, Status.FAIL, prechecks=Prechecks(BOTH))
def cycles(observed: Observed) -> Verdict | None:
    """No record is copied back to where it came from."""
    link = observed.link
    subject = f"links between {link.source} and {link.target}"
    if link.settings.replicator.kind == "confluent-replicator":
        # It marks records: row replicator-provenance.
        return None
    remedy = "let one direction rename, mark records (provenance headers), or stop one of them"
    others = require(observed.neighbours, subject, "the other links are", remedy)
    running = _running_back(observed, subject)
    back = [each for each in others if (each.source, each.target) == (link.target, link.source)]
    meant = [each.name for each in back if _round(link, each)]
    cost = "each direction takes the other's copies for new records, for ever"
    if running:
        reason = f"connectors {listed(running)} copy back under the same names"
        stop = "; ".join(put("", name, "stop") for name in running)
        return fail(subject, reason, "neither direction is stopped", cost, f"{remedy}: {stop}")
    if meant and not isinstance(observed.connectors, Unavailable):
        return ok(subject, f"link {listed(meant)} would, and nothing of it runs now", "", cost)
    if meant:
        reason = f"link {listed(meant)} copies back, and whether it runs now cannot be seen"
        raise NotObserved(subject, reason, _LOOK)
    return ok(subject, "nothing copies back under the same names")


def _round(link: Link, other: Link) -> bool:
    """Whether both keep the names of topics, and have topics in common, as far as patterns tell."""
    if not (_same_names(link) and _same_names(other)):
        return False
    both = ((link, other), (other, link))
    return any(one.carries(topic) for one, two in both for topic in two.settings.topics)


def _same_names(link: Link) -> bool:
    return link.settings.replicator.rename == UNCHANGED


def _running_back(observed: Observed, subject: str) -> list[str]:
    """MirrorMaker 2's connectors of the other direction that run, and bring copies back.

    While the link's own connector is stopped nothing goes round: so it is where clients have moved
    and the way back runs.
    """
    known: dict[str, Connector] = {}
    for workers in (observed.connectors, observed.reverse):
        if not isinstance(workers, Unavailable):
            known |= workers
    sources = [c for c in known.values() if simple_class(c.config) == SOURCE]
    named = observed.link.settings.replicator.connectors.source
    ours = next((c for c in sources if c.name == named), None)
    if ours is None or ours.state in _IDLE:
        return []
    back = [c for c in sources if c.state == "RUNNING" and _the_other_way(c, ours)]
    return sorted(each.name for each in back if _brings_back(each, observed, subject))


def _the_other_way(connector: Connector, ours: Connector) -> bool:
    """By the names that both give the clusters, or by their addresses."""
    source, target = _addresses(connector)
    our_source, our_target = _addresses(ours)
    swapped = bool(source & our_target and target & our_source)
    return swapped or _ends(connector) == _ends(ours)[::-1]


def _brings_back(connector: Connector, observed: Observed, subject: str) -> bool:
    """Whether a copy of a topic of the link comes back to the topic itself, as far as is known."""
    link = observed.link
    names = _topics(observed)
    if names is None and _keeps_names(connector):
        reason = f"connector {connector.name} copies back; whether topics of the link is not known"
        raise NotObserved(subject, reason, _LOOK)
    if not names:
        return _keeps_names(connector)
    return any(_comes_back(connector, link, name) for name in link.topics_of(names))


def _topics(observed: Observed) -> set[str] | None:
    """Those of the source that are known; of one that is silent, those whose copies are there."""
    link, topics, copies = observed.link, observed.source_topics, observed.target_topics
    if not isinstance(topics, Unavailable):
        return {name for name, state in topics.items() if state is not None}
    if isinstance(copies, Unavailable):
        return None
    there = (name for name, state in copies.items() if state is not None)
    return {origin for origin in map(link.source_topic, there) if origin is not None}


def _comes_back(connector: Connector, link: Link, topic: str) -> bool:
    found = arrives_as(connector.config, link.target_topic(topic))
    return _keeps_names(connector) if isinstance(found, Unavailable) else found == topic


def _ends(connector: Connector) -> tuple[str, str]:
    source, target = (connector.config.get(f"{e}.cluster.alias", e) for e in ("source", "target"))
    return source, target


def _addresses(connector: Connector) -> tuple[frozenset[str], frozenset[str]]:
    config = connector.config
    source, target = (
        brokers(config.get(f"{end}.cluster.bootstrap.servers", "")) - {""}
        for end in ("source", "target")
    )
    return source, target


def _keeps_names(connector: Connector) -> bool:
    return connector.config.get("replication.policy.class", "").endswith(_IDENTITY)


@check("two-clusters-only", _FAMILY, Status.WARN)
def two_only(observed: Observed) -> Verdict:
    """The clusters of the link replicate with each other and with no third one."""
    link = observed.link
    subject = f"clusters {link.source} and {link.target}"
    remedy = "look which other clusters replicate from them or to them"
    others = require(observed.neighbours, subject, "the other links are", remedy)
    ends = {link.source, link.target}
    beyond = [each for each in others if ends & {each.source, each.target} != set()]
    third = [each for each in beyond if {each.source, each.target} != ends]
    if not third:
        return ok(subject, "drctl.yaml has no link of theirs with a third cluster")
    told = several(f"{each.name}: {each.source} to {each.target}" for each in third)
    cost = "when clients move, these links go on from a cluster that takes no writes any more"
    remedy = "plan the failover of each link; the order is nobody's but yours"
    return warn(subject, f"{len(third):,} links join them to others", told, cost, remedy)


@check("copies-are-identical", _FAMILY, Status.FAIL)
def identical(observed: Observed) -> Verdict | None:
    """Where the link keeps offsets, samples at the same offsets are the same records."""
    link = observed.link
    if link.settings.replicator.kind != "offset-preserving":
        return None
    subject = f"copies of link {link.name}"
    remedy = "`drctl gap --scope full` compares everything"
    found = require(observed.survey.sampled, subject, "whether they are the same is", remedy)
    if found.different:
        told = several(f"{place} offset {offset}" for place, offset in found.different)
        reason = f"{len(found.different):,} of {found.same + len(found.different):,} samples differ"
        cost = "groups would go on at other records than they stopped at"
        remedy = "the mirror does not keep offsets: set another replicator.kind, or mirror anew"
        return fail(subject, reason, told, cost, remedy)
    if found.unread or not found.same:
        reason = f"of {len(found.unread):,} samples one side could not be read"
        raise NotObserved(subject, reason, remedy, several(found.unread))
    return ok(subject, f"{found.same:,} samples are the same records")


@check("outside-writers", _FAMILY, Status.WARN)
def outside_writers(observed: Observed) -> Verdict:
    """Only replication writes to the copies."""
    subject = f"copies on cluster {observed.link.target}"
    remedy = "look at `kafka-transactions describe-producers` of a copy"
    by_place = require(observed.target_producers, subject, "who writes to them is", remedy)
    producers, unread = split(by_place)
    worker = {} if isinstance(observed.worker, Unavailable) else observed.worker
    # The replicator's own producers are idempotent then.
    exactly_once = worker.get("exactly.once.source.support") == "enabled"
    recent = [
        (place, each)
        for place, there in producers.items()
        for each in there
        if observed.now_ms - each.timestamp_ms <= _RECENT_MS
    ]
    if recent and not exactly_once:
        told = several(
            f"producer {each.producer_id} in {place},"
            f" {duration(max(0, observed.now_ms - each.timestamp_ms))} ago"
            for place, each in recent
        )
        reason = f"idempotent producers wrote to {len({p for p, _ in recent}):,} of them just now"
        cost = "records that the source has not; what follows them has other offsets"
        remedy = (
            "find and stop them; deny WRITE on the copies to everybody but the replicator. Where"
            " the replicator itself writes so, this is it"
        )
        return warn(subject, reason, told, cost, remedy)
    if unread:
        reason = f"of {len(unread):,} partitions it is not known"
        raise NotObserved(subject, reason, remedy, reasons(unread))
    told = "producers that are not idempotent leave no trace"
    return ok(subject, "no idempotent producer wrote to them in the last 10 minutes", told)


@check("source-connectors", _FAMILY, Status.WARN)
def source_connectors(observed: Observed) -> Verdict:
    """The workers run no source connectors beside the mirror, whose offsets would have to move."""
    subject = "source connectors"
    remedy = "see what else writes to the source from a database: `drctl connect status`"
    known = require(observed.connectors, subject, "the connectors are", remedy)
    others = [
        c
        for _, c in sorted(known.items())
        if c.kind == "source"
        and not re.search(r"Mirror|Replicator", c.config.get("connector.class", ""))
    ]
    if not others:
        return ok(subject, "the workers of the link run none", f"{len(known):,} connectors")
    told = several(f"{c.name} ({simple_class(c.config)})" for c in others)
    return warn(
        subject,
        f"{len(others):,} read into Kafka from elsewhere",
        told,
        "they go on where their offsets are: these have to move with the failover. Stopped for"
        " longer than their database keeps its log, they begin anew with a snapshot; what the"
        " database itself loses nobody here can see",
        "plan it with `drctl connect offsets`; compare the time that the database keeps its log"
        " (oplog, WAL, binlog) with the longest outage that you plan for",
    )
