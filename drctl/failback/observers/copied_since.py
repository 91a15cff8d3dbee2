"""Whether missing records have come to the target since a result named them missing.

The old replication, once it runs again, goes on where it stopped, copies them behind newer ones and
leaves the source as it was: only the target tells.
"""

from collections.abc import Iterator, Mapping, Sequence

from drctl.failback.facts import Cluster
from drctl.failback.gap_results import GapEvidence, PartitionSeen
from drctl.failback.observers.copies import MOST, original, span
from drctl.model.ports import ClusterReader
from drctl.model.topology import Record, TopicPartition, Unavailable


def copied_since(
    results: Sequence[GapEvidence],
    origin: str,
    on_target: Cluster,
    source: ClusterReader,
    target: ClusterReader,
) -> Mapping[str, str]:
    """By folder of a result, which of its first missing records is on the target by now.

    Args:
        origin: id of the source: copies that name it were brought over by drctl, and are expected.

    Raises:
        Unreachable: a cluster did not answer.
    """
    asked = {each.where: list(_firsts(each, on_target)) for each in results}
    since: dict[TopicPartition, int] = {}
    for each, _ in (row for rows in asked.values() for row in rows):
        if each.target is not None:
            since[each.copy] = min(each.target.end, since.get(each.copy, each.target.end))
    if not since or span(since, on_target) > MOST:
        return {}
    places = dict.fromkeys((each.place, at) for rows in asked.values() for each, at in rows)
    missing = source.records(list(places))
    there = target.following(since, MOST)
    found: dict[str, str] = {}
    for where, rows in asked.items():
        for each, at in rows:
            if _holds(there.get(each.copy, ()), missing.get((each.place, at)), each, origin):
                found[where] = (
                    f"offset {at} of {each.place} was missing, and is on {target.name} by now:"
                    " something has copied it, behind whatever is newer there"
                )
    return found


def _firsts(result: GapEvidence, on_target: Cluster) -> Iterator[tuple[PartitionSeen, int]]:
    """Where its first and its last run of missing records begin, where the target has grown."""
    for each in result.partitions:
        if each.target is None or not span({each.copy: each.target.end}, on_target):
            continue
        for first in dict.fromkeys(run[0] for run in (*each.ranges[:1], *each.ranges[-1:])):
            yield each, first


def _holds(
    records: tuple[Record, ...] | Unavailable,
    wanted: Record | Unavailable | None,
    each: PartitionSeen,
    origin: str,
) -> bool:
    if not isinstance(wanted, Record) or isinstance(records, Unavailable) or each.target is None:
        return False
    same = (wanted.key, wanted.value, wanted.timestamp_ms)
    return any(
        r.offset >= each.target.end
        and (r.key, r.value, r.timestamp_ms) == same
        and original(r, origin) is None
        for r in records
    )
