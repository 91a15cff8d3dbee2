"""Blockers of a failback, as findings; a fault that its own steps repair is only a warning."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from drctl.checks.check import listed, several
from drctl.config.mirrors import arrives_as, pattern_of, skips_copies
from drctl.failback.answer import Answer
from drctl.failback.facts import Cluster, Facts, Names, Replication, Replicator
from drctl.failback.gap_results import GapEvidence, PartitionResult
from drctl.failback.rebuilding import rebuild_findings, target_records
from drctl.failback.record_steps import known_out_of_order, tallied
from drctl.failback.reverse_destination import written_to
from drctl.failback.situation import Situation, decided_before
from drctl.failback.steps import Observed
from drctl.model.finding import Finding, Status
from drctl.model.health import ClusterHealth, Shortage
from drctl.model.replication import Connector
from drctl.model.text import named, plural, put, quote, stop_unassigned
from drctl.model.topology import Unavailable
from drctl.reconcile.policy import Action, Policies
from drctl.steps.failback import BOTH_WAYS, CYCLES, STEP_ORDER, UNHEALTHY

SILENT, CLIENTS_ON_SOURCE, LOST, REVERSE, BESIDE = (
    "cluster-unreachable",
    "clients-on-source",
    "source-lost",
    "reverse-replication",
    "original-topics-on-target",
)
OTHER_LINKS = "other-links"
UNDECIDED = "records-undecided"
_ROUTER = "org.apache.kafka.connect.transforms.RegexRouter"

_PUT_RIGHT = frozenset("abc")
"""Steps that the run starts with, whatever their state."""

_BY_EMPTYING = frozenset("abcdefgh")
"""Steps that a rebuild repairs: records replicated too early are deleted with the rest."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Settings of a failback.

    Attributes:
        connectors: of reverse replication; empty if it is started by hand.
        rebuilding: whether the source is to be rebuilt.
        impact: the impact of a rebuild, as text.
        policies: for records that only the recovered cluster has; None: do not check, as when a
            run is resumed.
        connect: URL of a worker of reverse replication; empty if not configured.
        elsewhere: topics that another link replicates to the source.
    """

    connectors: tuple[str, ...] = ()
    elsewhere: frozenset[str] = frozenset()
    rebuilding: bool = field(default=False, kw_only=True)
    impact: str = field(default="", kw_only=True)
    connect: str = field(default="", kw_only=True)
    policies: Policies | None = field(default=None, kw_only=True)


def against(answer: Answer, terms: Terms) -> tuple[Finding, ...]:
    """All findings about a failback before anything is changed."""
    well = Finding(
        STEP_ORDER, Status.OK, "step order", f"steps are in order; step {answer.next} is next"
    )
    return tuple(_findings(answer, terms)) or (well,)


def _findings(answer: Answer, terms: Terms) -> Iterator[Finding]:
    facts = answer.seen.facts
    silent = [*_silent(facts)]
    if silent:
        yield from silent
        return
    if answer.seen.all_on_source is True:
        reason = f"every endpoint already points to {facts.source}: no clients to fail back"
        yield Finding(CLIENTS_ON_SOURCE, Status.FAIL, "endpoints", reason)
    yield from health_findings(facts.source, facts.health)
    if terms.rebuilding:
        yield from rebuild_findings(facts, answer.seen.lost, terms.impact, terms.connectors)
    else:
        yield from _lost(answer.seen)
        if isinstance(facts.forward, Replication) and isinstance(facts.reverse, Replication):
            yield from replicator_findings(facts.forward, facts.reverse)
    yield from _replication_loop(facts)
    yield from _beside(facts, terms)
    if terms.connectors:
        yield from _reverse(answer, terms)
    if terms.policies is not None:
        yield from _undecided(answer, terms.policies)
    misplaced = known_out_of_order(answer.seen)
    if misplaced:
        yield Finding(STEP_ORDER, Status.WARN, "step e", misplaced)
    if answer.seen.unclear:
        yield Finding(STEP_ORDER, Status.WARN, "step i", answer.seen.unclear)
    put_right = _BY_EMPTYING if terms.rebuilding else _PUT_RIGHT
    for each in answer.violations:
        status = Status.WARN if each.repair in put_right else Status.FAIL
        remedy = each.remedy or f"repair step {each.repair} first: see drctl failback --check-order"
        yield Finding(STEP_ORDER, status, f"step {each.repair}", each.message, remedy=remedy)


def _silent(facts: Facts) -> Iterator[Finding]:
    for name, seen in ((facts.source, facts.on_source), (facts.target, facts.on_target)):
        if isinstance(seen, Unavailable):
            remedy = f"check that its brokers run, and that this host can reach {name}"
            if name == facts.source:
                remedy += f"; keep applications away from {name}"
            yield Finding(SILENT, Status.FAIL, name, seen.reason, remedy=remedy)


def health_findings(source: str, health: ClusterHealth | Unavailable) -> Iterator[Finding]:
    """Faults of the source, and unknown health; nothing if it is healthy."""
    if isinstance(health, Unavailable):
        reason = f"health unknown: {health.reason}"
        yield Finding(
            UNHEALTHY, Status.WARN, source, reason, remedy="step preflight checks it again"
        )
        return
    unwritable = tuple(_not_writable(health))
    if unwritable:
        reason = f"it does not accept all writes: {several(unwritable)}"
        remedy = f"restart the brokers of {source} that have the replicas"
        yield Finding(UNHEALTHY, Status.FAIL, source, reason, remedy=remedy)
    degraded = tuple(_degraded(health))
    if degraded:
        yield Finding(UNHEALTHY, Status.WARN, source, f"it is not healthy: {several(degraded)}")


def _not_writable(health: ClusterHealth) -> Iterator[str]:
    """Partitions that do not accept writes with acks=all."""
    if health.offline:
        yield (
            f"{plural(len(health.offline), 'partition has', 'partitions have')} no leader"
            f" ({listed(health.offline)})"
        )
    if health.under_min_isr:
        places = _places(health.under_min_isr)
        yield (
            f"{plural(len(places), 'partition is', 'partitions are')} below"
            f" min.insync.replicas ({listed(places)})"
        )


def _degraded(health: ClusterHealth) -> Iterator[str]:
    """Brokers that are down, partitions that are not in sync, and what is unknown."""
    if health.absent:
        yield (
            f"{plural(len(health.absent), 'broker is', 'brokers are')} down"
            f" ({listed(health.absent)})"
        )
    unwritable = {*health.offline, *_places(health.under_min_isr)}
    out_of_sync = [place for place in _places(health.under_replicated) if place not in unwritable]
    if out_of_sync:
        yield (
            f"{plural(len(out_of_sync), 'partition is', 'partitions are')} not in sync"
            f" ({listed(out_of_sync)})"
        )
    if health.unknown:
        yield f"min.insync.replicas of {listed(sorted(health.unknown))} is unknown"
    if isinstance(health.controller, Unavailable):
        yield f"controller unknown: {health.controller.reason}"


def _places(short: Sequence[Shortage]) -> list[object]:
    return [each.partition for each in short]


def _lost(seen: Situation) -> Iterator[Finding]:
    """Whether the source has lost records: it was recreated or truncated."""
    facts, lost = seen.facts, seen.lost
    if lost:
        reason = f"it has lost records: {several(lost)}"
        number = target_records(facts)
        impact = (
            f"rebuild it: about {plural(number, 'record is', 'records are')} copied from"
            f" {facts.target}"
        )
        remedy = f"{impact}; show the plan: drctl failback --link {quote(facts.link)} --rebuild"
        yield Finding(LOST, Status.FAIL, facts.source, reason, impact=impact, remedy=remedy)


_CONNECT = "; or set offset.start=connect on the reverse connector"
_TWICE = "replicated records are copied again"


def replicator_findings(forward: Replication, reverse: Replication) -> Iterator[Finding]:
    """Check the group id and provenance headers of each pair of Replicators.

    If the reverse Replicator starts at translated group offsets, both must have the same group id,
    and only provenance headers exclude old records: translated offsets are before the first new
    record.
    """
    backs = [each for each in reverse.copying if each.is_replicator]
    translated = any(back.starts_at_group_offsets for back in backs)
    for there in forward.copying:
        if there.is_replicator:
            for back in backs:
                yield from _same_group(there, back)
            yield from _provenance(there, Status.FAIL if translated else Status.WARN)
    for back in backs:
        yield from _own_copies(back, Status.FAIL if back.starts_at_group_offsets else Status.WARN)


def _same_group(there: Replicator, back: Replicator) -> Iterator[Finding]:
    ours, theirs = there.group, back.group
    if ours == theirs:
        return
    reason = f"group ids differ: {ours!r} forward, {theirs!r} reverse"
    if back.starts_at_group_offsets:
        status = Status.FAIL
        reason += f": it does not find the translated offsets, and {_TWICE}"
    else:
        status = Status.WARN
        reason += f"; it starts at its Connect offsets: {_TWICE} unless they are set first"
    remedy = f"set src.consumer.group.id={ours} on {back.name}, while it is stopped"
    yield Finding(BOTH_WAYS, status, f"connector {back.name}", reason, remedy=remedy)


def _provenance(there: Replicator, status: Status) -> Iterator[Finding]:
    """Without provenance headers, reverse replication takes copies for new records."""
    if not there.marks_copies:
        reason = (
            "copies have no provenance header: only its start offsets keep reverse replication from"
            " copying them back"
        )
        remedy = f"set provenance.header.enable=true on {there.name}; older copies stay without it"
        remedy += _CONNECT
        yield Finding(BOTH_WAYS, status, f"connector {there.name}", reason, remedy=remedy)


def _own_copies(back: Replicator, status: Status) -> Iterator[Finding]:
    """Whether Replicator excludes copies by their provenance headers."""
    converter = back.config.get("header.converter", "")
    if not back.marks_copies:
        reason = "it does not check provenance headers: only its start offsets exclude copies"
        remedy = f"set provenance.header.enable=true on {back.name}{_CONNECT}"
    elif not converter.endswith("ByteArrayConverter"):
        reason = f"its header converter is {converter or 'that of the workers'}"
        reason += ": it may not recognize its own copies"
        remedy = "set header.converter=io.confluent.connect.replicator.util.ByteArrayConverter"
    else:
        return
    yield Finding(BOTH_WAYS, status, f"connector {back.name}", reason, remedy=remedy)


def _replication_loop(facts: Facts) -> Iterator[Finding]:
    """Connectors of both directions that replicate each other's copies."""
    forward, reverse, target = facts.forward, facts.reverse, facts.on_target
    if not isinstance(forward, Replication) or not isinstance(reverse, Replication):
        return
    copies = target.topics if isinstance(target, Cluster) else ()
    topics = sorted(facts.names.get(copy, copy) for copy in copies)
    for there, back in product(forward.copying, reverse.copying):
        round_ = [topic for topic in topics if _loops(topic, there, back)]
        if there.runs and back.runs and round_:
            reason = f"they replicate each other's copies in a loop: {several(round_)}"
            remedy = (
                f"stop both, then look for duplicates: {put('', there.name, 'stop')};"
                f" {put('', back.name, 'stop')};"
                f" drctl gap --link {quote(facts.link)} --scope full"
            )
            subject = f"connectors {there.name} and {back.name}"
            yield Finding(CYCLES, Status.FAIL, subject, reason, remedy=remedy)


