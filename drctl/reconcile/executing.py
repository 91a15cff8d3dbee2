"""Carries a plan out: exports, appends records with their progress, notes what is discarded.

Each transaction holds records and the progress that they make. Whatever happens, the next run reads
the progress that counts and goes on behind it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice

from drctl.model.errors import Unknown
from drctl.model.gap import OrderVerdict
from drctl.model.journal import RunJournal
from drctl.model.topology import OffsetRange, PartitionOffsets, TopicPartition
from drctl.reconcile import journal as journals
from drctl.reconcile.batch import Batch
from drctl.reconcile.export import digest_of
from drctl.reconcile.matching import Match, Matcher, work_of
from drctl.reconcile.planning import Line, ReconcilePlan, keys
from drctl.reconcile.policy import SENDS, Action
from drctl.reconcile.progress import Lane, Progress, encode
from drctl.reconcile.results import Count, Gone
from drctl.reconcile.rows import (
    Copier,
    Exported,
    ExportedLane,
    Exporter,
    Piece,
    SourceLog,
    WantedRows,
    ranges_of,
)
from drctl.reconcile.sight import Sight

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
    sight: Sight
    copier: Copier | None
    exporter: Exporter | None
    journal: RunJournal
    clock: Callable[[], float]
    progress: Callable[[int, int], None]
    limits: Limits = Limits()
    counts: dict[Lane, Count] = field(default_factory=dict)
    gone: dict[TopicPartition, Gone] = field(default_factory=dict)
    exported: str = ""
    uncommitted: frozenset[Lane] = frozenset()
    _reached: dict[Lane, Progress] = field(init=False)
    _total: int = field(init=False)
    _done: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Begin where progress is."""
        self._reached = dict(self.plan.kept)
        self._total = sum(line.due.records for line in self.plan.acting)

    @property
    def reached(self) -> Mapping[Lane, Progress]:
        """Progress as this run knows that it counts."""
        return self._reached

    def run(self) -> None:
        """Export first, which changes nothing; discard last.

        Raises:
            DrctlError: it ended early; what counts stays.
        """
        lines = self.plan.acting
        self.journal.append([*journals.taken(self.plan.noted), *journals.intents(lines)])
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
            self.journal.append(journals.gone(batch.gone))

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

    def _beginnings(self, batch: Batch) -> dict[Lane, Progress]:
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
