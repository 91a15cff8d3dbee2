"""Blockers of a failback, as findings; what its own steps put right is a warning."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from drctl.checks.check import listed, several
from drctl.config.mirrors import arrives_as, pattern_of
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
from drctl.model.text import put, quote
from drctl.model.topology import Unavailable
from drctl.reconcile.policy import Action, Policies
from drctl.steps.failback import BOTH_WAYS, BROKEN, CYCLES, STEP_ORDER

SILENT, HOME, LOST, REVERSE, BESIDE = (
    "way-back-silent",
    "clients-home",
    "source-lost",
    "reverse-replication",
    "written-beside",
)
OTHER_LINKS = "other-links"
_ROUTER = "org.apache.kafka.connect.transforms.RegexRouter"

_PUT_RIGHT = frozenset("abc")
"""Steps that the run does first, however they stand."""

_BY_EMPTYING = frozenset("abcdefgh")
"""Where the source is emptied, what has come to it before its time goes, too."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What drctl.yaml says of a failback.

    Attributes:
        connectors: that are to replicate records back; empty where a person starts what does.
        rebuilding: whether the source is to be rebuilt because of that.
        cost: of copying everything, in words, where it is.
        policies: what is to become of records that only the recovered cluster has; None where
            nobody is to be asked, as where a run is resumed.
        connect: address of a worker that replicates records back; empty where nobody named one.
        elsewhere: topics that another link brings to the source.
    """

    connectors: tuple[str, ...] = ()
    elsewhere: frozenset[str] = frozenset()
    rebuilding: bool = field(default=False, kw_only=True)
    cost: str = field(default="", kw_only=True)
    connect: str = field(default="", kw_only=True)
    policies: Policies | None = field(default=None, kw_only=True)


def against(answer: Answer, terms: Terms) -> tuple[Finding, ...]:
    """Everything that there is to say before anything is changed."""
    well = Finding(STEP_ORDER, Status.OK, "the way back", f"in order; step {answer.next} is next")
    return tuple(_findings(answer, terms)) or (well,)


def _findings(answer: Answer, terms: Terms) -> Iterator[Finding]:
    facts = answer.seen.facts
    silent = [*_silent(facts)]
    if silent:
        yield from silent
        return
    if answer.seen.home is True:
        reason = f"every endpoint leads to {facts.source}: there is nobody to lead home"
        yield Finding(HOME, Status.FAIL, "endpoints", reason)
    yield from health_findings(facts)
    if terms.rebuilding:
        yield from rebuild_findings(facts, answer.seen.lost, terms.cost, terms.connectors)
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
    behind = known_out_of_order(answer.seen)
    if behind:
        yield Finding(STEP_ORDER, Status.WARN, "step e", behind)
    if answer.seen.unclear:
        yield Finding(STEP_ORDER, Status.WARN, "step i", answer.seen.unclear)
    put_right = _BY_EMPTYING if terms.rebuilding else _PUT_RIGHT
    for each in answer.violations:
        status = Status.WARN if each.repair in put_right else Status.FAIL
        remedy = each.remedy or f"drctl failback --check-order: repair step {each.repair} first"
        yield Finding(STEP_ORDER, status, f"step {each.repair}", each.words, remedy=remedy)


def _silent(facts: Facts) -> Iterator[Finding]:
    for name, seen in ((facts.source, facts.on_source), (facts.target, facts.on_target)):
        if isinstance(seen, Unavailable):
            remedy = f"see that {name} is up, and closed to applications"
            yield Finding(SILENT, Status.FAIL, name, seen.reason, remedy=remedy)


def health_findings(facts: Facts) -> Iterator[Finding]:
    """What is broken on the source, and what nobody knows of it; nothing where it is whole."""
    source, health = facts.source, facts.health
    if isinstance(health, Unavailable):
        reason = f"whether it is whole is not known: {health.reason}"
        yield Finding(BROKEN, Status.WARN, source, reason, remedy="step preflight looks again")
        return
    closed = tuple(_closed(health))
    if closed:
        reason = f"it does not take all records: {several(closed)}"
        remedy = f"bring back the brokers of {source} that hold the replicas"
        yield Finding(BROKEN, Status.FAIL, source, reason, remedy=remedy)
    behind = tuple(_behind(health))
    if behind:
        yield Finding(BROKEN, Status.WARN, source, f"it is not whole: {several(behind)}")


def _closed(health: ClusterHealth) -> Iterator[str]:
    """What takes no record with acks=all."""
    if health.offline:
        yield f"{len(health.offline):,} partitions have no leader ({listed(health.offline)})"
    if health.under_min_isr:
        places = _places(health.under_min_isr)
        yield f"{len(places):,} partitions are below min.insync.replicas ({listed(places)})"


def _behind(health: ClusterHealth) -> Iterator[str]:
    """What does, and would not if one more broker were lost; and what is not known."""
    if health.absent:
        yield f"{len(health.absent):,} brokers are down ({listed(health.absent)})"
    closed = {*health.offline, *_places(health.under_min_isr)}
    behind = [place for place in _places(health.under_replicated) if place not in closed]
    if behind:
        yield f"{len(behind):,} partitions are not in sync ({listed(behind)})"
    if health.unknown:
        yield f"min.insync.replicas of {listed(sorted(health.unknown))} is not known"
    if isinstance(health.controller, Unavailable):
        yield f"no controller is known: {health.controller.reason}"


def _places(short: Sequence[Shortage]) -> list[object]:
    return [each.partition for each in short]


def _lost(seen: Situation) -> Iterator[Finding]:
    """Whether the source holds less than was copied from it: it was recreated, or cut."""
    facts, lost = seen.facts, seen.lost
    if lost:
        reason = f"it has lost records that it had: {several(lost)}"
        number = target_records(facts)
        cost = f"it has to be rebuilt: about {number:,} records are copied from {facts.target}"
        remedy = f"{cost}; drctl failback --link {quote(facts.link)} --rebuild shows the plan"
        yield Finding(LOST, Status.FAIL, facts.source, reason, cost=cost, remedy=remedy)


_CONNECT = (
    "; or offset.start=connect on what copies back: step start-reverse-replication says its offsets"
)
_TWICE = "what was replicated before is copied again"


def replicator_findings(forward: Replication, reverse: Replication) -> Iterator[Finding]:
    """Group id and provenance headers, of each pair of Replicators.

    A person sets the position of one that copies back; where it takes the translated one instead,
    it has to be of the same group as the other, and tells what it must leave out by headers alone:
    a translated position is before the first new record, never behind it.
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
    reason = f"the directions have different group ids, {ours!r} there and {theirs!r} back"
    if back.starts_at_group_offsets:
        status = Status.FAIL
        reason += f": it does not find the translated position, and {_TWICE}"
    else:
        status = Status.WARN
        reason += f"; it takes its position from Connect: {_TWICE} unless that is set first"
    remedy = f"set src.consumer.group.id={ours} on {back.name}, while it is stopped"
    yield Finding(BOTH_WAYS, status, f"connector {back.name}", reason, remedy=remedy)


