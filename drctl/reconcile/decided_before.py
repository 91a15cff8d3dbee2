"""Sees that records are not decided on twice, by two gap results.

What was put aside or given up by way of one is still missing, and a newer one lists it again.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from drctl.model.topology import TopicPartition
from drctl.reconcile.guards import Guard, Objection
from drctl.reconcile.policy import RECORDED, Action
from drctl.reconcile.progress import Kept, Key, Progress
from drctl.reconcile.rows import WantedRows
from drctl.reconcile.sight import SideSight

if TYPE_CHECKING:
    from drctl.reconcile.gap_result import FoundGap
    from drctl.reconcile.planning import Line

_LEFT_MISSING = (Action.QUARANTINE, Action.DISCARD)


def decided_before(
    gap: "FoundGap", lines: "Iterable[Line]", rows: WantedRows, source: SideSight, kept: Kept
) -> Iterator[Objection]:
    """Where records that are about to be acted on may have been decided on by another result.

    What is kept tells up to which offset a result's records were done, not which these were: others
    in between are taken for some of them.
    """
    others = _others(gap, source, kept)
    by_place: dict[TopicPartition, list[Line]] = {}
    for line in lines:
        if line.acts and line.action in RECORDED and line.lane.place in others:
            by_place.setdefault(line.lane.place, []).append(line)
    for place, acting in by_place.items():
        through = {line.lane.order: line.through for line in acting}
        counts = _counts(rows.offsets_after(place, through), others[place])
        for result, records in sorted(counts.items()):
            reason = (
                f"{records:,} of the records lie where gap result {result} had records quarantined"
                " or discarded, which would be decided on twice: go on with that result, or pass"
                " this over in `drctl reconcile`"
            )
            yield Objection(Guard.DECIDED_BEFORE, place, reason)


def _others(
    gap: "FoundGap", source: SideSight, kept: Kept
) -> Mapping[TopicPartition, list[tuple[Key, Progress]]]:
    """By partition what other results have left missing of the same topic."""
    found: dict[TopicPartition, list[tuple[Key, Progress]]] = {}
    for key, progress in kept.items():
        place = key.lane.place
        other = key.source_id == gap.source_id and key.result != gap.id
        same_topic = progress.source_topic_id == source.topic_id(place.topic)
        if other and same_topic and any(s.action in _LEFT_MISSING for s in progress.segments):
            found.setdefault(place, []).append((key, progress))
    return found


def _counts(offsets: Iterable[int], others: list[tuple[Key, Progress]]) -> Mapping[str, int]:
    """By result how many of these offsets lie among what it left missing; each counts once."""
    found: Counter[str] = Counter()
    for offset in offsets:
        result = next((key.result for key, told in others if _is_left(told, offset)), None)
        if result is not None:
            found[result] += 1
    return found


def _is_left(progress: Progress, offset: int) -> bool:
    at = bisect_left(progress.segments, offset, key=lambda segment: segment.through)
    return at < len(progress.segments) and progress.segments[at].action in _LEFT_MISSING
