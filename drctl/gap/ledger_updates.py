"""Reads valid digests of earlier runs from the ledger, and stores those of this run."""

import hashlib
import json
import secrets
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime

from drctl.config.link import Link
from drctl.gap.comparison import BucketDigest, ComparePlan, Reads, Side
from drctl.gap.freeze import Basis, Frozen, bucket_count, identity_of
from drctl.gap.ledger import (
    CELL_BITS,
    Book,
    Cell,
    FrozenLog,
    KnownLog,
    LedgerStore,
    LogKey,
    Rules,
    digests_of,
    extended,
    frozen_logs,
    moved_on,
    still_true,
    unread,
)
from drctl.model.errors import DrctlError
from drctl.model.gap import DiscardedDigests, LedgerUse
from drctl.model.ports import ClusterReader
from drctl.model.topology import OffsetRange, TopicPartition, Unavailable

FORMAT = 2
"""Increased when digests are computed differently: ledgers of other formats are ignored."""

MIN_BUCKET_MS = 1 << 16

NOT_KEPT = "another run wrote to it at the same time, or --execute was not given"


@dataclass(frozen=True, slots=True)
class Known:
    """What need not be read again.

    Attributes:
        logs: logs with their valid cells.
        reads: everything else in the plan.
        forgotten: digests that are no longer valid.
    """

    logs: Mapping[LogKey, KnownLog]
    reads: Reads
    digests: tuple[BucketDigest, ...]
    forgotten: tuple[DiscardedDigests, ...]

    @property
    def offsets(self) -> int:
        """Number of offsets that need not be read."""
        return sum(c.end - c.start for log in self.logs.values() for c in log.cells.values())

    @property
    def oldest_ms(self) -> int | None:
        """When the oldest digest was read, in milliseconds UTC."""
        times = (c.digested_at for log in self.logs.values() for c in log.cells.values())
        return min(times, default=None)


def nothing_known(plan: ComparePlan) -> Known:
    """Return the value for a run without a ledger: everything is read."""
    return Known({}, plan.everything(), (), ())


