"""Records that drctl copied: each names its original in a header.

A stream processor keeps headers, so its output has the header, too. A record is therefore a copy
only if the header names the partition that it is in; drctl never copies to another one.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import islice

from drctl.failback.facts import Cluster, Copies, Replication
from drctl.formats import provenance
from drctl.formats.primitives import Undecodable
from drctl.model.ports import ClusterReader
from drctl.model.text import plural
from drctl.model.topology import OffsetRange, Record, TopicPartition, Unavailable
from drctl.steps.first_records import is_copy, records_from

AT_ONCE, _LEAST = 50_000, 1_000
"""Records per fetch: for all partitions together, and the minimum for each partition."""

QUICK_LIMIT = 1_000_000
"""How many offsets a read-only check searches; more would take minutes."""


def in_chunks(
    reader: ClusterReader, wanted: Mapping[TopicPartition, range]
) -> Iterator[tuple[TopicPartition, tuple[Record, ...]]]:
    """The committed records at these offsets, in offset order within each partition.

    Raises:
        Unreachable: a partition could not be read.
    """
    waiting = {place: offsets.start for place, offsets in wanted.items() if offsets}
    while waiting:
        longest = max(wanted[place].stop - at for place, at in waiting.items())
        number = min(longest, max(_LEAST, AT_ONCE // len(waiting)))
        pending: dict[TopicPartition, int] = {}
        for some in _portions(waiting, max(1, AT_ONCE // number)):
            for place, records in records_from(reader, some, number).items():
                stop = wanted[place].stop
                yield place, tuple(record for record in records if record.offset < stop)
                if len(records) >= number and records[-1].offset + 1 < stop:
                    pending[place] = records[-1].offset + 1
        waiting = pending


def _portions(
    waiting: Mapping[TopicPartition, int], size: int
) -> Iterator[Mapping[TopicPartition, int]]:
    places = iter(waiting.items())
    while some := dict(islice(places, size)):
        yield some


MOST = 50_000
"""How many offsets are searched; beyond that a new comparison is needed."""


def span(since: Mapping[TopicPartition, int], cluster: Cluster) -> int:
    """Number of offsets from these offsets to the log ends of their partitions."""
    logs = ((cluster.logs.get(place), start) for place, start in since.items())
    return sum(max(0, log.end - start) for log, start in logs if isinstance(log, OffsetRange))


def observe_copies(
    since: Mapping[TopicPartition, int],
    cluster: Cluster,
    reader: ClusterReader,
    origin: str,
    *,
    source_partitions: Mapping[TopicPartition, TopicPartition] | None = None,
    whole: bool = True,
    most: int = MOST,
) -> Copies | Unavailable:
    """Copies after these offsets of a cluster, or why they cannot be read.

    Args:
        origin: id of the cluster whose records they copy.
        source_partitions: the corresponding partitions on that cluster, if names differ.
        whole: whether these offsets include everything written since the failover.
        most: maximum number of offsets to scan.

    Raises:
        Unreachable: no broker answered within the deadline, or a partition could not be read.
    """
    wanted: dict[TopicPartition, range] = {}
    for place, start in since.items():
        log = cluster.logs.get(place)
        if not isinstance(log, OffsetRange):
            why = "it does not exist" if log is None else log.reason
            return Unavailable(f"{place} of {reader.name}: {why}")
        wanted[place] = range(start, log.end)
    total = span(since, cluster)
    if total > most:
        return Unavailable(
            f"{plural(total, 'offset')} of {reader.name} are too many to search: run drctl gap"
            " again"
        )
    if not total:
        return Copies(whole=whole)
    found: dict[TopicPartition, set[int]] = defaultdict(set)
    others: Counter[TopicPartition] = Counter()
    for place, records in in_chunks(reader, wanted):
        source_place = (source_partitions or {}).get(place, place)
        for record in records:
            first = original(record, origin, source_place)
            if first is None:
                others[place] += 1
            else:
                found[source_place].add(first)
    return Copies({p: frozenset(offsets) for p, offsets in found.items()}, others, whole)


def observe_pending(
    reverse: Replication | Unavailable,
    boundaries: Mapping[TopicPartition, int] | Unavailable,
    origin: str,
    target: Cluster,
    reader: ClusterReader,
    source_partitions: Mapping[TopicPartition, TopicPartition],
) -> Copies | Unavailable:
    """What the target holds after the position of reverse replication that Connect reports.

    Skipped copies do not advance the stored offset: only the records show what remains.

    Args:
        origin: id of the source, whose records are copied.
        source_partitions: the source partition of each target partition.

    Raises:
        Unreachable: no broker answered within the deadline.
    """
    if isinstance(boundaries, Unavailable):
        return boundaries
    at = reverse.positions if isinstance(reverse, Replication) else {}
    since = {place: max(start, at.get(place, start)) for place, start in boundaries.items()}
    return observe_copies(since, target, reader, origin, source_partitions=source_partitions)


def original(record: Record, origin: str, source_place: TopicPartition) -> int | None:
    """The offset of the record's original; None if it is not a copy from that cluster.

    Args:
        source_place: the corresponding partition on that cluster.
    """
    for name, value in record.headers:
        if name == provenance.HEADER:
            try:
                where = provenance.decode(value)
            except Undecodable:
                continue
            if where[:3] == (origin, *source_place):
                return where.offset
    return None


def forwarded_headers(
    since: Mapping[TopicPartition, int],
    source_partitions: Mapping[TopicPartition, TopicPartition],
    origin: str,
    cluster: Cluster,
    reader: ClusterReader,
) -> dict[TopicPartition, int]:
    """By partition, the first record with drctl's header that is not a copy from that cluster.

    A Connect filter checks only whether the header exists, not its value.

    Args:
        since: start offsets of copying; nothing before them is read.
        source_partitions: the corresponding partitions on the cluster that copies come from.
        origin: id of that cluster.

    Raises:
        Unreachable: a partition could not be read.
    """
    logs = ((place, at, cluster.logs.get(place)) for place, at in since.items())
    wanted = {p: range(at, log.end) for p, at, log in logs if isinstance(log, OffsetRange)}
    found: dict[TopicPartition, int] = {}
    for place, records in in_chunks(reader, wanted):
        source_place = source_partitions.get(place, place)
        strange = (
            r.offset for r in records if is_copy(r) and original(r, origin, source_place) is None
        )
        first = next(strange, None)
        if first is not None:
            found.setdefault(place, first)
    return found


def same_content(one: object, other: object) -> bool:
    """Whether both are records, and one is a copy of the other; headers may be added on the way."""
    return isinstance(one, Record) and isinstance(other, Record) and content(one) == content(other)


def content(record: Record | None) -> tuple[object, ...]:
    """The parts of a record that are equal in its copies; empty for None."""
    return () if record is None else (record.key, record.value, record.timestamp_ms)
