"""What `drctl reconcile` has done with missing records, as the target keeps it with the records."""

from collections import Counter
from collections.abc import Callable, Mapping

from drctl.failback.facts import Decided, Decision
from drctl.reconcile.progress import Key, Progress


def observe_decisions(kept: Callable[[], Mapping[Key, Progress]], source_id: str) -> Decided:
    """By result of `drctl gap`: how many records were treated how.

    Args:
        source_id: id of the cluster that the records come from.

    Raises:
        Unreachable: the target did not answer.
        Unknown: what it keeps is not what this drctl understands.
    """
    found: dict[str, Counter[Decision]] = {}
    for key, progress in kept().items():
        if key.source_id != source_id:
            continue
        for each in progress.segments:
            decision = Decision(key.lane.order.value, each.action.value)
            found.setdefault(key.result, Counter())[decision] += each.records + each.gone
    return found
