"""Blockers of a rebuild, and what shows that the source has lost its records.

Elsewhere a cluster that has lost its records is refused; here one that has not.
"""

from collections.abc import Iterator

from drctl.checks.check import several
from drctl.engine.failback_state import drops_copies, without_own_filter
from drctl.failback.facts import Cluster, Facts, Replication, Replicator
from drctl.model.finding import Finding, Status
from drctl.model.topology import OffsetRange, TopicPartition, Unavailable
from drctl.steps.failback import WHOLE

LEAVES_OUT = "copies-left-out"
"""The precheck for a connector that would not replicate everything back."""


def lost_records(facts: Facts) -> tuple[str, ...]:
    """Where the source holds less than was copied from it: it was recreated, or cut."""
    source = facts.on_source
    if not isinstance(source, Cluster):
        return ()
    shorter = tuple(
        f"{place} ends at {end}, and was copied up to {copied}"
        for place, copied in sorted(_copied(facts).items())
        if (end := _end(source, place)) < copied
    )
    held = target_records(facts)
    ever = any(isinstance(log, Unavailable) or log.end > 0 for log in source.logs.values())
    if shorter or not held or ever:
        return shorter
    return (f"it has never held a record of the link, and {facts.target} holds {held:,}",)


def target_records(facts: Facts) -> int:
    """How many offsets the target holds."""
    target = facts.on_target
    return target.held if isinstance(target, Cluster) else 0


def rebuild_findings(
    facts: Facts, lost: tuple[str, ...], cost: str, connectors: tuple[str, ...]
) -> Iterator[Finding]:
    """Whether anything was lost, what it costs, and who would leave some of it out.

    Args:
        lost: where it holds less than was copied from it.
        cost: of copying everything, in words.
        connectors: that are to replicate records back.
    """
    if lost:
        reason = f"it has lost records that it had: {several(lost)}; {cost}"
        yield Finding("source-lost", Status.WARN, facts.source, reason, cost=cost)
    else:
        yield _whole(facts)
    if isinstance(facts.reverse, Replication):
        for each in facts.reverse.copying:
            if not connectors or each.name in connectors:
                yield from _left_out(each, facts)
        yield from _from_group(facts.forward, facts.reverse)


def _whole(facts: Facts) -> Finding:
    reason = "nothing shows that it has lost records: it holds what was copied from it"
    if isinstance(facts.forward, Unavailable):
        reason = f"whether it has lost records is not known: {facts.forward.reason}"
    remedy = (
        "drctl failback without --rebuild copies only what is new; where you know better:"
        f" --override {WHOLE}=REASON"
    )
    return Finding(WHOLE, Status.FAIL, facts.source, reason, remedy=remedy)


def _left_out(back: Replicator, facts: Facts) -> Iterator[Finding]:
    """What was copied once, and has to come back: it looks like a copy to whoever brings it."""
    config, subject = back.config, f"connector {back.name}"
    if drops_copies(without_own_filter(config)):
        reason = (
            "it leaves out what drctl has copied, by a filter that drctl did not add, and"
            f" {facts.source} holds the originals no more"
        )
        remedy = f"take the filter out of the `transforms` of {back.name} until it has copied all"
        yield Finding(LEAVES_OUT, Status.FAIL, subject, reason, remedy=remedy)
    overrides = config.get("provenance.header.filter.overrides")
    if back.is_replicator and back.marks_copies and not overrides:
        reason = (
            f"it leaves out records whose header says that they came from {facts.source}: nothing"
            " of what was lost there would come back"
        )
        identity = facts.on_source.identity if isinstance(facts.on_source, Cluster) else "ID"
        remedy = (
            f"set provenance.header.filter.overrides={identity},.*,- on {back.name} until it has"
            " copied everything"
        )
        yield Finding(LEAVES_OUT, Status.FAIL, subject, reason, remedy=remedy)


def _from_group(forward: Replication | Unavailable, reverse: Replication) -> Iterator[Finding]:
    """The translated position of the other direction is that of a failback without a loss."""
    there = forward.copying if isinstance(forward, Replication) else ()
    groups = {each.group for each in there if each.is_replicator}
    for back in reverse.copying:
        if back.is_replicator and back.starts_at_group_offsets and back.group in groups:
            reason = (
                f"it begins at the translated position of group {back.group!r}, and leaves out"
                " whatever stands before it"
            )
            remedy = f"set another src.consumer.group.id on {back.name} until it has copied all"
            yield Finding(LEAVES_OUT, Status.FAIL, f"connector {back.name}", reason, remedy=remedy)


def _copied(facts: Facts) -> dict[TopicPartition, int]:
    """How far partitions were copied whose copies are there; others are of other links."""
    target, forward = facts.on_target, facts.forward
    logs = target.logs if isinstance(target, Cluster) else {}
    there = {TopicPartition(facts.names.get(p.topic, p.topic), p.partition) for p in logs}
    known = forward.positions if isinstance(forward, Replication) else {}
    return {place: at for place, at in known.items() if place in there}


def _end(source: Cluster, place: TopicPartition) -> int:
    """0 where the topic is not there; what cannot be read is not held to be lost."""
    log = source.logs.get(place)
    if log is None:
        return 0
    return log.end if isinstance(log, OffsetRange) else 1 << 62
