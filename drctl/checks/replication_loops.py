"""Replication loops, third clusters, other writers, and whether copies match the source."""

from collections.abc import Iterator, Mapping
from functools import partial

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
from drctl.checks.connector_settings import REPLICATOR, SOURCE, settings_of, worker_settings
from drctl.checks.observed import NOT_QUERIED, Observed, OriginSample
from drctl.checks.verdict import NotObserved, Verdict, fail, ok, require, warn
from drctl.config.fields import UNCHANGED
from drctl.config.link import Link
from drctl.config.mirrors import (
    arrives_as,
    brokers,
    origin_fault,
    own_producer,
    simple_class,
    skips_copies,
)
from drctl.formats import provenance, replicator_headers
from drctl.formats.primitives import Undecodable
from drctl.model.finding import Status
from drctl.model.replication import Connector
from drctl.model.text import describe_producers, plural, put
from drctl.model.topology import Unavailable

_FAMILY = Family.REPLICATION
_RECENT_MS = 10 * 60_000
_IDENTITY = "IdentityReplicationPolicy"
_IDLE = ("STOPPED", "PAUSED")
_LOOK = "check whether both directions run at the same time"


@check("replication-loops", _FAMILY, Status.WARN, Status.FAIL, prechecks=Prechecks(BOTH))
def loops(observed: Observed) -> Iterator[Verdict]:
    """No record is replicated back to the topic that it came from."""
    yield from _replicated_back(observed)
    verdict = _configured(observed)
    if verdict.status is Status.OK:
        _require_headers(observed)
    yield verdict


def _configured(observed: Observed) -> Verdict:
    """What the connectors of both directions do, as configured."""
    link = observed.link
    subject = f"links between {link.source} and {link.target}"
    remedy = "rename topics in one direction, use provenance headers, or stop one direction"
    header = link.settings.origin_header
    if header and header != replicator_headers.HEADER:
        return _copies_identified(observed, subject, header)
    others = require(observed.neighbours, subject, "the other links are", remedy)
    ours, reverse = _running(observed)
    marking = [each for each in reverse if skips_copies(ours) and skips_copies(each.config)]
    unmarked = [each for each in reverse if each not in marking]
    running = sorted(each.name for each in unmarked if _replicates_back(each, observed, subject))
    back = [each for each in others if (each.source, each.target) == (link.target, link.source)]
    meant = [each.name for each in back if _round(link, each)]
    impact = "each direction replicates the other's copies as new records, endlessly"
    if running:
        names = listed(running)
        reason = (
            f"connector {names} replicates back under the same topic names"
            if len(running) == 1
            else f"connectors {names} replicate back under the same topic names"
        )
        stop = "; ".join(put("", name, "stop") for name in running)
        return fail(subject, reason, "both directions are running", impact, f"{remedy}: {stop}")
    if marking:
        names = listed(sorted(each.name for each in marking))
        reason = "Replicators of both directions run, and skip copies by their provenance headers"
        return ok(subject, reason, f"reverse direction: {names}")
    if meant:
        many = len(meant) > 1
        links = f"links {listed(meant)}" if many else f"link {meant[0]}"
        if not isinstance(observed.connectors, Unavailable):
            not_running = "do not run" if many else "does not run"
            return ok(subject, f"{links} would cause a loop, but {not_running}", "", impact)
        reason = "replicate back; whether they run" if many else "replicates back; whether it runs"
        raise NotObserved(subject, f"{links} {reason} is not known", _LOOK)
    return ok(subject, "nothing replicates back under the same topic names")


_ENDLESSLY = "records are replicated in a loop: each round adds copies on every cluster"


def _replicated_back(observed: Observed) -> Iterator[Verdict]:
    """What Replicator's headers show: records that were replicated to where they came from.

    Each hop adds a header with the cluster and the topic that the record was copied from, so loops
    over any number of clusters show.
    """
    link, origin_samples, source = observed.link, observed.survey.origin_samples, observed.source
    if isinstance(origin_samples, Unavailable) or isinstance(source, Unavailable):
        return
    rounds = [
        (link.source, each, _passed(each, source, each.at.topic)) for each in origin_samples.source
    ]
    for each in origin_samples.target:
        # A copy on the target has passed the source once.
        passed = _passed(each, source, link.source_topic(each.at.topic) or "")
        rounds.append((link.target, each, passed - 1))
    found = [(end, each) for end, each, count in rounds if count > 0]
    if not found:
        return
    ids = {source: link.source}
    if not isinstance(observed.target, Unavailable):
        ids[observed.target] = link.target
    subject = _newest(link)
    reason = f"replicated back to {link.source}: {len(found):,} of {len(rounds):,}"
    evidence = several(
        f"{each.at} on {end} offset {each.offset}: {_path(each, ids)} -> {end}"
        for end, each in found
    )
    remedy = (
        "stop one of the Replicators on this path; then set provenance.header.enable=true on all of"
        " them, remove provenance.header.filter.overrides, or rename topics in one direction"
    )
    if any(count > 1 for _, _, count in rounds):
        yield fail(subject, f"{reason}, some repeatedly", evidence, _ENDLESSLY, remedy)
    else:
        impact = f"{_ENDLESSLY}, unless they were replicated back once on purpose"
        yield warn(subject, reason, evidence, impact, remedy)


