"""Translation by headers with the source offset, as written by Redpanda Migrator and drctl.

Anyone who can write to a topic can write such headers, so an answer gets no tighter bounds than the
records next to the offset prove.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from drctl.formats import migrator_headers, provenance
from drctl.formats.primitives import Undecodable
from drctl.formats.tracked_offsets import TrackedOffset
from drctl.model.ports import ClusterReader
from drctl.model.text import plural
from drctl.model.topology import (
    Headers,
    OffsetRange,
    PartitionOffsets,
    Row,
    TopicPartition,
    Unavailable,
)
from drctl.model.translation import Answer, GroupPartition, Method
from drctl.offsets.consumed import (
    Logs,
    RangeReader,
    Step,
    by_partition,
    chunks,
    read_ranges,
    spread,
    step_of,
)
from drctl.offsets.methods import UNKNOWN_POSITION, Answers, NoAnswer, Question

_OWN = provenance.HEADER.encode()
_OFFSET = migrator_headers.OFFSET_HEADER.encode()
_ORIGIN = migrator_headers.ORIGIN_HEADER.encode()


class Copy(NamedTuple):
    """A record of the target that names its source offset.

    Attributes:
        offset: on the target.
        upstream: on the source.
        step: its fingerprint.
    """

    offset: int
    upstream: int
    step: Step


def copy_of(row: Row, cluster_id: str, source: TopicPartition) -> Copy | None:
    """Parse a record's headers; None if they do not name this source partition.

    Args:
        cluster_id: Kafka's id of the source.
    """
    headers = row[4]
    if not headers:
        return None
    named = set(_named_offsets(headers, cluster_id, source))
    return Copy(row[0], named.pop(), step_of(row)) if len(named) == 1 else None


def _named_offsets(headers: Headers, cluster_id: str, source: TopicPartition) -> Iterator[int]:
    """All offsets in the headers: if there are several, none is trusted."""
    offsets, origins = set(), set()
    for name, value in headers:
        try:
            if name == _OWN:
                where = provenance.decode(value)
                if (where.cluster_id, where.topic, where.partition) == (cluster_id, *source):
                    yield where.offset
            elif name == _OFFSET:
                offsets.add(migrator_headers.decode_offset(value))
            elif name == _ORIGIN:
                origins.add(migrator_headers.decode_origin(value))
        except Undecodable:
            continue
    if origins == {cluster_id}:
        yield from offsets


SAMPLES, SAMPLE = 9, 16
"""Number of places to read in a log, and offsets per place, to see whether it has copies."""

NARROW, WIDEST, GROWTH = 32, 2_048, 8
"""Offsets read at one place: if they contain no copy, the search ends."""

Committed = tuple[TopicPartition, int]
"""A target partition, and a committed offset of its source partition."""

CopyOf = Callable[[TopicPartition, Row], Copy | None]
"""Returns what a record of a target partition is a copy of."""


class Crossing(NamedTuple):
    """The copies around a source offset.

    Attributes:
        before: last copy of a record before the offset; None if there is none.
        after: first copy at or after the offset, with no other copy in between; None if there is
            none, or if the search did not reach it.
    """

    before: Copy | None
    after: Copy | None


@dataclass(slots=True)
class CopySearch:
    """Searches for many source offsets at once, and keeps the copies that it read.

    Attributes:
        logs: of the target's partitions.
    """

    reader: RangeReader
    logs: Mapping[TopicPartition, PartitionOffsets]
    copy_of: CopyOf
    _seen: dict[TopicPartition, dict[int, Copy]] = field(default_factory=lambda: defaultdict(dict))

    def sample(self) -> Mapping[TopicPartition, Sequence[Copy]]:
        """Read copies at some places of each log; omit partitions without any.

        Raises:
            ScanFailed: records could not be read completely.
        """
        found = self._read(
            {
                place: spread(log.log_start, log.last_stable, SAMPLES, SAMPLE)
                for place, log in self.logs.items()
            }
        )
        return {place: copies for place, copies in found.items() if copies}

    def find(self, wanted: Iterable[Committed]) -> Mapping[Committed, Crossing]:
        """Find the copies around each of these offsets.

        Raises:
            ScanFailed: records could not be read completely.
        """
        known = {place: self.copies(place) for place in self.logs}
        searches = {one: _begun(one[1], self.logs[one[0]], known[one[0]]) for one in wanted}
        while waiting := {one: each for one, each in searches.items() if not each.ended}:
            windows = {one: each.window() for one, each in waiting.items()}
            held = self._read(
                by_partition((place, window) for (place, _), window in windows.items())
            )
            for (place, offset), window in windows.items():
                first, end = (bisect_left(held[place], edge, key=_offset) for edge in window)
                searches[place, offset].note(window, held[place][first:end])
        return {one: each.crossing for one, each in searches.items()}

    def ascends(self, place: TopicPartition) -> bool:
        """Whether the copies read so far are in the order of the source."""
        copies = self.copies(place)
        return all(one.upstream <= other.upstream for one, other in pairwise(copies))

    def copies(self, place: TopicPartition) -> Sequence[Copy]:
        """The copies read so far, ascending."""
        return [copy for _, copy in sorted(self._seen[place].items())]

    def _read(
        self, wanted: Mapping[TopicPartition, Sequence[OffsetRange]]
    ) -> Mapping[TopicPartition, Sequence[Copy]]:
        """Read the copies in these ranges and between them, ascending."""
        found: dict[TopicPartition, list[Copy]] = {place: [] for place in wanted}
        for chunk in chunks(self.reader, wanted):
            place = TopicPartition(chunk.topic, chunk.partition)
            found[place] += filter(None, (self.copy_of(place, row) for row in chunk.rows))
        for place, copies in found.items():
            self._seen[place].update((copy.offset, copy) for copy in copies)
        return found


@dataclass(slots=True)
class _OffsetSearch:
    """The search for one offset; what remains to be read is between `left` and `right`.

    There is no other copy from `before` to `left`, and none from `right` to `after`.
    """

    committed: int
    left: int
    right: int
    before: Copy | None = None
    after: Copy | None = None
    width: int = NARROW
    start: int | None = None
    halving: bool = False

    @property
    def ended(self) -> bool:
        last = self.before is not None and self.before.upstream == self.committed - 1
        return last or self.left >= self.right

    @property
    def crossing(self) -> Crossing:
        return Crossing(self.before, self.after if self.left >= self.right else None)

    def window(self) -> OffsetRange:
        """The offsets to read next; first those that hold the copy if the log has only copies."""
        if self.start is None:
            latest = max(self.left, self.right - self.width)
            self.start = min(max(self.left, self._guess() - self.width // 4), latest)
        return OffsetRange(self.start, min(self.start + self.width, self.right))

    def note(self, window: OffsetRange, copies: Sequence[Copy]) -> None:
        """Record the copies found in a window between `left` and `right`."""
        consumed = next(
            (n for n, copy in enumerate(copies) if copy.upstream >= self.committed), len(copies)
        )
        if not copies and window.end < self.right and self.width < WIDEST:
            self.width *= GROWTH
            return
        if consumed:
            self.before, self.left = copies[consumed - 1], window.end
            if consumed < len(copies):
                self.after, self.right = copies[consumed], window.end
        elif copies:
            self.after, self.right = copies[0], window.start
        else:
            if window.end < self.right:
                self.after = None
            self.right = window.start
        self.width, self.start, self.halving = NARROW, None, not self.halving

    def _guess(self) -> int:
        before, after = self.before, self.after
        if self.halving or not (before or after):
            return (self.left + self.right) // 2
        if before and after:
            share = (self.committed - 1 - before.upstream) / (after.upstream - before.upstream)
            return before.offset + int(share * (after.offset - before.offset))
        if before:
            return before.offset + self.committed - 1 - before.upstream
        assert after is not None
        return after.offset - (after.upstream - self.committed) - 1


def _begun(committed: int, log: PartitionOffsets, copies: Sequence[Copy]) -> _OffsetSearch:
    """Start a search from the copies that are already known."""
    search = _OffsetSearch(committed, log.log_start, log.last_stable)
    consumed = next((n for n, copy in enumerate(copies) if copy.upstream >= committed), len(copies))
    if consumed:
        search.before = copies[consumed - 1]
        search.left = search.before.offset + 1
    if consumed < len(copies):
        search.after = copies[consumed]
        search.right = search.after.offset
    return search


_offset = attrgetter("offset")

COMPARED = 8
"""Copies per partition that are compared with the source, if it is reachable."""

NEAR, WITHIN = 3, 32
"""Copies required on each side of an offset, and their maximum distance."""

LONE = "too few copies with an offset header around the offset to give bounds"
NOT_COMPARED = "headers only, not verified: unread records may precede this offset"

FALSELY_NAMED = (
    "the headers around the offset were forged, or there are other records among the copies"
)
"""With an unreachable source: the condition under which an unverified answer skips records."""

NO_COPY = NoAnswer("no record on the target has its source offset in a header")
NONE_NEAR = NoAnswer("no copy with an offset header was found on either side of the offset")
UNREADABLE = NoAnswer("the target log cannot be read")


class Around(NamedTuple):
    """The copies next to a committed offset.

    Attributes:
        below: copies of records before it, ascending; the last one is the nearest.
        above: copies of records at or after it, ascending.
    """

    below: Sequence[Copy]
    above: Sequence[Copy]


class _Source(NamedTuple):
    """Records of the source next to committed offsets.

    Attributes:
        every: all records by offset, including uncommitted ones, which may or may not have been
            copied.
        committed: offsets of committed records.
    """

    log: PartitionOffsets
    every: Mapping[int, Step]
    committed: Collection[int]

    def copied(self, near: Around) -> Mapping[int, Step]:
        """Records that must be on the target: committed ones, and uncommitted ones with a copy."""
        copies = {copy.upstream for copy in (*near.below, *near.above)}
        return {at: step for at, step in self.every.items() if at in self.committed or at in copies}


class HeaderTrust(Enum):
    """How far headers with offsets are trusted, because anyone can write them."""

    PROVEN = auto()
    """Records on both sides are verified copies."""
    DENSE = auto()
    """There are enough copies on both sides; they were not compared."""
    LONE = auto()


@dataclass(frozen=True, slots=True)
class MappedOffsets:
    """Implements `TranslationMethod` for copies that name their source offset.

    Attributes:
        cluster_id: Kafka's id of the source; empty if unknown.
        source: to verify copies; None if the source is unreachable.
        logs: of the target's partitions.
        tracked_offsets: to verify the copies if the source is unreachable.
    """

    method = Method.MAPPING

    cluster_id: str
    source: tuple[ClusterReader, RangeReader] | None
    target: RangeReader
    logs: Logs
    tracked_offsets: Mapping[GroupPartition, TrackedOffset]

    def answers(self, questions: Sequence[Question]) -> Answers:
        """Return one answer for each question.

        Raises:
            Unreachable: the source did not answer.
            ScanFailed: records could not be read completely.
        """
        if not self.cluster_id:
            return dict.fromkeys(questions, NoAnswer("the cluster id of the source is unknown"))
        sources = {q.target: q.place.partition for q in questions}
        logs = {t: log for t in sources if isinstance(log := self.logs.get(t), PartitionOffsets)}
        search = CopySearch(
            self.target, logs, lambda place, row: copy_of(row, self.cluster_id, sources[place])
        )
        proofs = self._proofs(search.sample(), sources)
        known = {
            (q.target, q.committed): None
            for q in questions
            if q.committed is not None and isinstance(proofs.get(q.target), int)
        }
        crossings = search.find(known)
        around = self._around(search, crossings)
        there = self._of_source(around, sources)
        unordered = {place for place in proofs if not search.ascends(place)}
        found: dict[Question, Answer | NoAnswer] = {}
        for question in questions:
            proof = proofs.get(question.target, NO_COPY if question.target in logs else UNREADABLE)
            if isinstance(proof, NoAnswer):
                found[question] = proof
            elif question.committed is None:
                found[question] = UNKNOWN_POSITION
            else:
                crossing = crossings[question.target, question.committed]
                answer = self._answer(question, question.committed, crossing, proof)
                if question.target in unordered and isinstance(answer, Answer):
                    evidence = f"{answer.evidence}; copies are not in the order of the source"
                    answer = replace(answer, rereads_at_most=None, evidence=evidence)
                found[question] = answer
                near = around[question.target, question.committed]
                if near.below or near.above:
                    sure = self._sure(question, near, there)
                    found[question] = self._bounded(found[question], question, sure)
        return found

    def _answer(
        self, question: Question, committed: int, crossing: Crossing, proof: int
    ) -> Answer | NoAnswer:
        before, after = crossing
        if before is None and after is None:
            return NONE_NEAR
        compared = (
            f"; {plural(proof, 'copy', 'copies')} verified against the source" if proof else ""
        )
        if before is None:
            assert after is not None
            evidence = f"the first copy, at {after.offset}, has source offset {after.upstream}"
            # The group has consumed none of the copies, so it can start before them. If the log
            # still has its first record, no copy was deleted.
            start = self._log(question).log_start
            skips = after.upstream - committed if start else 0
            return Answer(self.method, start, 0, skips, evidence + compared)
        if not self._as_noted(question.place, committed, before):
            return NoAnswer(
                f"the header at target offset {before.offset} claims the last consumed record, "
                "but the tracked offset does not match"
            )
        evidence = f"the record at {before.offset} has source offset {before.upstream}"
        if after is not None:
            evidence += f", and the next copy, at {after.offset}, has {after.upstream}"
            return Answer(self.method, before.offset + 1, 0, 0, evidence + compared)
        missing = committed - 1 - before.upstream
        if missing:
            evidence += f"; no copies found of the {plural(missing, 'offset')} in between"
        return Answer(self.method, before.offset + 1, missing, 0, evidence + compared)

    def _bounded(
        self, answer: Answer | NoAnswer, question: Question, sure: HeaderTrust
    ) -> Answer | NoAnswer:
        """Relax the bounds to what the evidence supports."""
        if isinstance(answer, NoAnswer) or sure is HeaderTrust.PROVEN:
            return answer
        log = self._log(question)
        # From the first record ever written, nothing is skipped, even with forged headers.
        skips = 0 if answer.target_offset == log.log_start == 0 else None
        if sure is HeaderTrust.LONE:
            evidence = f"{answer.evidence}; {LONE}"
            return replace(answer, rereads_at_most=None, skips_at_most=skips, evidence=evidence)
        if skips == 0:
            return replace(answer, skips_at_most=0)
        unless = FALSELY_NAMED if self.source is None else ""
        evidence = f"{answer.evidence}; {NOT_COMPARED}"
        return replace(answer, skips_at_most=None, skips_only_if=unless, evidence=evidence)

    def _around(
        self, search: CopySearch, crossings: Mapping[Committed, Crossing]
    ) -> Mapping[Committed, Around]:
        """Find the copies next to each offset; records that are not copies are skipped.

        Raises:
            ScanFailed: records could not be read completely.
        """
        around = _near(search, crossings)
        asked: set[Committed] = set()
        for _ in range(NEAR):
            # If applications wrote in between, the next copies are further away.
            wanted = {q for one, near in around.items() for q in _further(one, near)} - asked
            if not wanted:
                break
            asked |= wanted
            search.find(wanted)
            around = _near(search, crossings)
        return around

    def _of_source(
        self, around: Mapping[Committed, Around], sources: Mapping[TopicPartition, TopicPartition]
    ) -> Mapping[TopicPartition, _Source]:
        """Read the source's records next to each offset, by partition, as far as possible.

        Raises:
            Unreachable: the source did not answer.
            ScanFailed: records could not be read completely.
        """
        if self.source is None or not around:
            return {}
        cluster, reader = self.source
        logs = cluster.offsets({sources[place] for place, _ in around})
        wanted: dict[TopicPartition, list[OffsetRange]] = {}
        for (place, committed), (below, above) in around.items():
            log = logs[sources[place]]
            if not isinstance(log, PartitionOffsets):
                continue
            runs = wanted.setdefault(sources[place], [])
            starts = [(committed, committed + WITHIN)]
            starts += [(below[-1].upstream - NEAR + 1, below[-1].upstream + 1)] if below else []
            starts += [(above[0].upstream, above[0].upstream + NEAR)] if above else []
            for start, end in starts:
                run = OffsetRange(max(start, log.log_start), min(end, log.end))
                runs += [run] if run.start < run.end else []
        every = read_ranges(reader, wanted, uncommitted=True)
        stable = {
            place: [OffsetRange(run.start, min(run.end, log.last_stable)) for run in runs]
            for place, runs in wanted.items()
            if isinstance(log := logs[place], PartitionOffsets)
        }
        decided = read_ranges(reader, stable)
        return {
            place: _Source(log, dict(every[place]), {at for at, _ in decided[place]})
            for place, log in logs.items()
            if isinstance(log, PartitionOffsets) and place in every
        }

    def _sure(
        self, question: Question, near: Around, there: Mapping[TopicPartition, _Source]
    ) -> HeaderTrust:
        known = there.get(question.place.partition)
        if known is not None and _is_equal(question, near, known.log, known.copied(near)):
            return HeaderTrust.PROVEN
        below, above = near
        down = not below or len(below) == NEAR or below[0].upstream == 0
        up = not above or len(above) == NEAR
        dense = down and up and len(below) + len(above) >= NEAR
        log = self._log(question)
        # If the target holds only these copies, there cannot be more.
        if not dense and not (log.log_start == 0 and len(below) + len(above) == log.end):
            return HeaderTrust.LONE
        noted = below and above and self._are_noted(question, below)
        return HeaderTrust.PROVEN if noted else HeaderTrust.DENSE

    def _log(self, question: Question) -> PartitionOffsets:
        log = self.logs[question.target]
        assert isinstance(log, PartitionOffsets)
        return log

    def _are_noted(self, question: Question, below: Sequence[Copy]) -> bool:
        """Whether the copies before the offset match the tracked offset."""
        tracked, committed = self.tracked_offsets.get(question.place), question.committed
        if tracked is None or tracked.offset != committed or below[-1].upstream != committed - 1:
            return False
        pairs = list(zip(tracked.records, reversed(below), strict=False))[:NEAR]
        return len(pairs) > 1 and all(_same_record(copy.step, noted) for noted, copy in pairs)

    def _as_noted(self, place: GroupPartition, committed: int, before: Copy) -> bool:
        """Whether the last copy before the offset does not contradict the tracked offset."""
        tracked = self.tracked_offsets.get(place)
        if tracked is None or tracked.offset != committed or before.upstream != committed - 1:
            return True
        if not tracked.records or tracked.passed:
            return True
        return _same_record(before.step, tracked.records[0])

    def _proofs(
        self,
        samples: Mapping[TopicPartition, Sequence[Copy]],
        sources: Mapping[TopicPartition, TopicPartition],
    ) -> Mapping[TopicPartition, int | NoAnswer]:
        """Verify sampled copies; return their number, or why the headers are not trusted."""
        if self.source is None or not samples:
            return dict.fromkeys(samples, 0)
        cluster, reader = self.source
        logs = cluster.offsets({sources[place] for place in samples})
        chosen = {place: _some(copies, logs[sources[place]]) for place, copies in samples.items()}
        wanted = {
            sources[place]: [OffsetRange(copy.upstream, copy.upstream + 1) for copy in copies]
            for place, copies in chosen.items()
        }
        there = {place: dict(steps) for place, steps in read_ranges(reader, wanted).items()}
        return {place: _judged(copies, there[sources[place]]) for place, copies in chosen.items()}


def _near(
    search: CopySearch, crossings: Mapping[Committed, Crossing]
) -> Mapping[Committed, Around]:
    copies = {place: search.copies(place) for place, _ in crossings}
    return {one: _beside(one[1], each, copies[one[0]]) for one, each in crossings.items()}


def _further(one: Committed, near: Around) -> Iterator[Committed]:
    """Yield more offsets to search for, to find enough copies next to this one."""
    place, committed = one
    below, above = near
    if 0 < len(below) < NEAR and below[0].upstream:
        yield place, below[0].upstream
    if len(above) < NEAR:
        yield place, above[-1].upstream + 2 if above else committed + 1


def _beside(committed: int, crossing: Crossing, copies: Sequence[Copy]) -> Around:
    """Return the copies next to an offset, in the order of the source."""
    before, after = crossing
    below: list[Copy] = []
    if before is not None:
        until = bisect_right(copies, before.offset, key=_offset)
        for copy in reversed(copies[max(0, until - WITHIN) : until]):
            if not below or below[0].upstream - WITHIN < copy.upstream < below[-1].upstream:
                below.append(copy)
    above: list[Copy] = []
    begin = after.offset if after else before.offset + 1 if before else 0
    start = bisect_left(copies, begin, key=_offset)
    for copy in copies[start : start + WITHIN]:
        far = above[0].upstream + WITHIN if above else copy.upstream + 1
        if (above[-1].upstream + 1 if above else committed) <= copy.upstream < far:
            above.append(copy)
    return Around(tuple(reversed(below[:NEAR])), tuple(above[:NEAR]))


def _is_equal(
    question: Question, near: Around, log: PartitionOffsets, there: Mapping[int, Step]
) -> bool:
    """Whether copies of the source's records on both sides exist and are equal to them.

    The next record to consume must be the first copy that follows, unless the source ends there.
    Otherwise its copy may be before the offset, without a header.
    """
    (below, above), committed = near, question.committed
    assert committed is not None
    left = [at for at in there if at >= committed]
    if not above and (left or committed + WITHIN < log.last_stable):
        return False
    if below and above and any(at < above[0].upstream for at in left):
        return False
    wanted: list[int] = []
    if below:
        last = below[-1].upstream
        wanted += [last, *(at for at in there if last - NEAR < at < last)]
    if above:
        # Records after the last copy are not replicated yet.
        first, reached = above[0].upstream, above[-1].upstream
        wanted += [first, *(at for at in there if first < at < first + NEAR and at <= reached)]
    copies = {copy.upstream: copy for copy in (*below, *above)}
    equal = all(
        at in there and at in copies and _same_record(copies[at].step, there[at]) for at in wanted
    )
    # A single equal record counts only if the source has no other one nearby.
    return equal and (len(wanted) > 1 or len(there) == 1)


def _some(copies: Sequence[Copy], log: PartitionOffsets | Unavailable) -> Sequence[Copy]:
    """Choose the first and last copies of records that the source still holds."""
    if isinstance(log, Unavailable):
        return ()
    held = [copy for copy in copies if log.log_start <= copy.upstream < log.last_stable]
    half = COMPARED // 2
    return held if len(held) <= COMPARED else [*held[:half], *held[-half:]]


def _judged(copies: Sequence[Copy], there: Mapping[int, Step]) -> int | NoAnswer:
    both = [copy for copy in copies if copy.upstream in there]
    for copy in both:
        if not _same_record(copy.step, there[copy.upstream]):
            return NoAnswer(
                f"wrong header at target offset {copy.offset}: the record at source offset "
                f"{copy.upstream} is a different one"
            )
    return len(both)


def _same_record(one: Step, other: Step) -> bool:
    """Compare: a replicator may have changed the value (schema ids), or a broker the timestamp."""
    return one.fingerprint == other.fingerprint or one.timestamp_ms == other.timestamp_ms
