"""Which missing records of a result earlier ones have put aside or given up."""

from drctl.failback.facts import Facts
from drctl.failback.gap_results import GapEvidence, PartitionSeen
from drctl.model.topology import Unavailable


def decided_before(result: GapEvidence, facts: Facts) -> int:
    """How many missing records earlier results have put aside or given up.

    0 where something was decided by way of this one: that tells of them, too.
    """
    if isinstance(facts.decided, Unavailable) or facts.decided.get(result.id):
        return 0
    return sum(_before(each, facts.left_missing.get(each.place, ())) for each in result.partitions)


def _before(each: PartitionSeen, left: tuple[tuple[int, int], ...]) -> int:
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
