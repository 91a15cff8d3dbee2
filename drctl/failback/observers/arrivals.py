"""What came to the source first since it was lost: the first new record of the target, or another.

A way back that began at the boundary brings that one first; one that began at the beginning brings
the oldest record of the target, which once came from the source.
"""

from collections.abc import Mapping

from drctl.failback.facts import Began, Cluster
from drctl.failback.gap_results import GapEvidence, PartitionSeen
from drctl.model.ports import ClusterReader
from drctl.model.topology import OffsetRange, Record, TopicPartition, Unavailable

Firsts = Mapping[TopicPartition, tuple[Record, ...] | Unavailable]
Arrivals = Mapping[TopicPartition, Began | Unavailable]


def observe_arrivals(
    result: GapEvidence,
    boundaries: Mapping[TopicPartition, int] | Unavailable,
    on_source: Cluster,
    source: ClusterReader,
    target: ClusterReader,
) -> Arrivals:
    """By partition of the source; one record of each partition is compared.

    Args:
        result: tells where the source ended.
        boundaries: where new records of the target begin, by its own partitions; where that is
            not known, nobody can tell what has come.

    Raises:
        Unreachable: a cluster did not answer.
    """
    grown = [each for each in result.partitions if _grown(each, on_source)]
    found: dict[TopicPartition, Began | Unavailable] = {
        each.place: Began.NOTHING for each in result.partitions
    }
    if not grown:
        return found
    if isinstance(boundaries, Unavailable):
        return {**found, **{each.place: boundaries for each in grown}}
    came = source.following({each.place: each.source.end for each in grown}, 1)
    new = target.following(
        {each.copy: boundaries[each.copy] for each in grown if each.copy in boundaries}, 1
    )
    oldest = target.following({each.copy: 0 for each in grown}, 1)
    for each in grown:
        found[each.place] = _judged(
            _first(came, each.place), _first(new, each.copy), _first(oldest, each.copy)
        )
    return found


def _grown(each: PartitionSeen, on_source: Cluster) -> bool:
    log = on_source.logs.get(each.place)
    return isinstance(log, OffsetRange) and log.end > each.source.end


def _first(found: Firsts, place: TopicPartition) -> Record | Unavailable | None:
    records = found.get(place, ())
    if isinstance(records, Unavailable):
        return records
    return records[0] if records else None


def _judged(
    came: Record | Unavailable | None,
    new: Record | Unavailable | None,
    oldest: Record | Unavailable | None,
) -> Began | Unavailable:
    for each in (came, new, oldest):
        if isinstance(each, Unavailable):
            return each
    if came is None:
        return Began.NOTHING
    if new is not None and oldest is not None and new != oldest and _same(new, oldest):
        return Unavailable("its first new record and its oldest one are alike")
    if _same(came, new):
        return Began.BOUNDARY
    return Began.START if _same(came, oldest) else Began.ELSEWHERE


def _same(one: object, other: object) -> bool:
    """Whether a record is a copy; offsets differ, and headers may be added on the way."""
    if not isinstance(one, Record) or not isinstance(other, Record):
        return False
    return (one.key, one.value, one.timestamp_ms) == (other.key, other.value, other.timestamp_ms)