@dataclass(slots=True)
class LedgerUpdate:
    """One run's view of a ledger.

    Args:
        now: the clock, UTC.
        cell_bits: cell size of a new ledger.
    """

    link: Link
    store: LedgerStore
    source: ClusterReader
    target: ClusterReader
    now: Callable[[], datetime]
    cell_bits: int = CELL_BITS
    _fingerprint: str = field(default="", init=False)
    _book: Book | None = field(default=None, init=False)

    def basis(self, frozen: Frozen) -> Basis:
        """Return the digest parameters of the ledger; create it if it does not exist."""
        if self._book is None:
            ids = self.source.cluster_id(), self.target.cluster_id()
            self._fingerprint = book_name(self.link, *ids)
            found = self.store.book(self._fingerprint)
            buckets = max(64, bucket_count(frozen))
            new = Book(secrets.randbits(62), buckets, self.cell_bits, version=0)
            self._book = found or self.store.begin(self._fingerprint, new)
        book = self._book
        widths = {name: rules.bucket_ms for name, rules in book.rules.items()}
        return Basis(book.salt, book.buckets, book.cell_bits, widths, MIN_BUCKET_MS)

    def recall(self, plan: ComparePlan, frozen: Frozen) -> Known:
        """Return what is known of the plan.

        Raises:
            Unreachable: a cluster did not answer.
        """
        assert self._book is not None
        valid = [n for n, rule in _rules(plan).items() if self._book.rules.get(n) == rule]
        stored = self.store.logs(self._fingerprint, valid)
        logs, forgotten = still_true(stored, frozen, self._readers)
        reads = {side: _reads(plan, side, logs) for side in Side}
        digests = (d for key, log in logs.items() for d in digests_of(key, log.cells.values()))
        return Known(logs, reads, tuple(digests), forgotten)

    @property
    def _readers(self) -> Mapping[Side, ClusterReader]:
        return {Side.SOURCE: self.source, Side.TARGET: self.target}

    def keep(
        self, plan: ComparePlan, frozen: Frozen, known: Known, fresh: Sequence[BucketDigest]
    ) -> LedgerUse:
        """Store the new digests; a failure does not affect the result."""
        try:
            kept = self._kept(plan, frozen, known, fresh)
            why_not = "" if kept else NOT_KEPT
        except DrctlError as error:
            kept, why_not = False, error.message
        self._book = None
        reported = known.offsets, known.oldest_ms, kept, known.forgotten, why_not
        return LedgerUse(self.store.where, *reported)

    def _kept(
        self, plan: ComparePlan, frozen: Frozen, known: Known, fresh: Sequence[BucketDigest]
    ) -> bool:
        assert self._book is not None
        changed = self._changed(plan, frozen, known, fresh)
        gone = {LogKey(Side(f.side), f.topic, f.partition) for f in known.forgotten}
        return not (gone or changed) or self.store.keep(
            self._fingerprint, self._book.version, _rules(plan), gone, changed
        )

    def _changed(
        self, plan: ComparePlan, frozen: Frozen, known: Known, fresh: Sequence[BucketDigest]
    ) -> dict[LogKey, KnownLog]:
        by_log: dict[LogKey, list[BucketDigest]] = defaultdict(list)
        for d in fresh:
            by_log[LogKey(d.side, d.topic, d.partition)].append(d)
        now_ms = int(self.now().timestamp() * 1000)
        grown: dict[LogKey, tuple[FrozenLog, dict[int, Cell]]] = {}
        for key, log in frozen_logs(frozen).items():
            if not log.lasting:
                continue
            before = known.logs[key].cells if key in known.logs else {}
            reads = known.reads[key.side].get(key.topic, {}).get(key.partition, ())
            cells = extended(before, reads, by_log[key], plan.cell_bits, now_ms)
            if cells != before or (key in known.logs and moved_on(known.logs[key], log)):
                grown[key] = (log, cells)
        return self._witnessed(grown, known)

    def _witnessed(
        self, grown: Mapping[LogKey, tuple[FrozenLog, dict[int, Cell]]], known: Known
    ) -> dict[LogKey, KnownLog]:
        """Return logs whose last digested record still exists."""
        last = {
            key: max((row.last for cell in cells.values() for row in cell.rows), default=-1)
            for key, (_, cells) in grown.items()
        }
        epochs: dict[LogKey, int | Unavailable] = {}
        for side, reader in self._readers.items():
            asked = {
                TopicPartition(grown[key][0].name, key.partition): (key, offset)
                for key, offset in last.items()
                if key.side is side and offset >= 0
                if key not in known.logs or known.logs[key].witness != offset
            }
            found = reader.leader_epochs({p: offset for p, (_, offset) in asked.items()})
            epochs |= {asked[p][0]: epoch for p, epoch in found.items()}
        changed = {}
        for key, (log, cells) in grown.items():
            epoch = epochs.get(key, known.logs[key].witness_epoch if key in known.logs else -1)
            current = log.offsets.leader_epoch
            if last[key] < 0 or isinstance(epoch, Unavailable) or not 0 <= epoch <= current:
                continue
            changed[key] = KnownLog(log.topic_id, current, last[key], epoch, cells)
        return changed


def book_name(link: Link, source_id: str, target_id: str) -> str:
    """Return the name of a link's ledger, from its clusters and record identity."""
    parts = {
        "format": FORMAT,
        "link": link.name,
        "clusters": [source_id, target_id],
        "identity": {
            name: sorted(value) if isinstance(value, frozenset) else value
            for name, value in asdict(identity_of(link)).items()
            if name != "origin_headers" or value
        },
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _reads(
    plan: ComparePlan, side: Side, logs: Mapping[LogKey, KnownLog]
) -> dict[str, dict[int, tuple[OffsetRange, ...]]]:
    """Return the offsets of the plan that are not known."""
    return {
        topic.topic: {
            partition: unread(logs[key].cells, log)
            if (key := LogKey(side, topic.topic, partition)) in logs
            else (log,)
            for partition, log in topic.ranges(side).items()
        }
        for topic in plan.topics
    }


def _rules(plan: ComparePlan) -> dict[str, Rules]:
    return {t.topic: Rules(t.target_topic, t.timestamps, t.bucket_ms) for t in plan.topics}
