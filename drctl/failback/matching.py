"""Whether a result of `drctl gap` is still about what the clusters hold: else it is no evidence."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from drctl.checks.wording import several
from drctl.failback.facts import Began, Cluster, Facts
from drctl.failback.gap_results import GapEvidence, PartitionSeen
from drctl.model.topology import OffsetRange, Unavailable

FULL = "full"
"""The scope of a result that has compared everything."""


class Standing(StrEnum):
    """What a result is worth now."""

    VALID = "valid"
    STALE = "stale"
    INCOMPLETE = "incomplete"
    NONE = "none"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Chosen:
    """The result that the way back rests on.

    Attributes:
        result: the newest, where none is valid; None where there is none at all.
        why: it is valid, or is not.
        written_to: whether the source was written to, or copied from, after it had been lost and
            searched.
    """

    standing: Standing
    result: GapEvidence | None
    why: str
    written_to: bool = False

    @property
    def valid(self) -> GapEvidence | None:
        """It, where it may be rested on."""
        return self.result if self.standing is Standing.VALID else None


def choose(facts: Facts) -> Chosen:
    """The newest result that is valid; else the newest, and why it is not."""
    judged = [_judge(result, facts) for result in facts.gaps]
    valid = next((each for each in judged if each.standing is Standing.VALID), None)
    if valid is not None:
        newer = (each for each in judged[: judged.index(valid)] if _incomplete(each))
        told = [f"newer than it, and no evidence: {each.why}" for each in newer]
        return replace(valid, why="; ".join((valid.why, *told[:1])))
    if judged:
        return judged[0]
    why = (
        f"no result of drctl gap from {facts.source} to {facts.target} is here; name its folder"
        " with --gap if it was made elsewhere"
    )
    return Chosen(Standing.NONE, None, why)


def reference(facts: Facts) -> GapEvidence | None:
    """The oldest result over the same logs of the source: the nearest one to the failover.

    What was brought over later does not disturb its count of what is new on the target. One after
    which something else copied what it names missing ends on the target before that.
    """
    same = over_the_same(facts)
    still = [r for r in same if not isinstance(facts.copied_since.get(r.where), str)]
    return (still or same)[-1] if same else None


def over_the_same(facts: Facts) -> tuple[GapEvidence, ...]:
    """The newest result of these clusters that compares all, and others over the same logs."""
    whole = [r for r in facts.of_now(facts.gaps) if r.complete and r.scope == FULL]
    known = [r for r in whole if not list(_other_clusters(r, facts))]
    return tuple(r for r in known if r.ends == known[0].ends)


def _incomplete(judged: Chosen) -> bool:
    return judged.standing is Standing.INCOMPLETE


def same_logs(one: GapEvidence, other: GapEvidence) -> bool:
    """Whether both are about the same records of the source: a topic may be made anew."""
    if (one.source_id, one.ends) != (other.source_id, other.ends):
        return False
    ids = {each.place: each.topic_id for each in other.partitions}
    known = ((each.topic_id, ids[each.place]) for each in one.partitions)
    return all(this == that for this, that in known if this and that)


def _judge(result: GapEvidence, facts: Facts) -> Chosen:
    since = facts.left_since(result)
    if since:
        why = f"{result.told} is of before clients came to {facts.target} (run {since})"
        return Chosen(Standing.STALE, result, why)
    source, target = facts.on_source, facts.on_target
    for name, seen in ((facts.source, source), (facts.target, target)):
        if isinstance(seen, Unavailable):
            why = f"whether {result.told} still holds is not known: {name}: {seen.reason}"
            return Chosen(Standing.UNKNOWN, result, why)
    assert isinstance(source, Cluster)
    assert isinstance(target, Cluster)
    stale = [*_other_clusters(result, facts), *_moved(result, facts, source, target)]
    if stale:
        why = f"{result.told} is stale: {several(stale)}"
        return Chosen(Standing.STALE, result, why, _written_to(result, facts, source))
    unread = [*_unread(result, facts, source)]
    if unread:
        why = f"whether {result.told} still holds is not known: {several(unread)}"
        return Chosen(Standing.UNKNOWN, result, why)
    if not result.complete:
        why = several(result.not_compared) or "transactions were open"
        told = f"{result.told} is not complete: {why}"
        return Chosen(Standing.INCOMPLETE, result, told)
    if result.scope != FULL:
        told = f"{result.told} compares the {result.scope} alone: drctl gap --scope full is needed"
        return Chosen(Standing.INCOMPLETE, result, told)
    return Chosen(Standing.VALID, result, result.told)


def _other_clusters(result: GapEvidence, facts: Facts) -> Iterator[str]:
    ends = (
        (facts.source, facts.on_source, result.source_id),
        (facts.target, facts.on_target, result.target_id),
    )
    for name, seen, identity in ends:
        if isinstance(seen, Cluster) and seen.identity != identity:
            yield f"it is of another cluster {name} ({identity}, now {seen.identity})"


def _moved(result: GapEvidence, facts: Facts, source: Cluster, target: Cluster) -> Iterator[str]:
    anew = [*_made_anew(result, facts, source, target)]
    yield from anew
    for against in (facts.copied_since,) if anew else (facts.not_the_same, facts.copied_since):
        told = against.get(result.where)
        if isinstance(told, str):
            yield told
    known = {each.place for each in result.partitions}
    for place in sorted(source.logs.keys() - known):
        yield f"{place} is not in it"
    for each in result.partitions:
        log = source.logs.get(each.place)
        if log is None:
            yield f"{each.place} is not on {facts.source} any more"
        elif isinstance(log, OffsetRange):
            yield from _moved_on_source(each, log, facts)
        there = target.logs.get(each.copy)
        if each.target and isinstance(there, OffsetRange) and there.end < each.target.end:
            yield (
                f"{each.copy} of {facts.target} ended at {each.target.end}, and ends at"
                f" {there.end} now: it was made anew"
            )


def _made_anew(
    result: GapEvidence, facts: Facts, source: Cluster, target: Cluster
) -> Iterator[str]:
    """By Kafka's ids of the topics, where the result and the clusters tell them."""
    known = dict.fromkeys(
        each
        for p in result.partitions
        for each in (
            (facts.source, p.place.topic, p.topic_id, source.topic_ids.get(p.place.topic, "")),
            (facts.target, p.copy.topic, p.copy_id, target.topic_ids.get(p.copy.topic, "")),
        )
    )
    for cluster, topic, before, now in known:
        if before and now and before != now:
            yield f"topic {topic} of {cluster} was made anew: its id was {before}, and is {now} now"