def _loops(topic: str, there: Replicator, back: Replicator) -> bool:
    """Whether a copy is replicated to its original topic, as far as known."""
    if skips_copies(there.config) and skips_copies(back.config):
        return False
    copy = arrives_as(there.config, topic)
    return isinstance(copy, str) and arrives_as(back.config, copy) == topic


def _beside(facts: Facts, terms: Terms) -> Iterator[Finding]:
    """Whether applications wrote to topics with the original names on the target."""
    target = facts.on_target
    logs = target.beside.items() if isinstance(target, Cluster) else ()
    held = {
        place.topic
        for place, log in logs
        if place.topic not in terms.elsewhere
        and (isinstance(log, Unavailable) or log.end > log.start)
    }
    if not held:
        return
    copies = {original: copy for copy, original in facts.names.items()}
    text = several(f"{topic} (its copy: {copies.get(topic, topic)})" for topic in sorted(held))
    reason = f"topics with original names have records that are not replicated back: {text}"
    remedy = (
        f"add a link from {facts.target} to {facts.source} to drctl.yaml whose connector renames"
        " these topics, or empty them"
    )
    yield Finding(BESIDE, Status.FAIL, facts.target, reason, remedy=remedy)


def _reverse(answer: Answer, terms: Terms) -> Iterator[Finding]:
    """Whether the reverse connectors exist and are stopped."""
    reverse, connectors = answer.seen.facts.reverse, terms.connectors
    subject = named("connector", connectors)
    if isinstance(reverse, Unavailable):
        yield Finding(REVERSE, Status.FAIL, subject, reverse.reason)
        return
    if reverse.missing:
        reason = f"Connect has no {', '.join(reverse.missing)}"
        remedy = (
            "create it STOPPED, so that drctl can set its start offsets first:"
            ' POST /connectors with "initial_state": "STOPPED"'
        )
        yield Finding(REVERSE, Status.FAIL, subject, reason, remedy=remedy)
    yield from _other_names(answer.seen.facts, reverse, terms)
    yield from written_to(answer.seen.facts, reverse, terms.connectors)
    running = [each.name for each in reverse.found if each.name in connectors and not each.idle]
    if running and not answer.seen.arrived:
        started = all(_keeps_positions(reverse, name) for name in running)
        one = len(running) == 1
        are, resume = ("is", "it resumes from its") if one else ("are", "they resume from their")
        reason = (
            f"{', '.join(running)} {are} writing to {answer.seen.facts.source}, which must not"
            f" change during the comparison; {resume} offsets"
            if started
            else f"{', '.join(running)} may start at any time, from the beginning"
        )
        lost = {each.name for each in reverse.found if each.connector.unassigned}
        remedy = "; ".join(
            stop_unassigned(terms.connect, name)
            if name in lost
            else put(terms.connect, name, "stop")
            for name in running
        )
        yield Finding(REVERSE, Status.FAIL, subject, reason, remedy=remedy)


