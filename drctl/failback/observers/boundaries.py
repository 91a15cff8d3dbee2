"""Where what is new on the target begins: behind the last record that came from the source.

A result of `drctl gap` counts new records; offsets also go to ends of transactions, and copies
that were brought over later are not new. So the records are counted back from its end.
"""

from collections.abc import Mapping

from drctl.engine.first_records import is_copy
from drctl.failback.gap_results import GapEvidence, PartitionSeen
from drctl.failback.observers.copies import MOST, original
from drctl.model.ports import ClusterReader
from drctl.model.topology import Record, TopicPartition, Unavailable

_TIMES = 20


def observe_boundaries(
    result: GapEvidence, reader: ClusterReader, origin: str
) -> Mapping[TopicPartition, int]:
    """By partition of the target; by offsets alone where there are too many records to count.

    Args:
        origin: id of the cluster whose records copies name as their origin.

    Raises:
        Unreachable: no broker answered within the deadline.
    """
    found = {p.copy: p.boundary for p in result.partitions}
    known = {copy: at for copy, at in found.items() if at is not None}
    if sum(each.only_on_target for each in result.partitions) > MOST:
        return known
    waiting = {p.copy: p for p in result.partitions if p.only_on_target and p.copy in known}
    for _ in range(_TIMES):
        if not waiting:
            break
        read = reader.following({copy: known[copy] for copy in waiting}, MOST)
        for copy, each in list(waiting.items()):
            left = each.only_on_target - _new(read.get(copy, ()), each, origin)
            if left <= 0 or known[copy] == 0:
                del waiting[copy]
            known[copy] = max(0, known[copy] - max(0, left))
    return known


def _new(records: tuple[Record, ...] | Unavailable, each: PartitionSeen, origin: str) -> int:
    """How many of them were counted as new."""
    if isinstance(records, Unavailable) or each.target is None:
        return each.only_on_target
    end = each.target.end
    return sum(r.offset < end and original(r, origin) is None for r in records)


def copied_behind(
    result: GapEvidence,
    boundaries: Mapping[TopicPartition, int],
    source: ClusterReader,
    target: ClusterReader,
) -> tuple[str, ...]:
    """Partitions in which a record of the source stands behind the first new one of the target.

    Replication keeps the order of a partition, so the last record that it copied tells. drctl's
    own copies are known by their header, and stand there rightly.

    Raises:
        Unreachable: no broker answered within the deadline.
    """
    asked = {
        each: at
        for each in result.partitions
        if each.only_on_target and each.copy in boundaries and (at := _last_copied(each)) >= 0
    }
    if not asked or sum(each.only_on_target for each in asked) > MOST:
        return ()
    last = source.records([(each.place, at) for each, at in asked.items()])
    behind = target.following({each.copy: boundaries[each.copy] for each in asked}, MOST)
    return tuple(
        str(each.place)
        for each, at in asked.items()
        if _stands(last.get((each.place, at)), behind.get(each.copy, ()))
    )


def _last_copied(each: PartitionSeen) -> int:
    """The source offset of the last record that is on both sides, or a control record's."""
    end = each.source.end
    tail = each.ranges[-1] if each.ranges and each.ranges_total == len(each.ranges) else None
    return (tail[0] if tail and tail[1] >= end - 1 else end) - 1


def _stands(wanted: object, records: tuple[Record, ...] | Unavailable) -> bool:
    if not isinstance(wanted, Record) or isinstance(records, Unavailable):
        return False
    same = (wanted.key, wanted.value, wanted.timestamp_ms)
    return any((r.key, r.value, r.timestamp_ms) == same and not is_copy(r) for r in records)
