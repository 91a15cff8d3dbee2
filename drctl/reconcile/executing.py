"""Executes a reconcile plan: exports, appends records and progress, records what is discarded.

Each transaction contains records and their progress. After any failure, the next run reads the
committed progress and continues from there.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from operator import eq, itemgetter
from typing import NamedTuple

from drctl.formats import provenance
from drctl.formats.provenance import Provenance
from drctl.model.errors import Stopped, Unknown
from drctl.model.gap import OrderVerdict
from drctl.model.journal import RunJournal
from drctl.model.topology import PartitionOffsets, Row, TopicPartition, Unavailable
from drctl.reconcile import results
from drctl.reconcile.cluster_state import ClusterStates
from drctl.reconcile.export import digest_of
from drctl.reconcile.gap_result import (
    Copier,
    Exported,
    ExportedSet,
    Exporter,
    SourceLog,
    Tally,
    WantedRow,
    WantedRows,
    compared,
    ranges_of,
)
from drctl.reconcile.planning import Line, ReconcilePlan, keys
from drctl.reconcile.policy import LEFT_MISSING, RECORDED, SENDS, Action
from drctl.reconcile.progress import Kept, LeftMissingBuilder, Progress, RecordSet, Segment, encode
from drctl.reconcile.results import Count, Gone, LineResult, Outcome, left_alone

_AT_ONCE = 1_000
_AFTER_ALL = 1 << 63
_OFFSET, _SIZE, _ORDER = map(itemgetter, (0, 3, 4))
_ORIGIN = itemgetter(0, 1)

Stamp = Callable[[tuple[int, int]], bytes]
"""Returns the value of the provenance header for an offset and timestamp."""


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """A line that is being executed.

    Attributes:
        to: the partition that copies are appended to.
    """

    line: Line
    to: TopicPartition
    stamp: Stamp


class Match(NamedTuple):
    """Consecutive rows of the gap result with the same order verdict, and their records.

    Attributes:
        rows: empty if the log no longer holds any of them.
    """

    work: Work
    wanted: Sequence[WantedRow]
    rows: Sequence[Row]

    def cut(self, at: int) -> "tuple[Match, Match]":
        """Return the first so many rows, and the rest."""
        work, wanted, rows = self
        return Match(work, wanted[:at], rows[:at]), Match(work, wanted[at:], rows[at:])

    def stamps(self) -> Iterator[bytes]:
        """Yield the value of each record's provenance header."""
        return map(self.work.stamp, map(_ORIGIN, self.wanted))


def work_of(line: Line, source_id: str) -> Work:
    """Prepare a line for execution."""
    place = line.record_set.place
    return Work(line, TopicPartition(line.to, place.partition), stamp_of(source_id, place))


def stamp_of(source_id: str, place: TopicPartition) -> Stamp:
    """Return a fast equivalent of `provenance.encode` for one partition."""
    whole = provenance.encode(Provenance(source_id, *place, 0, 0)).replace(b"%", b"%%")
    first, _, rest = whole.rpartition(b'0,"timestamp":')
    assert rest == b"0}"
    return (first + b'%d,"timestamp":%d}').__mod__


class Matcher:
    """Matches the rows of one partition with its log; yields every row once, in order.

    Args:
        works: the lines to execute, by order verdict.
    """

    def __init__(
        self, place: TopicPartition, wanted: Iterator[WantedRow], works: Mapping[OrderVerdict, Work]
    ) -> None:
        self._place = place
        self._wanted = wanted
        self._works = works
        self._ahead: list[WantedRow] = []

    def matches(self, rows: Sequence[Row]) -> Iterator[Match]:
        """Yield the rows of the gap result up to the last of these records, in order.

        Args:
            rows: the next records of the log.

        Raises:
            Stopped: the log holds another record at the offset of a row.
        """
        records = dict(zip(map(_OFFSET, rows), rows, strict=True))
        for wanted in self._up_to(rows[-1][0] + 1):
            yield from self._matched(wanted, list(map(records.get, map(_OFFSET, wanted))))

    def gone_before(self, offset: int) -> Iterator[Match]:
        """Yield the rows before an offset: the log no longer holds them."""
        for wanted in self._up_to(offset):
            yield from self._matched(wanted, [None] * len(wanted))

    def rest(self) -> Iterator[Match]:
        """Yield the remaining rows after the log was read to its end."""
        return self.gone_before(_AFTER_ALL)

    def _up_to(self, end: int) -> Iterator[Sequence[WantedRow]]:
        """Yield the next rows before an offset, in batches."""
        while some := self._ahead or list(islice(self._wanted, _AT_ONCE)):
            at = bisect_left(some, end, key=_OFFSET)
            self._ahead = some[at:]
            yield some[:at]
            if self._ahead:
                return

    def _matched(
        self, wanted: Sequence[WantedRow], records: Sequence[Row | None]
    ) -> Iterator[Match]:
        """Yield runs with the same order verdict, either with or without their records."""
        start, kinds = 0, zip(map(_ORDER, wanted), map(bool, records), strict=True)
        for (order, there), run in groupby(kinds):
            end = start + len(list(run))
            rows = [row for row in records[start:end] if row] if there else []
            found = Match(self._works[order], wanted[start:end], rows)
            if rows:
                self._check(found)
            yield found
            start = end

    def _check(self, match: Match) -> None:
        _, *expected, _ = zip(*match.wanted, strict=True)
        actual = compared(match.rows)
        if expected != actual:
            alike = map(eq, zip(*expected, strict=True), zip(*actual, strict=True))
            offset = match.wanted[list(alike).index(False)][0]
            raise Stopped(
                f"{self._place}: the record at offset {offset} is not the one in the gap"
                " result: the topic was recreated, or this is another cluster",
                "run `drctl gap` again",
            )