def _provenance(there: Replicator, status: Status) -> Iterator[Finding]:
    """A copy that does not say where it comes from is one more record to the other direction."""
    if not there.marks_copies:
        reason = (
            "copies do not say where they come from: nothing but its position keeps the other"
            " direction from copying them back"
        )
        remedy = f"set provenance.header.enable=true on {there.name}; older copies stay without it"
        remedy += _CONNECT
        yield Finding(BOTH_WAYS, status, f"connector {there.name}", reason, remedy=remedy)


def _own_copies(back: Replicator, status: Status) -> Iterator[Finding]:
    """Whether it will know by their headers what came from where it copies to."""
    converter = back.config.get("header.converter", "")
    if not back.marks_copies:
        reason = "it does not look where copies come from: nothing but its position leaves them out"
        remedy = f"set provenance.header.enable=true on {back.name}{_CONNECT}"
    elif not converter.endswith("ByteArrayConverter"):
        reason = f"it reads headers with {converter or 'the converter of the workers'}"
        reason += ": it may not know its own copies again"
        remedy = "set header.converter=io.confluent.connect.replicator.util.ByteArrayConverter"
    else:
        return
    yield Finding(BOTH_WAYS, status, f"connector {back.name}", reason, remedy=remedy)


def _replication_loop(facts: Facts) -> Iterator[Finding]:
    """Two connectors that each take the other's copies for new records."""
    forward, reverse, target = facts.forward, facts.reverse, facts.on_target
    if not isinstance(forward, Replication) or not isinstance(reverse, Replication):
        return
    copies = target.topics if isinstance(target, Cluster) else ()
    topics = sorted(facts.names.get(copy, copy) for copy in copies)
    for there, back in product(forward.copying, reverse.copying):
        round_ = [topic for topic in topics if _loops(topic, there, back)]
        if there.runs and back.runs and round_:
            reason = f"each takes the other's copies for new records, for ever: {several(round_)}"
            remedy = (
                f"stop both, and see what is there twice by now: {put('', there.name, 'stop')};"
                f" {put('', back.name, 'stop')};"
                f" drctl gap --link {quote(facts.link)} --scope full"
            )
            subject = f"connectors {there.name} and {back.name}"
            yield Finding(CYCLES, Status.FAIL, subject, reason, remedy=remedy)