def _require_headers(observed: Observed) -> None:
    """A loop that the connectors' settings do not show would still show in Replicator's headers.

    Raises:
        NotObserved: they were queried, and not all of them could be read.
    """
    samples, what = observed.survey.origin_samples, "whether one was replicated back is"
    if samples is NOT_QUERIED:
        return
    subject = _newest(observed.link)
    look = f"read some of them, and look for header {replicator_headers.HEADER}"
    require(observed.source, subject, what, look)
    if unread := require(samples, subject, what, look).unread:
        reason = f"{what} not known: {plural(len(unread), 'partition')} could not be read"
        raise NotObserved(subject, reason, look, several(unread))


def _newest(link: Link) -> str:
    return f"newest records on clusters {link.source} and {link.target}"


def _passed(record: OriginSample, cluster_id: str, topic: str) -> int:
    """How often a record was copied from a topic."""
    return sum(replicator_headers.names(each, cluster_id, topic) for each in record.origins)


def _path(record: OriginSample, ids: Mapping[str, str]) -> str:
    """The clusters that a record was copied from, in order; by name, or by Kafka's id."""
    return " -> ".join(map(partial(_cluster, ids), record.origins))


def _cluster(ids: Mapping[str, str], origin: bytes | None) -> str:
    try:
        known = replicator_headers.decode(origin).cluster_id
    except Undecodable:
        known = replicator_headers.origin_cluster(origin, ids) or "unknown"
    return ids.get(known, known)


def _copies_identified(observed: Observed, subject: str, header: str) -> Verdict:
    """Whether the connectors of both directions mark their copies, and skip those of the other."""
    connectors = _sources(observed)
    named = observed.link.settings.replicator.connectors.source
    ours = next((each for each in connectors if each.name == named), None)
    if ours is None:
        reason = f"whether replication adds header {header} and skips records with it is not known"
        raise NotObserved(subject, reason, "check the replicators of both directions")
    back = [each for each in connectors if _the_other_way(each, ours)]
    faults = [
        f"connector {each.name}: {fault}"
        for each in (ours, *back)
        if (fault := origin_fault(each.config, header))
    ]
    if not faults:
        return ok(subject, f"copies have header {header}, and no connector replicates them back")
    impact = "records are replicated in a loop, or copies count as records that applications wrote"
    remedy = (
        f"give each connector the transforms Filter (predicate HasHeaderKey, name={header}) and"
        f" then InsertHeader (header={header}): docs/howto/two-active-sites.md"
    )
    if any(each.state not in _IDLE for each in (ours, *back)):
        remedy += "; until then: " + "; ".join(put("", each.name, "stop") for each in (ours, *back))
    return fail(subject, several(faults), "", impact, remedy)


def _round(link: Link, other: Link) -> bool:
    """Whether both keep topic names and carry common topics, as far as their patterns show."""
    if not (_same_names(link) and _same_names(other)):
        return False
    both = ((link, other), (other, link))
    return any(one.carries(topic) for one, two in both for topic in two.settings.topics)


def _same_names(link: Link) -> bool:
    return link.settings.replicator.rename == UNCHANGED


def _running(observed: Observed) -> tuple[Mapping[str, str], list[Connector]]:
    """The configuration of the link's connector, and the running ones of the reverse direction.

    While the link's own connector is stopped there is no loop: clients have failed over, and
    reverse replication runs.
    """
    sources = _sources(observed)
    named = observed.link.settings.replicator.connectors.source
    ours = next((c for c in sources if c.name == named), None)
    if ours is None or ours.state in _IDLE:
        return {}, []
    return ours.config, [c for c in sources if c.state == "RUNNING" and _the_other_way(c, ours)]


