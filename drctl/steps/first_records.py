"""Uses the first records to check whether replication started at the right offset.

The first record that arrives on a target must be the first one that its replicator had to copy. A
rebuilt target must be a prefix of its source.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from drctl.engine.failback_state import Offsets
from drctl.engine.kind import BothClusters, Readback, State
from drctl.engine.ports import LinkReader
from drctl.formats.provenance import HEADER
from drctl.model.errors import Unreachable
from drctl.model.ports import ClusterReader
from drctl.model.text import plural
from drctl.model.topology import PartitionOffsets, Record, TopicPartition, TopicState, Unavailable
from drctl.steps.source_offsets import SeedFacts, copies_of, kept_offsets, logs_of
from drctl.steps.stop_replication import STOPPED

_AT_ONCE_NEW = 500
_TIMES = 200

KEY, VALUE, TIMESTAMP = "key", "value", "timestamp"
FIELDS = (KEY, VALUE, TIMESTAMP)
"""The fields that identify a record, as in a link's `identity`; replicators may add headers."""

Firsts = Mapping[TopicPartition, Record]
"""First records by partition; partitions without a record are left out."""


def first_records(cluster: ClusterReader, since: Offsets) -> Firsts:
    """The first record of each partition at or after its offset.

    Raises:
        Unreachable: a partition could not be read.
    """
    return {place: found[0] for place, found in records_from(cluster, since, 1).items() if found}


def first_new_records(
    cluster: ClusterReader, since: Offsets, counts: Callable[[Record], bool] | None = None
) -> Firsts:
    """The first record of each partition that drctl did not copy, at or after its offset.

    Args:
        counts: which records to find instead of those that drctl did not copy.

    Raises:
        Unreachable: a partition could not be read, or holds too many other records.
    """
    counts = counts or (lambda record: not is_copy(record))
    found: dict[TopicPartition, Record] = {}
    waiting = dict(since)
    for time in range(_TIMES):
        if not waiting:
            return found
        further = {}
        # Copies usually follow new records: one record is enough for nearly all partitions.
        for place, records in records_from(cluster, waiting, _AT_ONCE_NEW if time else 1).items():
            new = next(filter(counts, records), None)
            if new is not None:
                found[place] = new
            elif records:
                further[place] = records[-1].offset + 1
        waiting = further
    raise Unreachable(
        f"{next(iter(waiting))} of {cluster.name} holds too many other records to scan"
    )


def is_copy(record: Record) -> bool:
    """Whether drctl copied the record; judged by the header alone, as the Connect filter does."""
    return _has(record, HEADER)


def _has(record: Record, header: str) -> bool:
    return any(name == header for name, _ in record.headers)


def same_record(one: Record, other: Record, fields: Collection[str] = FIELDS) -> bool:
    """Whether one record is a copy of the other, judged by these fields; offsets may differ.

    Args:
        fields: some of `FIELDS`.
    """
    return fields_of(one, fields) == fields_of(other, fields)


def records_from(
    cluster: ClusterReader, since: Offsets, number: int
) -> Mapping[TopicPartition, tuple[Record, ...]]:
    """Up to `number` records of each partition, at or after its offset.

    Raises:
        Unreachable: a partition could not be read.
    """
    if not since:
        return {}
    found: dict[TopicPartition, tuple[Record, ...]] = {}
    for place, records in cluster.following(since, number).items():
        if isinstance(records, Unavailable):
            raise Unreachable(f"{place} of {cluster.name} cannot be read: {records.reason}")
        found[place] = records
    return found


SURVIVING = 1_000
"""How many records of a compacted partition are searched for one that is on both clusters."""


def surviving(
    cluster: ClusterReader, since: Offsets
) -> Mapping[TopicPartition, tuple[tuple[Record, ...], tuple[Record, ...]]]:
    """Up to `SURVIVING` records of each partition before its offset, and from there on.

    Raises:
        Unreachable: a partition could not be read.
    """
    starts = {place: max(0, at - SURVIVING) for place, at in since.items()}
    found = {}
    for place, records in records_from(cluster, starts, 2 * SURVIVING).items():
        later = tuple(each for each in records if each.offset >= since[place])
        found[place] = records[: len(records) - len(later)], later[:SURVIVING]
    return found


def follows(
    copied: Sequence[Record],
    older: Sequence[Record],
    expected: Sequence[Record],
    fields: Collection[str] = FIELDS,
) -> bool | None:
    """Whether copying a compacted partition began with the first expected record.

    Compaction may have removed records from either side before the first one that is on both; their
    keys must recur on that side. Copies that drctl made are not expected to be copied.

    Args:
        copied: what was added to the partition, up to `SURVIVING` records.
        older: what is before the first expected record.
        expected: what was to be copied, up to `SURVIVING` records.

    Returns:
        None if both sides have no record in common, and all keys that were added recur: then others
        may have written them.
    """
    due = [each for each in expected if not is_copy(each)]
    first = {fields_of(each, fields): at for at, each in reversed([*enumerate(due)])}
    common = next((n for n, each in enumerate(copied) if fields_of(each, fields) in first), None)
    before = copied[:common]
    old = {fields_of(each, fields) for each in older}
    if any(fields_of(each, fields) in old for each in before) or not _recur(before, due):
        return False
    if common is None:
        return None if max(len(copied), len(expected)) < SURVIVING else False
    return _recur(due[: first[fields_of(copied[common], fields)]], copied)


