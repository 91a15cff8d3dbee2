"""Judges steps c, d, e and g of a failback: unreplicated records and their copies."""

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
from drctl.model.topology import OffsetRange, TopicPartition, Unavailable


def missing_records(seen: Situation) -> StepState:
    """Whether a result of `drctl gap` is still about what the clusters hold."""
    result = seen.gap.valid
    if result is None:
        if seen.gap.standing is ResultStatus.UNKNOWN:
            return unknown(seen.gap.why)
        if seen.gap.standing is ResultStatus.STALE and not seen.gap.written_to:
            told = f"the comparison is to be repeated: {seen.gap.why}"
            fence = seen.facts.fence
            if isinstance(fence, Fence) and fence.held:
                # A fence that a person has set does not say since when it stands.
                told += "; if the fence stood by then already, somebody writes past it: find who"
            return not_done(told)
        return not_done(seen.gap.why)
    told = f"{result.unreplicated:,} records are missing on {seen.facts.target} ({seen.gap.why})"
    back = [place for place, each in seen.arrived.items() if each is ReverseStart.BOUNDARY]
    if back:
        told += (
            f"; {len(back):,} partitions of {seen.facts.source} have grown since, by what comes"
            " back: the first record of each is the first new one"
        )
    return done(told)


@dataclass(frozen=True, slots=True)
class Tally:
    """Missing records by what copying them would do."""

    safe: int
    conflicting: int
    unkeyed: int

    @property
    def told(self) -> str:
        """In words."""
        return f"{self.safe:,} safe, {self.conflicting:,} conflicting, {self.unkeyed:,} unkeyed"


def record_order(seen: Situation) -> StepState:
    """Whether it was judged; it is, wherever a result may be rested on."""
    result = seen.gap.valid
    if result is None:
        found = missing_records(seen)
        return StepState(found.observed, "it needs a result of drctl gap that holds (step c)")
    tally = tallied(result, seen.facts.order)
    return done(
        "; ".join(filter(None, (tally.told, _meaning(tally, seen), *_limits(result, seen))))
    )


def tallied(result: GapEvidence, order: str) -> Tally:
    """The counts, by what the applications need.

    A result that judged by key does not say of each record what its partition holds: there all of
    a partition count that may have something newer.
    """
    parts = result.partitions
    if order != "per-partition" or result.within is OrderScope.PARTITION:
        return Tally(
            sum(each.safe for each in parts),
            sum(each.conflicting for each in parts),
            sum(each.unkeyed for each in parts),
        )
    behind = sum(each.unreplicated for each in parts if _something_newer(each))
    return Tally(result.unreplicated - behind, behind, 0)


def _something_newer(each: PartitionResult) -> bool:
    """Whether the partition may hold something newer on the target than what is missing."""
    tail = each.ranges_total == 1 and each.ranges and each.ranges[0][1] == each.source.end - 1
    return bool(each.unreplicated) and not (tail and each.only_on_target == 0)


def _meaning(tally: Tally, seen: Situation) -> str:
    if not tally.conflicting:
        return ""
    what = "partition" if seen.facts.order == "per-partition" else "key"
    told = f"copying a conflicting one puts it behind something newer of its {what}"
    if seen.facts.order == "none":
        return f"{told}; policy.order is none: no order is needed"
    return f"{told}: give them a rule of their own"


def _limits(result: GapEvidence, seen: Situation) -> tuple[str, ...]:
    """What the counts do not say."""
    told = []
    if result.inversions is None:
        told.append("records that are on both sides were not checked for another order")
    elif result.inversions:
        told.append(f"{result.inversions:,} records on both sides stand in another order")
    grown = _grown(result, seen)
    if grown:
        told.append(
            f"{seen.facts.target} has grown by {grown:,} offsets since: what was safe may conflict"
            " by now"
        )
    return tuple(told)


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
_PAST = {_COPY: "copied", "quarantine": "quarantined", "discard": "given up"}


def reconciled(seen: Situation) -> StepState:
    """Whether nothing is left to decide."""
    found, behind = _reconciled(seen), known_out_of_order(seen)
    return replace(found, why=f"{found.why}; {behind}") if behind else found


def _reconciled(seen: Situation) -> StepState:
    result, facts = seen.gap.valid, seen.facts
    if result is None:
        waiting = "what is missing is not known, so nothing can have been decided"
        return (unknown if seen.gap.standing is ResultStatus.UNKNOWN else not_done)(waiting)
    if not result.unreplicated:
        return done(f"nothing of {facts.source} is missing on {facts.target}")
    for asked, kept in _decisions(result, facts):
        if sum(kept.values()) >= asked.unreplicated:
            return done(f"all {asked.unreplicated:,} missing records are decided: {_told(kept)}")
    before = decided_before(result, facts)
    if before >= result.unreplicated:
        return done(
            f"all {before:,} missing records were quarantined or given up by way of earlier results"
        )
    if isinstance(facts.drctl_copies, Unavailable):
        return unknown(f"whether missing records were brought over: {facts.drctl_copies.reason}")
    there = sum(map(len, brought(result, facts.drctl_copies).values()))
    if there >= result.unreplicated:
        return done(f"all {result.unreplicated:,} missing records have a copy on {facts.target}")
    return _left(result, facts, there)


