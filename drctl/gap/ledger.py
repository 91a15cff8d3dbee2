"""The ledger: digests of earlier runs, so that later runs need not read the same offsets again.

It stores facts, not results: "these offsets of this log have these digests". Digests of disjoint
ranges add up, so a run combines stored and new digests, and the result is that of a full
comparison.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from drctl.gap.comparison import BucketDigest, Side
from drctl.gap.freeze import Frozen
from drctl.model.gap import DiscardedDigests
from drctl.model.ports import ClusterReader
from drctl.model.topology import OffsetRange, PartitionOffsets, TopicPartition, Unavailable

CELL_BITS = 20
"""A cell is a million offsets: what has to be read again if its first offsets are deleted."""

MODULUS = 2**64


class LogKey(NamedTuple):
    """A partition on one cluster, by the topic's name on the source."""

    side: Side
    topic: str
    partition: int


class Row(NamedTuple):
    """The digest of one bucket within a cell; the sums are modulo 2**64."""

    bucket: int
    records: int
    sum1: int
    sum2: int
    first: int
    last: int

    def plus(self, other: "Row") -> "Row":
        """Combine two rows without common offsets."""
        return Row(
            self.bucket,
            self.records + other.records,
            (self.sum1 + other.sum1) % MODULUS,
            (self.sum2 + other.sum2) % MODULUS,
            min(self.first, other.first),
            max(self.last, other.last),
        )


@dataclass(frozen=True, slots=True)
class Cell:
    """Digests of all committed records in `[start, end)`.

    Attributes:
        number: `offset >> cell_bits` of all its offsets.
        digested_at: when its oldest part was read, in milliseconds UTC.
    """

    number: int
    start: int
    end: int
    digested_at: int
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class KnownLog:
    """The digests of a log, and how to verify that it is still the same log.

    Attributes:
        topic_id: topic id; it changes if the topic is recreated.
        leader_epoch: leader epoch when the offsets were frozen; unchanged if there was no election.
        witness: offset of the last digested record.
        witness_epoch: leader epoch in which it was appended. A log with this epoch at this offset
            is the same up to there (KIP-101); after an unclean election it may differ.
        cells: by number.
    """

    topic_id: str
    leader_epoch: int
    witness: int
    witness_epoch: int
    cells: Mapping[int, Cell]


@dataclass(frozen=True, slots=True)
class Rules:
    """How the records of a topic are digested; digests with other rules are not comparable."""

    target_topic: str
    timestamps: bool
    bucket_ms: int


@dataclass(frozen=True, slots=True)
class Book:
    """One ledger, for a link, its two clusters, and its record identity.

    Attributes:
        version: increases with every change, to detect concurrent writes.
    """

    salt: int
    buckets: int
    cell_bits: int
    version: int
    rules: Mapping[str, Rules] = field(default_factory=dict)


class LedgerStore(Protocol):
    """Stores ledgers; changes are atomic."""

    @property
    def where(self) -> str:
        """Where the ledger is stored, for messages."""

    def book(self, fingerprint: str) -> Book | None:
        """Return the ledger with this name, if there is one."""

    def begin(self, fingerprint: str, book: Book) -> Book:
        """Create a ledger; return the existing one if another run created it first."""

    def logs(self, fingerprint: str, topics: Collection[str]) -> Mapping[LogKey, KnownLog]:
        """Return the stored digests of these topics."""

    def keep(
        self,
        fingerprint: str,
        version: int,
        rules: Mapping[str, Rules],
        forgotten: Collection[LogKey],
        changed: Mapping[LogKey, KnownLog],
    ) -> bool:
        """Delete and replace logs; return False if another run changed the ledger.

        Digests with other rules are deleted, too.
        """


def digests_of(key: LogKey, cells: Iterable[Cell]) -> Iterator[BucketDigest]:
    """Yield the digests of cells, as if they had been read now."""
    for cell in cells:
        for row in cell.rows:
            yield BucketDigest(key.topic, key.side, key.partition, *row, cell.number)


def unread(cells: Mapping[int, Cell], log: OffsetRange) -> tuple[OffsetRange, ...]:
    """Return the offsets of a log that no cell covers."""
    holes = []
    at = log.start
    for cell in sorted(cells.values(), key=lambda c: c.start):
        if cell.start > at:
            holes.append(OffsetRange(at, cell.start))
        at = cell.end
    if at < log.end:
        holes.append(OffsetRange(at, log.end))
    return tuple(holes)


def extended(
    cells: Mapping[int, Cell],
    read: Sequence[OffsetRange],
    fresh: Iterable[BucketDigest],
    cell_bits: int,
    now_ms: int,
) -> dict[int, Cell]:
    """Extend cells by new digests, up to the last record.

    Offsets after the last record hold no records yet; an election could still fill them.
    """
    rows: dict[int, list[Row]] = defaultdict(list)
    for d in fresh:
        row = Row(d.bucket, d.records, d.sum1 % MODULUS, d.sum2 % MODULUS, d.first, d.last)
        rows[d.cell].append(row)
    last = max((row.last for found in rows.values() for row in found), default=-1)
    last = max((last, *(c.end - 1 for c in cells.values())))
    grown = dict(cells)
    for number, piece in _pieces(read, cell_bits, last + 1):
        mine = [row for row in rows[number] if piece.start <= row.first < piece.end]
        grown[number] = _joined(grown.get(number), piece, number, mine, now_ms)
    return grown


