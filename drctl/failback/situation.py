"""What several steps rest on, concluded once from the facts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from drctl.checks.check import listed, several
from drctl.failback.facts import (
    NO_WORKERS,
    Cluster,
    Copies,
    Facts,
    Fence,
    Replication,
    ReverseStart,
    Stopped,
)
from drctl.failback.gap_results import FULL, GapEvidence, PartitionResult
from drctl.failback.rebuilding import lost_records
from drctl.model.endpoints import EndpointState
from drctl.model.text import quote
from drctl.model.topology import OffsetRange, TopicPartition, Unavailable
from drctl.steps.failback import WHOLE


class ResultStatus(StrEnum):
    """What a result is worth now."""

    VALID = "valid"
    STALE = "stale"
    INCOMPLETE = "incomplete"
    NONE = "none"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ChosenResult:
    """The result that the failback rests on.

    Attributes:
        result: the newest, where none is valid; None where there is none at all.
        why: it is valid, or is not.
        written_to: whether the source was written to, or copied from, after it had been lost and
            searched.
    """

    standing: ResultStatus
    result: GapEvidence | None
    why: str
    written_to: bool = False

    @property
    def valid(self) -> GapEvidence | None:
        """It, where it may be rested on."""
        return self.result if self.standing is ResultStatus.VALID else None


def choose(facts: Facts) -> ChosenResult:
    """The newest result that is valid; else the newest, and why it is not."""
    judged = [_judge(result, facts) for result in facts.gaps]
    valid = next((each for each in judged if each.standing is ResultStatus.VALID), None)
    if valid is not None:
        newer = judged[: judged.index(valid)]
        told = [
            f"newer than it, and no evidence: {each.why}"
            for each in newer
            if each.standing is ResultStatus.INCOMPLETE
        ]
        return replace(valid, why="; ".join((valid.why, *told[:1])))
    if judged:
        return judged[0]
    why = (
        f"no result of drctl gap from {facts.source} to {facts.target} is here; name its folder"
        " with --gap if it was made elsewhere"
    )
    return ChosenResult(ResultStatus.NONE, None, why)


def reference(facts: Facts) -> GapEvidence | None:
    """The oldest result over the same logs of the source: the nearest one to the failover.

    What drctl copied later does not disturb its count of what is new on the target. One after
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


def same_logs(one: GapEvidence, other: GapEvidence) -> bool:
    """Whether both are about the same records of the source: a topic may be recreated."""
    if (one.source_id, one.ends) != (other.source_id, other.ends):
        return False
    ids = {each.place: each.topic_id for each in other.partitions}
    known = ((each.topic_id, ids[each.place]) for each in one.partitions)
    return all(this == that for this, that in known if this and that)


def _judge(result: GapEvidence, facts: Facts) -> ChosenResult:
    since = facts.left_since(result)
    if since:
        why = f"{result.told} is of before clients came to {facts.target} (run {since})"
        return ChosenResult(ResultStatus.STALE, result, why)
    source, target = facts.on_source, facts.on_target
    for name, seen in ((facts.source, source), (facts.target, target)):
        if isinstance(seen, Unavailable):
            why = f"whether {result.told} still holds is not known: {name}: {seen.reason}"
            return ChosenResult(ResultStatus.UNKNOWN, result, why)
    assert isinstance(source, Cluster)
    assert isinstance(target, Cluster)
    stale = [*_other_clusters(result, facts), *_moved(result, facts, source, target)]
    if stale:
        why = f"{result.told} is stale: {several(stale)}"
        return ChosenResult(ResultStatus.STALE, result, why, _written_to(result, facts, source))
    unread = [*_unread(result, facts, source)]
    if unread:
        why = f"whether {result.told} still holds is not known: {several(unread)}"
        return ChosenResult(ResultStatus.UNKNOWN, result, why)
    if not result.complete:
        why = several(result.not_compared) or "transactions were open"
        told = f"{result.told} is not complete: {why}"
        return ChosenResult(ResultStatus.INCOMPLETE, result, told)
    if result.scope != FULL:
        told = f"{result.told} compares the {result.scope} alone: drctl gap --scope full is needed"
        return ChosenResult(ResultStatus.INCOMPLETE, result, told)
    return ChosenResult(ResultStatus.VALID, result, result.told)


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
    for against in (facts.copied_since,) if anew else (facts.source_mismatch, facts.copied_since):
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
    for against in (facts.source_mismatch, facts.copied_since):
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


def _moved_on_source(each: PartitionResult, log: OffsetRange, facts: Facts) -> Iterator[str]:
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