def _keeps_positions(reverse: Replication, name: str) -> bool:
    """Whether the connector has stored offsets, and would not start from the beginning."""
    found = (each.positions for each in reverse.copying if each.name == name)
    return any(not isinstance(each, Unavailable) and bool(each) for each in found)


def _other_names(facts: Facts, reverse: Replication, terms: Terms) -> Iterator[Finding]:
    """Whether records would be replicated to the wrong topics."""
    target = facts.on_target
    copies = sorted(target.topics) if isinstance(target, Cluster) else ()
    wanted = {copy: facts.names.get(copy, copy) for copy in copies}
    for each in reverse.copying:
        if each.name not in terms.connectors:
            continue
        wrong, unsure = misnamed(each.config, wanted)
        if wrong:
            reason = f"it does not replicate records to their original topics: {several(wrong)}"
            remedy = how_to_name(each.name, wanted)
            yield Finding(REVERSE, Status.FAIL, f"connector {each.name}", reason, remedy=remedy)
        elif unsure:
            reason = f"target topics unknown: {several(unsure)}"
            remedy = (
                "step start-reverse-replication verifies the first record of each partition, and"
                " stops the connector if one does not arrive"
            )
            yield Finding(REVERSE, Status.WARN, f"connector {each.name}", reason, remedy=remedy)


