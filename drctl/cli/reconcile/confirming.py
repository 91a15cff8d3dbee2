"""What `drctl reconcile` is about to do, in words, before somebody says go on."""

from collections import Counter
from typing import TYPE_CHECKING

from drctl.cli.confirmation import confirm
from drctl.report.printable import plain, plural

if TYPE_CHECKING:
    from drctl.reconcile.planning import ReconcilePlan


def confirm_plan(plan: "ReconcilePlan", *, yes: bool) -> None:
    """Go on only if somebody said so; an export alone writes to no cluster and asks nothing.

    Raises:
        Refused: nobody confirmed.
    """
    if plan.recorded:
        confirm(plan.gap.target, in_words(plan), yes=yes)


def in_words(plan: "ReconcilePlan") -> str:
    """`copies 12 records to orders, discards 3 records of audit for good`."""
    counts: Counter[tuple[str, str]] = Counter()
    for line in plan.recorded:
        named = f"to {line.to}" if line.to else f"of {line.lane.place.topic} for good"
        counts[line.action.value, plain(named)] += line.due.records
    return ", ".join(
        f"{_VERBS[action]} {plural(count, 'record')} {named}"
        for (action, named), count in counts.items()
    )


_VERBS = {"copy": "copies", "quarantine": "copies", "discard": "discards"}
