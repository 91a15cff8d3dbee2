"""Step d: what copying each missing record would do to the order of its key, or partition."""

from dataclasses import dataclass

from drctl.failback.facts import Cluster
from drctl.failback.gap_results import GapEvidence, PartitionSeen
from drctl.failback.situation import Situation
from drctl.failback.step import Seen, done
from drctl.failback.steps.missing_records import missing_records
from drctl.model.gap_order import OrderScope
from drctl.model.topology import OffsetRange


@dataclass(frozen=True, slots=True)
class Tally:
    """Missing records by what copying them would do."""

    safe: int
    conflicting: int
    unkeyed: int


def record_order(seen: Situation) -> Seen:
    """Whether it was judged; it is, wherever a result may be rested on."""
    result = seen.gap.valid
    if result is None:
        found = missing_records(seen)
        return Seen(found.observed, "it needs a result of drctl gap that holds (step c)")
    tally = tallied(result, seen.facts.order)
    told = f"{tally.safe:,} safe, {tally.conflicting:,} conflicting, {tally.unkeyed:,} unkeyed"
    return done("; ".join(filter(None, (told, _meaning(tally, seen), *_limits(result, seen)))))


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


def _something_newer(each: PartitionSeen) -> bool:
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
