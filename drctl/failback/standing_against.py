"""What stands against a way back, as findings; what its own steps put right is a warning."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from drctl.checks.wording import several
from drctl.engine.steps.way_back_order import STEP_ORDER
from drctl.failback.answer import Answer
from drctl.failback.bringing_home import how_to_name, misled
from drctl.failback.facts import Cluster, Facts, Names, Replication
from drctl.failback.going_round import going_round
from drctl.failback.rebuilding import lost_records, rebuild_findings, survivors_records
from drctl.failback.replicator_rules import replicator_findings
from drctl.failback.source_health import health_findings
from drctl.failback.steps.reconciled import told_behind
from drctl.failback.undecided import undecided
from drctl.failback.written_to import written_to
from drctl.model.finding import Finding, Status
from drctl.model.pasting import put
from drctl.model.topology import Unavailable
from drctl.reconcile.policy import Policies

SILENT, HOME, LOST, REVERSE, BESIDE = (
    "way-back-silent",
    "clients-home",
    "source-lost",
    "reverse-replication",
    "written-beside",
)

_PUT_RIGHT = frozenset("abc")
"""Steps that the run does first, however they stand."""

_BY_EMPTYING = frozenset("abcdefgh")
"""Where the source is emptied, what has come to it before its time goes, too."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What drctl.yaml says of a way home.

    Attributes:
        connectors: that are to bring records home; empty where a person starts what does.
        rebuild: what to type where the source has lost its records.
        rebuilding: whether it is to be filled anew, because of that.
        cost: of copying everything, in words, where it is.
        policies: what is to become of records that only the returned cluster has; None where
            nobody is to be asked, as on the way that a run goes on with.
        connect: address of a worker that brings records home; empty where nobody named one.
        names: what each copy is called at home; copies that keep their names need not be in it.
        elsewhere: topics that another link brings to the source.
    """

    connectors: tuple[str, ...] = ()
    rebuild: str = ""
    names: Names = field(default_factory=dict)
    elsewhere: frozenset[str] = frozenset()
    rebuilding: bool = field(default=False, kw_only=True)
    cost: str = field(default="", kw_only=True)
    connect: str = field(default="", kw_only=True)
    policies: Policies | None = field(default=None, kw_only=True)


def against(answer: Answer, terms: Terms) -> tuple[Finding, ...]:
    """Everything that there is to say before anything is changed."""
    found = tuple(_findings(answer, terms))
    well = Finding(STEP_ORDER, Status.OK, "the way back", f"in order; step {answer.next} is next")
    return found or (well,)


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
        yield from rebuild_findings(facts, terms.names, terms.cost, terms.connectors)
    else:
        yield from _lost(facts, terms)
        yield from _both_ways(facts)
    yield from going_round(facts, terms.names)
    yield from _beside(facts, terms)
    if terms.connectors:
        yield from _reverse(answer, terms)
    if terms.policies is not None:
        yield from undecided(answer, terms.policies)
    behind = told_behind(answer.seen)
    if behind:
        yield Finding(STEP_ORDER, Status.WARN, "step e", behind)
    if answer.seen.unclear:
        yield Finding(STEP_ORDER, Status.WARN, "step i", answer.seen.unclear)
    put_right = _BY_EMPTYING if terms.rebuilding else _PUT_RIGHT
    for each in answer.violations:
        status = Status.WARN if each.repair in put_right else Status.FAIL
        cure = each.cure or f"drctl failback --check-order: repair step {each.repair} first"
        yield Finding(STEP_ORDER, status, f"step {each.repair}", each.words, cure=cure)


def _silent(facts: Facts) -> Iterator[Finding]:
    for name, seen in ((facts.source, facts.on_source), (facts.target, facts.on_target)):
        if isinstance(seen, Unavailable):
            cure = f"see that {name} is up, and closed to applications"
            yield Finding(SILENT, Status.FAIL, name, seen.reason, cure=cure)


def _both_ways(facts: Facts) -> Iterator[Finding]:
    if isinstance(facts.forward, Replication) and isinstance(facts.reverse, Replication):
        yield from replicator_findings(facts.forward, facts.reverse)


def _lost(facts: Facts, terms: Terms) -> Iterator[Finding]:
    """Whether the source holds less than was copied from it: it was made anew, or cut."""
    lost = lost_records(facts, terms.names)
    if lost:
        reason = f"it has lost records that it had: {several(lost)}"
        number = survivors_records(facts)
        cost = f"it has to be rebuilt: about {number:,} records are copied from {facts.target}"
        cure = f"{cost}; {terms.rebuild}"
        yield Finding(LOST, Status.FAIL, facts.source, reason, cost=cost, cure=cure)


def _beside(facts: Facts, terms: Terms) -> Iterator[Finding]:
    """Whether applications wrote to the survivor under the topics' own names, beside the copies."""
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
    copies = {home: copy for copy, home in terms.names.items()}
    told = several(f"{topic} (beside {copies.get(topic, topic)})" for topic in sorted(held))
    reason = f"it holds records under the link's own names: {told}; only copies are brought home"
    cure = (
        f"bring them by a link of their own from {facts.target} to {facts.source} in drctl.yaml,"
        " with a connector that gives them another name there, or empty these topics"
    )
    yield Finding(BESIDE, Status.FAIL, facts.target, reason, cure=cure)


