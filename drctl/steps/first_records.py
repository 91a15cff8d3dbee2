"""The first records behind some offsets: what travels, without drctl's copies, and what came."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from drctl.engine.failback_state import Offsets, offsets_of
from drctl.engine.kind import Seen, State
from drctl.engine.ports import LinkReader
from drctl.formats.provenance import HEADER
from drctl.model.errors import Unreachable
from drctl.model.plan import Json
from drctl.model.ports import ClusterReader
from drctl.model.topology import PartitionOffsets, Record, TopicPartition, TopicState, Unavailable
from drctl.steps.source_offsets import copies_of, kept_offsets, logs_of
from drctl.steps.stop_replication import STOPPED

_FIRST_RECORDS_AT_ONCE = 500
_TIMES = 200

KEY, VALUE, TIMESTAMP = "key", "value", "timestamp"
FIELDS = (KEY, VALUE, TIMESTAMP)
"""What of a record tells it from others; names as of a link's `identity`. Headers may be added on
the way."""

Firsts = Mapping[TopicPartition, Record]
"""Without the partitions that have none."""


def first_records(site: ClusterReader, since: Offsets) -> Firsts:
    """The first record of each partition, at or behind its offset.

    Raises:
        Unreachable: a partition could not be read.
    """
    return {place: found[0] for place, found in records_from(site, since, 1).items() if found}


def first_new_records(site: ClusterReader, since: Offsets) -> Firsts:
    """The same, where drctl's own copies are passed over.

    Raises:
        Unreachable: a partition could not be read, or holds copies without end.
    """
    found: dict[TopicPartition, Record] = {}
    waiting = dict(since)
    for time in range(_TIMES):
        if not waiting:
            return found
        going_on = {}
        # Copies come behind what is new: of nearly all partitions one record tells.
        for place, records in records_from(
            site, waiting, _FIRST_RECORDS_AT_ONCE if time else 1
        ).items():
            new = next((each for each in records if not is_copy(each)), None)
            if new is not None:
                found[place] = new
            elif records:
                going_on[place] = records[-1].offset + 1
        waiting = going_on
    raise Unreachable(f"{next(iter(waiting))} of {site.name} holds too many copies to look through")


def is_copy(record: Record) -> bool:
    """Whether a filter of Connect takes it for one that drctl brought: it sees but the header."""
    return any(name == HEADER for name, _ in record.headers)


def same_record(one: Record, other: Record, fields: Collection[str] = FIELDS) -> bool:
    """Whether one is a copy of the other, by these fields; their offsets differ.

    Args:
        fields: some of `FIELDS`.
    """
    return _told_by(one, fields) == _told_by(other, fields)


def _told_by(record: Record, fields: Collection[str]) -> tuple[object, ...]:
    known = {KEY: record.key, VALUE: record.value, TIMESTAMP: record.timestamp_ms}
    return tuple(known[name] for name in FIELDS if name in fields)


def records_from(
    site: ClusterReader, since: Offsets, number: int
) -> Mapping[TopicPartition, tuple[Record, ...]]:
    """So many records of each partition, at or behind its offset.

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


def first_arrivals(intent: Json, look: LinkReader) -> Seen:
    """Done where what came first to each partition is what had to come first.

    Args:
        intent: `source` and `target`, clusters by name; `from`, where copying begins on the
            source, and `ends`, where the target's partitions ended before it did: rows of
            `[topic, partition, offset]`, by the source's names and the target's. Optional:
            `whole`, drctl's own copies travel, too; `fields`, by which a record is known again.

    Raises:
        Unreachable: a cluster did not answer.
    """
    start, ends = offsets_of(intent["from"]), offsets_of(intent["ends"])
    target = look.site(intent["target"])
    copies = {p: TopicPartition(look.target_topic(p.topic), p.partition) for p in start}
    there = target.overview().partitions
    since = {
        copy: ends.get(copy, 0) for copy in copies.values() if copy[1] in there.get(copy[0], ())
    }
    # What came is looked at first: what is written meanwhile is then no stranger.
    came = first_records(target, since)
    source, whole = look.site(intent["source"]), intent.get("whole", False)
    travels = first_records(source, start) if whole else first_new_records(source, start)
    fields = tuple(intent.get("fields", FIELDS))
    wrong, awaited = [], []
    for place, copy in copies.items():
        if copy in came and not (
            place in travels
            and _first_arrivals_same(travels[place], came[copy], fields, target, copy)
        ):
            if whole and _cut_since(source, place, start[place]):
                continue
            wrong.append(f"{copy} offset {came[copy].offset}")
        elif place in travels and copy not in came:
            awaited.append(str(place))
    if wrong:
        words = (
            f"what came first to {', '.join(wrong[:_SHOWN])} of {intent['target']} is not the"
            f" first new record of {intent['source']}: records would be copied twice, or left out"
        )
        return Seen(State.FAILED, words, {}, tuple(wrong))
    if awaited:
        words = f"the first new record of {len(awaited)} partitions has not come yet: {awaited[0]}"
        return Seen(State.WAITING, words, {}, tuple(awaited))
    return Seen(State.DONE, _told(len(travels), intent))