@dataclass(slots=True)
class _Step:
    """What a batch adds to a record set.

    Attributes:
        left: the records, if they stay missing on the target; else None.
    """

    through: int = -1
    records: int = 0
    bytes: int = 0
    gone: int = 0
    left: LeftMissingBuilder | None = None


@dataclass(slots=True)
class Batch:
    """Records and progress that are committed together."""

    gone: list[tuple[TopicPartition, int]] = field(default_factory=list)
    records: int = 0
    bytes: int = 0
    _steps: dict[Work, _Step] = field(default_factory=dict)

    def take(self, match: Match) -> None:
        """Add rows with their records, or deleted ones."""
        work, wanted, rows = match
        step = self._step(work)
        step.through = wanted[-1][0]
        if step.left is not None:
            for row in wanted:
                step.left.add(*row[:2])
        if rows:
            size = sum(map(_SIZE, wanted))
            step.records += len(rows)
            step.bytes += size
            self.bytes += size
        else:
            step.gone += len(wanted)
            self.gone += [(work.line.record_set.place, row[0]) for row in wanted]
        self.records += len(wanted)

    def add_all(self, work: Work, tally: Tally, rows: Iterable[WantedRow]) -> None:
        """Add all remaining records of a record set, for actions that append nothing."""
        step = self._step(work)
        step.through, step.records, step.bytes = tally.last, tally.records, tally.bytes
        if step.left is not None:
            for row in rows:
                step.left.add(*row[:2])
        self.records += tally.records

    @property
    def lines(self) -> tuple[Line, ...]:
        """The lines with progress in this batch."""
        return tuple(work.line for work in self._steps)

    def progress(
        self,
        known: Mapping[RecordSet, Progress],
        beginnings: Mapping[RecordSet, Progress],
        last: Mapping[TopicPartition, int],
    ) -> dict[RecordSet, Progress]:
        """Return the progress of every record set after this batch.

        Args:
            known: progress before the batch.
            beginnings: initial progress for record sets without any.
            last: last appended offset of each target partition.
        """
        found = {}
        for work, step in self._steps.items():
            line = work.line
            segment = Segment(
                line.action,
                step.through,
                step.records,
                step.bytes,
                step.gone,
                line.to,
                last[work.to] if line.to and step.records else -1,
                step.left.left if step.left else None,
            )
            found[line.record_set] = (
                known.get(line.record_set) or beginnings[line.record_set]
            ).after(segment)
        return found

    def counts(self) -> Mapping[RecordSet, Count]:
        """Return the counts that this batch adds to each record set."""
        return {
            work.line.record_set: Count(step.records, step.bytes, step.gone)
            for work, step in self._steps.items()
        }

    def _step(self, work: Work) -> _Step:
        step = self._steps.get(work)
        if step is None:
            stays = work.line.action in LEFT_MISSING
            step = self._steps[work] = _Step(left=LeftMissingBuilder() if stays else None)
        return step


SIDE_BY_SIDE = 8
"""Partitions that are read concurrently: each of them takes memory."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When to commit a transaction: read_committed consumers cannot read past an open one.

    Nothing is queued during a commit, so few long transactions are faster than many short ones.
    """

    records: int = 1_000_000
    gone: int = 100_000
    bytes: int = 256 << 20
    seconds: float = 5.0