def _recur(records: Sequence[Record], among: Sequence[Record]) -> bool:
    return {each.key for each in records} <= {each.key for each in among}


def fields_of(record: Record, fields: Collection[str]) -> tuple[object, ...]:
    """The values of some of `FIELDS`, in that order."""
    known = {KEY: record.key, VALUE: record.value, TIMESTAMP: record.timestamp_ms}
    return tuple(known[name] for name in FIELDS if name in fields)


_SHOWN = 3


def first_arrivals(
    clusters: BothClusters,
    seeds: SeedFacts,
    reader: LinkReader,
    fields: Sequence[str] = FIELDS,
    origin_header: str = "",
) -> Readback[Any]:
    """Verify that the first record to arrive in each partition is the expected one.

    Args:
        fields: the fields that identify a record.
        origin_header: header of copies if applications write to both clusters, else empty. With it,
            only the source's own records are replicated, and all copies have the header.

    Raises:
        Unreachable: a cluster did not respond.
    """
    start, ends, whole = seeds.begins, seeds.ends, seeds.whole
    target, source = reader.cluster_reader(clusters.target), reader.cluster_reader(clusters.source)
    copies = {p: TopicPartition(reader.target_topic(p.topic), p.partition) for p in start}
    there = target.overview().partitions
    since = {
        copy: ends.get(copy, 0) for copy in copies.values() if copy[1] in there.get(copy[0], ())
    }
    # Read the target first: a record written in between is then already on the source.
    if origin_header:
        arrived = first_new_records(
            target, since, lambda each: _has(each, origin_header) and not is_copy(each)
        )
        expected = first_new_records(
            source, start, lambda each: not (_has(each, origin_header) or is_copy(each))
        )
    else:
        arrived = first_records(target, since)
        expected = first_records(source, start) if whole else first_new_records(source, start)
    differ, awaited = {}, []
    for place, copy in copies.items():
        if copy in arrived and not (
            place in expected and _is_copy_of(expected[place], arrived[copy], fields, target, copy)
        ):
            if not (whole and _cut_since(source, place, start[place])):
                differ[place] = copy
        elif place in expected and copy not in arrived:
            awaited.append(str(place))
    compacted = {} if origin_header else _compacted(source, differ)
    added = surviving(target, {copy: since[copy] for copy in compacted.values()})
    due = surviving(source, {place: start[place] for place in compacted})
    for place, copy in compacted.items():
        follow = follows(added[copy][1], *due[place], fields)
        if follow is not False:
            del differ[place]
        if follow is None:
            awaited.append(str(place))
    wrong = [f"{copy} offset {arrived[copy].offset}" for copy in differ.values()]
    if wrong:
        message = (
            f"the first record replicated to {', '.join(wrong[:_SHOWN])} of {clusters.target} is"
            f" not the first new record of {clusters.source}: records would be duplicated or"
            " skipped"
        )
        return Readback(State.FAILED, message, items=tuple(wrong))
    if awaited:
        places = plural(len(awaited), "partition")
        message = f"waiting for the first new record of {places}: {awaited[0]}"
        return Readback(State.WAITING, message, items=tuple(awaited))
    if not expected:
        message = f"{clusters.source} has no new records yet"
    elif whole:
        message = (
            f"in each of {plural(len(expected), 'partition')}, the first replicated record is the"
            f" first record of {clusters.source}"
        )
    else:
        message = (
            f"in each of {plural(len(expected), 'partition')}, the first replicated record is the"
            " first new one; no older record was replicated"
        )
    return Readback(State.DONE, message)


def _is_copy_of(
    one: Record, other: Record, fields: Collection[str], target: ClusterReader, copy: TopicPartition
) -> bool:
    """Whether one record is a copy of the other; timestamps of LogAppendTime topics may differ."""
    if same_record(one, other, fields):
        return True
    timeless = tuple(name for name in fields if name != TIMESTAMP)
    if timeless == tuple(fields) or not same_record(one, other, timeless):
        return False
    state = target.topics([copy.topic]).get(copy.topic)
    return isinstance(state, TopicState) and state.log_append_time


