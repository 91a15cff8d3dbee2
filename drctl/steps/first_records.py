"""The first records from some offsets on, to tell whether a copy begins where it must.

What comes first to a target must be the first record that its replicator had to copy; a target that
was rebuilt must be the beginning of its source.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from drctl.engine.failback_state import Offsets
from drctl.engine.kind import BothClusters, Readback, State
from drctl.engine.ports import LinkReader
from drctl.formats.provenance import HEADER
from drctl.model.errors import Unreachable
from drctl.model.ports import ClusterReader
from drctl.model.topology import PartitionOffsets, Record, TopicPartition, TopicState, Unavailable
from drctl.steps.source_offsets import SeedFacts, copies_of, kept_offsets, logs_of
from drctl.steps.stop_replication import STOPPED

_AT_ONCE_NEW = 500
_TIMES = 200

KEY, VALUE, TIMESTAMP = "key", "value", "timestamp"
FIELDS = (KEY, VALUE, TIMESTAMP)
"""What of a record tells it from others; names as of a link's `identity`. Headers may be added on
the way."""

Firsts = Mapping[TopicPartition, Record]
"""Without the partitions that have none."""


def first_records(site: ClusterReader, since: Offsets) -> Firsts:
    """The first record of each partition from its offset on.

    Raises:
        Unreachable: a partition could not be read.
    """
    return {place: found[0] for place, found in records_from(site, since, 1).items() if found}


def first_new_records(site: ClusterReader, since: Offsets) -> Firsts:
    """The same, without drctl's own copies.

    Raises:
        Unreachable: a partition could not be read, or holds copies without end.
    """
    found: dict[TopicPartition, Record] = {}
    waiting = dict(since)
    for time in range(_TIMES):
        if not waiting:
            return found
        going_on = {}
        # Copies come after new records: one record is enough for nearly all partitions.
        for place, records in records_from(site, waiting, _AT_ONCE_NEW if time else 1).items():
            new = next((each for each in records if not is_copy(each)), None)
            if new is not None:
                found[place] = new
            elif records:
                going_on[place] = records[-1].offset + 1
        waiting = going_on
    raise Unreachable(f"{next(iter(waiting))} of {site.name} holds too many copied records to scan")


def is_copy(record: Record) -> bool:
    """Whether drctl copied it, as a filter of Connect sees it: by the header alone."""
    return any(name == HEADER for name, _ in record.headers)


def same_record(one: Record, other: Record, fields: Collection[str] = FIELDS) -> bool:
    """Whether one is a copy of the other, by these fields; their offsets differ.

    Args:
        fields: some of `FIELDS`.
    """
    pairs = {
        KEY: (one.key, other.key),
        VALUE: (one.value, other.value),
        TIMESTAMP: (one.timestamp_ms, other.timestamp_ms),
    }
    return all(pairs[name][0] == pairs[name][1] for name in FIELDS if name in fields)


def records_from(
    site: ClusterReader, since: Offsets, number: int
) -> Mapping[TopicPartition, tuple[Record, ...]]:
    """So many records of each partition, from its offset on.

    Raises:
        Unreachable: a partition could not be read.
    """
    if not since:
        return {}
    found: dict[TopicPartition, tuple[Record, ...]] = {}
    for place, records in site.following(since, number).items():
        if isinstance(records, Unavailable):
            raise Unreachable(f"{place} of {site.name} cannot be read: {records.reason}")
        found[place] = records
    return found


_SHOWN = 3


def first_arrivals(
    clusters: BothClusters, seeds: SeedFacts, reader: LinkReader, fields: Sequence[str] = FIELDS
) -> Readback[Any]:
    """Done where what came first to each partition is what had to come first.

    Args:
        fields: by which a record is known again.

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
    # What came is looked at first: what is written meanwhile is then no stranger.
    came = first_records(target, since)
    travels = first_records(source, start) if whole else first_new_records(source, start)
    wrong, awaited = [], []
    for place, copy in copies.items():
        if copy in came and not (
            place in travels and _is_copy_of(travels[place], came[copy], fields, target, copy)
        ):
            if whole and _cut_since(source, place, start[place]):
                continue
            wrong.append(f"{copy} offset {came[copy].offset}")
        elif place in travels and copy not in came:
            awaited.append(str(place))
    if wrong:
        words = (
            f"the first record replicated to {', '.join(wrong[:_SHOWN])} of"
            f" {clusters.target} is not the"
            f" first new record of {clusters.source}: records would be duplicated or skipped"
        )
        return Readback(State.FAILED, words, items=tuple(wrong))
    if awaited:
        words = f"waiting for the first new record of {len(awaited)} partitions: {awaited[0]}"
        return Readback(State.WAITING, words, items=tuple(awaited))
    if not travels:
        words = f"{clusters.source} has no new records yet"
    elif whole:
        words = (
            f"the first replicated record of {len(travels)} partitions is the first record of each"
        )
    else:
        words = (
            f"the first replicated record of {len(travels)} partitions is the first new one;"
            " no old one"
        )
    return Readback(State.DONE, words)


