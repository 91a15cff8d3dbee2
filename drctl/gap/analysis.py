"""The main job: freeze, digest, compare what differs, and say what became of every record."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from drctl.config.link import Link
from drctl.gap.answer import Answer, Findings, topic_gaps
from drctl.gap.comparison import Progress, Reads, RecordComparer, ScanFailed, Side, span_of
from drctl.gap.freeze import NO_PATIENCE, Frozen, Patience, at_once, choose_topics, freeze
from drctl.gap.ledger import LedgerStore
from drctl.gap.ledger_updates import Remembering, nothing_known
from drctl.gap.planning import plan_comparison
from drctl.gap.scoping import Scoping, Work
from drctl.gap.suspects import find_suspects, suspect_span
from drctl.model.errors import Unreachable
from drctl.model.gap import Example, GapResult, OrderScope, OrderVerdict
from drctl.model.ports import ClusterReader
from drctl.model.topology import Record, TopicPartition, Unavailable

PARTITIONS = 16
RECORDS = 8
"""Looked at in the middle of what is read of each partition."""


ATTEMPTS = 3
"""How often a scan is attempted after something moved under it."""

PREVIEW_BYTES = 256
"""How much of a key or value an example shows."""


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
        settle: waits for records that are on their way, once the source is frozen.
        patience: for transactions that are open.
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
    settle: Callable[[], None] = at_once
    patience: Patience = NO_PATIENCE

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
            link=self.link.name,
            scope=work.scope.value,
            source=self.source.name,
            source_id=ids[0],
            target=self.target.name,
            target_id=ids[1],
            started=started.astimezone(UTC),
            seconds=(self.now() - started).total_seconds(),
            out=self.out,
            topics=answer.topics,
            not_compared=answer.not_compared,
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
        return freeze(self.link, self.source, self.target, names, self.settle, self.patience)

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
            wider = tail and self.scoping.wider(whole, work, tail, answer.topics, margins)
            if not wider:
                return work, answer
            work = wider

    def _prepare(self, frozen: Frozen) -> Work:
        if self.ledger is None:
            plan = plan_comparison(self.link, frozen, self.source, within=self.within)
            return Work(frozen, plan, nothing_known(plan))
        remembering = Remembering(self.link, self.ledger, self.source, self.target, self.now)
        basis = remembering.basis(frozen)
        plan = plan_comparison(self.link, frozen, self.source, basis, self.within)
        return Work(frozen, plan, remembering.recall(plan, frozen), remembering)

    def _compare(self, comparer: RecordComparer, work: Work) -> Answer:
        frozen, plan, known = work.frozen, work.plan, work.known
        fresh = comparer.digest(plan, known.reads, self.progress)
        kept = work.remembering.keep(plan, frozen, known, fresh) if work.remembering else None
        digests = (*known.digests, *fresh)
        suspects = find_suspects(plan, digests)
        # Before the comparison, which lets go of what was read for it.
        order = comparer.disorder(plan, self.progress) if self.order else None
        with self._fitting(comparer, work, suspect_span(suspects)) as fitting:
            comparison = fitting.compare(plan, suspects, self.progress)
        topics = topic_gaps(frozen, Findings(plan, digests, comparison, work.windows, order))
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
        wanted = answer.comparison.examples
        positions = [(TopicPartition(e.topic, e.partition), e.offset) for e in wanted]
        found = self.source.records(positions) if positions else {}
        examples = []
        for example, position in zip(wanted, positions, strict=True):
            record = found.get(position)
            if isinstance(record, Record):
                examples.append(
                    Example(
                        topic=example.topic,
                        partition=record.partition,
                        offset=record.offset,
                        timestamp_ms=record.timestamp_ms,
                        key=None if record.key is None else record.key[:PREVIEW_BYTES],
                        value=None if record.value is None else record.value[:PREVIEW_BYTES],
                        size=example.size,
                        order=OrderVerdict(example.order),
                    )
                )
        return tuple(examples)


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