def _left(result: GapEvidence, facts: Facts, there: int) -> StepState:
    """Some records have no decision that could be seen."""
    if isinstance(facts.decided, Unavailable):
        return unknown(
            f"what was decided is not known: {facts.decided.reason}", started=bool(there)
        )
    known = [(each.unreplicated, kept) for each, kept in _decisions(result, facts)]
    total, kept = max(known, key=lambda row: sum(row[1].values()), default=(0, {}))
    some = sum(kept.values())
    if result.id and result.id in facts.exported:
        return unknown(
            f"an export of it is on this machine; {result.unreplicated:,} records are missing on"
            f" {facts.target}, and whether that is what was wanted no cluster tells",
            started=bool(some or there),
        )
    if some or there:
        told = (
            f"{some:,} of {total:,} missing records are decided ({_told(kept)})"
            if some
            else f"{there:,} of {result.unreplicated:,} missing records have a copy"
        )
        return not_done(f"it is half done: {told}", started=True)
    if before := decided_before(result, facts):
        return not_done(
            f"of {result.unreplicated:,} missing records {before:,} were quarantined or given up by"
            f" way of earlier results; the others have neither a copy on {facts.target} nor a"
            " decision"
        )
    return not_done(
        f"{result.unreplicated:,} missing records have neither a copy on {facts.target} nor a"
        " decision"
    )


def _told(kept: Mapping[Decision, int]) -> str:
    by_action: Counter[str] = Counter()
    for each, records in kept.items():
        by_action[each.action] += records
    return ", ".join(f"{n:,} {_PAST.get(action, action)}" for action, n in by_action.items() if n)


def brought(result: GapEvidence, copies: Copies) -> Mapping[TopicPartition, frozenset[int]]:
    """Which of the missing offsets have a copy on the target."""
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
    """How many records of the source as it is were copied by drctl, by whatever tells of most."""
    brought_over = seen.facts.drctl_copies
    there = 0 if isinstance(brought_over, Unavailable) else brought_over.total
    return max(there, sum(n for each, n in _all(seen) if each.action == _COPY))


def copied_conflicting(seen: Situation) -> int:
    """How many of them something newer was in front of, and were copied as somebody decided."""
    return sum(n for each, n in _all(seen) if each == Decision("conflicting", _COPY))


def known_out_of_order(seen: Situation) -> str:
    """What the target has in another order by such decisions; empty where nothing, or none cares.

    On the source the order is right: there the originals are where they were.
    """
    number = copied_conflicting(seen)
    if not number or seen.facts.order == "none":
        return ""
    return (
        f"{number:,} conflicting ones were copied, as was decided: on {seen.facts.target} they"
        " stand behind newer ones"
    )


def _all(seen: Situation) -> Iterator[tuple[Decision, int]]:
    """Decisions of an earlier failover are on other records, and tell nothing of this one."""
    result = seen.gap.valid or seen.first
    for _, kept in _decisions(result, seen.facts) if result is not None else ():
        yield from kept.items()


def _decisions(
    result: GapEvidence, facts: Facts
) -> Iterator[tuple[GapEvidence, Mapping[Decision, int]]]:
    """What was decided on the result, and on others over the same logs of the source."""
    if isinstance(facts.decided, Unavailable):
        return
    for each in facts.gaps:
        if same_logs(each, result) and each.id in facts.decided:
            yield each, facts.decided[each.id]


_LEFT_OUT = f"records with header {HEADER} are left out on the way back"


def returning_copies(seen: Situation) -> StepState:
    """Whether there is anything to keep away, and whether something does."""
    facts = seen.facts
    before = reconciled(seen)
    if isinstance(facts.returned_copies, Copies) and facts.returned_copies.total:
        return not_done(
            f"{facts.returned_copies.total:,} records that were brought over have come back to"
            f" {facts.source}: it holds them twice",
            started=True,
        )
    home = after_failback(seen)
    if home is not None:
        return home
    if before.observed is Observed.UNKNOWN:
        return unknown("what was brought over is not known (step e)")
    if before.observed is Observed.NOT_DONE:
        return not_done("it is not decided yet what is brought over (step e)")
    total = copied(seen)
    if total:
        return _kept_away(seen, total)
    if not isinstance(facts.drctl_copies, Unavailable) and facts.drctl_copies.whole:
        return done("nothing was brought over, so nothing can come back")
    # Also by way of results that are not at hand.
    if isinstance(facts.decided, Unavailable) or any(
        each.action == _COPY for kept in facts.decided.values() for each in kept
    ):
        if _left_out(facts.reverse) and isinstance(facts.returned_copies, Copies):
            return done(_LEFT_OUT)
        return unknown(
            f"too much was written to {facts.target} to look through it for copies: nobody knows"
            " whether any of an earlier result were brought over"
        )
    return done("drctl reconcile has copied nothing, so nothing can come back")


def _kept_away(seen: Situation, brought: int) -> StepState:
    reverse = seen.facts.reverse
    if isinstance(reverse, Unavailable):
        return unknown(f"whether {brought:,} copies are left out cannot be seen: {reverse.reason}")
    if not isinstance(seen.facts.returned_copies, Copies):
        # What leaves them out now may have been added behind the first that came.
        why = seen.facts.returned_copies.reason
        return unknown(f"whether any of {brought:,} copies came back is not known: {why}")
    if _left_out(reverse):
        return done(_LEFT_OUT)
    return not_done(
        f"{brought:,} copies of its own records are on {seen.facts.target}, and nothing"
        f" leaves records with header {HEADER} out on the way back"
    )


def _left_out(reverse: Replication | Unavailable) -> bool:
    """Whether whatever copies back leaves copies out."""
    copying = () if isinstance(reverse, Unavailable) else reverse.copying
    return bool(copying) and all(drops_copies(each.config) for each in copying)
