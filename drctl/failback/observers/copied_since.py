"""Whether missing records have come to the target since a result named them missing.

The old replication, once it runs again, goes on where it stopped, copies them behind newer ones and
leaves the source as it was: only the target tells.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from drctl.failback.facts import Cluster
from drctl.failback.gap_results import GapEvidence, PartitionSeen
from drctl.failback.observers.alike import Alike
from drctl.failback.observers.copies import original, span
from drctl.failback.observers.pieces import AT_A_LOOK, in_pieces
from drctl.model.ports import ClusterReader
from drctl.model.topology import OffsetRange, Record, TopicPartition, Unavailable

_ALIKE = Alike()


def copied_since(
    results: Sequence[GapEvidence],
    origin: str,
    on_target: Cluster,
    source: ClusterReader,
    target: ClusterReader,
    most: int = AT_A_LOOK,
    alike: Alike = _ALIKE,
) -> Mapping[str, str | Unavailable]:
    """By folder of a result, which of its first missing records is on the target by now.

    A result of which none is has no entry; one of which that cannot be said has the reason.

    Args:
        origin: id of the source: copies that name it were brought over by drctl, and are expected.
        most: so many offsets are looked through for what the newest misses, and no more.
        alike: by what a copy is known.

    Raises:
        Unreachable: a cluster did not answer.
    """
    asked: dict[str, list[tuple[PartitionSeen, int]]] = {}
    found: dict[str, str | Unavailable] = {}
    since: dict[TopicPartition, int] = {}
    for result in results:
        rows = list(_firsts(result, on_target))
        behind = {each.copy: _ended(each) for each, _ in rows}
        total = span(behind, on_target)
        # An old one, over other logs, is no evidence in any case: nobody reads weeks for it.
        if total > (most if result.ends == results[0].ends else min(most, AT_A_LOOK)):
            found[result.where] = Unavailable(
                f"{total:,} offsets were written to {target.name} since, too many to look through"
                " for what it names missing: run drctl gap again"
            )
        elif rows:
            asked[result.where] = rows
            since |= {p: min(at, since.get(p, at)) for p, at in behind.items()}
    if not since:
        return found
    places = dict.fromkeys((each.place, at) for rows in asked.values() for each, at in rows)
    missing = source.records(list(places))
    rows_of: dict[TopicPartition, list[tuple[str, PartitionSeen, int]]] = defaultdict(list)
    for where, rows in asked.items():
        for each, at in rows:
            rows_of[each.copy].append((where, each, at))
    for copy, records in in_pieces(target, _up_to_now(since, on_target)):
        for where, each, at in rows_of[copy]:
            if _holds(records, missing.get((each.place, at)), each, origin, alike):
                told = (
                    f"offset {at} of {each.place} was missing, and is on {target.name} by now:"
                    " something has copied it, behind whatever is newer there"
                )
                sure = alike.sure(copy.topic) or isinstance(found.get(where), str)
                found[where] = told if sure else alike.unsure(copy.topic)
    return found


def _up_to_now(since: Mapping[TopicPartition, int], on: Cluster) -> dict[TopicPartition, range]:
    logs = ((place, at, on.logs.get(place)) for place, at in since.items())
    return {p: range(at, log.end) for p, at, log in logs if isinstance(log, OffsetRange)}


def _firsts(result: GapEvidence, on_target: Cluster) -> Iterator[tuple[PartitionSeen, int]]:
    """Where its first and its last run of missing records begin, where the target has grown."""
    for each in result.partitions:
        if not span({each.copy: _ended(each)}, on_target):
            continue
        for first in dict.fromkeys(run[0] for run in (*each.ranges[:1], *each.ranges[-1:])):
            yield each, first


def _ended(each: PartitionSeen) -> int:
    """Where the target did; a partition that it did not have has come to be since."""
    return each.target.end if each.target is not None else 0


def _holds(
    records: tuple[Record, ...],
    wanted: Record | Unavailable | None,
    each: PartitionSeen,
    origin: str,
    alike: Alike,
) -> bool:
    if not isinstance(wanted, Record):
        return False
    told = alike.told(wanted, each.copy.topic)
    return any(
        r.offset >= _ended(each)
        and alike.told(r, each.copy.topic) == told
        and original(r, origin, each.place) is None
        for r in records
    )
