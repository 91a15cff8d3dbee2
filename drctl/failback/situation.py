"""Conclusions from the facts that several steps share."""

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
    JournaledRun,
    Replication,
    ReverseStart,
    Stopped,
)
from drctl.failback.gap_results import FULL, GapEvidence, PartitionResult
from drctl.failback.rebuilding import lost_records
from drctl.model.endpoints import EndpointState
from drctl.model.text import quote
from drctl.model.topology import OffsetRange, TopicPartition, Unavailable
from drctl.steps.failback import INTACT


class ResultStatus(StrEnum):
    """Whether a result is still valid."""

    VALID = "valid"
    STALE = "stale"
    INCOMPLETE = "incomplete"
    NONE = "none"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ChosenResult:
    """The result of `drctl gap` that the failback uses.

    Attributes:
        result: the newest if none is valid; None if there is none.
        why: why it is valid or not.
        written_to: whether the source was written to, or copied from, after the comparison.
    """

    status: ResultStatus
    result: GapEvidence | None
    why: str
    written_to: bool = False

    @property
    def valid(self) -> GapEvidence | None:
        """The result, if it is valid."""
        return self.result if self.status is ResultStatus.VALID else None


def choose(facts: Facts) -> ChosenResult:
    """Choose the newest valid result; else the newest, and why it is not valid."""
    judged = [_judge(result, facts) for result in facts.gaps]
    valid = next((each for each in judged if each.status is ResultStatus.VALID), None)
    if valid is not None:
        newer = judged[: judged.index(valid)]
        text = [
            f"a newer result is not usable: {each.why}"
            for each in newer
            if each.status is ResultStatus.INCOMPLETE
        ]
        return replace(valid, why="; ".join((valid.why, *text[:1])))
    if judged:
        return judged[0]
    why = (
        f"this host has no result of drctl gap from {facts.source} to {facts.target}; if"
        " one is stored elsewhere, pass its folder with --gap"
    )
    return ChosenResult(ResultStatus.NONE, None, why)


def reference(facts: Facts) -> GapEvidence | None:
    """The oldest result of the same source logs: the one closest to the failover.

    Records that drctl copied later do not change its count of new records on the target. Results
    whose unreplicated records something else has copied since then are skipped if possible.
    """
    same = over_the_same(facts)
    still = [r for r in same if not isinstance(facts.copied_since.get(r.where), str)]
    return (still or same)[-1] if same else None


def over_the_same(facts: Facts) -> tuple[GapEvidence, ...]:
    """The newest full result of these clusters, and others of the same source logs."""
    whole = [r for r in facts.of_now(facts.gaps) if r.complete and r.scope == FULL]
    known = [r for r in whole if not list(_other_clusters(r, facts))]
    return tuple(r for r in known if r.ends == known[0].ends)


def same_logs(one: GapEvidence, other: GapEvidence) -> bool:
    """Whether both cover the same source records; a topic may have been recreated."""
    if (one.source_id, one.ends) != (other.source_id, other.ends):
        return False
    ids = {each.place: each.topic_id for each in other.partitions}
    known = ((each.topic_id, ids[each.place]) for each in one.partitions)
    return all(this == that for this, that in known if this and that)


def _judge(result: GapEvidence, facts: Facts) -> ChosenResult:
    since = facts.left_since(result)
    if since:
        why = f"{result.label} is from before the failover to {facts.target} (run {since})"
        return ChosenResult(ResultStatus.STALE, result, why)
    source, target = facts.on_source, facts.on_target
    for name, seen in ((facts.source, source), (facts.target, target)):
        if isinstance(seen, Unavailable):
            why = f"cannot tell whether {result.label} is still valid: {name}: {seen.reason}"
            return ChosenResult(ResultStatus.UNKNOWN, result, why)
    assert isinstance(source, Cluster)
    assert isinstance(target, Cluster)
    stale = [*_other_clusters(result, facts), *_moved(result, facts, source, target)]
    if stale:
        why = f"{result.label} is stale: {several(stale)}"
        return ChosenResult(ResultStatus.STALE, result, why, _written_to(result, facts, source))
    unread = [*_unread(result, facts, source)]
    if unread:
        why = f"cannot tell whether {result.label} is still valid: {several(unread)}"
        return ChosenResult(ResultStatus.UNKNOWN, result, why)
    if not result.complete:
        why = several(result.not_compared) or "transactions were open"
        text = f"{result.label} is not complete: {why}"
        return ChosenResult(ResultStatus.INCOMPLETE, result, text)
    if result.scope != FULL:
        text = f"{result.label} has scope {result.scope}: run drctl gap --scope full"
        return ChosenResult(ResultStatus.INCOMPLETE, result, text)
    return ChosenResult(ResultStatus.VALID, result, result.label)


