"""Blockers of a rebuild, and evidence that the source has lost its records.

A rebuild is refused if the source has not lost records, unless an earlier one has restored them and
did not complete; a plain failback is refused if the source has lost records.
"""

from collections.abc import Iterator

from drctl.checks.check import several
from drctl.config.mirrors import skips_copies
from drctl.engine.failback_state import drops_copies, without_own_filter
from drctl.failback.facts import Cluster, Facts, Replication, Replicator
from drctl.model.finding import Finding, Status
from drctl.model.topology import OffsetRange, TopicPartition, Unavailable
from drctl.steps.failback import INTACT

LEAVES_OUT = "copies-excluded"
"""Precheck: a connector would not replicate everything back."""


def lost_records(facts: Facts) -> tuple[str, ...]:
    """Partitions whose source log is shorter than what was replicated from it."""
    source = facts.on_source
    if not isinstance(source, Cluster):
        return ()
    shorter = tuple(
        f"{place} ends at {end} but was replicated up to {copied}"
        for place, copied in sorted(_copied(facts).items())
        if (end := _end(source, place)) < copied
    )
    held = target_records(facts)
    ever = any(isinstance(log, Unavailable) or log.end > 0 for log in source.logs.values())
    if shorter or not held or ever:
        return shorter
    return (f"it never had a record of the link; {facts.target} has {held:,}",)


def target_records(facts: Facts) -> int:
    """How many offsets the target logs span."""
    target = facts.on_target
    return target.held if isinstance(target, Cluster) else 0


def rebuild_findings(
    facts: Facts, lost: tuple[str, ...], impact: str, connectors: tuple[str, ...]
) -> Iterator[Finding]:
    """Whether records were lost, the impact of a rebuild, and connectors that would skip records.

    Args:
        lost: partitions that are shorter than what was replicated from them.
        impact: of copying everything, as text.
        connectors: of reverse replication.
    """
    if lost or facts.unfinished_rebuild:
        why = f"it has lost records: {several(lost)}" if lost else _begun(facts)
        yield Finding("source-lost", Status.WARN, facts.source, f"{why}; {impact}", impact=impact)
    else:
        yield _whole(facts)
    if isinstance(facts.reverse, Replication):
        for each in facts.reverse.copying:
            if not connectors or each.name in connectors:
                yield from _left_out(each, facts)
        yield from _from_group(facts.forward, facts.reverse)


def _begun(facts: Facts) -> str:
    return f"run {facts.unfinished_rebuild} began to copy everything to it, and did not complete"


def _whole(facts: Facts) -> Finding:
    reason = "it has not lost records: it has everything that was replicated from it"
    if isinstance(facts.forward, Unavailable):
        reason = f"cannot tell whether it has lost records: {facts.forward.reason}"
    remedy = (
        "run drctl failback without --rebuild to copy only new records; to rebuild anyway:"
        f" --override {INTACT}=REASON"
    )
    return Finding(INTACT, Status.FAIL, facts.source, reason, remedy=remedy)


def _left_out(back: Replicator, facts: Facts) -> Iterator[Finding]:
    """Whether the connector would exclude records that a rebuild needs."""
    config, subject = back.config, f"connector {back.name}"
    if drops_copies(without_own_filter(config)):
        reason = (
            "a filter that drctl did not add excludes records copied by drctl, whose originals are"
            f" no longer on {facts.source}"
        )
        remedy = (
            f"remove the filter from the `transforms` of {back.name} until all records are copied"
        )
        yield Finding(LEAVES_OUT, Status.FAIL, subject, reason, remedy=remedy)
    if skips_copies(config):
        reason = (
            f"it excludes records with a provenance header of {facts.source}: lost records would"
            " not be restored"
        )
        identity = facts.on_source.identity if isinstance(facts.on_source, Cluster) else "ID"
        remedy = (
            f"set provenance.header.filter.overrides={identity},.*,- on {back.name} until all"
            " records are copied"
        )
        yield Finding(LEAVES_OUT, Status.FAIL, subject, reason, remedy=remedy)


def _from_group(forward: Replication | Unavailable, reverse: Replication) -> Iterator[Finding]:
    """A reverse connector that starts at translated offsets would skip lost records."""
    there = forward.copying if isinstance(forward, Replication) else ()
    groups = {each.group for each in there if each.is_replicator}
    for back in reverse.copying:
        if back.is_replicator and back.starts_at_group_offsets and back.group in groups:
            reason = (
                f"it starts at the translated offsets of group {back.group!r} and skips all earlier"
                " records"
            )
            remedy = (
                f"set another src.consumer.group.id on {back.name} until all records are copied"
            )
            yield Finding(LEAVES_OUT, Status.FAIL, f"connector {back.name}", reason, remedy=remedy)


def _copied(facts: Facts) -> dict[TopicPartition, int]:
    """How far each partition of the link was replicated."""
    target, forward = facts.on_target, facts.forward
    logs = target.logs if isinstance(target, Cluster) else {}
    there = {TopicPartition(facts.names.get(p.topic, p.topic), p.partition) for p in logs}
    known = forward.positions if isinstance(forward, Replication) else {}
    return {place: at for place, at in known.items() if place in there}


def _end(source: Cluster, place: TopicPartition) -> int:
    """The log end; 0 for a missing topic; unreadable logs do not count as lost."""
    log = source.logs.get(place)
    if log is None:
        return 0
    return log.end if isinstance(log, OffsetRange) else 1 << 62
