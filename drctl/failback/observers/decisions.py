"""What `drctl reconcile` has done with missing records, as the target keeps it with the records."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from drctl.failback.facts import Decided, Decision, LeftMissing
from drctl.reconcile.left_before import left_of
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


def observe_left_missing(
    kept: Callable[[], Mapping[Key, Progress]], source_id: str, topic_ids: Mapping[str, str]
) -> LeftMissing:
    """What any result has left missing of the topics as they are.

    Args:
        topic_ids: of the source's topics now: one that was made anew holds other records.

    Raises:
        Unreachable: the target did not answer.
        Unknown: what it keeps is not what this drctl understands.
    """
    found = left_of(kept(), source_id, topic_ids)
    return {
        place: _merged(run for left in lefts for run in left.runs) for place, lefts in found.items()
    }


def _merged(runs: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(runs):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(merged[-1][1], last)
        else:
            merged.append((first, last))
    return tuple(merged)