def _reverse(answer: Answer, terms: Terms) -> Iterator[Finding]:
    """Whether what brings records home is there, and waits for where to begin."""
    reverse, connectors = answer.seen.facts.reverse, terms.connectors
    subject = f"connectors {', '.join(connectors)}"
    if isinstance(reverse, Unavailable):
        yield Finding(REVERSE, Status.FAIL, subject, reverse.reason)
        return
    if reverse.missing:
        reason = f"the workers have no {', '.join(reverse.missing)}"
        cure = (
            "create it STOPPED, so that it copies nothing before drctl has told it where to begin:"
            ' POST /connectors with "initial_state": "STOPPED"'
        )
        yield Finding(REVERSE, Status.FAIL, subject, reason, cure=cure)
    yield from _other_names(answer.seen.facts, reverse, terms)
    yield from written_to(answer.seen.facts, reverse, terms.connectors)
    running = [each.name for each in reverse.found if each.name in connectors and not each.idle]
    if running and not answer.seen.arrived:
        begun = all(_keeps_positions(reverse, name) for name in running)
        reason = (
            f"{', '.join(running)} copies to {answer.seen.facts.source} now: what that lacks cannot"
            " be found while it grows; stopped, it goes on from where it came to"
            if begun
            else f"{', '.join(running)} may begin to copy at any moment, from the beginning"
        )
        cure = "; ".join(put(terms.connect or "", name, "stop") for name in running)
        yield Finding(REVERSE, Status.FAIL, subject, reason, cure=cure)


def _keeps_positions(reverse: Replication, name: str) -> bool:
    """Whether it has begun, and would not begin again."""
    found = (each.positions for each in reverse.copying if each.name == name)
    return any(not isinstance(each, Unavailable) and bool(each) for each in found)


def _other_names(facts: Facts, reverse: Replication, terms: Terms) -> Iterator[Finding]:
    """Whether records would come to other topics than those that they belong to."""
    target = facts.on_target
    copies = {p.topic for p in target.logs} if isinstance(target, Cluster) else set()
    wanted = {copy: terms.names.get(copy, copy) for copy in sorted(copies)}
    for each in reverse.copying:
        if each.name not in terms.connectors:
            continue
        wrong, unsure = misled(each.connector.config, wanted)
        if wrong:
            reason = f"it does not bring records home to their topics: {several(wrong)}"
            cure = how_to_name(each.name, wanted)
            yield Finding(REVERSE, Status.FAIL, f"connector {each.name}", reason, cure=cure)
        elif unsure:
            reason = f"to which topics it brings records is not known: {several(unsure)}"
            cure = "step bring-home looks at the first record of each partition, and stops it"
            yield Finding(REVERSE, Status.WARN, f"connector {each.name}", reason, cure=cure)