def _other_clusters(result: GapEvidence, facts: Facts) -> Iterator[str]:
    ends = (
        (facts.source, facts.on_source, result.source_id),
        (facts.target, facts.on_target, result.target_id),
    )
    for name, seen, identity in ends:
        if isinstance(seen, Cluster) and seen.identity != identity:
            yield f"cluster {name} was replaced (id {identity}, now {seen.identity})"


def _moved(result: GapEvidence, facts: Facts, source: Cluster, target: Cluster) -> Iterator[str]:
    recreated = [*_recreated(result, facts, source, target)]
    yield from recreated
    for against in (
        (facts.copied_since,) if recreated else (facts.source_mismatch, facts.copied_since)
    ):
        text = against.get(result.where)
        if isinstance(text, str):
            yield text
    known = {each.place for each in result.partitions}
    for place in sorted(source.logs.keys() - known):
        yield f"{place} was not compared"
    for each in result.partitions:
        log = source.logs.get(each.place)
        if log is None:
            yield f"{each.place} no longer exists on {facts.source}"
        elif isinstance(log, OffsetRange):
            yield from _moved_on_source(each, log, facts)
        there = target.logs.get(each.copy)
        if each.target and isinstance(there, OffsetRange) and there.end < each.target.end:
            yield (
                f"{each.copy} of {facts.target} was recreated: it ended at {each.target.end}, now"
                f" at {there.end}"
            )


def _recreated(
    result: GapEvidence, facts: Facts, source: Cluster, target: Cluster
) -> Iterator[str]:
    """Topics that were recreated, by Kafka's topic ids."""
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
            yield f"topic {topic} of {cluster} was recreated: id {before}, now {now}"


def located_by(facts: Facts, source: Cluster, target: Cluster) -> JournaledRun | None:
    """The newest failback that located the boundaries in the same logs; None if none did.

    They stay true, while compaction makes it impossible to count new records again.
    """
    same = over_the_same(facts)
    known = {
        each.id
        for each in same
        if not any(_recreated(each, facts, source, target))
        and not isinstance(facts.copied_since.get(each.where), str)
    }
    copies = {each.copy for result in same for each in result.partitions if each.target}
    located = (run for run in facts.runs if run.gap in known and run.boundaries.keys() >= copies)
    return next(located, None)


def _unread(result: GapEvidence, facts: Facts, source: Cluster) -> Iterator[str]:
    """Why it is unknown whether the logs changed."""
    for against in (facts.source_mismatch, facts.copied_since):
        text = against.get(result.where)
        if isinstance(text, Unavailable):
            yield text.reason
    for each in result.partitions:
        log = source.logs.get(each.place)
        if isinstance(log, Unavailable):
            yield f"{each.place} of {facts.source}: {log.reason}"
        elif log is not None and log.end > each.source.end and not _explained(each, facts):
            yield (
                f"{each.place} ended at {each.source.end}, now at {log.end}; cannot tell whether"
                " only reverse replication wrote to it"
            )


def _moved_on_source(each: PartitionResult, log: OffsetRange, facts: Facts) -> Iterator[str]:
    place, before = each.place, each.source
    if log.end < before.end:
        yield f"{place} was recreated or truncated: it ended at {before.end}, now at {log.end}"
    elif log.end > before.end and not (_explained(each, facts) or _perhaps(each, facts)):
        yield f"{facts.source} was written to: {place} ended at {before.end}, now at {log.end}"
    first = each.ranges[0][0] if each.ranges else None
    if first is not None and log.start > first:
        yield (
            f"unreplicated records of {place} from offset {first} were deleted: the log now starts"
            f" at {log.start}"
        )


def _perhaps(each: PartitionResult, facts: Facts) -> bool:
    """Whether reverse replication may have written these records."""
    reverse, began = facts.reverse, facts.reverse_start
    if isinstance(reverse, Unavailable) or reverse.never_ran:
        return False
    if isinstance(began, Unavailable):
        return True
    found = began.get(each.place)
    return found is ReverseStart.ELSEWHERE or isinstance(found, Unavailable)


