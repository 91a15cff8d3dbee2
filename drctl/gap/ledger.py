"""What earlier runs digested, so that later ones need not read it again.

A ledger holds facts, not verdicts: "these offsets of this log have these digests". Digests of
disjoint ranges add up, so a run adds what it knows to what it reads, and goes on exactly as if it
had read everything: the answer is that of a full comparison.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from drctl.gap.comparison import BucketDigest, Side
from drctl.gap.freeze import Frozen
from drctl.model.gap import Forgotten
from drctl.model.ports import ClusterReader
from drctl.model.topology import OffsetRange, PartitionOffsets, TopicPartition, Unavailable

CELL_BITS = 20
"""A cell is a million offsets: what has to be read again when a log loses its head."""

MODULUS = 2**64


class LogKey(NamedTuple):
    """One partition on one side, by the topic's name on the source."""

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
        """Both, which have no offset in common."""
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
    """Everything that was committed in `[start, end)`.

    Attributes:
        number: `offset >> cell_bits` of all its offsets.
        digested_at: when the oldest part of it was read, milliseconds UTC.
    """

    number: int
    start: int
    end: int
    digested_at: int
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class KnownLog:
    """What is known of one log, and how to tell that it is still that log.

    Attributes:
        topic_id: Kafka's id of the topic: another one after it was made anew.
        leader_epoch: the leader's when the offsets were frozen; the same now: no election since.
        witness: the last digested record's offset.
        witness_epoch: the leader epoch in which it was appended. A log that holds that epoch there
            is the same up to there (KIP-101); after an unclean election it may not.
        cells: by number.
    """

    topic_id: str
    leader_epoch: int
    witness: int
    witness_epoch: int
    cells: Mapping[int, Cell]


@dataclass(frozen=True, slots=True)
class Rules:
    """How a topic's records are digested; digests by other rules cannot be compared."""

    target_topic: str
    timestamps: bool
    bucket_ms: int


@dataclass(frozen=True, slots=True)
class Book:
    """One ledger: a link with its two clusters and its identity of records.

    Attributes:
        version: grows with every change; who kept something meanwhile is noticed by it.
    """

    salt: int
    buckets: int
    cell_bits: int
    version: int
    rules: Mapping[str, Rules] = field(default_factory=dict)


class LedgerStore(Protocol):
    """Keeps books; a change is whole or did not happen."""

    @property
    def where(self) -> str:
        """For people: where it is kept."""

    def book(self, fingerprint: str) -> Book | None:
        """The book of that name, if there is one."""

    def begin(self, fingerprint: str, book: Book) -> Book:
        """Begin a book; gives the one that is there if somebody else was faster."""

    def logs(self, fingerprint: str, topics: Collection[str]) -> Mapping[LogKey, KnownLog]:
        """What is known of these topics."""

    def keep(
        self,
        fingerprint: str,
        version: int,
        rules: Mapping[str, Rules],
        forgotten: Collection[LogKey],
        changed: Mapping[LogKey, KnownLog],
    ) -> bool:
        """Forget logs, then replace what is known of others. False: the version has moved.

        What was digested by other rules is forgotten too.
        """


def digests_of(key: LogKey, cells: Iterable[Cell]) -> Iterator[BucketDigest]:
    """What the cells hold, as if it had been read now."""
    for cell in cells:
        for row in cell.rows:
            yield BucketDigest(key.topic, key.side, key.partition, *row, cell.number)


def unread(cells: Mapping[int, Cell], log: OffsetRange) -> tuple[OffsetRange, ...]:
    """What of the log no cell covers."""
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
    """The cells with what was read now; nothing behind the last record is taken as known.

    Behind it are only offsets without a record, which an election could still fill with some.
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
    """The ranges cut at the edges of cells, up to `end`."""
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
    """One log of a freeze.

    Attributes:
        name: the topic's name on this side.
        lasting: whether what is committed stays as it is: not where the log is compacted.
    """

    name: str
    topic_id: str
    lasting: bool
    offsets: PartitionOffsets


def still_true(
    stored: Mapping[LogKey, KnownLog], frozen: Frozen, readers: Mapping[Side, ClusterReader]
) -> tuple[dict[LogKey, KnownLog], tuple[Forgotten, ...]]:
    """Of each log, the cells that still hold; and what does not hold any more, and why.

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
            continue  # not readable now, or not asked for: nothing is known against it
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
            # Whether the last digested record is still the one that was digested.
            epoch = epochs[partition]
            if epoch == elected[key].witness_epoch:
                found[key] = elected[key]
            elif isinstance(epoch, Unavailable):
                gone[key] = f"another leader was elected; in its log {epoch.reason}"
            else:
                gone[key] = "another leader was elected, and its log is another one"
    held: dict[LogKey, KnownLog] = {}
    for key, known in found.items():
        start, end = logs[key].offsets.log_start, logs[key].offsets.last_stable
        cells = {n: c for n, c in known.cells.items() if start <= c.start and c.end <= end}
        if cells:
            held[key] = replace(known, cells=cells)
        elif known.cells:
            gone[key] = "all of it was deleted by retention"
    forgotten = (
        Forgotten(key.topic, key.side.value, key.partition, why) for key, why in gone.items()
    )
    return held, tuple(forgotten)


def _refuted(known: KnownLog, log: FrozenLog) -> str:
    """Why nothing of it can be used; empty where something can."""
    if not log.lasting:
        return "the topic is compacted, or its configuration may not be read"
    if known.topic_id != log.topic_id:
        return "the topic was deleted and made anew"
    if any(c.end > log.offsets.last_stable for c in known.cells.values()):
        return "the log was truncated"
    return ""


def moved_on(known: KnownLog, log: FrozenLog) -> bool:
    """Whether a leader was elected since, or the broker does not tell."""
    return known.leader_epoch != log.offsets.leader_epoch or log.offsets.leader_epoch < 0


def frozen_logs(frozen: Frozen) -> dict[LogKey, FrozenLog]:
    """Every log of a freeze, by its key."""
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
