"""Records that the source has deleted and the target still holds: retention goes by segments.

A result of `drctl gap` counts them as only on the target; they are its oldest, and not new.
"""

from collections import Counter
from collections.abc import Mapping

from drctl.failback.facts import Cluster
from drctl.failback.gap_results import GapEvidence, PartitionSeen
from drctl.failback.observers.copies import content, original
from drctl.failback.observers.pieces import AT_ONCE, in_pieces
from drctl.model.ports import ClusterReader
from drctl.model.topology import OffsetRange, Record, TopicPartition

_BEFORE = 100
"""So many offsets before the first new record are looked at for what stands before it."""

_CONTROL = 4
"""So many offsets may lie between two records of a log that is written to in transactions."""


def left_over(
    result: GapEvidence, on_source: Cluster, source: ClusterReader, target: ClusterReader, most: int
) -> Mapping[TopicPartition, int]:
    """By partition of the target, how many there are before what the source begins with.

    Partitions without any are left out; so are those of which nobody can say.

    Args:
        most: so many offsets of each are looked through.

    Raises:
        Unreachable: a partition could not be read.
    """
    asked = {each.copy: each for each in result.partitions if _has_deleted(each, on_source)}
    if not asked:
        return {}
    begins = source.following({each.place: each.source.start for each in asked.values()}, 1)
    first = {
        copy: content(records[0])
        for copy, each in asked.items()
        if isinstance(records := begins.get(each.place), tuple) and records
    }
    found: dict[TopicPartition, int] = {}
    before: Counter[TopicPartition] = Counter()
    wanted = {copy: _oldest(asked[copy], most) for copy in first}
    for copy, records in in_pieces(target, wanted):
        for record in records if copy not in found else ():
            if content(record) == first[copy]:
                found[copy] = before[copy]
                break
            before[copy] += original(record, on_source.identity, asked[copy].place) is None
        if found.keys() == first.keys():
            break
    return {
        copy: number for copy, number in found.items() if 0 < number <= asked[copy].only_on_target
    }


def follow_the_last(
    result: GapEvidence,
    at: Mapping[TopicPartition, int],
    origin: str,
    source: ClusterReader,
    target: ClusterReader,
) -> frozenset[TopicPartition]:
    """Of these places on the target, those right behind the last record that is on both sides.

    Args:
        at: an offset of each partition of the target.
        origin: id of the source.

    Raises:
        Unreachable: a partition could not be read.
    """
    asked = {each.copy: each for each in result.partitions if each.copy in at}
    tried = [
        (each.place, last_copied(each) - back)
        for each in asked.values()
        for back in range(min(_CONTROL, last_copied(each) + 1))
    ]
    read = source.records(tried)
    last: dict[TopicPartition, Record] = {}
    for copy, each in asked.items():
        offsets = (offset for place, offset in tried if place == each.place)
        known = (read.get((each.place, offset)) for offset in offsets)
        newest = next((one for one in known if isinstance(one, Record)), None)
        if newest is not None:
            last[copy] = newest
    stands: dict[TopicPartition, Record] = {}
    for copy, records in in_pieces(
        target, {c: range(max(0, at[c] - _BEFORE), at[c]) for c in last}
    ):
        own = [record for record in records if original(record, origin, asked[copy].place) is None]
        if own:
            stands[copy] = own[-1]
    return frozenset(c for c, one in stands.items() if content(one) == content(last[c]))


def last_copied(each: PartitionSeen) -> int:
    """The source offset of the last record that is on both sides, or a control record's."""
    end = each.source.end
    tail = each.ranges[-1] if each.ranges and each.ranges_total == len(each.ranges) else None
    return (tail[0] if tail and tail[1] >= end - 1 else end) - 1


def _has_deleted(each: PartitionSeen, on_source: Cluster) -> bool:
    """Whether it had when it was compared, and has deleted nothing since."""
    log = on_source.logs.get(each.place)
    known = each.target is not None and isinstance(log, OffsetRange)
    return bool(
        known
        and each.only_on_target
        and each.source.start > 0
        and isinstance(log, OffsetRange)
        and log.start <= each.source.start
    )


def _oldest(each: PartitionSeen, most: int) -> range:
    assert each.target is not None
    many = min(2 * each.only_on_target + AT_ONCE, most)
    return range(each.target.start, min(each.target.end, each.target.start + many))
