"""What came to the target since the gap analysis, held against the records that are to be sent.

A gap result tells what was missing then, and what was newer then. Whatever copied the topic before
may have brought the same records since, and applications write on: a record that is there by now
must not be written again, and one that something newer of its key is in front of by now is not
safe any more.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from drctl.formats import provenance
from drctl.formats.primitives import Undecodable
from drctl.model.errors import Unknown
from drctl.model.gap import OrderVerdict
from drctl.model.topology import (
    Chunk,
    Headers,
    OffsetRange,
    PartitionOffsets,
    Row,
    TopicPartition,
    TopicRanges,
    TopicState,
)
from drctl.reconcile.cluster_state import ClusterState, ClusterStates
from drctl.reconcile.gap_result import (
    FoundPartition,
    SourceLog,
    WantedRow,
    WantedRows,
    key_digest,
    ranges_of,
)
from drctl.reconcile.guards import Changes
from drctl.reconcile.planning import ReconcilePlan
from drctl.reconcile.policy import SENDS, Action

MOST_SUSPECTS = 50_000
"""Records of the target that are held at once, to be compared with wanted ones."""

MOST_KEYS = 100_000
"""Keys that something newer came of; those behind so many are not counted."""

_AT_ONCE = 50_000
_BITS = 27
_HEADER = provenance.HEADER.encode()
_WHOLE_TOPIC = -1

Digest = Callable[[int, bytes | None, bytes | None, Headers], Hashable]
"""Of timestamp, key, value and headers: the same for records that are the same."""


@dataclass(frozen=True, slots=True)
class Sameness:
    """What makes two records the same, as the gap analysis has it.

    Attributes:
        by_partition: whether a copy is in the partition of its original's number.
        keyed: whether records that are the same have the same key.
        timed: whether they have the same timestamp, where the target keeps it.
        digest: what digests a topic's records; told whether the target keeps timestamps.
    """

    by_partition: bool
    keyed: bool
    timed: bool
    digest: Callable[[bool], Digest]


@dataclass(frozen=True, slots=True)
class Stake:
    """Records of one partition of the source that are about to be sent.

    Attributes:
        through: where each of their lanes goes on.
        safe: the lanes that are copied because nothing newer is in front of them.
    """

    partition: FoundPartition
    through: dict[OrderVerdict, int] = field(default_factory=dict)
    safe: set[OrderVerdict] = field(default_factory=set)


Stakes = Mapping[TopicPartition, Stake]


class Sieve:
    """Says of most things that were not put in that they were not; 16 MiB, whatever is put in."""

    def __init__(self) -> None:
        self._bits = bytearray(1 << _BITS - 3)

    def add(self, thing: Hashable) -> None:
        """Put it in."""
        at = hash(thing) & (1 << _BITS) - 1
        self._bits[at >> 3] |= 1 << (at & 7)

    def __contains__(self, thing: Hashable) -> bool:
        """Whether it may have been put in."""
        at = hash(thing) & (1 << _BITS) - 1
        return bool(self._bits[at >> 3] >> (at & 7) & 1)


class Sieves:
    """What is wanted of all topics: keys, and what records that are the same have in common."""

    def __init__(self) -> None:
        self.keys, self.traits = Sieve(), Sieve()


class NewRecords:
    """Takes what came, in pieces.

    Args:
        topic: the source's name of it.
        source_id: Kafka's id of the source: copies that name it were made by drctl, and are known.
        timed: whether the target keeps the timestamps of the source's records.
        per_partition: whether whatever is newer counts, not only what has the same key.

    Attributes:
        until: the offset of each target partition up to which all was taken.
        there: the first wanted offset that is on the target by now, by place.
    """

    def __init__(
        self,
        topic: str,
        sieves: Sieves,
        source_id: str,
        rows: WantedRows,
        source: SourceLog,
        same: Sameness,
        *,
        timed: bool,
        per_partition: bool,
    ) -> None:
        self._topic, self._sieves = topic, sieves
        self._source_id, self._rows, self._source, self._same = source_id, rows, source, same
        self._timed, self._per_partition = timed, per_partition
        self._digest = same.digest(timed)
        self._newest: dict[tuple[int, bytes | None], int] = {}
        self._suspects: dict[Hashable, set[Hashable]] = {}
        self._held = 0
        self.until: dict[int, int] = {}
        self.there: dict[TopicPartition, int] = {}

    @property
    def full(self) -> bool:
        """Whether something has to be compared before more can be taken."""
        return self._held >= MOST_SUSPECTS

    @property
    def uncounted(self) -> bool:
        """Whether there may be more keys than were counted that something newer came of."""
        return len(self._newest) >= MOST_KEYS

    def want(self, stakes: Stakes) -> None:
        """Put what is wanted into the sieves."""
        for place, stake in stakes.items():
            for row in self._rows.after(place, stake.through):
                self._sieves.keys.add((self._topic, row[2]))
                self._sieves.traits.add((self._topic, self._trait(row[2], row[1])))

    def take(self, partition: int, rows: Iterable[Row]) -> None:
        """Some records of a partition of the target."""
        unit, newest, topic = self._unit(partition), self._newest, self._topic
        keys, traits = self._sieves.keys, self._sieves.traits
        for _, time, key, value, headers in rows:
            if headers and self._is_ours(headers):
                continue
            name = key_digest(key)
            if self._per_partition or (name is not None and (topic, name) in keys):
                which = unit, None if self._per_partition else name
                if which in newest or len(newest) < MOST_KEYS:
                    newest[which] = max(time, newest.get(which, time))
            trait = self._trait(name, time)
            if (topic, trait) in traits:
                digests = self._suspects.setdefault((unit, trait), set())
                digests.add(self._digest(time, key, value, headers))
                self._held += 1

    def compare(self, stakes: Stakes, source: ClusterState) -> None:
        """See which wanted records are among what came, and forget what came.

        Raises:
            Unknown: wanted records could not be read from the source.
        """
        for place, stake in stakes.items():
            if self._suspects and place not in self.there:
                log = source.log(place)
                start = log.log_start if isinstance(log, PartitionOffsets) else 0
                at = self._first_there(place, stake, start)
                self.there |= {} if at is None else {place: at}
        self._suspects, self._held = {}, 0

    def newer(self, stakes: Stakes) -> Iterator[tuple[TopicPartition, int]]:
        """How many records that are copied as safe something newer came in front of."""
        for place, stake in stakes.items():
            if not self._newest or not stake.safe or place in self.there:
                continue
            through = {order: at for order, at in stake.through.items() if order in stake.safe}
            behind = sum(self._behind(place, row) for row in self._rows.after(place, through))
            if behind:
                yield place, behind

    def _first_there(self, place: TopicPartition, stake: Stake, start: int) -> int | None:
        unit, suspects = self._unit(place.partition), self._suspects
        alike = (
            (row[0], digests)
            for row in self._rows.after(place, stake.through)
            if (digests := suspects.get((unit, self._trait(row[2], row[1]))))
        )
        while some := dict(islice(alike, _AT_ONCE)):
            ranges = {place.partition: ranges_of(some, start)}
            for piece in self._source.read(place.topic, ranges):
                for offset, *_, record in piece.rows:
                    if offset in some and self._digest(*record[1:]) in some[offset]:
                        return int(offset)
        return None

    def _behind(self, place: TopicPartition, row: WantedRow) -> bool:
        key = None if self._per_partition else row[2]
        newest = self._newest.get((self._unit(place.partition), key))
        return newest is not None and (not self._timed or newest >= row[1])

    def _trait(self, name: bytes | None, time: int) -> Hashable:
        """What records that are the same have in common, as far as a gap result tells it."""
        timed = self._same.timed and self._timed
        return (name if self._same.keyed else None), (time if timed else None)

    def _unit(self, partition: int) -> int:
        return partition if self._same.by_partition else _WHOLE_TOPIC

    def _is_ours(self, headers: Headers) -> bool:
        for name, value in headers:
            if name == _HEADER:
                try:
                    return provenance.decode(value).cluster_id == self._source_id
                except Undecodable:
                    return False
        return False


ReadTarget = Callable[[TopicRanges], Iterator[Chunk]]
"""Every committed record of these ranges; raises Unknown where they cannot be read to their end."""

Progress = Callable[[int, int], None]
"""Told how many of how many offsets were looked through."""


@dataclass(slots=True)
class _Came:
    """What there is of a topic to look through."""

    offsets: int = 0
    waiting: int = 0
    unread: dict[TopicPartition, str] = field(default_factory=dict)
    ranges: dict[int, tuple[OffsetRange, ...]] = field(default_factory=dict)


class TargetChanges:
    """Looks through what came; a second look goes on where the first one ended.

    Args:
        source_id: Kafka's id of the source: copies that name it were made by drctl, and are known.
        per_partition: whether whatever is newer counts, not only what has the same key.
    """

    def __init__(
        self,
        source_id: str,
        rows: WantedRows,
        source: SourceLog,
        target: ReadTarget,
        same: Sameness,
        progress: Progress,
        *,
        per_partition: bool,
    ) -> None:
        self._source_id, self._rows = source_id, rows
        self._source, self._target, self._same = source, target, same
        self._progress, self._per_partition = progress, per_partition
        self._topics: dict[str, NewRecords] = {}
        self._sieves: Sieves | None = None

    def look(self, plan: ReconcilePlan, sight: ClusterStates, *, last: bool) -> Changes:
        """What came, as far as it stands against the plan.

        Args:
            last: whether records are written next: then what lies behind open transactions is
                waited for.

        Raises:
            Unknown: wanted records could not be read from the source.
        """
        found = Changes()
        by_topic: dict[str, dict[TopicPartition, Stake]] = {}
        for place, stake in _stakes(plan).items():
            by_topic.setdefault(place.topic, {})[place] = stake
        for topic, stakes in by_topic.items():
            found += self._look(topic, stakes, plan, sight, last)
        return found

    def _look(
        self, topic: str, stakes: Stakes, plan: ReconcilePlan, sight: ClusterStates, last: bool
    ) -> Changes:
        target_topic = next(iter(stakes.values())).partition.target_topic
        came = self._came(topic, stakes, plan, sight, last)
        came.unread |= self._unlisted(target_topic, stakes, plan, sight)
        if came.ranges:
            known = self._topics.get(topic) or self._begun(topic, target_topic, stakes, sight)
            came.unread |= self._read(known, {target_topic: came.ranges}, stakes, sight)
        found = self._topics.get(topic)
        if found is None:
            return Changes(came.offsets, came.waiting, unread=came.unread)
        newer = dict(found.newer(stakes))
        there = dict(found.there)
        return Changes(came.offsets, came.waiting, there, newer, came.unread, found.uncounted)

    def _came(
        self, topic: str, stakes: Stakes, plan: ReconcilePlan, sight: ClusterStates, last: bool
    ) -> _Came:
        """What is to be looked through of a topic, and what cannot be."""
        found, known = _Came(), self._topics.get(topic)
        for partition, log in self._logs(topic, stakes, plan, sight):
            number, told = partition.place.partition, _told_end(partition, log)
            start = max(told, known.until.get(number, 0) if known else 0)
            if log.log_start > start:
                why = f"it deleted its records from {start} to {log.log_start - 1} since"
                found.unread |= dict.fromkeys(_concerned(partition.place, stakes), why)
            start, end = max(start, log.log_start), log.end if last else log.last_stable
            found.offsets += log.end - told
            found.waiting += log.end - max(start, end)
            if end > start:
                found.ranges[number] = (OffsetRange(start, end),)
        return found

    def _logs(
        self, topic: str, stakes: Stakes, plan: ReconcilePlan, sight: ClusterStates
    ) -> Iterator[tuple[FoundPartition, PartitionOffsets]]:
        """The partitions of the target that what was missing may have come to."""
        for partition in plan.gap.partitions:
            place = partition.place
            log = sight.target.log(TopicPartition(partition.target_topic, place.partition))
            theirs = place in stakes if self._same.by_partition else place.topic == topic
            if theirs and isinstance(log, PartitionOffsets):
                yield partition, log

    def _unlisted(
        self, target_topic: str, stakes: Stakes, plan: ReconcilePlan, sight: ClusterStates
    ) -> dict[TopicPartition, str]:
        """Where copies may be in any partition, those that the gap result says nothing of."""
        state = sight.target.state(target_topic)
        if self._same.by_partition or not isinstance(state, TopicState):
            return {}
        listed = {p.place.partition for p in plan.gap.partitions if p.target_topic == target_topic}
        others = sorted(set(state.partitions) - listed)
        names = ", ".join(map(str, others))
        why = f"the gap result says nothing of partitions {names} of {target_topic}"
        return dict.fromkeys(stakes, why) if others else {}

    def _begun(
        self, topic: str, target_topic: str, stakes: Stakes, sight: ClusterStates
    ) -> NewRecords:
        state = sight.target.state(target_topic)
        self._sieves = self._sieves or Sieves()
        known = self._topics[topic] = NewRecords(
            topic,
            self._sieves,
            self._source_id,
            self._rows,
            self._source,
            self._same,
            timed=not (isinstance(state, TopicState) and state.log_append_time),
            per_partition=self._per_partition,
        )
        known.want(stakes)
        return known

    def _read(
        self, known: NewRecords, ranges: TopicRanges, stakes: Stakes, sight: ClusterStates
    ) -> dict[TopicPartition, str]:
        """Look through them; why that could not be done to the end, if so.

        Raises:
            Unknown: the source could not be read.
        """
        total = sum(r.span for parts in ranges.values() for runs in parts.values() for r in runs)
        done, why = 0, ""
        try:
            for chunk in _chunks(self._target, ranges):
                known.take(chunk.partition, chunk.rows)
                done += len(chunk.rows)
                self._progress(done, total)
                if known.full:
                    known.compare(stakes, sight.source)
        except _Unread as failed:
            why = failed.why
        known.compare(stakes, sight.source)
        if why:
            return dict.fromkeys(stakes, why)
        for parts in ranges.values():
            known.until |= {number: runs[-1].end for number, runs in parts.items()}
        return {}


class _Unread(Exception):
    """The target could not be read to its end."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def _chunks(target: ReadTarget, ranges: TopicRanges) -> Iterator[Chunk]:
    """Read the target: what fails there is told apart from what fails at the source."""
    try:
        yield from target(ranges)
    except Unknown as failed:
        raise _Unread(failed.message) from failed


def _stakes(plan: ReconcilePlan) -> dict[TopicPartition, Stake]:
    partitions = {p.place: p for p in plan.gap.partitions}
    found: dict[TopicPartition, Stake] = {}
    for line in plan.acting:
        if line.action in SENDS:
            place, order = line.lane
            stake = found.setdefault(place, Stake(partitions[place]))
            stake.through[order] = line.through
            if line.action is Action.COPY and not line.behind:
                stake.safe.add(order)
    return found


def _told_end(partition: FoundPartition, log: PartitionOffsets) -> int:
    """Up to where the gap analysis has read the target."""
    return partition.target_range.end if partition.target_range else log.log_start


def _concerned(place: TopicPartition, stakes: Stakes) -> Iterable[TopicPartition]:
    """The stakes that what came to a partition concerns."""
    return (place,) if place in stakes else stakes
