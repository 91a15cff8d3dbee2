"""Carries a plan out: exports, appends records with their progress, notes what is discarded.

Each transaction holds records and the progress that they make. Whatever happens, the next run reads
the progress that counts and goes on behind it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice

from drctl.formats import provenance
from drctl.formats.provenance import Provenance
from drctl.model.errors import Stopped, Unknown
from drctl.model.gap import OrderVerdict
from drctl.model.journal import RunJournal
from drctl.model.topology import OffsetRange, PartitionOffsets, TopicPartition, Unavailable
from drctl.reconcile import results
from drctl.reconcile.cluster_state import ClusterStates
from drctl.reconcile.export import digest_of
from drctl.reconcile.gap_result import (
    Copier,
    Copy,
    Exported,
    ExportedLane,
    Exporter,
    Piece,
    Seen,
    SourceLog,
    Tally,
    WantedRow,
    WantedRows,
    ranges_of,
)
from drctl.reconcile.planning import Line, ReconcilePlan, keys
from drctl.reconcile.policy import LEFT_MISSING, RECORDED, SENDS, Action
from drctl.reconcile.progress import Kept, LeftBuilder, Progress, RecordSet, Segment, encode
from drctl.reconcile.results import Count, Gone, LineResult, Outcome, left_alone

MOST = 1_000
"""Rows without a record that come at once."""

_BEHIND_ALL = 1 << 63

Stamp = Callable[[int, int], bytes]
"""The value of the provenance header of a record, by its offset and timestamp."""


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """A line that is under way.

    Attributes:
        to: where copies go.
    """

    line: Line
    to: TopicPartition
    stamp: Stamp


Match = tuple[Work, WantedRow, Seen | None]
"""A wanted row with its record; None where the log does not hold it any more."""


def work_of(line: Line, source_id: str) -> Work:
    """What copying the records of a line needs again and again."""
    place = line.lane.place
    return Work(line, TopicPartition(line.to, place.partition), stamp_of(source_id, place))


def stamp_of(source_id: str, place: TopicPartition) -> Stamp:
    """What encodes where a record of this partition was first: the same as `provenance.encode`."""
    whole = provenance.encode(Provenance(source_id, *place, 0, 0)).decode()
    first, _, rest = whole.rpartition('0,"timestamp":')
    assert rest == "0}"
    return lambda offset, timestamp_ms: f'{first}{offset},"timestamp":{timestamp_ms}}}'.encode()


class Matcher:
    """Walks through one partition; every wanted row comes out once, in order.

    Args:
        works: what is done, by order verdict.
    """

    def __init__(
        self,
        place: TopicPartition,
        wanted: Iterator[WantedRow],
        works: Mapping[OrderVerdict, Work],
    ) -> None:
        self._place = place
        self._wanted = wanted
        self._works = works
        self._next = next(wanted, None)

    def matches(self, rows: Iterable[Seen]) -> Iterator[list[Match]]:
        """What these records of the log decide, in order; some at a time.

        Raises:
            Stopped: the log holds another record at a wanted offset.
        """
        works, following, expected = self._works, self._wanted, self._next
        found: list[Match] = []
        for seen in rows:
            offset, timestamp_ms, key, size, _ = seen
            if expected is not None and expected[0] < offset:
                self._next = expected
                yield found
                yield from self.gone_before(offset)
                found, expected = [], self._next
            if expected is None:
                break
            at, its_ms, its_key, its_size, order = expected
            if at == offset:
                if its_ms != timestamp_ms or its_key != key or its_size != size:
                    raise self._other(offset)
                found.append((works[order], expected, seen))
                expected = next(following, None)
        self._next = expected
        yield found

    def gone_before(self, offset: int) -> Iterator[list[Match]]:
        """The wanted rows before an offset: the log does not hold them."""
        gone: list[Match] = []
        while self._next is not None and self._next[0] < offset:
            gone.append((self._works[self._next[4]], self._next, None))
            self._next = next(self._wanted, None)
            if len(gone) == MOST:
                yield gone
                gone = []
        yield gone

    def rest(self) -> Iterator[list[Match]]:
        """All rows that are left, once the log was read to its end."""
        return self.gone_before(_BEHIND_ALL)

    def _other(self, offset: int) -> Stopped:
        return Stopped(
            f"{self._place} holds another record at offset {offset} than the gap analysis saw: the"
            " topic was made anew, or it is another cluster",
            "run `drctl gap` again",
        )


@dataclass(slots=True)
class _Step:
    """What was added to a lane.

    Attributes:
        left: the records, where they stay missing; None where they do not.
    """

    through: int = -1
    records: int = 0
    bytes: int = 0
    gone: int = 0
    left: LeftBuilder | None = None


@dataclass(slots=True)
class Batch:
    """What is to be committed together; nothing of it counts before."""

    gone: list[tuple[TopicPartition, int]] = field(default_factory=list)
    records: int = 0
    bytes: int = 0
    _steps: dict[Work, _Step] = field(default_factory=dict)

    def take(self, matches: Sequence[Match]) -> list[Copy]:
        """All of these, also those that are gone; what is to be appended for it."""
        copies: list[Copy] = []
        current, bytes_now = None, self.bytes
        for work, wanted, seen in matches:
            if work is not current:
                current, to, stamp = work, work.to, work.stamp
                step = self._step(work)
                left = step.left
            offset, timestamp_ms, _, size, _ = wanted
            step.through = offset
            if left is not None:
                left.add(offset, timestamp_ms)
            if seen is None:
                step.gone += 1
                self.gone.append((work.line.lane.place, offset))
                continue
            step.records += 1
            step.bytes += size
            bytes_now += size
            copies.append((to, seen, stamp(offset, timestamp_ms)))
        self.records += len(matches)
        self.bytes = bytes_now
        return copies

    def add_all(self, work: Work, tally: Tally, rows: Iterable[WantedRow]) -> None:
        """All that is left of a lane, at once: for what appends nothing."""
        step = self._step(work)
        step.through, step.records, step.bytes = tally.last, tally.records, tally.bytes
        if step.left is not None:
            for row in rows:
                step.left.add(*row[:2])
        self.records += tally.records

    @property
    def lines(self) -> tuple[Line, ...]:
        """The lines that it moves."""
        return tuple(work.line for work in self._steps)

    def progress(
        self,
        known: Mapping[RecordSet, Progress],
        beginnings: Mapping[RecordSet, Progress],
        last: Mapping[TopicPartition, int],
    ) -> dict[RecordSet, Progress]:
        """The progress of every lane of this batch once it counts.

        Args:
            known: what was reached before.
            beginnings: for lanes that nothing is known of.
            last: the last offset of each partition that was appended to.
        """
        return {
            lane: (known.get(lane) or beginnings[lane]).after(segment)
            for lane, segment in self._segments(last)
        }

    def counts(self) -> Mapping[RecordSet, Count]:
        """What it adds to each lane."""
        return {
            work.line.lane: Count(step.records, step.bytes, step.gone)
            for work, step in self._steps.items()
        }

    def _step(self, work: Work) -> _Step:
        step = self._steps.get(work)
        if step is None:
            stays = work.line.action in LEFT_MISSING
            step = self._steps[work] = _Step(left=LeftBuilder() if stays else None)
        return step

    def _segments(self, last: Mapping[TopicPartition, int]) -> Iterator[tuple[RecordSet, Segment]]:
        for work, step in self._steps.items():
            line = work.line
            to_last = last[work.to] if line.to and step.records else -1
            yield (
                line.lane,
                Segment(
                    line.action,
                    step.through,
                    step.records,
                    step.bytes,
                    step.gone,
                    line.to,
                    to_last,
                    step.left.left if step.left else None,
                ),
            )


Read = Callable[[str, Mapping[int, Sequence[OffsetRange]]], Iterator[Piece]]
"""One of the ways to read the source."""

SIDE_BY_SIDE = 8
"""Partitions that are read at once: each of them takes memory."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When a transaction is committed: readers of committed records wait behind an open one.

    Nothing is queued while one is committed: few long ones take less time than many short ones.
    """

    records: int = 1_000_000
    gone: int = 100_000
    bytes: int = 256 << 20
    seconds: float = 5.0


@dataclass(slots=True)
class Execution:
    """Carries out one plan; what it did stands in `counts` and `gone`, however it ends.

    Attributes:
        copier: None where nothing is written to the target.
        progress: told how many records of how many are done.
        uncommitted: whether a commit was sent and its answer did not come.
    """

    plan: ReconcilePlan
    rows: WantedRows
    source: SourceLog
    sight: ClusterStates
    copier: Copier | None
    exporter: Exporter | None
    journal: RunJournal
    clock: Callable[[], float]
    progress: Callable[[int, int], None]
    limits: Limits = Limits()
    counts: dict[RecordSet, Count] = field(default_factory=dict)
    gone: dict[TopicPartition, Gone] = field(default_factory=dict)
    exported: str = ""
    uncommitted: frozenset[RecordSet] = frozenset()
    _reached: dict[RecordSet, Progress] = field(init=False)
    _total: int = field(init=False)
    _done: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Begin where progress is."""
        self._reached = dict(self.plan.kept)
        self._total = sum(line.due.records for line in self.plan.acting)

    @property
    def reached(self) -> Mapping[RecordSet, Progress]:
        """Progress as this run knows that it counts."""
        return self._reached

    def run(self) -> None:
        """Export first, which changes nothing; discard last.

        Raises:
            DrctlError: it ended early; what counts stays.
        """
        lines = self.plan.acting
        self.journal.append([*results.taken(self.plan.noted), *results.intents(lines)])
        self._take_over()
        self._export([line for line in lines if line.action is Action.EXPORT])
        self._send([line for line in lines if line.action in SENDS])
        self._discard([line for line in lines if line.action is Action.DISCARD])

    def _take_over(self) -> None:
        noted = self.plan.noted
        if not noted:
            return
        copier = self._writer()
        try:
            copier.begin()
            copier.keep([encode(keys(self.plan.gap, lane), p) for lane, p in noted.items()])
            copier.commit()
        finally:
            copier.abort()

    def _export(self, lines: Sequence[Line]) -> None:
        if not lines or self.exporter is None:
            return
        asked = [self._asked(line) for line in lines]
        self.exporter.begin(asked)
        batch = Batch()
        for matches in self._matched(lines, self.source.read):
            batch.take(matches)
            for work, wanted, seen in matches:
                if seen is not None:
                    place, target_topic = work.line.lane.place, work.line.target_topic
                    self.exporter.add(Exported(place, target_topic, seen[-1], wanted[-1]))
            self.progress(batch.records, self._total)
        self._name_gone(batch)
        counts = batch.counts()
        found = ((part, counts.get(part.lane, Count())) for part in asked)
        self.exported = self.exporter.finish(
            [part._replace(records=count.records, gone=count.gone) for part, count in found]
        )
        self._note(batch)

    def _asked(self, line: Line) -> ExportedLane:
        place, order = line.lane
        offsets = digest_of(self.rows.offsets_after(place, {order: line.through}))
        return ExportedLane(line.lane, line.through, offsets, line.due.records)

    def _send(self, lines: Sequence[Line]) -> None:
        if not lines:
            return
        copier = self._writer()
        batch, began = Batch(), self.clock()
        try:
            for matches in self._matched(lines, self.source.raw):
                while matches:
                    if not batch.records:
                        copier.begin()
                        began = self.clock()
                    room = self.limits.records - batch.records
                    copier.append(batch.take(matches[:room]))
                    matches = matches[room:]
                    if self._full(batch, began):
                        self._commit(copier, batch)
                        batch = Batch()
            if batch.records:
                self._commit(copier, batch)
        finally:
            copier.abort()

    def _discard(self, lines: Sequence[Line]) -> None:
        if not lines:
            return
        copier, batch = self._writer(), Batch()
        for line in lines:
            place, order = line.lane
            rows = self.rows.after(place, {order: line.through})
            batch.add_all(work_of(line, self.plan.gap.source_id), line.due, rows)
        try:
            copier.begin()
            self._commit(copier, batch)
        finally:
            copier.abort()

    def _full(self, batch: Batch, began: float) -> bool:
        limits = self.limits
        if batch.records >= limits.records or len(batch.gone) >= limits.gone:
            return True
        if batch.bytes >= limits.bytes:
            return True
        return self.clock() - began >= limits.seconds

    def _commit(self, copier: Copier, batch: Batch) -> None:
        reached = batch.progress(self._reached, self._beginnings(batch), copier.settle())
        copier.keep([encode(keys(self.plan.gap, lane), p) for lane, p in reached.items()])
        self._name_gone(batch)
        try:
            copier.commit()
        except Unknown:
            self.uncommitted = frozenset(line.lane for line in batch.lines)
            raise
        self._reached |= reached
        self._note(batch)

    def _name_gone(self, batch: Batch) -> None:
        """Before it counts: a crash must not leave anything out that nobody named."""
        if batch.gone:
            self.journal.append(results.gone(batch.gone))

    def _note(self, batch: Batch) -> None:
        """Count what counts."""
        for lane, more in batch.counts().items():
            known = self.counts.setdefault(lane, Count())
            known.records += more.records
            known.bytes += more.bytes
            known.gone += more.gone
            self._done += more.records + more.gone
        for place, offset in batch.gone:
            self.gone.setdefault(place, Gone()).add(offset)
        self.progress(self._done, self._total)

    def _beginnings(self, batch: Batch) -> dict[RecordSet, Progress]:
        """Which topics the lanes belong to, by their ids."""
        ids = self.sight.source.topic_id, self.sight.target.topic_id
        return {
            line.lane: Progress(ids[0](line.lane.place.topic), ids[1](line.target_topic))
            for line in batch.lines
        }

    def _matched(self, lines: Sequence[Line], read: Read) -> Iterator[list[Match]]:
        """The records of these lanes, those of a partition in the order of the source."""
        for _, of_topic in groupby(lines, key=lambda line: line.lane.place.topic):
            by_place: dict[TopicPartition, list[Line]] = {}
            for line in of_topic:
                by_place.setdefault(line.lane.place, []).append(line)
            waiting = iter(by_place.items())
            while some := dict(islice(waiting, SIDE_BY_SIDE)):
                yield from self._read(some, read)

    def _read(
        self, by_place: Mapping[TopicPartition, Sequence[Line]], read: Read
    ) -> Iterator[list[Match]]:
        matchers = {place: self._matcher(place, lines) for place, lines in by_place.items()}
        for place, matcher in matchers.items():
            yield from matcher.gone_before(self._start(place))
        ranges = {p.partition: self._ranges(p, lines) for p, lines in by_place.items()}
        topic = next(iter(by_place)).topic
        for place, rows in read(topic, {n: r for n, r in ranges.items() if r}):
            yield from matchers[place].matches(rows)
        for matcher in matchers.values():
            yield from matcher.rest()

    def _matcher(self, place: TopicPartition, lines: Sequence[Line]) -> Matcher:
        works = {line.lane.order: work_of(line, self.plan.gap.source_id) for line in lines}
        return Matcher(place, self.rows.after(place, _through(lines)), works)

    def _ranges(self, place: TopicPartition, lines: Iterable[Line]) -> list[OffsetRange]:
        return ranges_of(self.rows.offsets_after(place, _through(lines)), self._start(place))

    def _start(self, place: TopicPartition) -> int:
        log = self.sight.source.log(place)
        return log.log_start if isinstance(log, PartitionOffsets) else 0

    def _writer(self) -> Copier:
        assert self.copier is not None, "nothing was opened that could write"
        return self.copier


