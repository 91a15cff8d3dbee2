"""Records that drctl brought over: each names its original in a header."""

from collections import Counter, defaultdict
from collections.abc import Mapping

from drctl.failback.facts import Cluster, Copies
from drctl.model.ports import ClusterReader
from drctl.model.topology import OffsetRange, Record, TopicPartition, Unavailable
from drctl.wire import provenance
from drctl.wire.undecodable import Undecodable

MOST = 50_000
"""So many offsets are looked through; behind more of them only a new comparison can see."""


def span(since: Mapping[TopicPartition, int], cluster: Cluster) -> int:
    """How many offsets there are to look through."""
    logs = ((cluster.logs.get(place), start) for place, start in since.items())
    return sum(max(0, log.end - start) for log, start in logs if isinstance(log, OffsetRange))


def observe_copies(
    since: Mapping[TopicPartition, int],
    cluster: Cluster,
    reader: ClusterReader,
    origin: str,
    *,
    whole: bool = True,
) -> Copies | Unavailable:
    """Copies behind these offsets of a cluster, or why they cannot be seen.

    Args:
        origin: id of the cluster whose records they copy.
        whole: whether that is all that was written since the failover.

    Raises:
        Unreachable: no broker answered within the deadline.
    """
    total = span(since, cluster)
    if total > MOST:
        return Unavailable(
            f"{total:,} offsets were written to {reader.name} since, too many to look through: run"
            " drctl gap again, it tells what is still missing"
        )
    if not total:
        return Copies(whole=whole)
    found: dict[TopicPartition, set[int]] = defaultdict(set)
    others: Counter[TopicPartition] = Counter()
    for place, records in reader.following(since, MOST).items():
        if isinstance(records, Unavailable):
            return Unavailable(f"{place} of {reader.name}: {records.reason}")
        for record in records:
            first = original(record, origin)
            if first is None:
                others[place] += 1
            else:
                found[first[0]].add(first[1])
    return Copies({p: frozenset(offsets) for p, offsets in found.items()}, others, whole)


def original(record: Record, origin: str) -> tuple[TopicPartition, int] | None:
    """What a record names as its original; None where it is no copy of that cluster's."""
    for name, value in record.headers:
        if name == provenance.HEADER:
            try:
                where = provenance.decode(value)
            except Undecodable:
                continue
            if where.cluster_id == origin:
                return TopicPartition(where.topic, where.partition), where.offset
    return None


def content(record: Record | None) -> tuple[object, ...]:
    """What is the same in a record and in a copy of it; nothing of no record."""
    return () if record is None else (record.key, record.value, record.timestamp_ms)