@dataclass(slots=True)
class Execution:
    """Executes one plan; `counts` and `gone` hold what was done, even after a failure.

    Attributes:
        copier: None if nothing is written to the target.
        progress: called with (records done, records in total).
        uncommitted: record sets of a commit that got no response.
    """

    plan: ReconcilePlan
    rows: WantedRows
    source: SourceLog
    clusters: ClusterStates
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
        """Start from the stored progress."""
        self._reached = dict(self.plan.kept)
        self._total = sum(line.due.records for line in self.plan.acting)

    @property
    def reached(self) -> Mapping[RecordSet, Progress]:
        """Progress that this run has committed."""
        return self._reached

    def run(self) -> None:
        """Export first, because that changes nothing; discard last.

        Raises:
            DrctlError: the run ended early; committed progress is kept.
        """
        lines = self.plan.acting
        self.journal.append([*results.taken(self.plan.noted), *results.intents(lines)])
        if noted := self.plan.noted:
            copier = self._writer()
            try:
                copier.begin()
                copier.keep(
                    [encode(keys(self.plan.gap, record_set), p) for record_set, p in noted.items()]
                )
                copier.commit()
            finally:
                copier.abort()
        self._export([line for line in lines if line.action is Action.EXPORT])
        self._send([line for line in lines if line.action in SENDS])
        self._discard([line for line in lines if line.action is Action.DISCARD])

    def _export(self, lines: Sequence[Line]) -> None:
        if not lines or self.exporter is None:
            return
        asked = []
        for line in lines:
            place, order = line.record_set
            offsets = digest_of(self.rows.offsets_after(place, {order: line.through}))
            asked.append(ExportedSet(line.record_set, line.through, offsets, line.due.records))
        self.exporter.begin(asked)
        batch = Batch()
        for match in self._matched(lines):
            batch.take(match)
            (place, order), target_topic = match.work.line.record_set, match.work.line.target_topic
            for row in match.rows:
                self.exporter.add(Exported(place, target_topic, row, order))
            self.progress(batch.records, self._total)
        self._name_gone(batch)
        counts = batch.counts()
        found = ((part, counts.get(part.record_set, Count())) for part in asked)
        self.exported = self.exporter.finish(
            [part._replace(records=count.records, gone=count.gone) for part, count in found]
        )
        self._note(batch)

    def _send(self, lines: Sequence[Line]) -> None:
        if not lines:
            return
        copier = self._writer()
        batch, began = Batch(), self.clock()
        try:
            for rest in self._matched(lines):
                while rest.wanted:
                    if not batch.records:
                        copier.begin()
                        began = self.clock()
                    match, rest = rest.cut(self.limits.records - batch.records)
                    batch.take(match)
                    if match.rows:
                        copier.append(match.work.to, match.rows, match.stamps())
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
            place, order = line.record_set
            rows = self.rows.after(place, {order: line.through})
            batch.add_all(work_of(line, self.plan.gap.source_id), line.due, rows)
        try:
            copier.begin()
            self._commit(copier, batch)
        finally:
            copier.abort()

    def _full(self, batch: Batch, began: float) -> bool:
        limits = self.limits
        return (
            batch.records >= limits.records
            or len(batch.gone) >= limits.gone
            or batch.bytes >= limits.bytes
            or self.clock() - began >= limits.seconds
        )

    def _commit(self, copier: Copier, batch: Batch) -> None:
        source_id, target_id = self.clusters.source.topic_id, self.clusters.target.topic_id
        beginnings = {
            line.record_set: Progress(
                source_id(line.record_set.place.topic), target_id(line.target_topic)
            )
            for line in batch.lines
        }
        reached = batch.progress(self._reached, beginnings, copier.settle())
        copier.keep(
            [encode(keys(self.plan.gap, record_set), p) for record_set, p in reached.items()]
        )
        self._name_gone(batch)
        try:
            copier.commit()
        except Unknown:
            self.uncommitted = frozenset(line.record_set for line in batch.lines)
            raise
        self._reached |= reached
        self._note(batch)

    def _name_gone(self, batch: Batch) -> None:
        """Journal deleted records before the commit, so that a crash cannot lose track of them."""
        if batch.gone:
            self.journal.append(results.gone(batch.gone))

    def _note(self, batch: Batch) -> None:
        """Add a committed batch to the counts."""
        for record_set, more in batch.counts().items():
            known = self.counts.setdefault(record_set, Count())
            known.records += more.records
            known.bytes += more.bytes
            known.gone += more.gone
            self._done += more.records + more.gone
        for place, offset in batch.gone:
            self.gone.setdefault(place, Gone()).add(offset)
        self.progress(self._done, self._total)

    def _matched(self, lines: Sequence[Line]) -> Iterator[Match]:
        """Yield the records of these lines, in offset order within a partition."""
        for _, of_topic in groupby(lines, key=lambda line: line.record_set.place.topic):
            by_place: dict[TopicPartition, list[Line]] = {}
            for line in of_topic:
                by_place.setdefault(line.record_set.place, []).append(line)
            waiting = iter(by_place.items())
            while some := dict(islice(waiting, SIDE_BY_SIDE)):
                yield from self._read(some)

    def _read(self, by_place: Mapping[TopicPartition, Sequence[Line]]) -> Iterator[Match]:
        matchers: dict[TopicPartition, Matcher] = {}
        throughs: dict[TopicPartition, dict[OrderVerdict, int]] = {}
        for place, lines in by_place.items():
            throughs[place] = {line.record_set.order: line.through for line in lines}
            works = {
                line.record_set.order: work_of(line, self.plan.gap.source_id) for line in lines
            }
            matchers[place] = Matcher(place, self.rows.after(place, throughs[place]), works)
        starts = {place: self.clusters.source.log_start(place) for place in by_place}
        for place, matcher in matchers.items():
            yield from matcher.gone_before(starts[place])
        ranges = {
            place.partition: ranges_of(self.rows.offsets_after(place, through), starts[place])
            for place, through in throughs.items()
        }
        topic = next(iter(by_place)).topic
        for place, rows in self.source.read(topic, {n: r for n, r in ranges.items() if r}):
            yield from matchers[place].matches(rows)
        for matcher in matchers.values():
            yield from matcher.rest()

    def _writer(self) -> Copier:
        assert self.copier is not None, "opened without a writer"
        return self.copier