def _through(lines: Iterable[Line]) -> dict[OrderVerdict, int]:
    """Where each of these lanes of one partition goes on."""
    return {line.lane.order: line.through for line in lines}


Logs = Mapping[TopicPartition, PartitionOffsets | Unavailable]


def judged(
    execution: Execution,
    read_kept: Callable[[], Kept],
    read_logs: Callable[[list[TopicPartition]], Logs],
    failure: str,
) -> tuple[LineResult, ...]:
    """Every line of the plan, held against what the target says now.

    Args:
        failure: why the run ended early; empty where it did not.
    """
    plan = execution.plan
    acted = [line for line in plan.acting if line.action in RECORDED]
    kept: Mapping[RecordSet, Progress] = {}
    logs: Logs = {}
    silent = ""
    if acted or plan.noted:
        try:
            own = (plan.gap.id, plan.gap.source_id)
            kept = {k.lane: p for k, p in read_kept().items() if (k.result, k.source_id) == own}
            logs = read_logs(sorted({_there(ln, s) for ln in acted for s in _sent(kept, ln)}))
        except Unknown as error:
            silent = error.message
    acting = {line.lane for line in plan.acting}
    return tuple(
        _line(line, execution, kept, logs, silent, failure)
        if line.lane in acting
        else _noted(line, plan.noted, kept, failure or silent)
        for line in plan.lines
    )


