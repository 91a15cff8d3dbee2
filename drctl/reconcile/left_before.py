"""Which missing records were quarantined or discarded before: no replication brings these.

The target lacks them for good, as was decided: whoever waits for all to arrive allows for them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from drctl.model.gap import GapResult
from drctl.model.topology import TopicPartition
from drctl.reconcile.left import Left
from drctl.reconcile.policy import LEFT_MISSING
from drctl.reconcile.progress import Kept

LeftBefore = Mapping[TopicPartition, tuple[Left, ...]]
"""By partition of the source."""


class At(NamedTuple):
    """Where a missing record is on the source."""

    place: TopicPartition
    offset: int
    timestamp_ms: int


def left_before(kept: Kept, found: GapResult) -> LeftBefore:
    """What is known, record by record, of the topics that were compared, as they are now.

    Args:
        kept: what the target keeps of decisions, by way of whatever result.
    """
    return left_of(kept, found.source_id, {each.topic: each.topic_id for each in found.topics})


def left_of(kept: Kept, source_id: str, topic_ids: Mapping[str, str]) -> LeftBefore:
    """What is known, record by record, by way of any result.

    Args:
        topic_ids: of the source's topics now: one that was made anew holds other records, and of
            one without an id nobody can say.
    """
    by_place: dict[TopicPartition, tuple[Left, ...]] = {}
    for key, progress in kept.items():
        place = key.lane.place
        topic_id = topic_ids.get(place.topic, "")
        if key.source_id == source_id and topic_id and progress.source_topic_id == topic_id:
            of_it = (s.left for s in progress.segments if s.action in LEFT_MISSING)
            by_place[place] = (*by_place.get(place, ()), *(each for each in of_it if each))
    return {place: lefts for place, lefts in by_place.items() if lefts}


def counted(missing: Iterable[At], before: LeftBefore) -> Mapping[TopicPartition, int]:
    """How many of these are among them, by partition."""
    return Counter(
        each.place
        for each in missing
        if any(left.holds(each.offset, each.timestamp_ms) for left in before.get(each.place, ()))
    )