def _sources(observed: Observed) -> list[Connector]:
    """The known connectors that replicate records."""
    known: dict[str, Connector] = {}
    for workers in (observed.connectors, observed.reverse):
        if not isinstance(workers, Unavailable):
            known |= workers
    return [c for c in known.values() if simple_class(c.config) in (SOURCE, REPLICATOR)]


def _the_other_way(connector: Connector, ours: Connector) -> bool:
    """Whether a connector is the reverse of ours, by cluster aliases or addresses."""
    source, target = _addresses(connector)
    our_source, our_target = _addresses(ours)
    swapped = bool(source & our_target and target & our_source)
    return swapped or _ends(connector) == _ends(ours)[::-1]


def _replicates_back(connector: Connector, observed: Observed, subject: str) -> bool:
    """Whether a copy of a topic of the link returns to the topic itself, as far as known."""
    link = observed.link
    names = _topics(observed)
    if names is None and _keeps_names(connector):
        reason = f"connector {connector.name} replicates back; which topics is not known"
        raise NotObserved(subject, reason, _LOOK)
    if not names:
        return _keeps_names(connector)
    return any(_comes_back(connector, link, name) for name in link.topics_of(names))


def _topics(observed: Observed) -> set[str] | None:
    """Known topics of the source; if it does not answer, those that have a copy."""
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
    replicator = simple_class(config) == REPLICATOR
    prefixes = ("src.kafka", "dest.kafka") if replicator else ("source.cluster", "target.cluster")
    source, target = (
        brokers(config.get(f"{prefix}.bootstrap.servers", "")) - {""} for prefix in prefixes
    )
    return source, target or own_producer(config)


def _keeps_names(connector: Connector) -> bool:
    if simple_class(connector.config) == REPLICATOR:
        return connector.config.get("topic.rename.format", UNCHANGED) == UNCHANGED
    return connector.config.get("replication.policy.class", "").endswith(_IDENTITY)


@check("third-clusters", _FAMILY, Status.WARN)
def two_only(observed: Observed) -> Verdict:
    """The clusters of the link replicate with each other and with no third one."""
    link = observed.link
    subject = f"clusters {link.source} and {link.target}"
    remedy = "check which other clusters replicate from them or to them"
    others = require(observed.neighbours, subject, "the other links are", remedy)
    ends = {link.source, link.target}
    beyond = [each for each in others if ends & {each.source, each.target} != set()]
    third = [each for each in beyond if {each.source, each.target} != ends]
    if not third:
        return ok(subject, "drctl.yaml has no link between them and a third cluster")
    evidence = several(f"{each.name}: {each.source} to {each.target}" for each in third)
    impact = "after a failover, these links replicate from a cluster that accepts no writes"
    remedy = "plan the failover of each link, and the order of the failovers"
    return warn(
        subject,
        f"{plural(len(third), 'link connects', 'links connect')} them to other clusters",
        evidence,
        impact,
        remedy,
    )


@check("copies-differ", _FAMILY, Status.FAIL)
def identical(observed: Observed) -> Verdict | None:
    """If the link preserves offsets, sampled records at equal offsets are identical."""
    link = observed.link
    if link.settings.replicator.kind != "offset-preserving":
        return None
    subject = f"copies of link {link.name}"
    remedy = "compare everything: drctl gap --scope full"
    found = require(observed.survey.sampled, subject, "whether they are identical is", remedy)
    if found.different:
        evidence = several(f"{place} offset {offset}" for place, offset in found.different)
        total = found.same + len(found.different)
        reason = f"samples that differ: {len(found.different):,} of {total:,}"
        impact = "groups would continue at the wrong records"
        remedy = "offsets are not preserved: change replicator.kind, or rebuild the mirror"
        return fail(subject, reason, evidence, impact, remedy)
    if found.longer:
        reason = plural(
            len(found.longer),
            "copy is longer than its original",
            "copies are longer than their originals",
        )
        impact = "what is replicated next gets other offsets: groups would skip or re-read records"
        remedy = "find what else writes to the copies, or whether the source lost records"
        return fail(subject, reason, several(str(each) for each in found.longer), impact, remedy)
    if found.unread or not found.same:
        reason = f"{plural(len(found.unread), 'sample')} could not be read on one cluster"
        reason = reason if found.unread else "there is no record to compare"
        raise NotObserved(subject, reason, remedy, several(found.unread))
    return ok(subject, f"{plural(found.same, 'sample is', 'samples are')} identical")