def _written_to(result: GapEvidence, facts: Facts, source: Cluster) -> bool:
    """Whether writes after the comparison made a valid result invalid.

    A result from before the failover, or from before the source was fenced, is merely outdated.
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
    """Whether the result is of these clusters and found new records on the target."""
    if list(_other_clusters(result, facts)):
        return False
    return any(_saw_new(each, facts) for each in result.partitions)


def _saw_new(each: PartitionResult, facts: Facts) -> bool:
    """Whether records only on the target are new, not just deleted on the source."""
    known = facts.boundaries
    if each.target is None or not each.only_on_target or isinstance(known, Unavailable):
        return False
    return known.get(each.copy, -1) < each.target.end


def _explained(each: PartitionResult, facts: Facts) -> bool:
    """Whether reverse replication wrote the later records, judged by the first one."""
    if isinstance(facts.reverse_start, Unavailable):
        return False
    return facts.reverse_start.get(each.place) is ReverseStart.BOUNDARY


def nothing_to_fail_back(facts: Facts, all_on_source: bool | None) -> str:
    """Why there is nothing to fail back; else empty, also if that is unknown.

    Args:
        all_on_source: whether every endpoint points to the source; None if unknown.
    """
    seen = isinstance(facts.on_source, Cluster) and isinstance(facts.on_target, Cluster)
    back = isinstance(facts.reverse, Replication) and not facts.reverse.never_ran
    if not seen or back or not facts.never_moved or any(_evidence_of_failover(facts)):
        return ""
    forward = _forward(facts)
    no_run = f"journal: no run has moved clients to {facts.target}"
    if all_on_source is True and forward is not None:
        text = f"every endpoint points to {facts.source}"
    elif not facts.endpoints and forward and _no_group_active(facts):
        text = f"no group is active on {facts.target}"
    else:
        return ""
    return "; ".join(filter(None, (text, no_run, forward)))


def why_undetermined(facts: Facts, all_on_source: bool | None) -> str:
    """Why it is unknown whether clients have left the source; empty if it is known.

    Args:
        all_on_source: whether every endpoint points to the source; None if unknown.
    """
    if all_on_source is not None or _failover_seen(facts):
        return ""
    ends = facts.on_source, facts.on_target
    silent = (*ends, facts.journal, facts.groups, facts.forward, *facts.endpoints)
    text = [
        *(each.reason for each in silent if isinstance(each, Unavailable) and each != NO_WORKERS),
        *(f"{each.name}: {each.unseen}" for each in facts.known_groups if each.unseen),
        *(e.message for e in facts.endpoints if isinstance(e, EndpointState) and e.cluster is None),
    ]
    why = several(dict.fromkeys(text)) or "drctl.yaml names no endpoints"
    return f"cannot tell whether clients have left {facts.source}: {why}"


def _failover_seen(facts: Facts) -> bool:
    """Whether anything shows that clients have left the source and are not back."""
    active_there = any(facts.target in each.active_on for each in facts.known_groups)
    if facts.left_source or is_fenced(facts) or active_there:
        return True
    reverse = facts.reverse.copying if isinstance(facts.reverse, Replication) else ()
    if any(each.runs for each in reverse):
        return True
    # A finished failback may have left the other evidence.
    positions = (each.positions for each in reverse)
    copied_back = any(not isinstance(each, Unavailable) and each for each in positions)
    return not facts.failed_back and (
        copied_back or _stopped(facts) or any(_evidence_of_failover(facts))
    )


def _stopped(facts: Facts) -> bool:
    """Whether forward replication is stopped, as by a failover."""
    if isinstance(facts.forward, Replication):
        copying = facts.forward.copying
        return bool(copying) and all(each.idle for each in copying)
    return isinstance(facts.stopped, Stopped) and facts.stopped.held


def is_fenced(facts: Facts) -> bool:
    """Whether the source is fenced now."""
    return isinstance(facts.fence, Fence) and facts.fence.held is True


def _evidence_of_failover(facts: Facts) -> Iterator[bool]:
    """Evidence of a failover or of a started failback."""
    yield is_fenced(facts)
    yield any(saw_new_records(each, facts) for each in facts.gaps)
    for copies in (facts.drctl_copies, facts.returned_copies):
        yield isinstance(copies, Copies) and copies.total > 0
    yield bool(facts.left_missing)


def _forward(facts: Facts) -> str | None:
    """Say that forward replication runs; empty if that is unknown, None if it does not run."""
    runs = f"replication {facts.source} -> {facts.target} runs"
    if isinstance(facts.forward, Replication):
        return runs if facts.forward.runs else None
    if isinstance(facts.stopped, Stopped):
        return None if facts.stopped.held else runs
    # Configured but not reachable: not known to run.
    asked = facts.forward != NO_WORKERS or isinstance(facts.stopped, Unavailable)
    return None if asked else ""


def _no_group_active(facts: Facts) -> bool:
    if isinstance(facts.groups, Unavailable):
        return False
    return not any(each.unseen or facts.target in each.active_on for each in facts.groups)


def decided_before(result: GapEvidence, facts: Facts) -> int:
    """How many unreplicated records were quarantined or discarded with earlier results.

    0 if this result has decisions of its own: they include the earlier ones.
    """
    if isinstance(facts.decided, Unavailable) or facts.decided.get(result.id):
        return 0
    return sum(_before(each, facts.left_missing.get(each.place, ())) for each in result.partitions)


def _before(each: PartitionResult, left: tuple[tuple[int, int], ...]) -> int:
    """Count one partition; if its ranges do not list every record, all or none of them count."""
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


NO_PROOF = "full comparisons in both directions have not shown that the clusters match"


class Proof(NamedTuple):
    """Whether both clusters have the same records.

    Attributes:
        holds: None if unknown.
        why: why it does not hold or is unknown; else empty.
    """

    holds: bool | None
    why: str = ""

    @property
    def contradicted(self) -> bool:
        """Whether the clusters were seen to differ, rather than not compared."""
        return self.holds is False and self.why != NO_PROOF


def endpoints_point_to_source(facts: Facts) -> bool | None:
    """Whether every endpoint points to the source; None if unknown.

    Without endpoints in drctl.yaml, a finished failback run counts.
    """
    if not facts.endpoints:
        return True if facts.failed_back else None
    known = [each for each in facts.endpoints if isinstance(each, EndpointState)]
    if any(each.cluster not in (None, facts.source) for each in known):
        return False
    all_on_source = [each for each in known if each.cluster == facts.source]
    return True if len(all_on_source) == len(facts.endpoints) else None


def proof_of(facts: Facts) -> Proof:
    """Whether comparisons in both directions, and later records, match."""
    there = clean_there(facts)
    back = clean(facts.of_now(facts.reverse_gaps), facts.on_target, facts.on_source)
    if not (there and back):
        return Proof(False, NO_PROOF)
    if isinstance(facts.diverged, Unavailable):
        text = f"records written since {facts.gaps[0].label} were not compared"
        return Proof(None, f"{text}: {facts.diverged.reason}")
    return Proof(not facts.diverged, facts.diverged)


def clean_there(facts: Facts) -> bool:
    """Whether the target has every source record that was not quarantined or discarded."""
    results = facts.of_now(facts.gaps)
    aside = decided_before(results[0], facts) if results else 0
    return clean(results, facts.on_source, facts.on_target, aside)


def clean(
    results: tuple[GapEvidence, ...],
    source: Cluster | Unavailable,
    target: Cluster | Unavailable,
    aside: int = 0,
) -> bool:
    """Whether the newest result is of these clusters and found no difference.

    Args:
        aside: how many unreplicated records are decided.
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
    """The facts, and conclusions from them.

    Attributes:
        gap: the result of `drctl gap` that the failback uses.
        first: the result that gives the boundaries; None if none does.
        endpoints_on_source: endpoints that send clients to the source.
        all_on_source: whether all endpoints do; None if unknown.
        proof: whether both clusters have the same records.
        lost: partitions whose source log is shorter than what was replicated from it.
        failed_back: the finished failback run, if clients are on the source and nothing
            contradicts it; else empty.
        not_needed: why there is nothing to fail back; else empty, also if that is unknown.
        unclear: why it is unknown whether there is something to fail back; else empty.
    """

    facts: Facts
    gap: ChosenResult
    first: GapEvidence | None
    endpoints_on_source: tuple[str, ...]
    all_on_source: bool | None
    proof: Proof
    lost: tuple[str, ...] = ()
    failed_back: str = ""
    not_needed: str = ""
    unclear: str = ""

    @property
    def boundaries(self) -> Mapping[TopicPartition, int]:
        """The offsets of the first new records, by target partition; empty if unknown."""
        found = self.facts.boundaries
        return {} if isinstance(found, Unavailable) else found

    @property
    def arrived(self) -> Mapping[TopicPartition, ReverseStart | Unavailable]:
        """What the first added record shows, by source partition; only partitions that grew.

        Empty if clients are back and no comparison found a difference: applications write to them.
        """
        began = self.facts.reverse_start
        if isinstance(began, Unavailable) or (
            self.all_on_source is True and self.proof.holds is not False
        ):
            return {}
        return {place: each for place, each in began.items() if each is not ReverseStart.NOTHING}

    @property
    def out_of_order_in(self) -> tuple[str, ...]:
        """Partitions with old records after new ones; empty once clients are back."""
        out_of_order = self.facts.out_of_order
        if isinstance(out_of_order, Unavailable) or (
            self.all_on_source is True and self.proof.holds is not False
        ):
            return ()
        return out_of_order

    @property
    def reverse_runs(self) -> bool:
        """Whether reverse replication runs."""
        reverse = self.facts.reverse
        return isinstance(reverse, Replication) and reverse.runs

    @property
    def forward_runs(self) -> bool:
        """Whether forward replication runs."""
        forward = self.facts.forward
        return isinstance(forward, Replication) and forward.runs

    @property
    def reverse_started(self) -> bool:
        """Whether reverse replication runs, or has added records to the source."""
        seen = (ReverseStart.BOUNDARY, ReverseStart.START)
        return self.reverse_runs or any(each in seen for each in self.arrived.values())

    @property
    def rebuilding(self) -> bool:
        """Whether the source has lost its records and is, or must be, rebuilt."""
        if self.all_on_source is True and self.proof.holds is not False:
            return False
        return bool(self.lost) or (self.facts.filled and self.gap.valid is None)

    @property
    def proven(self) -> bool:
        """Whether comparisons in both directions found no difference."""
        return self.proof.holds is True


