"""Gap analysis: freeze the offsets, digest both clusters, compare what differs, classify records.

It reads either everything or only the tail.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum

from drctl.config.link import Link
from drctl.gap.answer import Answer, topic_gaps
from drctl.gap.comparison import (
    ComparePlan,
    Progress,
    Reads,
    RecordComparer,
    ScanFailed,
    Side,
    find_suspects,
    span_of,
    suspect_span,
)
from drctl.gap.engine_choice import HELD_OFFSETS, Volume
from drctl.gap.freeze import (
    NO_WAIT,
    Frozen,
    TransactionWait,
    at_once,
    choose_topics,
    freeze,
    missing_throughout,
    plan_comparison,
)
from drctl.gap.ledger import LedgerStore
from drctl.gap.ledger_updates import Known, LedgerUpdate, nothing_known
from drctl.gap.pairing import skips_equal
from drctl.gap.tail import Tail, too_narrow, windowed
from drctl.model.errors import Unknown, Unreachable
from drctl.model.gap import (
    Engine,
    Example,
    GapResult,
    NotCompared,
    OrderScope,
    OrderVerdict,
    Window,
)
from drctl.model.ports import ClusterReader
from drctl.model.topology import Record, TopicPartition, Unavailable

PARTITIONS = 16
RECORDS = 8
"""Records sampled in the middle of each partition, to estimate the size."""


ATTEMPTS = 3
"""Attempts of a scan if topics or logs change while it runs."""

PREVIEW_BYTES = 256
"""Bytes of a key or value shown in an example."""


class Scope(StrEnum):
    """What to read."""

    AUTO = "auto"
    FULL = "full"
    TAIL = "tail"


@dataclass(frozen=True, slots=True)
class Work:
    """Frozen offsets, and what to read and compare.

    Attributes:
        windows: by source partition; empty if everything is compared.
        left_out: what the result does not cover.
    """

    frozen: Frozen
    plan: ComparePlan
    known: Known
    ledger_update: LedgerUpdate | None = None
    scope: Scope = Scope.FULL
    windows: Mapping[TopicPartition, Window] = field(default_factory=dict)
    left_out: tuple[NotCompared, ...] = ()

    @property
    def offsets(self) -> int:
        """Number of offsets to read on both clusters; an upper bound of the records."""
        return span_of(self.known.reads)

    @property
    def partitions(self) -> int:
        """Number of source partitions that are compared."""
        return sum(len(topic.source) for topic in self.plan.topics)


@dataclass(frozen=True, slots=True)
class Budget:
    """The time limit of a run.

    Attributes:
        seconds: the time limit.
        offsets_a_second: expected read rate of both clusters together.
    """

    seconds: float
    offsets_a_second: float

    def seconds_for(self, offsets: int) -> float:
        """Return the expected duration of reading these offsets."""
        return offsets / self.offsets_a_second

    def allows(self, offsets: int) -> bool:
        """Return whether reading these offsets fits into the time limit."""
        return self.seconds_for(offsets) <= self.seconds


FindTail = Callable[[Iterable[str]], Tail | None]
"""Returns how far replication got with these topics; None if unknown."""


@dataclass(frozen=True, slots=True)
class Scoping:
    """Chooses between full and tail comparison."""

    scope: Scope
    find_tail: FindTail
    budget: Budget

    def chosen(self, work: Work) -> tuple[Work, Tail | None]:
        """Choose what to read; the tail is None for a full comparison.

        Raises:
            Unknown: the tail was requested, but its start is unknown.
            Unreachable: a cluster or a Connect worker did not answer.
        """
        wanted = self.scope is Scope.TAIL
        enough = self.scope is Scope.AUTO and self.budget.allows(work.offsets)
        if self.scope is Scope.FULL or enough:
            return work, None
        tail = self.find_tail(t.topic for t in work.plan.topics)
        if tail is None and wanted:
            raise Unknown(
                "cannot determine the tail: the replicator's committed offsets are unknown",
                "set `replicator` of the link (kind, connect, connectors), or use --scope full",
            )
        return (work, None) if tail is None else (self.narrowed(work, tail, {}), tail)

    def narrowed(self, work: Work, tail: Tail, margins: Mapping[TopicPartition, int]) -> Work:
        """Reduce the work to the tail.

        Raises:
            Unreachable: a cluster did not answer.
        """
        windows, unknown = tail.windows(work.plan, margins)
        plan = windowed(work.plan, windows)
        # If the tail was not requested, report what was not read as not compared.
        before = (
            NotCompared(
                w.topic,
                w.partition,
                f"only offsets from {w.source_start} on were read because of the time limit:"
                f" {w.evidence}. Use --scope full or --ledger to cover the rest",
            )
            for w in windows.values()
            if self.scope is Scope.AUTO and not w.whole
        )
        known = nothing_known(plan)
        return Work(work.frozen, plan, known, None, Scope.TAIL, windows, (*unknown, *before))


OpenComparer = Callable[[Volume], AbstractContextManager[RecordComparer]]
"""Opens a comparer; takes what it reads at most."""


def always_spark(volume: Volume) -> Engine:
    """Choose Spark."""
    return Engine.SPARK


@dataclass(frozen=True, slots=True)
class GapAnalysis:
    """Compares the two clusters of a link.

    Attributes:
        announce: called before reading.
        now: the clock, UTC.
        out: directory of the result, as shown in the result.
        ledger: digests of earlier runs; stores the digests of this one.
        choose: the engine for a volume.
        within: the scope in which copies must keep their order (policy.order).
        order: whether to check the order of replicated records, too.
        stabilize: waits for records in flight after the source offsets are frozen.
        transaction_wait: waits for open transactions.
    """

    link: Link
    source: ClusterReader
    target: ClusterReader
    scoping: Scoping
    open_comparer: OpenComparer
    progress: Progress
    announce: Callable[[Work, Volume], None]
    now: Callable[[], datetime]
    out: str
    ledger: LedgerStore | None = None
    choose: Callable[[Volume], Engine] = always_spark
    within: OrderScope = OrderScope.KEY
    order: bool = False
    stabilize: Callable[[], None] = at_once
    transaction_wait: TransactionWait = NO_WAIT

    def run(self, topics: Sequence[str] = ()) -> GapResult:
        """Find every source record that is not on the target.

        Args:
            topics: only these topics of the link; all if empty.

        Raises:
            UsageError: the link matches no topics on the source, or not all of the given topics.
            Unreachable: a cluster did not answer.
            ScanFailed: the records could not be read completely.
            Unknown: the tail was requested, but its start is unknown.
        """
        started = self.now()
        self.progress("reading topics and offsets", 0, 0)
        names = choose_topics(self.link, self.source.topic_names(), topics)
        ids = self.source.cluster_id(), self.target.cluster_id()
        work, answer = self._answer(names)
        return GapResult(
            self.link.name,
            work.scope.value,
            *(self.source.name, ids[0], self.target.name, ids[1]),
            started.astimezone(UTC),
            (self.now() - started).total_seconds(),
            self.out,
            answer.topics,
            answer.not_compared,
            histogram=answer.comparison.histogram,
            examples=self._examples(answer),
            ledger=answer.ledger,
            within=self.within,
            inversions=answer.inversions,
            reverse_of=None if self.link.configured == self.link.name else self.link.configured,
        )

    def _answer(self, names: Sequence[str]) -> tuple[Work, Answer]:
        """Compare; start again with new offsets if the scan failed because something changed."""
        frozen = self._freeze(names)
        for _ in range(ATTEMPTS - 1):
            try:
                return self._compare_scope(frozen)
            except ScanFailed as failed:
                moved = self._look_again(names, failed)
                if readable(moved) == readable(frozen):
                    raise
                frozen = moved
        return self._compare_scope(frozen)

    def _look_again(self, names: Sequence[str], failed: ScanFailed) -> Frozen:
        try:
            return self._freeze(names)
        except Unreachable as gone:
            raise Unreachable(f"{failed.message}; {gone.message}", gone.hint) from gone

    def _freeze(self, names: Sequence[str]) -> Frozen:
        return freeze(
            self.link, self.source, self.target, names, self.stabilize, self.transaction_wait
        )

    def _compare_scope(self, frozen: Frozen) -> tuple[Work, Answer]:
        """Compare the scope; widen the tail if records before it turn out to be missing."""
        whole = self._prepare(frozen)
        work, tail = self.scoping.chosen(whole)
        margins: dict[TopicPartition, int] = {}
        while True:
            work, volume = self._weighed(work)
            self.announce(work, volume)
            with self.open_comparer(volume) as comparer:
                answer = self._compare(comparer, work, volume)
            grown = too_narrow(answer.topics, work.windows) if tail else {}
            if tail is None or not grown:
                return work, answer
            margins |= grown
            work = self.scoping.narrowed(whole, tail, margins)

    def _weighed(self, work: Work) -> tuple[Work, Volume]:
        """Determine the volume; let Spark read only once where records differ everywhere."""
        every = self.order or work.ledger_update is not None or not skips_equal(work.plan)
        volume = Volume(work.offsets, None, work.partitions, every)
        if work.offsets < HELD_OFFSETS and self.choose(volume) is Engine.DIRECT:
            return work, volume
        volume = replace(volume, bytes=sampled_bytes(self.source, work.known.reads))
        if work.ledger_update is None and (
            self.order or missing_throughout(work.plan, self.source, self.target)
        ):
            volume = replace(volume, every=True)
            if self.choose(volume) is Engine.SPARK:
                work = replace(work, plan=work.plan.reading_once(self.order))
        return work, volume

    def _prepare(self, frozen: Frozen) -> Work:
        if self.ledger is None:
            plan = plan_comparison(self.link, frozen, self.source, within=self.within)
            return Work(frozen, plan, nothing_known(plan))
        ledger_update = LedgerUpdate(self.link, self.ledger, self.source, self.target, self.now)
        basis = ledger_update.basis(frozen)
        plan = plan_comparison(self.link, frozen, self.source, basis, self.within)
        return Work(frozen, plan, ledger_update.recall(plan, frozen), ledger_update)

    def _compare(self, comparer: RecordComparer, work: Work, volume: Volume) -> Answer:
        frozen, plan, known = work.frozen, work.plan, work.known
        fresh = comparer.digest(plan, known.reads, self.progress)
        kept = work.ledger_update.keep(plan, frozen, known, fresh) if work.ledger_update else None
        digests = (*known.digests, *fresh)
        suspects = find_suspects(plan, digests)
        # Before the comparison, which releases what was read.
        order = comparer.check_order(plan, self.progress) if self.order else None
        with self._fitting(comparer, volume, suspect_span(suspects)) as fitting:
            comparison = fitting.compare(plan, suspects, self.progress)
        topics = topic_gaps(frozen, plan, digests, comparison, work.windows, order)
        left_out = (*frozen.not_compared, *work.left_out)
        return Answer(topics, left_out, comparison, kept, order.examples if order else None)

    @contextmanager
    def _fitting(
        self, comparer: RecordComparer, volume: Volume, span: int
    ) -> Iterator[RecordComparer]:
        """Open a comparer for this many offsets: even a ledger may leave much to compare."""
        rest = Volume(span, None, volume.partitions, every=True)
        if self.choose(rest) is not self.choose(volume):
            with self.open_comparer(rest) as other:
                yield other
        else:
            yield comparer

    def _examples(self, answer: Answer) -> tuple[Example, ...]:
        wanted = {
            (TopicPartition(each.topic, each.partition), each.offset): each
            for each in answer.comparison.examples
        }
        found = self.source.records(list(wanted)) if wanted else {}
        return tuple(
            Example(
                example.topic,
                record.partition,
                record.offset,
                record.timestamp_ms,
                None if record.key is None else record.key[:PREVIEW_BYTES],
                None if record.value is None else record.value[:PREVIEW_BYTES],
                example.size,
                OrderVerdict(example.order),
            )
            for at, example in wanted.items()
            if isinstance(record := found.get(at), Record)
        )


def readable(frozen: Frozen) -> frozenset[tuple[str, str, int, int]]:
    """Return what a scan depends on: partitions and their log start offsets."""
    return frozenset(
        (topic.topic, side, partition, offsets.log_start)
        for topic in frozen.topics
        for side, partitions in (("source", topic.source), ("target", topic.target))
        for partition, offsets in partitions.items()
    )


def sampled_bytes(source: ClusterReader, reads: Reads) -> int | None:
    """Estimate the uncompressed bytes of keys and values on both clusters; None if unknown.

    Raises:
        Unreachable: the source did not answer.
    """
    spans = {
        TopicPartition(topic, partition): ranges
        for topic, partitions in reads[Side.SOURCE].items()
        for partition, ranges in partitions.items()
    }
    largest = sorted(spans, key=lambda place: -sum(r.span for r in spans[place]))[:PARTITIONS]
    widest = {place: max(spans[place], key=lambda r: r.span) for place in largest}
    found = source.following({p: (r.start + r.end) // 2 for p, r in widest.items()}, RECORDS)
    sizes = [
        len(record.key or b"") + len(record.value or b"")
        for records in found.values()
        if not isinstance(records, Unavailable)
        for record in records
    ]
    return round(sum(sizes) / len(sizes) * span_of(reads)) if sizes else None