def _compacted(
    source: ClusterReader, copies: Mapping[TopicPartition, TopicPartition]
) -> Mapping[TopicPartition, TopicPartition]:
    """Those partitions, with their copies, whose topic is compacted on the source."""
    states = source.topics({place.topic for place in copies}) if copies else {}
    topics = {n for n, each in states.items() if isinstance(each, TopicState) and each.compacted}
    return {place: copy for place, copy in copies.items() if place.topic in topics}


def _cut_since(source: ClusterReader, place: TopicPartition, start: int) -> bool:
    """Whether the oldest records have been deleted; if so, the first record is unknown."""
    log = source.offsets([place])[place]
    return isinstance(log, PartitionOffsets) and log.log_start > start


MOST = 1_000_000
"""How many records to compare at most, if offsets alone are not conclusive."""

_AT_ONCE = 5_000


class _Both(NamedTuple):
    """A partition of the source, and its copy on the target, which holds records.

    Attributes:
        theirs: the offsets of the source partition.
        ours: the offsets of the copy.
        kept: the last offset that the connector has copied, as stored by Connect.
    """

    place: TopicPartition
    copy: TopicPartition
    theirs: PartitionOffsets
    ours: PartitionOffsets
    kept: int

    @property
    def last(self) -> int:
        """The source offset of the copy's last record, if neither log has gaps."""
        return self.theirs.log_start + _held(self.ours) - 1


def is_prefix_copied_by(connector: str, source: str, target: str, reader: LinkReader) -> bool:
    """Whether each partition of the target is a prefix of the source's, made by the connector.

    If logs have no gaps, offsets and the first and last record are compared. If they have gaps
    (transactions, compaction), all records are compared; too many records count as "no".

    Raises:
        UsageError: the connector does not exist.
        Unreachable: a cluster, or Connect, did not respond.
    """
    source_reader, target_reader = reader.cluster_reader(source), reader.cluster_reader(target)
    theirs, ours = (
        logs_of(source_reader, reader.topics()),
        logs_of(target_reader, copies_of(reader)),
    )
    copies = {place: TopicPartition(reader.target_topic(place.topic), place[1]) for place in theirs}
    if any(_held(log) for copy, log in ours.items() if copy not in copies.values()):
        return False
    stopped = reader.connectors().state(connector).state == STOPPED
    kept = kept_offsets(connector, reader.connectors().offsets(connector))
    filled = {place for place, copy in copies.items() if _held(ours.get(copy))}
    if not filled or filled != kept.keys() & copies.keys():
        return False
    both = [_Both(p, copies[p], theirs[p], ours[copies[p]], kept[p]) for p in sorted(filled)]
    with_gaps = [each for each in both if not _fits(each.last, each.kept, stopped)]
    if any(each.last > each.kept for each in with_gaps):
        return False
    if sum(_held(each.ours) for each in with_gaps) > MOST:
        return False
    for each in with_gaps:
        last = _compare_all(each, source_reader, target_reader)
        if last is None or not _fits(last, each.kept, stopped):
            return False
    whole = [each for each in both if each not in with_gaps]
    return _same_ends(whole, source_reader, target_reader)


def _held(log: PartitionOffsets | None) -> int:
    return 0 if log is None else log.end - log.log_start


def _fits(last: int, kept: int, stopped: bool) -> bool:
    """Whether the stored offset fits the copy; a running connector stores its offset late."""
    return kept == last if stopped else kept <= last


def _compare_all(
    both: _Both, source_reader: ClusterReader, target_reader: ClusterReader
) -> int | None:
    """The source offset of the copy's last record; None if the copy is not a prefix."""
    at, here = both.theirs.log_start, both.ours.log_start
    last = None
    while ours := records_from(target_reader, {both.copy: here}, _AT_ONCE)[both.copy]:
        theirs = records_from(source_reader, {both.place: at}, len(ours))[both.place]
        if len(theirs) < len(ours) or not all(map(same_record, theirs, ours)):
            return None
        last = theirs[-1].offset
        at, here = last + 1, ours[-1].offset + 1
    return last


def _same_ends(
    whole: Sequence[_Both], source_reader: ClusterReader, target_reader: ClusterReader
) -> bool:
    """Whether both logs have the same first and last record, at the expected offsets."""
    first = {each.place: each.theirs.log_start for each in whole}
    begins = {each.copy: each.ours.log_start for each in whole}
    last = {each.place: each.last for each in whole}
    ends = {each.copy: each.ours.end - 1 for each in whole}
    copies = {each.place: each.copy for each in whole}
    return all(
        _same(
            first_records(source_reader, theirs), theirs, first_records(target_reader, ours), copies
        )
        for theirs, ours in ((first, begins), (last, ends))
    )


def _same(
    there: Firsts, at: Offsets, here: Firsts, copies: Mapping[TopicPartition, TopicPartition]
) -> bool:
    return all(
        place in there
        and copies[place] in here
        and there[place].offset == offset
        and same_record(there[place], here[copies[place]])
        for place, offset in at.items()
    )