def _is_copy_of(
    one: Record, other: Record, fields: Collection[str], target: ClusterReader, copy: TopicPartition
) -> bool:
    """Whether one is the other's copy; a topic that keeps its own time says nothing by it."""
    if same_record(one, other, fields):
        return True
    timeless = tuple(name for name in fields if name != TIMESTAMP)
    if timeless == tuple(fields) or not same_record(one, other, timeless):
        return False
    state = target.topics([copy.topic]).get(copy.topic)
    return isinstance(state, TopicState) and state.log_append_time


def _cut_since(source: ClusterReader, place: TopicPartition, start: int) -> bool:
    """Whether the oldest records were deleted meanwhile: then nothing tells which came first."""
    log = source.offsets([place])[place]
    return isinstance(log, PartitionOffsets) and log.log_start > start


MOST = 1_000_000
"""So many records are read to see whether they are the same, where offsets do not tell."""

_AT_ONCE = 5_000


class _Both(NamedTuple):
    """A partition of the surviving cluster, and its copy, which holds something.

    Attributes:
        kept: the last offset that the connector says it copied.
    """

    place: TopicPartition
    copy: TopicPartition
    theirs: PartitionOffsets
    ours: PartitionOffsets
    kept: int

    @property
    def last(self) -> int:
        """The offset there of the copy's last record, where neither has holes."""
        return self.theirs.log_start + _held(self.ours) - 1


def brought_by(connector: str, source: str, target: str, reader: LinkReader) -> bool:
    """Whether each partition of the target is the beginning of that of the source, and no more.

    Offsets, the first and the last record tell where logs have no holes. Where they have some
    (transactions, compaction), the records are compared one by one, unless they are too many: then
    it is said not to be.

    Raises:
        UsageError: there is no such connector.
        Unreachable: a cluster, or every worker, did not respond.
    """
    survivor, home = reader.cluster_reader(source), reader.cluster_reader(target)
    theirs, ours = logs_of(survivor, reader.topics()), logs_of(home, copies_of(reader))
    copies = {place: TopicPartition(reader.target_topic(place.topic), place[1]) for place in theirs}
    if any(_held(log) for copy, log in ours.items() if copy not in copies.values()):
        return False
    stopped = reader.connectors().state(connector).state == STOPPED
    kept = kept_offsets(connector, reader.connectors().offsets(connector))
    filled = {place for place, copy in copies.items() if _held(ours.get(copy))}
    if not filled or filled != kept.keys() & copies.keys():
        return False
    both = [_Both(p, copies[p], theirs[p], ours[copies[p]], kept[p]) for p in sorted(filled)]
    holed = [each for each in both if not _fits(each.last, each.kept, stopped)]
    if any(each.last > each.kept for each in holed):
        return False
    if sum(_held(each.ours) for each in holed) > MOST:
        return False
    for each in holed:
        last = _one_by_one(each, survivor, home)
        if last is None or not _fits(last, each.kept, stopped):
            return False
    whole = [each for each in both if each not in holed]
    return _same_ends(whole, survivor, home)


def _held(log: PartitionOffsets | None) -> int:
    return 0 if log is None else log.end - log.log_start


def _fits(last: int, kept: int, stopped: bool) -> bool:
    """Whether what it keeps fits what is there; what runs tells it a minute late."""
    return kept == last if stopped else kept <= last


def _one_by_one(both: _Both, survivor: ClusterReader, home: ClusterReader) -> int | None:
    """The offset there of the copy's last record; None where the copy is not its beginning."""
    at, here = both.theirs.log_start, both.ours.log_start
    last = None
    while ours := records_from(home, {both.copy: here}, _AT_ONCE)[both.copy]:
        theirs = records_from(survivor, {both.place: at}, len(ours))[both.place]
        if len(theirs) < len(ours) or not all(map(same_record, theirs, ours)):
            return None
        last = theirs[-1].offset
        at, here = last + 1, ours[-1].offset + 1
    return last


def _same_ends(whole: Sequence[_Both], survivor: ClusterReader, home: ClusterReader) -> bool:
    """Whether the first and the last record of each are the same, at these very offsets."""
    first = {each.place: each.theirs.log_start for each in whole}
    begins = {each.copy: each.ours.log_start for each in whole}
    last = {each.place: each.last for each in whole}
    ends = {each.copy: each.ours.end - 1 for each in whole}
    copies = {each.place: each.copy for each in whole}
    return all(
        _same(first_records(survivor, theirs), theirs, first_records(home, ours), copies)
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