def _perhaps(each: PartitionResult, facts: Facts) -> bool:
    """Whether reverse replication has run and may have written that, though it cannot be told."""
    reverse, began = facts.reverse, facts.reverse_start
    if isinstance(reverse, Unavailable) or reverse.never_ran:
        return False
    if isinstance(began, Unavailable):
        return True
    found = began.get(each.place)
    return found is ReverseStart.ELSEWHERE or isinstance(found, Unavailable)


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


def _saw_new(each: PartitionResult, facts: Facts) -> bool:
    """What is only on the target may be what the source has deleted: the boundary tells."""
    known = facts.boundaries
    if each.target is None or not each.only_on_target or isinstance(known, Unavailable):
        return False
    return known.get(each.copy, -1) < each.target.end


def _explained(each: PartitionResult, facts: Facts) -> bool:
    """Whether what came since is by reverse replication: its first record was looked at."""
    if isinstance(facts.reverse_start, Unavailable):
        return False
    return facts.reverse_start.get(each.place) is ReverseStart.BOUNDARY


def nothing_to_fail_back(facts: Facts, home: bool | None) -> str:
    """Why there is nothing; empty where there is something, or nobody can tell.

    Args:
        home: whether every endpoint leads to the source; None where that is not known.
    """
    seen = isinstance(facts.on_source, Cluster) and isinstance(facts.on_target, Cluster)
    back = isinstance(facts.reverse, Replication) and not facts.reverse.never_ran
    if not seen or back or not facts.never_moved or any(_traces(facts)):
        return ""
    forward = _forward(facts)
    no_run = f"by the journal no run has moved clients to {facts.target}"
    if home is True and forward is not None:
        told = f"every endpoint leads to {facts.source}"
    elif not facts.endpoints and forward and _nobody_reads_there(facts):
        told = f"no group is active on {facts.target}"
    else:
        return ""
    return "; ".join(filter(None, (told, no_run, forward)))


def why_undetermined(facts: Facts, home: bool | None) -> str:
    """Why it cannot be told whether clients have left the source; empty where anything tells.

    Args:
        home: as above.
    """
    if home is not None or _failover_seen(facts):
        return ""
    ends = facts.on_source, facts.on_target
    silent = (*ends, facts.journal, facts.groups, facts.forward, *facts.endpoints)
    told = [
        *(each.reason for each in silent if isinstance(each, Unavailable) and each != NO_WORKERS),
        *(f"{each.name}: {each.unseen}" for each in facts.known_groups if each.unseen),
        *(e.words for e in facts.endpoints if isinstance(e, EndpointState) and e.cluster is None),
    ]
    why = several(dict.fromkeys(told)) or "drctl.yaml names no endpoints"
    return (
        f"nothing shows that clients have left {facts.source}, and who would tell does not: {why}"
    )


def _failover_seen(facts: Facts) -> bool:
    """Whether anything says that clients have left the source, and were not led back since."""
    active_there = any(facts.target in each.active_on for each in facts.known_groups)
    if facts.left_source or _held(facts.fence) or active_there:
        return True
    reverse = facts.reverse.copying if isinstance(facts.reverse, Replication) else ()
    if any(each.runs for each in reverse):
        return True
    # What else there is a finished failback may have left.
    positions = (each.positions for each in reverse)
    copied_back = any(not isinstance(each, Unavailable) and each for each in positions)
    return not facts.failed_back and (copied_back or _stopped(facts) or any(_traces(facts)))


def _stopped(facts: Facts) -> bool:
    """Whether the old replication is seen to stand still: a failover stops it."""
    if isinstance(facts.forward, Replication):
        copying = facts.forward.copying
        return bool(copying) and all(each.idle for each in copying)
    return isinstance(facts.stopped, Stopped) and facts.stopped.held


def _held(fence: Fence | Unavailable) -> bool:
    return isinstance(fence, Fence) and fence.held is True


def _traces(facts: Facts) -> Iterator[bool]:
    """What a failover, or a failback that was begun, leaves."""
    yield _held(facts.fence)
    yield any(saw_new_records(each, facts) for each in facts.gaps)
    for copies in (facts.drctl_copies, facts.returned_copies):
        yield isinstance(copies, Copies) and copies.total > 0
    yield bool(facts.left_missing)


