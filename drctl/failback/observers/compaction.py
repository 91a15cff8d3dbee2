"""Finds where new records begin in compacted topics: each cluster compacts its log by itself."""

from bisect import bisect_left
from collections.abc import Sequence
from hashlib import blake2b
from operator import itemgetter

from drctl.failback.gap_results import PartitionResult
from drctl.failback.observers.copies import in_chunks, original
from drctl.failback.observers.records import RecordIdentity
from drctl.model.errors import Unreachable
from drctl.model.ports import ClusterReader
from drctl.model.topology import Record, TopicPartition


def compared_again(
    partitions: Sequence[PartitionResult],
    origin: str,
    source: ClusterReader,
    target: ClusterReader,
    record_identity: RecordIdentity,
) -> dict[TopicPartition, int]:
    """The boundaries of partitions of compacted topics, from what is left of both logs.

    Args:
        partitions: with the records that were missing when they were compared.
        origin: id of the source.
        record_identity: how copies are identified.

    Raises:
        Unreachable: a partition could not be read, or old records follow records that may be new.
    """
    digest = record_identity.digest
    copies = {each.place: each.copy for each in partitions}
    places = {each.copy: each.place for each in partitions}
    here = {each.place: range(each.source.start, each.source.end) for each in partitions}
    there = {
        e.copy: range(e.target.start, e.target.end) for e in partitions if e.target is not None
    }
    found = {
        each.copy: _Compacted(each, timed=each.copy.topic not in record_identity.own_time)
        for each in partitions
        if each.copy in there
    }
    for place, records in in_chunks(source, here):
        copy = copies[place]
        for record in records:
            found[copy].take_source(record, digest(record, copy.topic))
    for copy, records in in_chunks(target, there):
        for record in records:
            of_source = original(record, origin, places[copy])
            found[copy].take_target(record, digest(record, copy.topic), of_source)
    for copy, records in in_chunks(target, there):
        for record in records:
            if original(record, origin, places[copy]) is None:
                found[copy].compare(record, digest(record, copy.topic))
    mixed = [copy for copy, each in found.items() if each.mixed]
    if mixed:
        raise Unreachable(
            f"in {mixed[0]} of {target.name}, old records follow records that may be new:"
            f" forward replication copied them late, or {source.name} has compacted the earlier"
            " ones away and their timestamps do not show it: the boundary is unknown; --rebuild"
            " does not need it"
        )
    return {c: there[c].stop if each.new is None else each.new for c, each in found.items()}


class _Compacted:
    """Finds where new records begin in a compacted partition of the target.

    A record that only the target has is old if the source has a later record of its key with a
    higher timestamp: the source has compacted it away since it was copied. If the source has no
    record of its key any more, the key was deleted, and the tombstone has expired: then a tombstone
    of the key follows on the target, or an old record with a higher timestamp.

    Attributes:
        new: offset of the first new record; None if there is none so far.
    """

    def __init__(self, partition: PartitionResult, *, timed: bool) -> None:
        self.new: int | None = None
        self._timed = timed
        self._missing = partition.ranges
        self._more_missing = partition.ranges_total > len(partition.ranges)
        self._offsets: dict[bytes, int] = {}
        """By digest, the offset on the source."""
        self._last: dict[bytes, tuple[int, int]] = {}
        """By key, offset and timestamp of the last record on the source."""
        self._on_target: set[int] = set()
        """Offsets of source records that the target has."""
        self._ends: dict[bytes, int] = {}
        """By key, the offset of the last record on the target."""
        self._reached = -1
        """The highest offset on the source of the records compared so far."""
        self._alive: dict[bytes, int] = {}
        """Keys without a record on the source, and their timestamps, since the last old record."""
        self._passed: dict[bytes, int] = {}
        """The same before an old record, except with lower timestamps than that record."""
        self._certain = False
        """Whether a record was new."""
        self._suspected = False
        """Whether a record was new, unless MirrorMaker 2 copied it again."""
        self._mixed = False

    @property
    def mixed(self) -> bool:
        """Whether an old record follows one that may be new."""
        return self._mixed or bool(self._passed)

    def take_source(self, record: Record, digest: bytes) -> None:
        """Take the next record of the source."""
        self._offsets[digest] = record.offset
        self._last[_short(record.key)] = record.offset, record.timestamp_ms

    def take_target(self, record: Record, digest: bytes, original: int | None) -> None:
        """Take the next record of the target, after all records of the source."""
        found = self._offsets.get(digest) if original is None else original
        if found is not None:
            self._on_target.add(found)
        self._ends[_short(record.key)] = record.offset

    def compare(self, record: Record, digest: bytes) -> None:
        """Judge the next record of the target that drctl did not copy, once all were taken."""
        key, time = _short(record.key), record.timestamp_ms
        offset = self._offsets.get(digest, -1)
        last, last_time = self._last.get(key, (-1, -1))
        # If the target neither has nor misses the source's last record, a later one replaced it.
        known = last in self._on_target or self._is_missing(last)
        outdated = last_time >= time if known else last_time > time
        if not self._timed:
            outdated = known
        if offset < 0 and not (outdated and last > self._reached):
            self._take_perhaps_new(record, key, in_source=last >= 0, outdated=outdated)
            return
        if offset < 0:
            self._mixed |= not known and self._ends[key] == record.offset
        elif offset > self._reached:
            self._mixed |= self._suspected
        else:
            self._suspected = False
        self._mixed |= self._certain
        self._passed |= {each: at for each, at in self._alive.items() if at >= time}
        self._alive.clear()
        self._reached, self.new = max(self._reached, offset), None

    def _is_missing(self, offset: int) -> bool:
        """Whether the target did not have a source record when it was compared."""
        at = bisect_left(self._missing, offset, key=itemgetter(1))
        return self._more_missing if at == len(self._missing) else offset >= self._missing[at][0]

    def _take_perhaps_new(
        self, record: Record, key: bytes, *, in_source: bool, outdated: bool
    ) -> None:
        """Take a record that is new, unless an old one follows."""
        if outdated:
            # If MirrorMaker 2 copied it again, others that it copied again follow.
            self._suspected = True
        elif in_source:
            self._certain = True
        elif record.value is not None:
            self._alive[key] = record.timestamp_ms
        else:
            for keys in (self._alive, self._passed):
                if keys.get(key, -1) <= record.timestamp_ms:
                    keys.pop(key, None)
        if self.new is None:
            self.new = record.offset


def _short(key: bytes | None) -> bytes:
    """A digest of a key (128 bits): keys may be large, and are never null in compacted topics."""
    return blake2b(key or b"", digest_size=16).digest()
