"""State of steps c, d, e and g of a failback: unreplicated records and their copies."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from drctl.engine.failback_state import drops_copies
from drctl.failback.facts import Cluster, Copies, Decision, Facts, Fence, Replication, ReverseStart
from drctl.failback.gap_results import GapEvidence, PartitionResult
from drctl.failback.situation import ResultStatus, Situation, decided_before, same_logs
from drctl.failback.steps import Observed, StepState, after_failback, done, not_done, unknown
from drctl.formats.provenance import HEADER
from drctl.model.gap import OrderScope
from drctl.model.text import plural
from drctl.model.topology import OffsetRange, TopicPartition, Unavailable


def missing_records(seen: Situation) -> StepState:
    """Whether a result of `drctl gap` still matches the clusters."""
    result = seen.gap.valid
    if result is None:
        if seen.gap.status is ResultStatus.UNKNOWN:
            return unknown(seen.gap.why)
        if seen.gap.status is ResultStatus.STALE and not seen.gap.written_to:
            text = f"repeat the comparison: {seen.gap.why}"
            fence = seen.facts.fence
            if isinstance(fence, Fence) and fence.held:
                # It is unknown since when a fence set by hand has been in place.
                text += "; if the fence was already set, find the producer that still writes"
            return not_done(text)
        return not_done(seen.gap.why)
    count = plural(result.unreplicated, "record is", "records are")
    text = f"{count} not replicated to {seen.facts.target} ({seen.gap.why})"
    back = [place for place, each in seen.arrived.items() if each is ReverseStart.BOUNDARY]
    if back:
        text += (
            f"; reverse replication has since added records to {plural(len(back), 'partition')} of"
            f" {seen.facts.source}, from the boundary"
        )
    return done(text)


@dataclass(frozen=True, slots=True)
class Tally:
    """Unreplicated records by the effect that copying them would have on order."""

    safe: int
    conflicting: int
    unkeyed: int

    @property
    def text(self) -> str:
        """The counts as text."""
        return f"{self.safe:,} safe, {self.conflicting:,} conflicting, {self.unkeyed:,} unkeyed"


def record_order(seen: Situation) -> StepState:
    """Whether unreplicated records are classified; they are if a result is valid."""
    result = seen.gap.valid
    if result is None:
        found = missing_records(seen)
        return StepState(found.observed, "it needs a valid result of drctl gap (step c)")
    tally = tallied(result, seen.facts.order)
    return done(
        "; ".join(filter(None, (tally.text, _meaning(tally, seen), *_limits(result, seen))))
    )


def tallied(result: GapEvidence, order: str) -> Tally:
    """The counts, by the order that the applications need.

    A result per key does not compare records with newer ones of their partition: if the partition
    may have newer records, all its unreplicated records count as conflicting.
    """
    parts = result.partitions
    if order != "per-partition" or result.within is OrderScope.PARTITION:
        return Tally(
            sum(each.safe for each in parts),
            sum(each.conflicting for each in parts),
            sum(each.unkeyed for each in parts),
        )
    conflicting = sum(each.unreplicated for each in parts if _something_newer(each))
    return Tally(result.unreplicated - conflicting, conflicting, 0)


def _something_newer(each: PartitionResult) -> bool:
    """Whether the target partition may have newer records than the missing ones."""
    tail = each.ranges_total == 1 and each.ranges and each.ranges[0][1] == each.source.end - 1
    return bool(each.unreplicated) and not (tail and each.only_on_target == 0)


def _meaning(tally: Tally, seen: Situation) -> str:
    if not tally.conflicting:
        return ""
    what = "partition" if seen.facts.order == "per-partition" else "key"
    text = f"copying a conflicting record puts it after a newer one of its {what}"
    if seen.facts.order == "none":
        return f"{text}; allowed by policy.order none"
    return f"{text}: decide with --conflicting"


def _limits(result: GapEvidence, seen: Situation) -> tuple[str, ...]:
    """What the counts do not cover."""
    text = []
    if result.inversions is None:
        text.append("the order of records that are on both clusters was not compared")
    elif result.inversions:
        text.append(f"records in a different order on the two clusters: {result.inversions:,}")
    grown = _grown(result, seen)
    if grown:
        text.append(
            f"{plural(grown, 'offset was', 'offsets were')} written to {seen.facts.target} after"
            " the comparison: safe records may now conflict"
        )
    return tuple(text)


def _grown(result: GapEvidence, seen: Situation) -> int:
    target = seen.facts.on_target
    if not isinstance(target, Cluster):
        return 0
    total = 0
    for each in result.partitions:
        log = target.logs.get(each.copy)
        if each.target is not None and isinstance(log, OffsetRange):
            total += max(0, log.end - each.target.end)
    return total


_COPY = "copy"
_PAST = {_COPY: "copied", "quarantine": "quarantined", "discard": "discarded"}


def reconciled(seen: Situation) -> StepState:
    """Whether every unreplicated record is copied or decided."""
    found, out_of_order = _reconciled(seen), known_out_of_order(seen)
    return replace(found, why=f"{found.why}; {out_of_order}") if out_of_order else found


def _reconciled(seen: Situation) -> StepState:
    result, facts = seen.gap.valid, seen.facts
    if result is None:
        waiting = "the unreplicated records are not known (step c)"
        return (unknown if seen.gap.status is ResultStatus.UNKNOWN else not_done)(waiting)
    if not result.unreplicated:
        return done(f"no record of {facts.source} is missing on {facts.target}")
    for asked, kept in _decisions(result, facts):
        if sum(kept.values()) >= asked.unreplicated:
            return done(
                f"unreplicated records with a decision: all {asked.unreplicated:,}"
                f" ({_counts(kept)})"
            )
    before = decided_before(result, facts)
    if before >= result.unreplicated:
        return done(
            f"unreplicated records quarantined or discarded with earlier results: all {before:,}"
        )
    if isinstance(facts.drctl_copies, Unavailable):
        return unknown(f"copies of unreplicated records are unknown: {facts.drctl_copies.reason}")
    there = sum(map(len, offsets_with_copy(result, facts.drctl_copies).values()))
    if there >= result.unreplicated:
        return done(
            f"unreplicated records with a copy on {facts.target}: all {result.unreplicated:,}"
        )
    return _left(result, facts, there)


def _left(result: GapEvidence, facts: Facts, there: int) -> StepState:
    """The state where some records have no visible decision."""
    if isinstance(facts.decided, Unavailable):
        return unknown(f"decisions are unknown: {facts.decided.reason}", started=bool(there))
    known = [(each.unreplicated, kept) for each, kept in _decisions(result, facts)]
    total, kept = max(known, key=lambda row: sum(row[1].values()), default=(0, {}))
    some = sum(kept.values())
    if result.id and result.id in facts.exported:
        return unknown(
            f"this host has an export of the {plural(result.unreplicated, 'record')} missing on"
            f" {facts.target}; confirm that nothing else is to be done with them",
            started=bool(some or there),
        )
    if some or there:
        text = (
            f"unreplicated records with a decision: {some:,} of {total:,} ({_counts(kept)})"
            if some
            else f"unreplicated records with a copy: {there:,} of {result.unreplicated:,}"
        )
        return not_done(f"in progress: {text}", started=True)
    if before := decided_before(result, facts):
        return not_done(
            f"unreplicated records quarantined or discarded with earlier results: {before:,} of"
            f" {result.unreplicated:,}; the others have no copy on {facts.target} and no decision"
        )
    return not_done(
        f"unreplicated records without a copy on {facts.target} and without a decision:"
        f" {result.unreplicated:,}"
    )


def _counts(kept: Mapping[Decision, int]) -> str:
    by_action: Counter[str] = Counter()
    for each, records in kept.items():
        by_action[each.action] += records
    return ", ".join(f"{n:,} {_PAST.get(action, action)}" for action, n in by_action.items() if n)


def offsets_with_copy(
    result: GapEvidence, copies: Copies
) -> Mapping[TopicPartition, frozenset[int]]:
    """The missing offsets that have a copy on the target."""
    return {
        each.place: frozenset(
            offset
            for offset in offsets
            if any(first <= offset <= last for first, last in each.ranges)
        )
        for each in result.partitions
        if (offsets := copies.offsets.get(each.place))
    }


def copied(seen: Situation) -> int:
    """How many records of the source drctl copied, by the larger of two counts."""
    copies = seen.facts.drctl_copies
    there = 0 if isinstance(copies, Unavailable) else copies.total
    return max(there, sum(n for each, n in _all(seen) if each.action == _COPY))


def copied_conflicting(seen: Situation) -> int:
    """How many conflicting records were copied by decision."""
    return sum(n for each, n in _all(seen) if each == Decision("conflicting", _COPY))


def known_out_of_order(seen: Situation) -> str:
    """Records that are out of order on the target by decision; empty if policy.order is none.

    On the source the originals are in order.
    """
    number = copied_conflicting(seen)
    if not number or seen.facts.order == "none":
        return ""
    return (
        f"conflicting records that were copied by decision: {number:,}; they follow newer records"
        f" on {seen.facts.target}"
    )


def _all(seen: Situation) -> Iterator[tuple[Decision, int]]:
    """Decisions on the current records; those of an earlier failover do not count."""
    result = seen.gap.valid or seen.first
    for _, kept in _decisions(result, seen.facts) if result is not None else ():
        yield from kept.items()


def _decisions(
    result: GapEvidence, facts: Facts
) -> Iterator[tuple[GapEvidence, Mapping[Decision, int]]]:
    """Decisions on the result, and on other results of the same source logs."""
    if isinstance(facts.decided, Unavailable):
        return
    for each in facts.gaps:
        if same_logs(each, result) and each.id in facts.decided:
            yield each, facts.decided[each.id]


_LEFT_OUT = f"reverse replication excludes records with header {HEADER}"


def returning_copies(seen: Situation) -> StepState:
    """Whether reconciled records are excluded from reverse replication, or there are none."""
    facts = seen.facts
    before = reconciled(seen)
    if isinstance(facts.returned_copies, Copies) and facts.returned_copies.total:
        return not_done(
            f"reconciled records that were copied back to {facts.source}, which has them twice:"
            f" {facts.returned_copies.total:,}",
            started=True,
        )
    after = after_failback(seen)
    if after is not None:
        return after
    if before.observed is Observed.UNKNOWN:
        return unknown("the reconciled records are not known (step e)")
    if before.observed is Observed.NOT_DONE:
        return not_done("unreplicated records are not reconciled yet (step e)")
    total = copied(seen)
    if total:
        return _copies_excluded(seen, total)
    if not isinstance(facts.drctl_copies, Unavailable) and facts.drctl_copies.whole:
        return done("no record was reconciled by copying")
    # Results of other hosts count, too.
    if isinstance(facts.decided, Unavailable) or any(
        each.action == _COPY for kept in facts.decided.values() for each in kept
    ):
        if _left_out(facts.reverse) and isinstance(facts.returned_copies, Copies):
            return done(_LEFT_OUT)
        return unknown(
            f"too many records were written to {facts.target} to search them for copies made with"
            " earlier results"
        )
    return done("drctl reconcile has copied no record")


def _copies_excluded(seen: Situation, copied: int) -> StepState:
    reverse = seen.facts.reverse
    if isinstance(reverse, Unavailable):
        return unknown(f"reverse replication: {reverse.reason}")
    if not isinstance(seen.facts.returned_copies, Copies):
        # The filter may have been added after the first copy was replicated back.
        why = seen.facts.returned_copies.reason
        return unknown(
            f"cannot tell whether any of {plural(copied, 'copy', 'copies')} was copied back: {why}"
        )
    if _left_out(reverse):
        return done(_LEFT_OUT)
    return not_done(
        f"{seen.facts.target} has {plural(copied, 'reconciled record')}, and reverse"
        " replication does not"
        f" exclude header {HEADER}"
    )


def _left_out(reverse: Replication | Unavailable) -> bool:
    """Whether every reverse connector excludes reconciled records."""
    copying = () if isinstance(reverse, Unavailable) else reverse.copying
    return bool(copying) and all(drops_copies(each.config) for each in copying)