def _forward(facts: Facts) -> str | None:
    """That replication to the target runs, in words; empty where nothing tells; None: it does not.

    A failover stops it.
    """
    runs = f"replication {facts.source} -> {facts.target} runs"
    if isinstance(facts.forward, Replication):
        return runs if facts.forward.runs else None
    if isinstance(facts.stopped, Stopped):
        return None if facts.stopped.held else runs
    # Where something is to tell and does not, nobody knows.
    asked = facts.forward != NO_WORKERS or isinstance(facts.stopped, Unavailable)
    return None if asked else ""


def _nobody_reads_there(facts: Facts) -> bool:
    if isinstance(facts.groups, Unavailable):
        return False
    return not any(each.unseen or facts.target in each.active_on for each in facts.groups)


def decided_before(result: GapEvidence, facts: Facts) -> int:
    """How many missing records earlier results have put aside or given up.

    0 where something was decided by way of this one: that tells of them, too.
    """
    if isinstance(facts.decided, Unavailable) or facts.decided.get(result.id):
        return 0
    return sum(_before(each, facts.left_missing.get(each.place, ())) for each in result.partitions)


def _before(each: PartitionResult, left: tuple[tuple[int, int], ...]) -> int:
    """Of one partition; what its ranges do not tell record by record counts only as a whole."""
    within = [
        max(0, min(last, until) - max(first, at) + 1)
        for first, last in each.ranges
        for at, until in left
    ]
    spanned = sum(last - first + 1 for first, last in each.ranges)
    whole = len(each.ranges) == each.ranges_total
    if whole and (spanned == each.unreplicated or sum(within) == spanned):
        return min(sum(within), each.unreplicated)
    return 0


NO_PROOF = (
    "no full comparisons of both directions are here that found nothing but what was decided on"
)


class Proof(NamedTuple):
    """What comparisons, and a look at what was written since, say.

    Attributes:
        holds: None where nobody can see it.
        why: it does not hold, or is not known; empty where it does.
    """

    holds: bool | None
    why: str = ""

    @property
    def contradicted(self) -> bool:
        """Whether the clusters were seen to differ; that nobody compared them is less."""
        return self.holds is False and self.why != NO_PROOF


def endpoints_lead_to_source(facts: Facts) -> bool | None:
    """Whether every endpoint leads to the source; None where that is not known.

    Where drctl.yaml names no endpoints, the run that led clients back tells.
    """
    if not facts.endpoints:
        return True if facts.failed_back else None
    known = [each for each in facts.endpoints if isinstance(each, EndpointState)]
    if any(each.cluster not in (None, facts.source) for each in known):
        return False
    home = [each for each in known if each.cluster == facts.source]
    return True if len(home) == len(facts.endpoints) else None


def proof_of(facts: Facts) -> Proof:
    """Of comparisons in both directions, and of what was written since."""
    there = clean_there(facts)
    back = clean(facts.of_now(facts.reverse_gaps), facts.on_target, facts.on_source)
    if not (there and back):
        return Proof(False, NO_PROOF)
    if isinstance(facts.diverged, Unavailable):
        told = f"whether both clusters hold what was written since {facts.gaps[0].told}"
        return Proof(None, f"{told} is not known: {facts.diverged.reason}")
    return Proof(not facts.diverged, facts.diverged)


def clean_there(facts: Facts) -> bool:
    """Whether the target has all of the source but what was put aside or given up."""
    results = facts.of_now(facts.gaps)
    aside = decided_before(results[0], facts) if results else 0
    return clean(results, facts.on_source, facts.on_target, aside)


def clean(
    results: tuple[GapEvidence, ...],
    source: Cluster | Unavailable,
    target: Cluster | Unavailable,
    aside: int = 0,
) -> bool:
    """Whether the newest of them is of these clusters and found nothing.

    Args:
        aside: so many missing records are decided on.
    """
    if not results or isinstance(source, Unavailable) or isinstance(target, Unavailable):
        return False
    newest = results[0]
    grown = all(
        isinstance(log := source.logs.get(each.place), OffsetRange) and log.end >= each.source.end
        for each in newest.partitions
    )
    nothing = not (newest.unreplicated - aside or newest.duplicated)
    return grown and nothing and newest.is_whole_of(source.identity, target.identity)