def misnamed(config: Mapping[str, str], wanted: Names) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Topics replicated to a wrong topic or not at all, and topics where that is unknown."""
    wrong, unsure = [], []
    for copy, original in wanted.items():
        there = arrives_as(config, copy)
        if isinstance(there, Unavailable):
            unsure.append(f"{copy}: {there.reason}")
        elif there is None:
            wrong.append(f"{copy} is not replicated")
        elif there != original:
            wrong.append(f"{copy} goes to {there}, not to {original}")
    return tuple(wrong), tuple(unsure)


def how_to_name(connector: str, wanted: Names) -> str:
    """The settings with which the connector replicates copies to their original topics."""
    topics, prefix = ",".join(map(pattern_of, wanted)), _prefix(wanted)
    text = [
        f"while connector {connector} is STOPPED, set topics={topics}",
        "replication.policy.class=org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    ]
    if prefix:
        text += [
            "transforms=rename",
            f"transforms.rename.type={_ROUTER}",
            f"transforms.rename.regex={pattern_of(prefix)}(.*)",
            "transforms.rename.replacement=$1",
        ]
    return "; ".join(text)


def _prefix(wanted: Names) -> str:
    """The common prefix of the copies; empty if there is none."""
    before = {
        copy.removesuffix(original) for copy, original in wanted.items() if copy.endswith(original)
    }
    return before.pop() if len(before) == 1 else ""


def _undecided(answer: Answer, policies: Policies) -> Iterator[Finding]:
    """Unreplicated records without a policy, as far as known before the run starts."""
    facts, result, step = answer.seen.facts, answer.seen.gap.valid, answer.steps["e"]
    if result is None or step.observed is Observed.DONE:
        return
    if step.observed is Observed.UNKNOWN:
        # Copies of these records have not been searched for.
        none = not isinstance(facts.decided, Unavailable) and not any(facts.decided.values())
        if not (none and result.unreplicated):
            return
    text = [*_undecided_by(facts, result, policies)]
    if text:
        tally = tallied(result, facts.order)
        reason = (
            f"{plural(result.unreplicated, 'record exists', 'records exist')} only on"
            f" {facts.source} ({tally.text}):"
            f" {'; '.join(text)}; the run would be rolled back at classify-records"
        )
        remedy = (
            "pass --policy copy|quarantine|export|discard, and --conflicting; to inspect them:"
            f" drctl reconcile {quote(result.where)} --policy copy"
        )
        yield Finding(UNDECIDED, Status.FAIL, "unreplicated records", reason, remedy=remedy)


def _undecided_by(facts: Facts, result: GapEvidence, policies: Policies) -> Iterator[str]:
    done = _decided(facts, result)
    if policies.everywhere in (None, Action.REFUSE) and not policies.by_topic:
        yield f"no policy for {plural(result.unreplicated - done, 'record')}"
        return
    left: Counter[str] = Counter()
    for each in result.partitions:
        for message, number in _of_partition(each, facts, result, policies):
            left[message] += number
    # It is unknown which of them are decided; step classify-records checks each record.
    least = "at least " if done else ""
    yield from (
        f"{least}{number - done:,} {message}" for message, number in left.items() if number > done
    )


def _of_partition(
    each: PartitionResult, facts: Facts, result: GapEvidence, policies: Policies
) -> Iterator[tuple[str, int]]:
    if not policies.chooses(each.place.topic):
        yield "without a policy for their topic", each.unreplicated
        return
    tally = tallied(replace(result, partitions=(each,)), facts.order)
    if policies.conflicting is Action.REFUSE:
        yield "conflicting: set --conflicting", tally.conflicting


def _decided(facts: Facts, result: GapEvidence) -> int:
    if isinstance(facts.decided, Unavailable):
        return 0
    return sum(facts.decided.get(result.id, {}).values()) or decided_before(result, facts)


@dataclass(frozen=True, slots=True)
class OtherLink:
    """Another link between the same clusters.

    Attributes:
        named: its connectors in drctl.yaml.
        known: all connectors of its workers.
    """

    name: str
    source: str
    target: str
    named: tuple[str, ...]
    known: Mapping[str, Connector] | Unavailable


def other_links(links: Iterable[OtherLink]) -> Iterator[Finding]:
    """Report other links whose replication does not run; none of them blocks the failback."""
    for link in links:
        if isinstance(link.known, Unavailable):
            reason = f"replication state unknown: {link.known.reason}"
            yield Finding(OTHER_LINKS, Status.WARN, f"link {link.name}", reason)
            continue
        for name in link.named:
            connector = link.known.get(name)
            if connector is None:
                status, remedy = "does not exist", "check `replicator.connectors` of the link"
            elif "FAILED" in (connector.state, *(task.state for task in connector.tasks)):
                status, remedy = "has failed", f"drctl connect recover --link {quote(link.name)}"
            elif connector.state in ("STOPPED", "PAUSED"):
                status = f"is {connector.state}"
                remedy = f"if that is not intended: {put('', name, 'resume')}"
            else:
                continue
            reason = f"connector {name} {status}: {link.source} -> {link.target} is not replicated"
            yield Finding(OTHER_LINKS, Status.WARN, f"link {link.name}", reason, remedy=remedy)