def situation(facts: Facts) -> Situation:
    """Derive the situation from the facts."""
    known = [each for each in facts.endpoints if isinstance(each, EndpointState)]
    endpoints_on_source = tuple(each.endpoint for each in known if each.cluster == facts.source)
    all_on_source, proof = endpoints_point_to_source(facts), proof_of(facts)
    back = facts.failed_back if all_on_source is True and not proof.contradicted else ""
    if back and proof.holds is False:
        proof = Proof(
            None, f"journal: run {back} failed back; the clusters have not been compared since then"
        )
    chosen, lost = _chosen(facts, all_on_source, proof), lost_records(facts)
    not_needed = "" if back or lost else nothing_to_fail_back(facts, all_on_source)
    unclear = "" if not_needed or lost else why_undetermined(facts, all_on_source)
    first = reference(facts)
    return Situation(
        facts,
        chosen,
        first,
        endpoints_on_source,
        all_on_source,
        proof,
        lost,
        back,
        not_needed,
        unclear,
    )


def _chosen(facts: Facts, all_on_source: bool | None, proof: Proof) -> ChosenResult:
    """Choose the result; once clients are back, it stays valid although the source grows."""
    if all_on_source is not True or proof.holds is False or not facts.gaps:
        return choose(facts)
    newest = facts.gaps[0]
    if proof.holds:
        return ChosenResult(ResultStatus.VALID, newest, newest.label)
    return ChosenResult(ResultStatus.UNKNOWN, newest, proof.why)


def out_of_order(seen: Situation) -> str:
    """Describes partitions with old records after new ones.

    No boundary is safe there: it would skip new records or copy old ones twice.
    """
    facts = seen.facts
    return (
        f"old records of {facts.source} follow new records of {facts.target} in"
        f" {listed(seen.out_of_order_in)}: forward replication ran while applications wrote to"
        f" {facts.target}, or copied aborted transactions. No offset separates old from new records"
    )


def rebuild_command(link: str) -> str:
    """The command for a failback that needs no boundary: it copies everything."""
    return f"drctl failback --link {quote(link)} --rebuild --override {INTACT}=REASON"