@dataclass(frozen=True, slots=True)
class Situation:
    """The facts, and what follows from them.

    Attributes:
        gap: the result of `drctl gap` that the failback rests on.
        first: the one that tells where new records on the target begin; None where none does.
        endpoints_on_source: endpoints that send clients to the source.
        home: whether all of them do; None where that is not known.
        proof: whether both clusters were seen to hold the same.
        lost: where the source holds less than was copied from it.
        failed_back: the run that led clients back to the source, to its end, where clients are
            there and nothing contradicts it; else empty.
        not_needed: why there is nothing to fail back; empty where there is, or may be.
        unclear: why nobody can tell whether there is; empty where anything tells.
    """

    facts: Facts
    gap: ChosenResult
    first: GapEvidence | None
    endpoints_on_source: tuple[str, ...]
    home: bool | None
    proof: Proof
    lost: tuple[str, ...] = ()
    failed_back: str = ""
    not_needed: str = ""
    unclear: str = ""

    @property
    def boundaries(self) -> Mapping[TopicPartition, int]:
        """Where new records begin on the target, by its own partitions; empty: not known."""
        found = self.facts.boundaries
        return {} if isinstance(found, Unavailable) else found

    @property
    def arrived(self) -> Mapping[TopicPartition, ReverseStart | Unavailable]:
        """What came to the source since, by its partitions; without those where nothing did.

        Nothing that a comparison since the switch explains: there it is what applications
        write.
        """
        began = self.facts.reverse_start
        if isinstance(began, Unavailable) or (self.home is True and self.proof.holds is not False):
            return {}
        return {place: each for place, each in began.items() if each is not ReverseStart.NOTHING}

    @property
    def out_of_order_in(self) -> tuple[str, ...]:
        """Partitions with old records after new ones; once clients are back nothing is new."""
        behind = self.facts.out_of_order
        if isinstance(behind, Unavailable) or (self.home is True and self.proof.holds is not False):
            return ()
        return behind

    @property
    def reverse_runs(self) -> bool:
        """Whether something copies from the target to the source."""
        reverse = self.facts.reverse
        return isinstance(reverse, Replication) and reverse.runs

    @property
    def forward_runs(self) -> bool:
        """Whether something copies from the source to the target."""
        forward = self.facts.forward
        return isinstance(forward, Replication) and forward.runs

    @property
    def reverse_started(self) -> bool:
        """Whether it does, or did: what came first to the source was on the target before."""
        seen = (ReverseStart.BOUNDARY, ReverseStart.START)
        return self.reverse_runs or any(each in seen for each in self.arrived.values())

    @property
    def rebuilding(self) -> bool:
        """Whether the source has lost its records, and is to be rebuilt, or was."""
        if self.home is True and self.proof.holds is not False:
            return False
        return bool(self.lost) or (self.facts.filled and self.gap.valid is None)

    @property
    def proven(self) -> bool:
        """Whether comparisons in both directions found nothing missing and nothing twice."""
        return self.proof.holds is True


def situation(facts: Facts) -> Situation:
    """Conclude."""
    known = [each for each in facts.endpoints if isinstance(each, EndpointState)]
    endpoints_on_source = tuple(each.endpoint for each in known if each.cluster == facts.source)
    home, proof = endpoints_lead_to_source(facts), proof_of(facts)
    back = facts.failed_back if home is True and not proof.contradicted else ""
    if back and proof.holds is False:
        proof = Proof(None, f"by the journal run {back} led clients back to its end")
    chosen, lost = _chosen(facts, home, proof), lost_records(facts)
    not_needed = "" if back or lost else nothing_to_fail_back(facts, home)
    unclear = "" if not_needed or lost else why_undetermined(facts, home)
    first = reference(facts)
    return Situation(
        facts, chosen, first, endpoints_on_source, home, proof, lost, back, not_needed, unclear
    )


def _chosen(facts: Facts, home: bool | None, proof: Proof) -> ChosenResult:
    """After the switch applications write to the source again: its growth makes nothing stale."""
    if home is not True or proof.holds is False or not facts.gaps:
        return choose(facts)
    newest = facts.gaps[0]
    if proof.holds:
        return ChosenResult(ResultStatus.VALID, newest, newest.told)
    return ChosenResult(ResultStatus.UNKNOWN, newest, proof.why)


def out_of_order(seen: Situation) -> str:
    """That old records were copied after new ones of the target, in words.

    The offset of a record there no longer tells whether it is new: from any boundary on, either
    something new is left out, or something old is copied to the source a second time.
    """
    facts = seen.facts
    return (
        f"old records of {facts.source} follow new records of {facts.target} in"
        f" {listed(seen.out_of_order_in)}: forward replication ran while applications wrote to"
        f" {facts.target}, or copied aborted transactions. No offset separates old from new records"
    )


def rebuild_command(link: str) -> str:
    """The failback that needs no boundary: the source gets everything, in the target's order."""
    return f"drctl failback --link {quote(link)} --rebuild --override {WHOLE}=REASON"