def _loops(topic: str, there: Replicator, back: Replicator) -> bool:
    """Whether a copy comes to the topic that it was made of, as far as can be told."""
    if back.is_replicator:
        return False  # it marks records
    copy = arrives_as(there.config, topic)
    return isinstance(copy, str) and arrives_as(back.config, copy) == topic


def _beside(facts: Facts, terms: Terms) -> Iterator[Finding]:
    """Whether applications wrote to the target under the topics' own names, beside the copies."""
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
    copies = {home: copy for copy, home in facts.names.items()}
    told = several(f"{topic} (beside {copies.get(topic, topic)})" for topic in sorted(held))
    reason = f"it holds records under the link's own names: {told}; only copies are brought home"
    remedy = (
        f"bring them by a link of their own from {facts.target} to {facts.source} in drctl.yaml,"
        " with a connector that gives them another name there, or empty these topics"
    )
    yield Finding(BESIDE, Status.FAIL, facts.target, reason, remedy=remedy)


def _reverse(answer: Answer, terms: Terms) -> Iterator[Finding]:
    """Whether what replicates records back is there, and waits for where to begin."""
    reverse, connectors = answer.seen.facts.reverse, terms.connectors
    subject = f"connectors {', '.join(connectors)}"
    if isinstance(reverse, Unavailable):
        yield Finding(REVERSE, Status.FAIL, subject, reverse.reason)
        return
    if reverse.missing:
        reason = f"the workers have no {', '.join(reverse.missing)}"
        remedy = (
            "create it STOPPED, so that it copies nothing before drctl has told it where to begin:"
            ' POST /connectors with "initial_state": "STOPPED"'
        )
        yield Finding(REVERSE, Status.FAIL, subject, reason, remedy=remedy)
    yield from _other_names(answer.seen.facts, reverse, terms)
    yield from written_to(answer.seen.facts, reverse, terms.connectors)
    running = [each.name for each in reverse.found if each.name in connectors and not each.idle]
    if running and not answer.seen.arrived:
        started = all(_keeps_positions(reverse, name) for name in running)
        reason = (
            f"{', '.join(running)} copies to {answer.seen.facts.source} now: what that lacks cannot"
            " be found while it grows; stopped, it goes on from where it came to"
            if started
            else f"{', '.join(running)} may begin to copy at any moment, from the beginning"
        )
        remedy = "; ".join(put(terms.connect, name, "stop") for name in running)
        yield Finding(REVERSE, Status.FAIL, subject, reason, remedy=remedy)


def _keeps_positions(reverse: Replication, name: str) -> bool:
    """Whether it has begun, and would not begin again."""
    found = (each.positions for each in reverse.copying if each.name == name)
    return any(not isinstance(each, Unavailable) and bool(each) for each in found)


def _other_names(facts: Facts, reverse: Replication, terms: Terms) -> Iterator[Finding]:
    """Whether records would come to other topics than those that they belong to."""
    target = facts.on_target
    copies = sorted(target.topics) if isinstance(target, Cluster) else ()
    wanted = {copy: facts.names.get(copy, copy) for copy in copies}
    for each in reverse.copying:
        if each.name not in terms.connectors:
            continue
        wrong, unsure = misnamed(each.config, wanted)
        if wrong:
            reason = f"it does not bring records home to their topics: {several(wrong)}"
            remedy = how_to_name(each.name, wanted)
            yield Finding(REVERSE, Status.FAIL, f"connector {each.name}", reason, remedy=remedy)
        elif unsure:
            reason = f"to which topics it brings records is not known: {several(unsure)}"
            remedy = (
                "step start-reverse-replication looks at the first record of each partition, and"
                " stops it"
            )
            yield Finding(REVERSE, Status.WARN, f"connector {each.name}", reason, remedy=remedy)