@check("leader-epochs-differ", _FAMILY, Status.WARN, Status.FAIL)
def leader_epochs(observed: Observed) -> Verdict | None:
    """If the link preserves offsets, sampled records have the same leader epoch on both."""
    link = observed.link
    if link.settings.replicator.kind != "offset-preserving":
        return None
    subject, remedy = f"copies of link {link.name}", "compare the leader epochs of both clusters"
    found = require(observed.survey.sampled, subject, "whether leader epochs differ is", remedy)
    changed = [each for each in found.epochs if each.original != each.copied]
    if changed:
        evidence = several(
            f"{each.place} offset {each.offset}: {each.original} on {link.source},"
            f" {each.copied} on {link.target}"
            for each in changed
        )
        reason = f"samples with another leader epoch: {len(changed):,} of {len(found.epochs):,}"
        impact = (
            "if committed offsets are replicated with their leader epoch, Java consumers hang"
            " after a failover, without an error"
        )
        remedy = (
            "let only drctl commit offsets on the target (translate: true): it commits no leader"
            " epoch; do not replicate __consumer_offsets under its own name"
        )
        judge = warn if link.settings.translate else fail
        return judge(subject, reason, evidence, impact, remedy)
    if not found.epochs:
        reason = "no record was found whose leader epoch both clusters report"
        raise NotObserved(subject, reason, remedy)
    return ok(
        subject, f"{plural(len(found.epochs), 'sample has', 'samples have')} the same leader epoch"
    )


@check("unexpected-writers", _FAMILY, Status.WARN)
def unexpected_writers(observed: Observed) -> Verdict:
    """Only replication writes to the copies."""
    subject = f"copies on cluster {observed.link.target}"
    remedy = f"list the producers of a copy: {describe_producers(observed.link.target, 'TOPIC', 0)}"
    by_place = require(observed.target_producers, subject, "who writes to them is", remedy)
    producers, unread = split(by_place)
    worker = {} if isinstance(observed.worker, Unavailable) else observed.worker
    # The replicator's own producers are idempotent then.
    exactly_once = worker.get("exactly.once.source.support", "").strip().lower() == "enabled"
    recent = [
        (place, each)
        for place, there in producers.items()
        for each in there
        if observed.now_ms - each.timestamp_ms <= _RECENT_MS
    ]
    if recent and not exactly_once:
        evidence = several(
            f"producer {each.producer_id} in {place},"
            f" {duration(max(0, observed.now_ms - each.timestamp_ms))} ago"
            for place, each in recent
        )
        reason = f"idempotent producers recently wrote to {len({p for p, _ in recent}):,} of them"
        impact = "the target has records that the source does not have; offsets no longer match"
        remedy = (
            "find and stop them, and deny WRITE on the copies to everyone but the replicator;"
            " ignore this if the replicator's own producers are idempotent"
        )
        return warn(subject, reason, evidence, impact, remedy)
    if unread:
        reason = f"the producers of {plural(len(unread), 'partition')} are not known"
        raise NotObserved(subject, reason, remedy, reasons(unread))
    evidence = "not detected: producers that are not idempotent, or that write old timestamps"
    return ok(subject, "no idempotent producer wrote to them in the last 10 minutes", evidence)


_READS_ANY = ("ByteArrayConverter", "SimpleHeaderConverter", "StringConverter")
_ADDED = f"`{replicator_headers.HEADER}` and `{provenance.HEADER}`"


@check("sink-header-converters", _FAMILY, Status.WARN)
def header_converters(observed: Observed) -> Verdict:
    """Sinks of the link's workers can read the headers that Replicator and drctl add to copies."""
    subject, key = "sinks of the link's workers", "header.converter"
    remedy = f"set {key} of sinks to org.apache.kafka.connect.converters.ByteArrayConverter"
    known = require(observed.connectors, subject, "the connectors are", remedy)
    sinks = [settings_of(each) for _, each in sorted(known.items()) if each.kind == "sink"]
    own = [each for each in sinks if key in each.values]
    workers = [] if len(own) == len(sinks) else [worker_settings(observed)]
    used = [each.text(key, _READS_ANY[1]) for each in (*own, *workers)]
    if decoding := [each for each in used if not each.value.endswith(_READS_ANY)]:
        return warn(
            subject,
            f"{plural(len(decoding), 'header converter')} may fail to read {_ADDED}",
            several(f"{each.subject}: {each.evidence}" for each in decoding),
            "their tasks fail at the first copy with such a header",
            remedy,
        )
    skip = f"applications that read all headers must skip {_ADDED}"
    return ok(subject, "none of them decodes headers", plural(len(sinks), "sink"), skip)