def _first_arrivals_same(
    one: Record,
    other: Record,
    fields: Collection[str],
    target: ClusterReader,
    copy: TopicPartition,
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


def _told(number: int, intent: Json) -> str:
    if not number:
        return f"{intent['source']} has nothing new yet"
    if intent.get("whole"):
        return f"what came first to {number} partitions is the first record of each"
    return f"what came first to {number} partitions is the first new record of each; no old one"


MOST = 1_000_000
"""So many records are read to see whether they are the same, where offsets do not tell."""

_AT_ONCE = 5_000


class _Both(NamedTuple):
    """A partition of the survivor, and its copy, which holds something.

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
        """Where the last record of the copy stands on the survivor, where neither has holes."""
        return self.theirs.log_start + _held(self.ours) - 1


def brought_by(connector: str, source: str, target: str, look: LinkReader) -> bool:
    """Whether each partition of the target is the beginning of that of the source, and no more.

    Offsets, the first and the last record tell where logs have no holes. Where they have some
    (transactions, compaction), the records are compared one by one, unless they are too many: then
    it is said not to be.

    Raises:
        UsageError: there is no such connector.
        Unreachable: a cluster, or every worker, did not answer.
    """
    survivor, home = look.site(source), look.site(target)
    theirs, ours = logs_of(survivor, look.topics()), logs_of(home, copies_of(look))
    copies = {place: TopicPartition(look.target_topic(place.topic), place[1]) for place in theirs}
    if any(_held(log) for copy, log in ours.items() if copy not in copies.values()):
        return False
    stopped = look.connectors().state(connector).state == STOPPED
    kept = kept_offsets(connector, look.connectors().offsets(connector))
    filled = {place for place, copy in copies.items() if _held(ours.get(copy))}
    if not filled or filled != kept.keys() & copies.keys():
        return False
    both = [_Both(p, copies[p], theirs[p], ours[copies[p]], kept[p]) for p in sorted(filled)]
    holed = [each for each in both if not _fits(each.last, each.kept, stopped)]
    if any(each.last > each.kept for each in holed) or _records(holed) > MOST:
        return False
    for each in holed:
        last = _one_by_one(each, survivor, home)
        if last is None or not _fits(last, each.kept, stopped):
            return False
    whole = [each for each in both if each not in holed]
    return _same_ends(whole, survivor, home)


def _held(log: PartitionOffsets | None) -> int:
    return 0 if log is None else log.end - log.log_start


def _records(some: Iterable[_Both]) -> int:
    return sum(_held(each.ours) for each in some)


def _fits(last: int, kept: int, stopped: bool) -> bool:
    """Whether what it keeps fits what is there; what runs tells it a minute late."""
    return kept == last if stopped else kept <= last


def _one_by_one(both: _Both, survivor: ClusterReader, home: ClusterReader) -> int | None:
    """Where the copy's last record stands on the survivor; None where it is no beginning of it."""
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
    copies = {each.place: each.copy for each in whole}
    first = {each.place: each.theirs.log_start for each in whole}
    begins = {each.copy: each.ours.log_start for each in whole}
    last = {each.place: each.last for each in whole}
    ends = {each.copy: each.ours.end - 1 for each in whole}
    same = _same(survivor, first, home, begins, copies)
    return same and _same(survivor, last, home, ends, copies)


def _same(
    survivor: ClusterReader,
    theirs: Offsets,
    home: ClusterReader,
    ours: Offsets,
    copies: Mapping[TopicPartition, TopicPartition],
) -> bool:
    """Whether the records at these offsets are the same."""
    there, here = first_records(survivor, theirs), first_records(home, ours)
    return all(
        place in there
        and copies[place] in here
        and there[place].offset == at
        and same_record(there[place], here[copies[place]])
        for place, at in theirs.items()
    )
