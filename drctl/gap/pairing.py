"""Digests both clusters at once; records that are equal on both need no digest.

Two equal records of a partition add the same to the sums of both clusters, so the sums still differ
by the same amount if neither is added. Only records without such a counterpart are digested. Which
ones are paired depends on the order in which they arrive; the difference of the sums does not.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from heapq import heapreplace
from itertools import compress, count, groupby, pairwise
from operator import itemgetter, ne
from typing import Protocol

from drctl.gap.comparison import (
    ONE_CELL,
    BucketDigest,
    ComparePlan,
    Place,
    Progress,
    Reads,
    Side,
    TopicPlan,
    span_of,
)
from drctl.gap.held import Intake, LogReader, record_digest, source_rows, target_digest
from drctl.model.topology import Chunk, OffsetRange, Row

WAITING_BYTES = 32 << 20
"""Maximum size of records that wait for their counterparts, in all partitions together."""

NEAR, FAR = 32, 1000
"""How many records are searched for the next equal ones: first few, then more."""

BLOCK = 4096
"""Maximum number of records that are compared at once."""

SPLIT_OFFSETS = 200_000
"""A share of a partition has at least this many offsets of both clusters."""

ROW_BYTES = 250
"""Memory of a record in addition to its key and value."""

_TIME, _KEY, _VALUE, _HEADERS = map(itemgetter, (1, 2, 3, 4))
_CONTENT = itemgetter(1, 2, 3, 4)


class BothDigester(Protocol):
    """Digests both clusters at once."""

    def digest(self, plan: ComparePlan, reads: Reads, progress: Progress) -> list[BucketDigest]:
        """Digest what differs in these ranges; equal records are only counted.

        Raises:
            ScanFailed: the records could not be read completely.
        """


READING = "reading both clusters"
"""The phase that is reported while both clusters are read."""


class InThisProcess:
    """Digests both clusters in this process."""

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader

    def digest(self, plan: ComparePlan, reads: Reads, progress: Progress) -> list[BucketDigest]:
        """Digest what differs in these ranges; equal records are only counted.

        Raises:
            ScanFailed: the records could not be read completely.
        """
        done, total = 0, span_of(reads)
        progress(READING, 0, total)

        def add(records: int) -> None:
            nonlocal done
            done += records
            progress(READING, done, total)

        digests = digest_both(self._reader, plan, reads, add)
        progress(READING, total, total)
        return digests


def pairs(plan: ComparePlan, topic: TopicPlan) -> bool:
    """Return whether equal records of a topic need no digest.

    A digest is needed if digests are stored (a ledger has cells), if equal records may be in
    different partitions or buckets, or if only a part of each record is compared.
    """
    identity = plan.identity
    return (
        topic.by_partition
        and topic.bucket_ms > 0
        and plan.cell_bits >= ONE_CELL
        and identity.key
        and identity.value
        and identity.headers
        and not identity.header_names
        and not identity.origin_headers
    )


def skips_equal(plan: ComparePlan) -> bool:
    """Return whether equal records of all topics need no digest."""
    return all(pairs(plan, topic) for topic in plan.topics)


class Pair:
    """One partition on both clusters.

    Args:
        source: counts and digests the source's records; `target` likewise.
        ignored: names of headers that are not compared.

    Attributes:
        waiting_bytes: approximate memory of the records that wait for their counterparts.
    """

    def __init__(self, source: Intake, target: Intake, ignored: frozenset[bytes]) -> None:
        self._source, self._target = source, target
        self._ignored = ignored
        self._width = source.topic.bucket_ms
        self._here: list[Row] = []
        self._there: list[Row] = []
        self.waiting_bytes = 0

    def take(self, side: Side, rows: Sequence[Row]) -> None:
        """Pair the next records of one cluster with those that wait."""
        if any(map(_HEADERS, rows)):
            rows = [self._without_ignored(row) for row in rows]
        waiting, other = (
            (self._here, self._there) if side is Side.SOURCE else (self._there, self._here)
        )
        waiting += rows
        if other:
            self._match(rows)
        else:
            self.waiting_bytes += _size(rows)

    def digest_waiting(self) -> None:
        """Stop waiting for counterparts of the records received so far."""
        self._source.take(self._here)
        self._target.take(self._there)
        self._here, self._there, self.waiting_bytes = [], [], 0

    def _without_ignored(self, row: Row) -> Row:
        headers = tuple(h for h in row[4] if h[0] not in self._ignored)
        return row[0], row[1], row[2], row[3], headers

    def _match(self, new: Sequence[Row]) -> None:
        """Pair, digest or keep the records that wait, of which these are new."""
        here, there = self._here, self._there
        i = j = 0
        block = NEAR
        while (most := min(len(here) - i, len(there) - j, block)) > 0:
            same = _equal(here[i : i + most], there[j : j + most])
            if same:
                self._count(here[i : i + same], there[j : j + same])
                i, j, block = i + same, j + same, min(2 * block, BLOCK)
            if same == most:
                continue
            block = NEAR
            skipped = _next_equal(here, i, there, j)
            if skipped is None:
                if min(len(here) - i, len(there) - j) < FAR:
                    break  # the next records may contain the counterparts
                skipped = _older(here, i, there, j)
            self._source.take(here[i : i + skipped[0]])
            self._target.take(there[j : j + skipped[1]])
            i, j = i + skipped[0], j + skipped[1]
        if i == len(here) and j == len(there):
            self.waiting_bytes = 0
        else:
            self.waiting_bytes += _size(new) - _size(here[:i]) - _size(there[:j])
        del here[:i], there[:j]

    def _count(self, here: Sequence[Row], there: Sequence[Row]) -> None:
        """Count equal records."""
        width, times = self._width, list(map(_TIME, here))
        bucket = min(times) // width
        if bucket == max(times) // width:
            self._source.count(bucket, here)
            self._target.count(bucket, there)
            return
        for each, numbers in groupby(range(len(times)), lambda number: times[number] // width):
            first, *rest = numbers
            last = rest[-1] if rest else first
            self._source.count(each, here[first : last + 1])
            self._target.count(each, there[first : last + 1])


def _size(rows: Sequence[Row]) -> int:
    keys, values = (sum(map(len, filter(None, map(part, rows)))) for part in (_KEY, _VALUE))
    return keys + values + ROW_BYTES * len(rows)


def _equal(here: list[Row], there: list[Row]) -> int:
    """Return how many records at the start are equal."""
    if here == there:  # fast, but offsets must be equal, too
        return len(here)
    ours, theirs = list(map(_CONTENT, here)), list(map(_CONTENT, there))
    if ours == theirs:
        return len(here)
    return next(compress(count(), map(ne, ours, theirs)))


def _next_equal(here: list[Row], i: int, there: list[Row], j: int) -> tuple[int, int] | None:
    """Return how many records to skip on both clusters until two are equal."""
    longest = max(len(here) - i, len(there) - j)
    for size in (NEAR, FAR):
        theirs: dict[object, int] = {}
        for number, content in enumerate(map(_CONTENT, there[j : j + size])):
            theirs.setdefault(content, number)
        for number, content in enumerate(map(_CONTENT, here[i : i + size])):
            if content in theirs:
                return number, theirs[content]
        if longest <= size:
            break
    return None


def _older(here: list[Row], i: int, there: list[Row], j: int) -> tuple[int, int]:
    """Return how many records of each cluster to skip if the next ones have nothing in common.

    If those of one cluster are all older, only they are skipped: its later ones may equal the
    other's.
    """
    ours, theirs = list(map(_TIME, here[i : i + FAR])), list(map(_TIME, there[j : j + FAR]))
    if max(ours) < min(theirs):
        return FAR, 0
    if max(theirs) < min(ours):
        return 0, FAR
    return FAR, FAR


def digest_both(
    reader: LogReader, plan: ComparePlan, reads: Reads, done: Callable[[int], None]
) -> list[BucketDigest]:
    """Digest what differs in these ranges; equal records are only counted.

    Args:
        done: called with the number of records of each chunk.

    Raises:
        ScanFailed: the records could not be read completely.
    """
    topics = {topic.topic: topic for topic in plan.topics}
    names = {side: {t.name_on(side): t.topic for t in plan.topics} for side in Side}
    intakes = _intakes(plan, topics, reads)
    pairs = _Pairs(plan, topics, intakes)
    with ExitStack() as stack:
        chunks: dict[Side, Iterator[Chunk]] = {}
        for side in Side:
            there = {topics[t].name_on(side): ps for t, ps in reads.get(side, {}).items() if ps}
            if there:
                chunks[side] = reader.read(side, there)
                stack.enter_context(closing(chunks[side]))  # type: ignore[type-var]
        received = dict.fromkeys(Side, 0)
        while chunks:
            side = min(chunks, key=received.__getitem__)
            chunk = next(chunks[side], None)
            if chunk is None:
                del chunks[side]
                continue
            received[side] += len(chunk.rows)
            place = names[side][chunk.topic], chunk.partition
            rows = source_rows(plan.identity, chunk.rows) if side is Side.SOURCE else chunk.rows
            if not pairs.take(place, side, rows):
                intakes[side, *place].take(rows)
            done(len(chunk.rows))
    pairs.finish()
    return [digest for intake in intakes.values() for digest in intake.digests()]


def _intakes(
    plan: ComparePlan, topics: Mapping[str, TopicPlan], reads: Reads
) -> dict[tuple[Side, str, int], Intake]:
    intakes = {}
    for side in Side:
        digest_of = record_digest if side is Side.SOURCE else target_digest
        for name, partitions in reads.get(side, {}).items():
            topic = topics[name]
            digest = digest_of(plan.identity, topic.timestamps, plan.salt)
            for p in partitions:
                intakes[side, name, p] = Intake(plan, topic, side, p, digest, None, None)
    return intakes


class _Pairs:
    """All partitions whose records are paired."""

    def __init__(
        self,
        plan: ComparePlan,
        topics: Mapping[str, TopicPlan],
        intakes: Mapping[tuple[Side, str, int], Intake],
    ) -> None:
        ignored = frozenset(name.encode() for name in plan.identity.ignored_headers)
        self._pairs = {
            (topic, p): Pair(intake, intakes[Side.TARGET, topic, p], ignored)
            for (side, topic, p), intake in intakes.items()
            if side is Side.SOURCE
            and (Side.TARGET, topic, p) in intakes
            and pairs(plan, topics[topic])
        }
        self._bytes = 0

    def take(self, place: Place, side: Side, rows: Sequence[Row]) -> bool:
        """Pair these records; return False if records of this partition are not paired."""
        pair = self._pairs.get(place)
        if pair is None:
            return False
        before = pair.waiting_bytes
        pair.take(side, rows)
        self._bytes += pair.waiting_bytes - before
        while self._bytes > WAITING_BYTES:
            largest = max(self._pairs.values(), key=lambda each: each.waiting_bytes)
            self._bytes -= largest.waiting_bytes
            largest.digest_waiting()
        return True

    def finish(self) -> None:
        """Digest all records that still wait."""
        for pair in self._pairs.values():
            pair.digest_waiting()


def shares(reads: Reads, number: int) -> list[Reads]:
    """Split the ranges into at most `number` shares of about the same number of offsets.

    Both clusters' ranges of a partition are in the same share; a partition with many of the offsets
    is split.
    """
    wanted = span_of(reads) / (2 * number)
    pieces = [
        (sum(r.span for ranges in piece.values() for r in ranges), place, piece)
        for place, both in _by_place(reads).items()
        for piece in _pieces(both, wanted)
    ]
    found: list[dict[Side, dict[str, dict[int, tuple[OffsetRange, ...]]]]] = [
        {side: {} for side in Side} for _ in range(number)
    ]
    loads = [(0, n) for n in range(number)]
    for span, (topic, partition), piece in sorted(pieces, key=lambda p: (-p[0], p[1])):
        load, least = loads[0]
        heapreplace(loads, (load + span, least))
        for side, ranges in piece.items():
            mine = found[least][side].setdefault(topic, {})
            mine[partition] = tuple(sorted((*mine.get(partition, ()), *ranges)))
    return [share for share in found if span_of(share)]


_Piece = Mapping[Side, tuple[OffsetRange, ...]]


def _by_place(reads: Reads) -> dict[Place, dict[Side, tuple[OffsetRange, ...]]]:
    found: dict[Place, dict[Side, tuple[OffsetRange, ...]]] = {}
    for side, topics in reads.items():
        for topic, partitions in topics.items():
            for partition, ranges in partitions.items():
                if some := tuple(r for r in ranges if r.span):
                    found.setdefault((topic, partition), {})[side] = some
    return found


def _pieces(both: _Piece, wanted: float) -> list[_Piece]:
    """Split a partition into pieces of about `wanted` offsets, if it is one range on each cluster.

    The pieces of both clusters have the same number of offsets, counted from the start: usually,
    copies have the same distances between offsets as their originals. If they do not, the
    comparison is slower, and its result is the same.
    """
    span = sum(r.span for ranges in both.values() for r in ranges)
    number = min(round(span / wanted), span // SPLIT_OFFSETS)
    if number < 2 or any(len(ranges) > 1 for ranges in both.values()):
        return [both]
    longest = max(ranges[0].span for ranges in both.values())
    edges = [longest * n // number for n in range(number + 1)]
    return [
        {
            side: (OffsetRange(min(r.start + start, r.end), min(r.start + end, r.end)),)
            for side, (r,) in both.items()
        }
        for start, end in pairwise(edges)
    ]