def _noted(
    line: Line,
    noted: Mapping[RecordSet, Progress],
    kept: Mapping[RecordSet, Progress],
    failure: str,
) -> LineResult:
    """Of a line that does nothing; what was taken over has to be there."""
    expected = noted.get(line.lane)
    if expected is None or kept.get(line.lane) == expected:
        return left_alone(line)
    reason = failure or "what other results have decided was not read back"
    return LineResult(line, Outcome.UNKNOWN, Count(), reason)


def _line(
    line: Line,
    execution: Execution,
    kept: Mapping[RecordSet, Progress],
    logs: Logs,
    silent: str,
    failure: str,
) -> LineResult:
    lane = line.lane
    count = execution.counts.get(lane, Count())
    if line.action not in RECORDED:
        whole = count.records + count.gone == line.due.records and bool(execution.exported)
        return LineResult(line, Outcome.DONE if whole else Outcome.PARTIAL, count, failure)
    if silent:
        return LineResult(line, Outcome.UNKNOWN, count, f"written, not read back: {silent}")
    known, expected = kept.get(lane), execution.reached.get(lane)
    reached = known.through if known else -1
    if lane in execution.uncommitted and known == expected:
        return LineResult(line, Outcome.UNKNOWN, count, failure)
    if reached < (expected.through if expected else -1):
        reason = f"progress was read back as {reached}"
        return LineResult(line, Outcome.UNKNOWN, count, reason)
    for segment in known.segments if known else ():
        if wrong := _unread(line, segment, logs):
            return LineResult(line, Outcome.UNKNOWN, count, wrong)
    if known is not None and known.records == line.all.records:
        return LineResult(line, Outcome.DONE, count)
    if known is not None and reached >= line.all.last:
        reason = f"{known.records} records are noted of {line.all.records}"
        return LineResult(line, Outcome.UNKNOWN, count, reason)
    return LineResult(line, Outcome.PARTIAL, count, failure)


def _sent(kept: Mapping[RecordSet, Progress], line: Line) -> list[Segment]:
    known = kept.get(line.lane)
    return [s for s in known.segments if s.to_last >= 0] if known else []


def _there(line: Line, segment: Segment) -> TopicPartition:
    return TopicPartition(segment.to, line.lane.place.partition)


def _unread(line: Line, segment: Segment, logs: Logs) -> str:
    """Why the target does not show what progress says; empty where it does."""
    if segment.to_last < 0:
        return ""
    place = _there(line, segment)
    log = logs.get(place, Unavailable("it was not read back"))
    if isinstance(log, Unavailable):
        return f"{place}: {log.reason}"
    if log.last_stable <= segment.to_last:
        return f"{place} is committed up to {log.last_stable}, not to {segment.to_last}"
    return ""
