"""Whether the old replication copied anything behind new records of the target.

Replication keeps the order of a partition, so the last record that it has copied tells: it stands
before all that is new, or it was copied late. drctl's own copies are known by their header, and
stand there rightly.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from drctl.engine.first_records import is_copy
from drctl.failback.facts import Cluster
from drctl.failback.gap_results import GapEvidence
from drctl.failback.observers.alike import Alike, Told
from drctl.failback.observers.leftovers import last_copied
from drctl.failback.observers.pieces import AT_A_LOOK, in_pieces
from drctl.model.ports import ClusterReader
from drctl.model.topology import OffsetRange, Record, TopicPartition, Unavailable

_NEAR, _FAR = 4, 100
"""So many offsets are looked at for a record: ends of transactions hold none."""


_ALIKE = Alike()


class _Last(NamedTuple):
    """What a partition's last copied record is, as of a result.

    Attributes:
        at: its offset on the source, or a little behind it.
        until: where the target ended.
    """

    place: TopicPartition
    at: int
    copy: TopicPartition
    until: int


def copied_behind(
    results: Sequence[GapEvidence],
    on_source: Cluster,
    boundaries: Mapping[TopicPartition, int] | Unavailable,
    source: ClusterReader,
    target: ClusterReader,
    most: int = AT_A_LOOK,
    alike: Alike = _ALIKE,
) -> tuple[str, ...] | Unavailable:
    """Partitions in which a record of the source stands behind the first new one of the target.

    Args:
        results: over the same logs of the source, each of which tells what was copied by then.
        boundaries: where new records of the target begin, by its own partitions.
        most: so many offsets are looked through, and no more.
        alike: by what a copy is known.

    Raises:
        Unreachable: a partition could not be read.
    """
    if isinstance(boundaries, Unavailable):
        return boundaries
    asked = tuple(dict.fromkeys(_asked(results, on_source, boundaries)))
    ends: dict[TopicPartition, int] = defaultdict(int)
    for each in asked:
        ends[each.copy] = max(ends[each.copy], each.until)
    behind = {copy: range(boundaries[copy], end) for copy, end in ends.items()}
    total = sum(map(len, behind.values()))
    if total > most:
        return Unavailable(
            f"{total:,} offsets of {target.name} are too many to look through for it: drctl"
            " failback does that (step find-missing)"
        )
    last = _read({(each.place, each.at) for each in asked}, source)
    unread = [each for each in asked if (each.place, each.at) not in last]
    if unread:
        where = f"{unread[0].place} offset {unread[0].at}"
        return Unavailable(f"{source.name} has no record at {where}, nor shortly before it")
    wanted: dict[TopicPartition, set[Told]] = defaultdict(set)
    for each in asked:
        wanted[each.copy].add(alike.told(last[each.place, each.at], each.copy.topic))
    stand = {
        copy
        for copy, records in in_pieces(target, behind)
        for record in records
        if not is_copy(record) and alike.told(record, copy.topic) in wanted[copy]
    }
    sure = {str(each.place) for each in asked if each.copy in stand and alike.sure(each.copy.topic)}
    if stand and not sure:
        return alike.unsure(min(stand).topic)
    return tuple(sorted(sure))


def _asked(
    results: Sequence[GapEvidence], on_source: Cluster, boundaries: Mapping[TopicPartition, int]
) -> Iterator[_Last]:
    """Where something is new on the target, and what was copied is still on the source."""
    for result in results:
        for each in result.partitions:
            log, at = on_source.logs.get(each.place), last_copied(each)
            start = log.start if isinstance(log, OffsetRange) else each.source.start
            new = each.target is not None and each.only_on_target and each.copy in boundaries
            if new and at >= start and each.target is not None:
                yield _Last(each.place, at, each.copy, each.target.end)


def _read(
    wanted: Set[tuple[TopicPartition, int]], source: ClusterReader
) -> Mapping[tuple[TopicPartition, int], Record]:
    """The record at each offset, else the nearest one before it; without those that have none."""
    near = [(p, at - back) for p, at in wanted for back in range(min(_NEAR, at + 1))]
    read = {place: r for place, r in source.records(near).items() if isinstance(r, Record)}
    found: dict[tuple[TopicPartition, int], Record] = {}
    for place, at in wanted:
        tried = (read.get((place, at - back)) for back in range(_NEAR))
        nearest = next(filter(None, tried), None) or _before(place, at, source)
        if nearest is not None:
            found[place, at] = nearest
    return found


def _before(place: TopicPartition, at: int, source: ClusterReader) -> Record | None:
    nearest = None
    for _, records in in_pieces(source, {place: range(max(0, at - _FAR), at + 1)}):
        nearest = records[-1] if records else nearest
    return nearest
