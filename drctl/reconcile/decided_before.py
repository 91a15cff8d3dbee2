"""Sees that records are not decided on twice, by two gap results.

What was put aside or given up by way of one is still missing, and a newer one lists it again. Where
progress says which these are, the decision is taken over; else they stand against acting.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from drctl.model.topology import TopicPartition
from drctl.reconcile.guards import Guard, Objection
from drctl.reconcile.left import LeftBuilder
from drctl.reconcile.policy import LEFT_MISSING, RECORDED, Action
from drctl.reconcile.progress import Kept, Lane, Progress, Segment
from drctl.reconcile.rows import WantedRow, WantedRows
from drctl.reconcile.sight import SideSight

if TYPE_CHECKING:
    from drctl.reconcile.gap_result import FoundGap
    from drctl.reconcile.planning import Line


class Other(NamedTuple):
    """What another result did with a lane of the same partition, where it left records missing."""

    result: str
    progress: Progress


Others = Mapping[TopicPartition, list[Other]]


class _Decision(NamedTuple):
    """What became of records; taken over as it is."""

    action: Action
    to: str


def others(gap: "FoundGap", source: SideSight, kept: Kept) -> Others:
    """By partition what other results have left missing of the same topic."""
    found: dict[TopicPartition, list[Other]] = {}
    for key, progress in kept.items():
        place = key.lane.place
        other = key.source_id == gap.source_id and key.result != gap.id
        same_topic = progress.source_topic_id == source.topic_id(place.topic)
        if other and same_topic and any(s.action in LEFT_MISSING for s in progress.segments):
            found.setdefault(place, []).append(Other(key.result, progress))
    return found


def taken_over(lane: Lane, own: Progress, rows: WantedRows, others: Others) -> Progress:
    """The progress of a lane, gone on with by records that others have decided on.

    That is as far as there is no record between them that still has to be decided on.
    """
    decided = _decided(lane, own, rows, others.get(lane.place, []))
    for decision, of_it in groupby(decided, key=lambda each: each[1]):
        own = own.after(_segment(decision, (row for row, _ in of_it)))
    return own


def decided_before(
    gap: "FoundGap", lines: "Iterable[Line]", rows: WantedRows, others: Others
) -> Iterator[Objection]:
    """Where records that are about to be acted on may have been decided on by another result.

    Where what is kept tells no more than up to which offset a result's records were done, others in
    between are taken for some of them.
    """
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


def _decided(
    lane: Lane, own: Progress, rows: WantedRows, known: Iterable[Other]
) -> Iterator[tuple[WantedRow, _Decision]]:
    """The next records of the lane, up to the first that nobody is known to have decided on."""
    parts = [
        (segment.left, _Decision(segment.action, segment.to))
        for other in known
        for segment in other.progress.segments
        if segment.action in LEFT_MISSING and segment.left is not None
    ]
    if not parts:
        return
    for row in rows.after(lane.place, {lane.order: own.through}):
        found = next((what for left, what in parts if left.holds(*row[:2])), None)
        if found is None:
            return
        yield row, found


def _segment(decision: _Decision, rows: Iterable[WantedRow]) -> Segment:
    through, records, size, left = -1, 0, 0, LeftBuilder()
    for offset, timestamp_ms, _, of_it, _ in rows:
        through, records, size = offset, records + 1, size + of_it
        left.add(offset, timestamp_ms)
    return Segment(decision.action, through, records, size, to=decision.to, left=left.left)


def _counts(offsets: Iterable[int], known: Iterable[Other]) -> Mapping[str, int]:
    """By result how many of these offsets lie among what it left missing; each counts once."""
    found: Counter[str] = Counter()
    known = list(known)
    for offset in offsets:
        result = next((each.result for each in known if _is_left(each.progress, offset)), None)
        if result is not None:
            found[result] += 1
    return found


def _is_left(progress: Progress, offset: int) -> bool:
    at = bisect_left(progress.segments, offset, key=lambda segment: segment.through)
    if at == len(progress.segments):
        return False
    segment = progress.segments[at]
    among = segment.action in LEFT_MISSING
    return among and (segment.left is None or segment.left.among(offset))