Logs = Mapping[TopicPartition, PartitionOffsets | Unavailable]


def judged(
    execution: Execution,
    read_kept: Callable[[], Kept],
    read_logs: Callable[[list[TopicPartition]], Logs],
    failure: str,
) -> tuple[LineResult, ...]:
    """Verify every line of the plan against the progress and offsets on the target.

    Args:
        failure: why the run ended early; empty if it did not.
    """
    plan = execution.plan
    acted = [line for line in plan.acting if line.action in RECORDED]
    kept: Mapping[RecordSet, Progress] = {}
    logs: Logs = {}
    unread = ""
    if acted or plan.noted:
        try:
            own = (plan.gap.id, plan.gap.source_id)
            kept = {
                k.record_set: p for k, p in read_kept().items() if (k.result, k.source_id) == own
            }
            sent = {
                _there(line, segment)
                for line in acted
                if (known := kept.get(line.record_set))
                for segment in known.segments
                if segment.to_last >= 0
            }
            logs = read_logs(sorted(sent))
        except Unknown as error:
            unread = error.message
    acting = {line.record_set for line in plan.acting}
    found = []
    for line in plan.lines:
        noted = plan.noted.get(line.record_set)
        if line.record_set in acting:
            found.append(_line(line, execution, kept, logs, unread, failure))
        elif noted is None or kept.get(line.record_set) == noted:
            found.append(left_alone(line))
        else:  # decisions that were taken over must be stored
            reason = failure or unread or "decisions of other gap results were not read back"
            found.append(LineResult(line, Outcome.UNKNOWN, Count(), reason))
    return tuple(found)


def _line(
    line: Line,
    execution: Execution,
    kept: Mapping[RecordSet, Progress],
    logs: Logs,
    unread: str,
    failure: str,
) -> LineResult:
    record_set = line.record_set
    count = execution.counts.get(record_set, Count())
    if line.action not in RECORDED:
        whole = count.records + count.gone == line.due.records and bool(execution.exported)
        return LineResult(line, Outcome.DONE if whole else Outcome.PARTIAL, count, failure)
    if unread:
        return LineResult(line, Outcome.UNKNOWN, count, f"written, but not verified: {unread}")
    known, expected = kept.get(record_set), execution.reached.get(record_set)
    reached = known.through if known else -1
    if record_set in execution.uncommitted and known == expected:
        return LineResult(line, Outcome.UNKNOWN, count, failure)
    if reached < (expected.through if expected else -1):
        reason = f"stored progress is {reached}"
        return LineResult(line, Outcome.UNKNOWN, count, reason)
    for segment in known.segments if known else ():
        if wrong := _unread(line, segment, logs):
            return LineResult(line, Outcome.UNKNOWN, count, wrong)
    if known is not None and known.records == line.all.records:
        return LineResult(line, Outcome.DONE, count)
    if known is not None and reached >= line.all.last:
        reason = f"stored progress covers {known.records} of {line.all.records} records"
        return LineResult(line, Outcome.UNKNOWN, count, reason)
    return LineResult(line, Outcome.PARTIAL, count, failure)


def _there(line: Line, segment: Segment) -> TopicPartition:
    return TopicPartition(segment.to, line.record_set.place.partition)


def _unread(line: Line, segment: Segment, logs: Logs) -> str:
    """Return why the target does not hold what the progress claims; empty if it does."""
    if segment.to_last < 0:
        return ""
    place = _there(line, segment)
    log = logs.get(place, Unavailable("it was not read back"))
    if isinstance(log, Unavailable):
        return f"{place}: {log.reason}"
    if log.last_stable <= segment.to_last:
        return (
            f"{place}: last stable offset is {log.last_stable}, expected beyond {segment.to_last}"
        )
    return ""
