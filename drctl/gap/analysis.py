"""The main job: freeze, digest, compare what differs, and say what became of every record.

It reads all of the two sides, or the tail.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
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
from drctl.gap.freeze import (
    NO_WAIT,
    Frozen,
    TransactionWait,
    at_once,
    choose_topics,
    freeze,
    plan_comparison,
)
from drctl.gap.ledger import LedgerStore
from drctl.gap.ledger_updates import Known, LedgerUpdate, nothing_known
from drctl.gap.tail import Tail, too_narrow, windowed
from drctl.model.errors import Unknown, Unreachable
from drctl.model.gap import Example, GapResult, NotCompared, OrderScope, OrderVerdict, Window
from drctl.model.ports import ClusterReader
from drctl.model.topology import Record, TopicPartition, Unavailable

PARTITIONS = 16
RECORDS = 8
"""Looked at in the middle of what is read of each partition."""


ATTEMPTS = 3
"""How often a scan is attempted after something moved under it."""

PREVIEW_BYTES = 256
"""How much of a key or value an example shows."""


class Scope(StrEnum):
    """What a run was told to read."""

    AUTO = "auto"
    FULL = "full"
    TAIL = "tail"


@dataclass(frozen=True, slots=True)
class Work:
    """One freeze, and what is to be read and compared of it.

    Attributes:
        windows: by source partition; empty where all is compared.
        left_out: what the answer does not cover.
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
        """How many there are to read, of both sides; at least as many as records."""
        return span_of(self.known.reads)

    @property
    def partitions(self) -> int:
        """In how many partitions of the source something is compared."""
        return sum(len(topic.source) for topic in self.plan.topics)


@dataclass(frozen=True, slots=True)
class Budget:
    """What a run may cost.

    Attributes:
        seconds: how long an engineer can wait.
        offsets_a_second: of both sides together.
        measured: whether that rate was measured here, or is only assumed.
    """

    seconds: float
    offsets_a_second: float
    measured: bool

    def seconds_for(self, offsets: int) -> float:
        """How long reading them is expected to take."""
        return offsets / self.offsets_a_second

    def allows(self, offsets: int) -> bool:
        """Whether that is within the budget."""
        return self.seconds_for(offsets) <= self.seconds


FindTail = Callable[[Iterable[str]], Tail | None]
"""What is known of how far the replicator got with these topics; None where nobody knows."""


@dataclass(frozen=True, slots=True)
class Scoping:
    """Chooses what is read."""

    scope: Scope
    find_tail: FindTail
    budget: Budget

    def chosen(self, work: Work) -> tuple[Work, Tail | None]:
        """The work that is to be done, and the tail that it keeps to.

        Raises:
            Unknown: the tail was asked for, and nobody knows where it begins.
            Unreachable: a cluster, or a worker of the replicator, did not answer.
        """
        wanted = self.scope is Scope.TAIL
        enough = self.scope is Scope.AUTO and self.budget.allows(work.offsets)
        if self.scope is Scope.FULL or enough:
            return work, None
        tail = self.find_tail(t.topic for t in work.plan.topics)
        if tail is None and wanted:
            raise Unknown(
                "nobody says how far replication got: the tail has no beginning",
                "set `replicator` of the link (kind, connect, connectors), or use --scope full",
            )
        return (work, None) if tail is None else (self.narrowed(work, tail, {}), tail)

    def narrowed(self, work: Work, tail: Tail, margins: Mapping[TopicPartition, int]) -> Work:
        """The work cut down to the tail.

        Raises:
            Unreachable: a cluster did not answer.
        """
        windows, unknown = tail.windows(work.plan, margins)
        plan = windowed(work.plan, windows)
        # Where nobody asked for less than everything, what was not read is said to be missing.
        before = (
            NotCompared(
                w.topic,
                w.partition,
                f"only offsets from {w.source_start} on were read, to be in time: {w.evidence}."
                " --scope full, or a --ledger that is kept, covers the rest",
            )
            for w in windows.values()
            if self.scope is Scope.AUTO and not w.whole
        )
        known = nothing_known(plan)
        return Work(work.frozen, plan, known, None, Scope.TAIL, windows, (*unknown, *before))


OpenComparer = Callable[[int], AbstractContextManager[RecordComparer]]
"""Opens what compares the records; told how many offsets there are to read at most."""


