"""What stands against a way back, as findings; what its own steps put right is a warning."""

from collections.abc import Iterator

from drctl.checks.wording import several
from drctl.engine.steps.way_back_order import STEP_ORDER
from drctl.failback.answer import Answer
from drctl.failback.facts import Cluster, Facts, Replication
from drctl.model.finding import Finding, Status
from drctl.model.topology import OffsetRange, TopicPartition, Unavailable

SILENT, HOME, LOST, REVERSE = (
    "way-back-silent",
    "clients-home",
    "source-lost",
    "reverse-replication",
)

_PUT_RIGHT = frozenset({"a", "b", "c"})
"""Steps that the run does first, however they stand."""


def against(answer: Answer, connectors: tuple[str, ...], rebuild: str) -> tuple[Finding, ...]:
    """Everything that there is to say before anything is changed.

    Args:
        connectors: that are to bring records home; empty where a person starts what does.
        rebuild: what to type where the source has lost its records.
    """
    found = tuple(_findings(answer, connectors, rebuild))
    well = Finding(STEP_ORDER, Status.OK, "the way back", f"in order; step {answer.next} is next")
    return found or (well,)


def _findings(answer: Answer, connectors: tuple[str, ...], rebuild: str) -> Iterator[Finding]:
    facts = answer.seen.facts
    silent = [*_silent(facts)]
    if silent:
        yield from silent
        return
    if answer.seen.home is True:
        reason = f"every endpoint leads to {facts.source}: there is nobody to lead home"
        yield Finding(HOME, Status.FAIL, "endpoints", reason)
    yield from _lost(facts, rebuild)
    if connectors:
        yield from _reverse(answer, connectors)
    for each in answer.violations:
        status = Status.WARN if each.repair in _PUT_RIGHT else Status.FAIL
        cure = f"drctl failback --check-order: repair step {each.repair} first"
        yield Finding(STEP_ORDER, status, f"step {each.repair}", each.words, cure=cure)


def _silent(facts: Facts) -> Iterator[Finding]:
    for name, seen in ((facts.source, facts.on_source), (facts.target, facts.on_target)):
        if isinstance(seen, Unavailable):
            cure = f"see that {name} is up, and closed to applications"
            yield Finding(SILENT, Status.FAIL, name, seen.reason, cure=cure)


def _lost(facts: Facts, rebuild: str) -> Iterator[Finding]:
    """Whether the source holds less than was copied from it: it was made anew, or cut."""
    source, forward = facts.on_source, facts.forward
    if not isinstance(source, Cluster) or not isinstance(forward, Replication):
        return
    shorter = [
        f"{place} ends at {end}, and was copied up to {copied}"
        for place, copied in sorted(_copied(forward, facts).items())
        if (end := _end(source, place)) < copied
    ]
    if shorter:
        reason = f"it has lost records that it had: {several(shorter)}"
        yield Finding(
            LOST,
            Status.FAIL,
            facts.source,
            reason,
            cost=_cost(facts),
            cure=f"{_cost(facts)}; {rebuild}",
        )


def _copied(forward: Replication, facts: Facts) -> dict[TopicPartition, int]:
    """How far partitions were copied whose copies are there; connectors copy for other links too.

    Names are kept, else nobody would be led home.
    """
    target = facts.on_target
    there = target.logs if isinstance(target, Cluster) else {}
    found: dict[TopicPartition, int] = {}
    for each in forward.copying:
        if not isinstance(each.positions, Unavailable):
            found |= {place: at for place, at in each.positions.items() if place in there}
    return found


def _end(source: Cluster, place: TopicPartition) -> int:
    """0 where the topic is not there; what cannot be read is not held to be lost."""
    log = source.logs.get(place)
    if log is None:
        return 0
    return log.end if isinstance(log, OffsetRange) else 1 << 62


def _cost(facts: Facts) -> str:
    """What everything that the target has would take."""
    target = facts.on_target
    logs = target.logs.values() if isinstance(target, Cluster) else ()
    total = sum(log.end - log.start for log in logs if isinstance(log, OffsetRange))
    return f"it has to be rebuilt: about {total:,} records are copied from {facts.target}"


def _reverse(answer: Answer, connectors: tuple[str, ...]) -> Iterator[Finding]:
    """Whether what brings records home is there, and waits for where to begin."""
    reverse = answer.seen.facts.reverse
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
    running = [each.name for each in reverse.found if each.name in connectors and not each.idle]
    if running and not answer.seen.arrived:
        reason = f"{', '.join(running)} may begin to copy at any moment, from the beginning"
        cure = "; ".join(f"curl -X PUT $CONNECT/connectors/{name}/stop" for name in running)
        yield Finding(REVERSE, Status.FAIL, subject, reason, cure=cure)