def _pieces(
    read: Iterable[OffsetRange], cell_bits: int, end: int
) -> Iterator[tuple[int, OffsetRange]]:
    """Split ranges at cell boundaries, up to `end`."""
    for whole in read:
        start = whole.start
        while start < min(whole.end, end):
            number = start >> cell_bits
            stop = min(whole.end, end, (number + 1) << cell_bits)
            yield number, OffsetRange(start, stop)
            start = stop


def _joined(
    known: Cell | None, piece: OffsetRange, number: int, rows: Iterable[Row], now_ms: int
) -> Cell:
    together: dict[int, Row] = {}
    for row in (*(known.rows if known else ()), *rows):
        seen = together.get(row.bucket)
        together[row.bucket] = row if seen is None else seen.plus(row)
    ordered = tuple(sorted(together.values()))
    if known is None:
        return Cell(number, piece.start, piece.end, now_ms, ordered)
    if piece.end != known.start and piece.start != known.end:
        raise ValueError(f"[{piece.start}, {piece.end}) does not touch the cell {known.number}")
    return replace(
        known, start=min(known.start, piece.start), end=max(known.end, piece.end), rows=ordered
    )


@dataclass(frozen=True, slots=True)
class FrozenLog:
    """One log with its frozen offsets.

    Attributes:
        name: the topic's name on this cluster.
        lasting: whether committed records never change: not if the log is compacted.
    """

    name: str
    topic_id: str
    lasting: bool
    offsets: PartitionOffsets


def still_true(
    stored: Mapping[LogKey, KnownLog], frozen: Frozen, readers: Mapping[Side, ClusterReader]
) -> tuple[dict[LogKey, KnownLog], tuple[DiscardedDigests, ...]]:
    """Return the cells that are still valid, and what is no longer valid, and why.

    Raises:
        Unreachable: a cluster did not answer.
    """
    logs = frozen_logs(frozen)
    gone: dict[LogKey, str] = {}
    found: dict[LogKey, KnownLog] = {}
    elected: dict[LogKey, KnownLog] = {}
    for key, known in stored.items():
        log = logs.get(key)
        if log is None:
            continue  # not readable or not requested now; it may still be valid
        if reason := _refuted(known, log):
            gone[key] = reason
        else:
            (elected if moved_on(known, log) else found)[key] = known
    for side, reader in readers.items():
        asked = {
            TopicPartition(logs[key].name, key.partition): key
            for key in elected
            if key.side is side
        }
        epochs = reader.leader_epochs({p: elected[key].witness for p, key in asked.items()})
        for partition, key in asked.items():
            # Check that the last digested record is still the same.
            epoch = epochs[partition]
            if epoch == elected[key].witness_epoch:
                found[key] = elected[key]
            elif isinstance(epoch, Unavailable):
                gone[key] = f"a new leader was elected: {epoch.reason}"
            else:
                gone[key] = "a new leader was elected, and its log differs"
    held: dict[LogKey, KnownLog] = {}
    for key, known in found.items():
        start, end = logs[key].offsets.log_start, logs[key].offsets.last_stable
        cells = {n: c for n, c in known.cells.items() if start <= c.start and c.end <= end}
        if cells:
            held[key] = replace(known, cells=cells)
        elif known.cells:
            gone[key] = "retention deleted all of it"
    forgotten = (
        DiscardedDigests(key.topic, key.side.value, key.partition, why) for key, why in gone.items()
    )
    return held, tuple(forgotten)


def _refuted(known: KnownLog, log: FrozenLog) -> str:
    """Return why stored digests cannot be used; empty if they can."""
    if not log.lasting:
        return "the topic is compacted, or its configuration is not readable"
    if known.topic_id != log.topic_id:
        return "the topic was recreated"
    if any(c.end > log.offsets.last_stable for c in known.cells.values()):
        return "the log was truncated"
    return ""


def moved_on(known: KnownLog, log: FrozenLog) -> bool:
    """Return whether a leader was elected since, or this is unknown."""
    return known.leader_epoch != log.offsets.leader_epoch or log.offsets.leader_epoch < 0


def frozen_logs(frozen: Frozen) -> dict[LogKey, FrozenLog]:
    """Return all logs by key."""
    found = {}
    for topic in frozen.topics:
        for side, name, state, partitions in (
            (Side.SOURCE, topic.topic, topic.state, topic.source),
            (Side.TARGET, topic.target_topic, topic.target_state, topic.target),
        ):
            if state is None:
                continue
            lasting = bool(state.config) and not state.compacted and bool(state.topic_id)
            for partition, offsets in partitions.items():
                key = LogKey(side, topic.topic, partition)
                found[key] = FrozenLog(name, state.topic_id, lasting, offsets)
    return found