@dataclass(frozen=True, slots=True)
class GapAnalysis:
    """Compares the two sides of a link.

    Attributes:
        announce: told what will be read, before it is, and about how many bytes that are; None
            where that was not looked at.
        now: the clock, UTC.
        out: where the comparer's records will be found, as said in the result.
        ledger: what earlier runs digested, and where this one's digests are kept.
        few: fewer offsets than these are compared by another comparer than more of them.
        within: what has an order that a copy must not break.
        order: whether the order of replicated records is looked at, too.
        stabilize: waits for records that are on their way, once the source is frozen.
        transaction_wait: for transactions that are open.
    """

    link: Link
    source: ClusterReader
    target: ClusterReader
    scoping: Scoping
    open_comparer: OpenComparer
    progress: Progress
    announce: Callable[[Work, int | None], None]
    now: Callable[[], datetime]
    out: str
    ledger: LedgerStore | None = None
    few: int = 0
    within: OrderScope = OrderScope.KEY
    order: bool = False
    stabilize: Callable[[], None] = at_once
    transaction_wait: TransactionWait = NO_WAIT

    def run(self, topics: Sequence[str] = ()) -> GapResult:
        """Find every source record that is not on the target.

        Args:
            topics: only these of the link's topics; all if empty.

        Raises:
            UsageError: the link carries none of the source's topics, or not a named one.
            Unreachable: a cluster did not answer.
            ScanFailed: the records could not be read to their end.
            Unknown: the tail was asked for, and nobody knows where it begins.
        """
        started = self.now()
        self.progress("looking at both clusters", 0, 0)
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
        )

    def _answer(self, names: Sequence[str]) -> tuple[Work, Answer]:
        """Compare; look again and begin anew when the scan failed because something moved."""
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
        """Compare what the scope covers, and more where what it takes for granted is not so."""
        whole = self._prepare(frozen)
        work, tail = self.scoping.chosen(whole)
        margins: dict[TopicPartition, int] = {}
        while True:
            much = work.offsets >= self.few
            weight = sampled_bytes(self.source, work.known.reads) if much else None
            self.announce(work, weight)
            with self.open_comparer(work.offsets) as comparer:
                answer = self._compare(comparer, work)
            grown = too_narrow(answer.topics, work.windows) if tail else {}
            if tail is None or not grown:
                return work, answer
            margins |= grown
            work = self.scoping.narrowed(whole, tail, margins)

    def _prepare(self, frozen: Frozen) -> Work:
        if self.ledger is None:
            plan = plan_comparison(self.link, frozen, self.source, within=self.within)
            return Work(frozen, plan, nothing_known(plan))
        ledger_update = LedgerUpdate(self.link, self.ledger, self.source, self.target, self.now)
        basis = ledger_update.basis(frozen)
        plan = plan_comparison(self.link, frozen, self.source, basis, self.within)
        return Work(frozen, plan, ledger_update.recall(plan, frozen), ledger_update)

    def _compare(self, comparer: RecordComparer, work: Work) -> Answer:
        frozen, plan, known = work.frozen, work.plan, work.known
        fresh = comparer.digest(plan, known.reads, self.progress)
        kept = work.ledger_update.keep(plan, frozen, known, fresh) if work.ledger_update else None
        digests = (*known.digests, *fresh)
        suspects = find_suspects(plan, digests)
        # Before the comparison, which lets go of what was read for it.
        order = comparer.check_order(plan, self.progress) if self.order else None
        with self._fitting(comparer, work, suspect_span(suspects)) as fitting:
            comparison = fitting.compare(plan, suspects, self.progress)
        topics = topic_gaps(frozen, plan, digests, comparison, work.windows, order)
        left_out = (*frozen.not_compared, *work.left_out)
        return Answer(topics, left_out, comparison, kept, order.examples if order else None)

    @contextmanager
    def _fitting(self, comparer: RecordComparer, work: Work, span: int) -> Iterator[RecordComparer]:
        """What compares so many offsets: much may differ where a ledger left little to digest."""
        if (work.offsets < self.few) != (span < self.few):
            with self.open_comparer(span) as other:
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
    """What of a freeze a failed scan may have tripped over: partitions and their log starts."""
    return frozenset(
        (topic.topic, side, partition, offsets.log_start)
        for topic in frozen.topics
        for side, partitions in (("source", topic.source), ("target", topic.target))
        for partition, offsets in partitions.items()
    )


def sampled_bytes(source: ClusterReader, reads: Reads) -> int | None:
    """About how many bytes of keys and values, uncompressed, both sides hold; None: unknown.

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
