"""Replicated records that stand in another order on the target, in words."""

from drctl.model.gap import GapResult
from drctl.model.gap_order import Inversion, OrderScope
from drctl.report.printable import number, plain, plural

_WITHIN = {OrderScope.KEY: "of the same key", OrderScope.PARTITION: "of the same partition"}
EXAMPLES = 3


def disorder(result: GapResult) -> tuple[str, ...]:
    """What a look at the order found; nothing where nobody looked."""
    found, count = result.inversions, result.order.inversions
    if found is None or count is None:
        return ()
    target, within = plain(result.target), _WITHIN[result.within]
    if not count:
        return (f"Replicated records {within} have kept their order on {target}.",)
    said = ", ".join(_said(each) for each in found[:EXAMPLES])
    more = ", and so on (inversions/ has them all)" if count > EXAMPLES else ""
    verb = "stands" if count == 1 else "stand"
    return (
        f"{plural(count, 'replicated record')} {verb} on {target} before a record {within} that"
        f" {plain(result.source)} has in front: {said}{more}.",
    )


def _said(each: Inversion) -> str:
    place = f"{plain(each.topic)}-{each.partition}"
    there = "" if each.partition == each.target_partition else f" in {each.target_partition}"
    return (
        f"{place} {number(each.offset)} (there at {number(each.target_offset)}{there}) and"
        f" {number(each.earlier_offset)} (there at {number(each.earlier_target_offset)})"
    )