def misnamed(config: Mapping[str, str], wanted: Names) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What arrives elsewhere or not at all, and what nobody can tell; each in words."""
    wrong, unsure = [], []
    for copy, home in wanted.items():
        there = arrives_as(config, copy)
        if isinstance(there, Unavailable):
            unsure.append(f"{copy}: {there.reason}")
        elif there is None:
            wrong.append(f"{copy} is not copied")
        elif there != home:
            wrong.append(f"{copy} would come to {there}, not to {home}")
    return tuple(wrong), tuple(unsure)


def how_to_name(connector: str, wanted: Names) -> str:
    """The settings with which it replicates them back."""
    topics, prefix = ",".join(map(pattern_of, wanted)), _prefix(wanted)
    told = [
        f"of connector {connector}, while it is STOPPED, set topics={topics}",
        "replication.policy.class=org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    ]
    if prefix:
        told += [
            "transforms=home",
            f"transforms.home.type={_ROUTER}",
            f"transforms.home.regex={pattern_of(prefix)}(.*)",
            "transforms.home.replacement=$1",
        ]
    return "; ".join(told)


def _prefix(wanted: Names) -> str:
    """What all copies have before their own names; empty where that is not the difference."""
    before = {copy.removesuffix(home) for copy, home in wanted.items() if copy.endswith(home)}
    return before.pop() if len(before) == 1 else ""


def _undecided(answer: Answer, policies: Policies) -> Iterator[Finding]:
    """What nothing is said of, as far as that is known before anything is closed."""
    facts, result, step = answer.seen.facts, answer.seen.gap.valid, answer.steps["e"]
    if result is None or step.observed is Observed.DONE:
        return
    if step.observed is Observed.UNKNOWN:
        # Nobody has looked for copies of these records.
        none = not isinstance(facts.decided, Unavailable) and not any(facts.decided.values())
        if not (none and result.unreplicated):
            return
    told = [*_undecided_by(facts, result, policies)]
    if told:
        tally = tallied(result, facts.order)
        reason = (
            f"of {result.unreplicated:,} records that only {facts.source} has ({tally.told}):"
            f" {'; '.join(told)}; the run would turn back at classify-records"
        )
        remedy = (
            "decide: --policy copy|quarantine|export|discard, --conflicting likewise; look at"
            f" them: drctl reconcile {quote(result.where)} --policy copy"
        )
        yield Finding("records-undecided", Status.FAIL, "missing records", reason, remedy=remedy)


def _undecided_by(facts: Facts, result: GapEvidence, policies: Policies) -> Iterator[str]:
    done = _decided(facts, result)
    if policies.everywhere in (None, Action.REFUSE) and not policies.by_topic:
        yield f"nothing is said of {result.unreplicated - done:,} records"
        return
    left: Counter[str] = Counter()
    for each in result.partitions:
        for words, number in _of_partition(each, facts, result, policies):
            left[words] += number
    # Which of them are decided is kept by record; step classify-records says what is left.
    least = "at least " if done else ""
    yield from (
        f"{least}{number - done:,} {words}" for words, number in left.items() if number > done
    )


def _of_partition(
    each: PartitionResult, facts: Facts, result: GapEvidence, policies: Policies
) -> Iterator[tuple[str, int]]:
    if not policies.chooses(each.place.topic):
        yield "of other topics: nothing is said of them", each.unreplicated
        return
    tally = tallied(replace(result, partitions=(each,)), facts.order)
    if policies.conflicting is Action.REFUSE:
        words = "the target holds something newer: say with --conflicting what becomes of them"
        yield f"conflicting ones: {words}", tally.conflicting


def _decided(facts: Facts, result: GapEvidence) -> int:
    if isinstance(facts.decided, Unavailable):
        return 0
    return sum(facts.decided.get(result.id, {}).values()) or decided_before(result, facts)


@dataclass(frozen=True, slots=True)
class OtherLink:
    """Another link between the same clusters.

    Attributes:
        named: connectors that drctl.yaml names for it.
        known: all that its workers have.
    """

    name: str
    source: str
    target: str
    named: tuple[str, ...]
    known: Mapping[str, Connector] | Unavailable


def other_links(links: Iterable[OtherLink]) -> Iterator[Finding]:
    """Those that do not run; none of it blocks the failback."""
    for link in links:
        if isinstance(link.known, Unavailable):
            reason = f"whether it is copied over is not known: {link.known.reason}"
            yield Finding(OTHER_LINKS, Status.WARN, f"link {link.name}", reason)
            continue
        for name in link.named:
            connector = link.known.get(name)
            if connector is None:
                status, remedy = "is not on the workers", "see `replicator.connectors` of the link"
            elif "FAILED" in (connector.state, *(task.state for task in connector.tasks)):
                status, remedy = "has failed", f"drctl connect recover --link {quote(link.name)}"
            elif connector.state in ("STOPPED", "PAUSED"):
                status = f"is {connector.state}"
                remedy = f"where nobody meant that: {put('', name, 'resume')}"
            else:
                continue
            reason = f"connector {name} {status}: nothing comes from {link.source} to {link.target}"
            yield Finding(OTHER_LINKS, Status.WARN, f"link {link.name}", reason, remedy=remedy)
