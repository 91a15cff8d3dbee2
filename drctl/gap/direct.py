"""Compares records without Spark.

The result is the same as with Spark. Of few records it keeps 64 bytes each in memory, so that they
need not be read again after the digests. Of many, it digests only what is not equal on both
clusters (`pairing`), and reads ranges that differ again.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from drctl.gap.comparison import (
    ONE_CELL,
    BucketDigest,
    ComparePlan,
    Comparison,
    OrderCheck,
    Progress,
    Ranges,
    Reads,
    ScanFailed,
    Side,
    TopicSuspects,
    merge,
    span_of,
)
from drctl.gap.engine_choice import HELD_OFFSETS
from drctl.gap.held import (
    NOT_KEPT,
    Intake,
    KeyRoom,
    LogReader,
    Partition,
    key_hash,
    record_digest,
    source_rows,
    target_digest,
)
from drctl.gap.matching import Match, Tally, TopicMatcher, inversions, sum_up
from drctl.gap.pairing import READING, BothDigester, InThisProcess
from drctl.gap.summing import Classified, MissingRow, RowWriter
from drctl.model.topology import Chunk, OffsetRange, TopicRanges

KEY_BYTES = 64 << 20
"""Maximum size of keys kept in memory; other keys of missing records are read again."""

KEY_RANGES = 64

Held = dict[tuple[Side, str], dict[int, Partition]]


class DirectComparer:
    """Implements `drctl.gap.comparison.RecordComparer`.

    Args:
        writer: writes missing records and inversions.
        held_offsets: offsets kept in memory between digest and comparison.
        key_bytes: bytes of keys kept in memory.
        both: digests ranges that are not kept; in this process if it is None.
    """

    def __init__(
        self,
        reader: LogReader,
        writer: RowWriter,
        *,
        held_offsets: int = HELD_OFFSETS,
        key_bytes: int = KEY_BYTES,
        both: BothDigester | None = None,
    ) -> None:
        self._reader = reader
        self._both = both or InThisProcess(reader)
        self._writer = writer
        self._held_offsets = held_offsets
        self._key_bytes = key_bytes
        self._forget()

    def _forget(self) -> None:
        self._plan: ComparePlan | None = None
        self._offsets = 0
        self._held: Held = {}
        self._keys = KeyRoom(self._key_bytes)

    def digest(self, plan: ComparePlan, reads: Reads, progress: Progress) -> Sequence[BucketDigest]:
        """Digest every record of these ranges.

        Raises:
            ScanFailed: the records could not be read completely.
        """
        if plan != self._plan:
            self._forget()
            self._plan = plan
        span = span_of(reads)
        keep = self._offsets + span <= self._held_offsets
        self._offsets += span if keep else 0
        if not keep and plan.cell_bits >= ONE_CELL:  # a ledger needs every digest
            return self._both.digest(plan, reads, progress)
        return self._read(plan, reads, keep, READING, progress)

    def compare(
        self, plan: ComparePlan, suspects: Sequence[TopicSuspects], progress: Progress
    ) -> Comparison:
        """Compare record by record; write the missing ones.

        Raises:
            ScanFailed: the records could not be read completely or not be written.
        """
        if plan != self._plan:
            self._forget()
        missing = {
            side: self._not_held(side, {s.plan.topic: s.ranges(side) for s in suspects})
            for side in Side
        }
        self._read(plan, missing, True, "comparing records", progress)
        matchers = {s.plan.topic: self._matcher(plan, s) for s in suspects}
        self._read_later(matchers, plan, progress)
        matches = {topic: matcher.classify() for topic, matcher in matchers.items()}
        self._writer.write(self._rows(matches))
        progress("adding up", 0, 0)
        self._forget()
        return sum_up(matches, matchers)

    def check_order(self, plan: ComparePlan, progress: Progress) -> OrderCheck:
        """Check the order of all replicated records of the plan; write the inversions.

        Raises:
            ScanFailed: the records could not be read completely or not be written.
        """
        if plan != self._plan:
            self._forget()
            self._plan = plan
        missing = {side: self._not_held(side, plan.everything()[side]) for side in Side}
        self._read(plan, missing, True, "checking the order of records", progress)
        tally = Tally()
        self._writer.write_inversions(tally.counting(inversions(plan, self._held)))
        return tally.check_order()

    def _not_held(self, side: Side, wanted: Ranges) -> Ranges:
        return {
            topic: {
                p: ranges
                for p, ranges in partitions.items()
                if not self._partition(side, topic, p).covers(ranges)
            }
            for topic, partitions in wanted.items()
        }

    def _read(
        self, plan: ComparePlan, reads: Reads, keep: bool, phase: str, progress: Progress
    ) -> list[BucketDigest]:
        done, total = 0, span_of(reads)
        progress(phase, 0, total)
        digests: list[BucketDigest] = []
        for side in Side:
            ranges = _with_offsets(reads.get(side, {}))
            names = {t.topic: t.name_on(side) for t in plan.topics}
            intakes = self._intakes(plan, side, ranges, keep)
            there = {names[topic]: partitions for topic, partitions in ranges.items()}
            for chunk in self._chunks(plan, side, there):
                intakes[chunk.topic, chunk.partition].take(chunk.rows)
                done += len(chunk.rows)
                progress(phase, done, total)
            digests += [d for intake in intakes.values() for d in intake.digests()]
        progress(phase, total, total)
        return digests

    def _chunks(self, plan: ComparePlan, side: Side, ranges: TopicRanges) -> Iterator[Chunk]:
        """Read the compared records; after a failure, discard what is kept in memory."""
        chunks = self._reader.read(side, ranges) if ranges else iter(())
        try:
            if side is Side.TARGET or not plan.identity.origin_headers:
                yield from chunks
                return
            for chunk in chunks:
                yield chunk._replace(rows=source_rows(plan.identity, chunk.rows))
        except ScanFailed:
            self._forget()
            raise

    def _intakes(
        self, plan: ComparePlan, side: Side, ranges: Ranges, keep: bool
    ) -> dict[tuple[str, int], Intake]:
        """Return the intake of each partition, by topic name on its cluster."""
        intakes = {}
        for topic in plan.topics:
            digest_of = record_digest if side is Side.SOURCE else target_digest
            digest = digest_of(plan.identity, topic.timestamps, plan.salt)
            for partition, wanted in ranges.get(topic.topic, {}).items():
                held = self._partition(side, topic.topic, partition)
                entries = held.begin(wanted) if keep else None
                keys = self._keys if side is Side.SOURCE else None
                intakes[topic.name_on(side), partition] = Intake(
                    plan, topic, side, partition, digest, entries, keys
                )
        return intakes

    def _partition(self, side: Side, topic: str, partition: int) -> Partition:
        return self._held.setdefault((side, topic), {}).setdefault(partition, Partition())

    def _matcher(self, plan: ComparePlan, s: TopicSuspects) -> TopicMatcher:
        source, target = (self._held.get((side, s.plan.topic), {}) for side in Side)
        matcher = TopicMatcher(s, plan.buckets, source, target, plan.within)
        matcher.count()
        return matcher

    def _read_later(
        self, matchers: Mapping[str, TopicMatcher], plan: ComparePlan, progress: Progress
    ) -> None:
        """Pass each matcher the source records from its first missing record on."""
        topics = {topic.topic: topic for topic in plan.topics}
        missing_ranges: dict[str, dict[int, tuple[OffsetRange, ...]]] = {}
        for topic, matcher in matchers.items():
            for partition, later in matcher.later.items():
                rest = (OffsetRange(min(later.gone), topics[topic].source[partition].end),)
                held = self._partition(Side.SOURCE, topic, partition)
                if held.covers(rest):
                    later.look((entry[0], entry[3]) for entry in held.within(rest))
                else:
                    missing_ranges.setdefault(topic, {})[partition] = rest
        done, total = 0, span_of({Side.SOURCE: missing_ranges})
        for chunk in self._chunks(plan, Side.SOURCE, missing_ranges):
            matchers[chunk.topic].later[chunk.partition].look(
                (row[0], key_hash(row[2])) for row in chunk.rows
            )
            done += len(chunk.rows)
            progress("locating missing records", done, total)

    def _rows(self, matches: Mapping[str, Match]) -> Iterator[MissingRow]:
        for topic, match in matches.items():
            for partition, found in groupby(match.missing, lambda classified: classified.partition):
                yield from self._with_keys(topic, partition, list(found))

    def _with_keys(
        self, topic: str, partition: int, found: list[Classified]
    ) -> Iterator[MissingRow]:
        again = self._keys_again(
            topic, partition, [j.entry[0] for j in found if j.entry[4] == NOT_KEPT]
        )
        for classified in found:
            offset, time, size, _, place, length, _ = classified.entry
            key = next(again) if place == NOT_KEPT else self._keys.key(place, length)
            yield MissingRow(topic, partition, offset, time, key, size, *classified[2:])

    def _keys_again(
        self, topic: str, partition: int, offsets: Sequence[int]
    ) -> Iterator[bytes | None]:
        """Read the keys of these records again.

        Raises:
            ScanFailed: a record was deleted.
        """
        ranges = merge((OffsetRange(o, o + 1) for o in offsets), KEY_RANGES)
        chunks = self._reader.read(Side.SOURCE, {topic: {partition: ranges}})
        rows = ((row[0], row[2]) for chunk in chunks for row in chunk.rows)
        for wanted in offsets:
            for offset, key in rows:
                if offset == wanted:
                    yield key
                    break
            else:
                raise ScanFailed(f"offset {wanted} of {topic}-{partition} was deleted")


def _with_offsets(ranges: Ranges) -> Ranges:
    """Drop empty ranges."""
    kept = {
        topic: {p: some for p, rs in parts.items() if (some := tuple(r for r in rs if r.span))}
        for topic, parts in ranges.items()
    }
    return {topic: parts for topic, parts in kept.items() if parts}
