"""Compares records appended to the target since the gap analysis with the records to copy.

The replicator may have copied the same records since, and applications continue to write. A record
that is now on the target must not be copied again, and a record whose key now has a newer record on
the target is no longer safe.
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
"""Maximum number of target records held in memory for comparison."""

MOST_KEYS = 100_000
"""Maximum number of keys with newer records that are counted."""

_AT_ONCE = 50_000
_BITS = 27
_HEADER = provenance.HEADER.encode()
_WHOLE_TOPIC = -1

Digest = Callable[[int, bytes | None, bytes | None, Headers], Hashable]
"""Digest of timestamp, key, value and headers; equal for equal records."""


@dataclass(frozen=True, slots=True)
class Sameness:
    """What makes two records equal, as in the gap analysis.

    Attributes:
        by_partition: whether a copy has the partition number of its original.
        keyed: whether equal records have the same key.
        timed: whether equal records have the same timestamp, if the target keeps timestamps.
        digest: returns the digest function of a topic; its argument is whether the target keeps
            timestamps.
    """

    by_partition: bool
    keyed: bool
    timed: bool
    digest: Callable[[bool], Digest]


@dataclass(frozen=True, slots=True)
class PendingRecords:
    """Records of a source partition that are about to be copied.

    Attributes:
        through: the offset up to which each order verdict is done.
        safe: order verdicts that are copied because the target holds nothing newer.
    """

    partition: FoundPartition
    through: dict[OrderVerdict, int] = field(default_factory=dict)
    safe: set[OrderVerdict] = field(default_factory=set)


PendingByPartition = Mapping[TopicPartition, PendingRecords]


class HashSet:
    """A set of 16 MiB with false positives, but without false negatives."""

    def __init__(self) -> None:
        self._bits = bytearray(1 << _BITS - 3)

    def add(self, thing: Hashable) -> None:
        """Add an element."""
        at = hash(thing) & (1 << _BITS) - 1
        self._bits[at >> 3] |= 1 << (at & 7)

    def __contains__(self, thing: Hashable) -> bool:
        """Return whether an element may have been added."""
        at = hash(thing) & (1 << _BITS) - 1
        return bool(self._bits[at >> 3] >> (at & 7) & 1)


class WantedHashes:
    """Keys and traits of all records that are about to be copied."""

    def __init__(self) -> None:
        self.keys, self.traits = HashSet(), HashSet()


@dataclass(slots=True)
class NewRecords:
    """Checks the records that were appended to a target topic, in chunks.

    Attributes:
        topic: name of the topic on the source.
        source_id: cluster id of the source: copies with this id were made by drctl and are skipped.
        timed: whether the target keeps the timestamps of the source.
        per_partition: whether any newer record counts, not only those with the same key.
        until: offset of each target partition up to which records were checked.
        there: first missing offset that is now on the target, by partition.
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
        """Whether `compare` has to run before more records can be taken."""
        return self._held >= MOST_SUSPECTS

    @property
    def uncounted(self) -> bool:
        """Whether there may be more keys with newer records than were counted."""
        return len(self._newest) >= MOST_KEYS

    def want(self, pending: PendingByPartition) -> None:
        """Register the records that are about to be copied."""
        for place, each in pending.items():
            for row in self.rows.after(place, each.through):
                self.hashes.keys.add((self.topic, row[2]))
                self.hashes.traits.add((self.topic, self._trait(row[2], row[1])))

    def take(self, partition: int, rows: Iterable[Row]) -> None:
        """Take records of a target partition."""
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
        """Compare the records taken so far with those to copy, and release them.

        Raises:
            Unknown: records could not be read from the source.
        """
        for place, each in pending.items():
            if self._suspects and place not in self.there:
                at = self._first_there(place, each, source.log_start(place))
                self.there |= {} if at is None else {place: at}
        self._suspects, self._held = {}, 0

    def newer(self, pending: PendingByPartition) -> Iterator[tuple[TopicPartition, int]]:
        """Yield how many safe records now have newer records on the target."""
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
                for row in piece.rows:
                    if row[0] in some and self._digest(*row[1:]) in some[row[0]]:
                        return row[0]
        return None

    def _outdated(self, place: TopicPartition, row: WantedRow) -> bool:
        key = None if self.per_partition else row[2]
        newest = self._newest.get((self._unit(place.partition), key))
        return newest is not None and (not self.timed or newest >= row[1])

    def _trait(self, name: bytes | None, time: int) -> Hashable:
        """Return what equal records have in common, from the fields in a gap result."""
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
"""Yields every committed record of these ranges; raises Unknown if a range cannot be read."""

Progress = Callable[[int, int], None]
"""Called with (offsets read, offsets in total)."""


@dataclass(slots=True)
class _Appended:
    """The appended records of a topic."""

    offsets: int = 0
    waiting: int = 0
    unread: dict[TopicPartition, str] = field(default_factory=dict)
    ranges: dict[int, tuple[OffsetRange, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class TargetChanges:
    """Reads what was appended to the target; a second read continues after the first one.

    Attributes:
        source_id: cluster id of the source: copies with this id were made by drctl and are skipped.
        per_partition: whether any newer record counts, not only those with the same key.
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
        """Return the changes by appended records that affect the plan.

        Args:
            last: whether this is the last check before writing: then wait for open transactions.

        Raises:
            Unknown: records could not be read from the source.
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
        """Return the appended ranges of a topic, and what cannot be read."""
        found, known = _Appended(), self._topics.get(topic)
        for partition, log in self._logs(topic, pending, plan, clusters):
            number, compared = partition.place.partition, partition.target_range
            end_then = compared.end if compared else log.log_start
            start = max(end_then, known.until.get(number, 0) if known else 0)
            if log.log_start > start:
                why = f"the target has already deleted offsets {start} to {log.log_start - 1}"
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
        """Yield the target partitions that may hold the missing records now."""
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
        """Return target partitions that the gap result does not cover, if copies may be there."""
        state = clusters.target.state(target_topic)
        if self.same.by_partition or not isinstance(state, TopicState):
            return {}
        listed = {p.place.partition for p in plan.gap.partitions if p.target_topic == target_topic}
        others = sorted(set(state.partitions) - listed)
        names = ", ".join(map(str, others))
        why = f"the gap result does not cover partitions {names} of {target_topic}"
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
        """Check the appended records; return, by partition, why some could not be read.

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
    """Yield chunks of the target; keep its failures apart from failures of the source."""
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