def _unread(result: GapEvidence, facts: Facts, source: Cluster) -> Iterator[str]:
    """What keeps from saying that nothing moved."""
    for against in (facts.not_the_same, facts.copied_since):
        told = against.get(result.where)
        if isinstance(told, Unavailable):
            yield told.reason
    for each in result.partitions:
        log = source.logs.get(each.place)
        if isinstance(log, Unavailable):
            yield f"{each.place} of {facts.source}: {log.reason}"
        elif log is not None and log.end > each.source.end and not _explained(each, facts):
            yield (
                f"{each.place} ended at {each.source.end}, and ends at {log.end} now: whether what"
                " comes back alone wrote that cannot be told"
            )


def _moved_on_source(each: PartitionSeen, log: OffsetRange, facts: Facts) -> Iterator[str]:
    place, before = each.place, each.source
    if log.end < before.end:
        yield f"{place} ended at {before.end}, and ends at {log.end} now: it was made anew, or cut"
    elif log.end > before.end and not (_explained(each, facts) or _perhaps(each, facts)):
        yield f"{facts.source} has moved: {place} ended at {before.end}, and ends at {log.end} now"
    first = each.ranges[0][0] if each.ranges else None
    if first is not None and log.start > first:
        yield (
            f"missing records of {place} have been deleted: they began at {first}, the log begins"
            f" at {log.start} now"
        )


def _perhaps(each: PartitionSeen, facts: Facts) -> bool:
    """Whether the way back has run and may have written that, though it cannot be told."""
    reverse, began = facts.reverse, facts.began
    if isinstance(reverse, Unavailable) or reverse.never_ran:
        return False
    if isinstance(began, Unavailable):
        return True
    found = began.get(each.place)
    return found is Began.ELSEWHERE or isinstance(found, Unavailable)


def _written_to(result: GapEvidence, facts: Facts, source: Cluster) -> bool:
    """Whether something was done that makes a search worthless, which it was not before.

    A result of before the failover knows nothing new on the target, and one of before the source
    was closed to applications is of a source that they wrote to: both just grew old.
    """
    if not saw_new_records(result, facts):
        return False
    if isinstance(facts.copied_since.get(result.where), str):
        return True
    return facts.fenced_before(result) and any(
        isinstance(log := source.logs.get(each.place), OffsetRange)
        and log.end > each.source.end
        and not _explained(each, facts)
        and not _perhaps(each, facts)
        for each in result.partitions
    )


def saw_new_records(result: GapEvidence, facts: Facts) -> bool:
    """Whether it is of these clusters, and knows records that only the target was given."""
    if list(_other_clusters(result, facts)):
        return False
    return any(_saw_new(each, facts) for each in result.partitions)


def _saw_new(each: PartitionSeen, facts: Facts) -> bool:
    """What is only on the target may be what the source has deleted: the boundary tells."""
    known = facts.boundaries
    if each.target is None or not each.only_on_target or isinstance(known, Unavailable):
        return False
    return known.get(each.copy, -1) < each.target.end


def _explained(each: PartitionSeen, facts: Facts) -> bool:
    """Whether what came since is what the way back brings: its first record was looked at."""
    if isinstance(facts.began, Unavailable):
        return False
    return facts.began.get(each.place) is Began.BOUNDARY
