"""Compares what was appended to the target since the gap analysis with the records to be sent.

A gap result tells what was missing then, and what was newer then. The replicator may have copied
the same records since, and applications continue to write: a record that is there by now must not
be written again, and one whose key has something newer on the target by now is no longer safe.
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
from drctl.reconcile.planning import ReconcilePlan
from drctl.reconcile.policy import SENDS, Action
from drctl.reconcile.prechecks import Changes

MOST_SUSPECTS = 50_000
"""Records of the target that are held at once, to be compared with wanted ones."""

MOST_KEYS = 100_000
"""Keys with something newer that are counted at most."""

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
class PendingRecords:
    """Records of one partition of the source that are about to be sent.

    Attributes:
        through: the offset up to which each order verdict is done.
        safe: the order verdicts that are copied because nothing newer is on the target.
    """

    partition: FoundPartition
    through: dict[OrderVerdict, int] = field(default_factory=dict)
    safe: set[OrderVerdict] = field(default_factory=set)


PendingByPartition = Mapping[TopicPartition, PendingRecords]


class HashSet:
    """A set that may hold too much: what was added is found, most else is not; 16 MiB."""

    def __init__(self) -> None:
        self._bits = bytearray(1 << _BITS - 3)

    def add(self, thing: Hashable) -> None:
        """Add it."""
        at = hash(thing) & (1 << _BITS) - 1
        self._bits[at >> 3] |= 1 << (at & 7)

    def __contains__(self, thing: Hashable) -> bool:
        """Whether it may have been added."""
        at = hash(thing) & (1 << _BITS) - 1
        return bool(self._bits[at >> 3] >> (at & 7) & 1)


class WantedHashes:
    """What is wanted of all topics: keys, and what records that are the same have in common."""

    def __init__(self) -> None:
        self.keys, self.traits = HashSet(), HashSet()


@dataclass(slots=True)
class NewRecords:
    """Takes the records that were appended to a topic, in pieces.

    Attributes:
        topic: the source's name of it.
        source_id: Kafka's id of the source: copies that name it were made by drctl, and are known.
        timed: whether the target keeps the timestamps of the source's records.
        per_partition: whether anything newer counts, not only what has the same key.
        until: the offset of each target partition up to which all was taken.
        there: the first wanted offset that is on the target by now, by place.
    """

    topic: str
    hashes: WantedHashes
    source_id: str
    rows: WantedRows
    source: SourceLog
    same: Sameness
    timed: bool
    per_partition: bool
    until: dict[int, int] = field(default_factory=dict)
    there: dict[TopicPartition, int] = field(default_factory=dict)
    _digest: Digest = field(init=False)
    _newest: dict[tuple[int, bytes | None], int] = field(default_factory=dict)
    _suspects: dict[Hashable, set[Hashable]] = field(default_factory=dict)
    _held: int = 0

    def __post_init__(self) -> None:
        """Choose the digest for this topic."""
        self._digest = self.same.digest(self.timed)

    @property
    def full(self) -> bool:
        """Whether something has to be compared before more can be taken."""
        return self._held >= MOST_SUSPECTS

    @property
    def uncounted(self) -> bool:
        """Whether there may be more keys than were counted that something newer came of."""
        return len(self._newest) >= MOST_KEYS

    def want(self, pending: PendingByPartition) -> None:
        """Put what is wanted into the sieves."""
        for place, each in pending.items():
            for row in self.rows.after(place, each.through):
                self.hashes.keys.add((self.topic, row[2]))
                self.hashes.traits.add((self.topic, self._trait(row[2], row[1])))

    def take(self, partition: int, rows: Iterable[Row]) -> None:
        """Take some records of a partition of the target."""
        unit, newest, topic = self._unit(partition), self._newest, self.topic
        keys, traits = self.hashes.keys, self.hashes.traits
        for _, time, key, value, headers in rows:
            if headers and self._is_ours(headers):
                continue
            name = key_digest(key)
            if self.per_partition or (name is not None and (topic, name) in keys):
                which = unit, None if self.per_partition else name
                if which in newest or len(newest) < MOST_KEYS:
                    newest[which] = max(time, newest.get(which, time))
            trait = self._trait(name, time)
            if (topic, trait) in traits:
                digests = self._suspects.setdefault((unit, trait), set())
                digests.add(self._digest(time, key, value, headers))
                self._held += 1

    def compare(self, pending: PendingByPartition, source: ClusterState) -> None:
        """Find the wanted records among those taken, and forget these.

        Raises:
            Unknown: wanted records could not be read from the source.
        """
        for place, each in pending.items():
            if self._suspects and place not in self.there:
                at = self._first_there(place, each, source.log_start(place))
                self.there |= {} if at is None else {place: at}
        self._suspects, self._held = {}, 0

    def newer(self, pending: PendingByPartition) -> Iterator[tuple[TopicPartition, int]]:
        """How many records that are copied as safe have something newer on the target by now."""
        for place, each in pending.items():
            if not self._newest or not each.safe or place in self.there:
                continue
            through = {order: at for order, at in each.through.items() if order in each.safe}
            outdated = sum(self._outdated(place, row) for row in self.rows.after(place, through))
            if outdated:
                yield place, outdated

    def _first_there(self, place: TopicPartition, each: PendingRecords, start: int) -> int | None:
        unit, suspects = self._unit(place.partition), self._suspects
        alike = (
            (row[0], digests)
            for row in self.rows.after(place, each.through)
            if (digests := suspects.get((unit, self._trait(row[2], row[1]))))
        )
        while some := dict(islice(alike, _AT_ONCE)):
            ranges = {place.partition: ranges_of(some, start)}
            for piece in self.source.read(place.topic, ranges):
                for offset, *_, record in piece.rows:
                    if offset in some and self._digest(*record[1:]) in some[offset]:
                        return int(offset)
        return None

    def _outdated(self, place: TopicPartition, row: WantedRow) -> bool:
        key = None if self.per_partition else row[2]
        newest = self._newest.get((self._unit(place.partition), key))
        return newest is not None and (not self.timed or newest >= row[1])

    def _trait(self, name: bytes | None, time: int) -> Hashable:
        """What records that are the same have in common, as far as a gap result tells it."""
        timed = self.same.timed and self.timed
        return (name if self.same.keyed else None), (time if timed else None)

    def _unit(self, partition: int) -> int:
        return partition if self.same.by_partition else _WHOLE_TOPIC

    def _is_ours(self, headers: Headers) -> bool:
        for name, value in headers:
            if name == _HEADER:
                try:
                    return provenance.decode(value).cluster_id == self.source_id
                except Undecodable:
                    return False
        return False


ReadTarget = Callable[[TopicRanges], Iterator[Chunk]]
"""Every committed record of these ranges; raises Unknown where they cannot be read to their end."""

Progress = Callable[[int, int], None]
"""Told how many of how many offsets were read."""


@dataclass(slots=True)
class _Appended:
    """The records of a topic to be read."""

    offsets: int = 0
    waiting: int = 0
    unread: dict[TopicPartition, str] = field(default_factory=dict)
    ranges: dict[int, tuple[OffsetRange, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class TargetChanges:
    """Reads what was appended to the target; a second read continues where the first one ended.

    Attributes:
        source_id: Kafka's id of the source: copies that name it were made by drctl, and are known.
        per_partition: whether anything newer counts, not only what has the same key.
    """

    source_id: str
    rows: WantedRows
    source: SourceLog
    target: ReadTarget
    same: Sameness
    progress: Progress
    per_partition: bool = field(kw_only=True)
    _topics: dict[str, NewRecords] = field(default_factory=dict)
    _hashes: WantedHashes | None = None

    def look(self, plan: ReconcilePlan, clusters: ClusterStates, *, last: bool) -> Changes:
        """What was appended, as far as it concerns the plan.

        Args:
            last: whether records are written next: then open transactions are waited for.

        Raises:
            Unknown: wanted records could not be read from the source.
        """
        found = Changes()
        by_topic: dict[str, dict[TopicPartition, PendingRecords]] = {}
        for place, each in _pending(plan).items():
            by_topic.setdefault(place.topic, {})[place] = each
        for topic, pending in by_topic.items():
            found += self._look(topic, pending, plan, clusters, last)
        return found

    def _look(
        self,
        topic: str,
        pending: PendingByPartition,
        plan: ReconcilePlan,
        clusters: ClusterStates,
        last: bool,
    ) -> Changes:
        target_topic = next(iter(pending.values())).partition.target_topic
        appended = self._appended(topic, pending, plan, clusters, last)
        appended.unread |= self._unlisted(target_topic, pending, plan, clusters)
        if appended.ranges:
            known = self._topics.get(topic) or self._begun(topic, target_topic, pending, clusters)
            appended.unread |= self._read(known, {target_topic: appended.ranges}, pending, clusters)
        found = self._topics.get(topic)
        if found is None:
            return Changes(appended.offsets, appended.waiting, unread=appended.unread)
        there, newer = dict(found.there), dict(found.newer(pending))
        return Changes(
            appended.offsets, appended.waiting, there, newer, appended.unread, found.uncounted
        )

    def _appended(
        self,
        topic: str,
        pending: PendingByPartition,
        plan: ReconcilePlan,
        clusters: ClusterStates,
        last: bool,
    ) -> _Appended:
        """What is to be read of a topic, and what cannot be."""
        found, known = _Appended(), self._topics.get(topic)
        for partition, log in self._logs(topic, pending, plan, clusters):
            number, compared = partition.place.partition, partition.target_range
            end_then = compared.end if compared else log.log_start
            start = max(end_then, known.until.get(number, 0) if known else 0)
            if log.log_start > start:
                why = f"it deleted its records from {start} to {log.log_start - 1} since"
                place = partition.place
                found.unread |= dict.fromkeys((place,) if place in pending else pending, why)
            start, end = max(start, log.log_start), log.end if last else log.last_stable
            found.offsets += log.end - end_then
            found.waiting += log.end - max(start, end)
            if end > start:
                found.ranges[number] = (OffsetRange(start, end),)
        return found

    def _logs(
        self, topic: str, pending: PendingByPartition, plan: ReconcilePlan, clusters: ClusterStates
    ) -> Iterator[tuple[FoundPartition, PartitionOffsets]]:
        """The partitions of the target that may hold the missing records by now."""
        for partition in plan.gap.partitions:
            place, log = partition.place, clusters.target.log(partition.there)
            theirs = place in pending if self.same.by_partition else place.topic == topic
            if theirs and isinstance(log, PartitionOffsets):
                yield partition, log

    def _unlisted(
        self,
        target_topic: str,
        pending: PendingByPartition,
        plan: ReconcilePlan,
        clusters: ClusterStates,
    ) -> dict[TopicPartition, str]:
        """Where copies may be in any partition, those that the gap result says nothing of."""
        state = clusters.target.state(target_topic)
        if self.same.by_partition or not isinstance(state, TopicState):
            return {}
        listed = {p.place.partition for p in plan.gap.partitions if p.target_topic == target_topic}
        others = sorted(set(state.partitions) - listed)
        names = ", ".join(map(str, others))
        why = f"the gap result says nothing of partitions {names} of {target_topic}"
        return dict.fromkeys(pending, why) if others else {}

    def _begun(
        self, topic: str, target_topic: str, pending: PendingByPartition, clusters: ClusterStates
    ) -> NewRecords:
        state = clusters.target.state(target_topic)
        self._hashes = self._hashes or WantedHashes()
        known = self._topics[topic] = NewRecords(
            topic,
            self._hashes,
            self.source_id,
            self.rows,
            self.source,
            self.same,
            not (isinstance(state, TopicState) and state.log_append_time),
            self.per_partition,
        )
        known.want(pending)
        return known

    def _read(
        self,
        known: NewRecords,
        ranges: TopicRanges,
        pending: PendingByPartition,
        clusters: ClusterStates,
    ) -> dict[TopicPartition, str]:
        """Read them; by partition, why that could not be done to the end, if so.

        Raises:
            Unknown: the source could not be read.
        """
        total = sum(r.span for parts in ranges.values() for runs in parts.values() for r in runs)
        done, failure = 0, list[str]()
        for chunk in _until_failure(self.target, ranges, failure):
            known.take(chunk.partition, chunk.rows)
            done += len(chunk.rows)
            self.progress(done, total)
            if known.full:
                known.compare(pending, clusters.source)
        known.compare(pending, clusters.source)
        if failure:
            return dict.fromkeys(pending, failure[0])
        for parts in ranges.values():
            known.until |= {number: runs[-1].end for number, runs in parts.items()}
        return {}


def _until_failure(target: ReadTarget, ranges: TopicRanges, failure: list[str]) -> Iterator[Chunk]:
    """What the target gives; a failure there must not be taken for one of the source."""
    try:
        yield from target(ranges)
    except Unknown as failed:
        failure.append(failed.message)


def _pending(plan: ReconcilePlan) -> dict[TopicPartition, PendingRecords]:
    partitions = {p.place: p for p in plan.gap.partitions}
    found: dict[TopicPartition, PendingRecords] = {}
    for line in plan.acting:
        if line.action in SENDS:
            place, order = line.record_set
            each = found.setdefault(place, PendingRecords(partitions[place]))
            each.through[order] = line.through
            if line.action is Action.COPY and not line.out_of_order:
                each.safe.add(order)
    return found
