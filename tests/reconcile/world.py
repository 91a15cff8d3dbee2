"""A source and a transactional target in memory that can fail at any call."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from drctl.model.gap import OrderVerdict
from drctl.model.journal import Entry
from drctl.model.topology import OffsetRange, PartitionOffsets, Row, TopicPartition, TopicState
from drctl.reconcile.cluster_state import ClusterState, ClusterStates
from drctl.reconcile.executing import Execution, Limits
from drctl.reconcile.gap_result import (
    Exported,
    ExportedSet,
    FoundGap,
    FoundPartition,
    Piece,
    key_digest,
    size_of,
)
from drctl.reconcile.planning import ReconcilePlan, build_plan
from drctl.reconcile.policy import Action, Policies
from drctl.reconcile.prechecks import Precheck
from drctl.reconcile.progress import Change, Key, Progress, decode
from drctl.stores.temporary import TemporaryWantedRows

T = "orders"
Appended = tuple[Row, bytes]
"""A record, and the value of its provenance header."""


class Killed(BaseException):
    """The process ends here."""


@dataclass
class Target:
    """A cluster: committed records by partition, committed progress, one transaction at most."""

    logs: dict[TopicPartition, list[Appended]] = field(default_factory=dict)
    notes: dict[bytes, bytes] = field(default_factory=dict)
    pending: list[tuple[TopicPartition, Appended]] | None = None
    pending_notes: list[Change] = field(default_factory=list)
    commits: int = 0

    def kept(self) -> dict[Key, Progress]:
        return decode(self.notes.items())

    def count(self) -> None:
        """Commit."""
        assert self.pending is not None
        for to, record in self.pending:
            self.logs.setdefault(to, []).append(record)
        self.notes |= dict(self.pending_notes)
        self.commits += 1
        self.drop()

    def drop(self) -> None:
        """Abort."""
        self.pending, self.pending_notes = None, []

    def offsets(self, to: TopicPartition) -> list[int]:
        """Return source offsets in the order of the target."""
        return [record[0][0] for record in self.logs.get(to, [])]


@dataclass
class FakeCopier:
    """Implements `Copier`; opening one aborts an open transaction.

    Attributes:
        steps: number of calls until it is killed; None for never.
        after: whether the last call still takes effect.
    """

    target: Target
    steps: int | None = None
    after: bool = False
    failing: BaseException = field(default_factory=Killed)

    def __post_init__(self) -> None:
        self.target.drop()

    def _killed(self) -> bool:
        if self.steps is None:
            return False
        self.steps -= 1
        if self.steps == -1 and not self.after:
            raise self.failing
        return self.steps == -1

    def begin(self) -> None:
        late = self._killed()
        assert self.target.pending is None
        self.target.pending = []
        if late:
            raise self.failing

    def append(self, to: TopicPartition, rows: Sequence[Row], stamps: Iterable[bytes]) -> None:
        for appended in zip(rows, stamps, strict=True):
            late = self._killed()
            assert self.target.pending is not None
            self.target.pending.append((to, appended))
            if late:
                raise self.failing

    def settle(self) -> Mapping[TopicPartition, int]:
        if self._killed():
            raise self.failing
        assert self.target.pending is not None
        found: dict[TopicPartition, int] = {}
        for to, _ in self.target.pending:
            found[to] = found.get(to, len(self.target.logs.get(to, [])) - 1) + 1
        return found

    def keep(self, changes: Sequence[Change]) -> None:
        late = self._killed()
        self.target.pending_notes += changes
        if late:
            raise self.failing

    def commit(self) -> None:
        late = self._killed()
        self.target.count()
        if late:
            raise self.failing

    def abort(self) -> None:
        """Do nothing after a kill: the next process aborts."""
        if self.steps is None or self.steps >= 0:
            self.target.drop()


@dataclass
class FakeSource:
    """Implements `SourceLog` in chunks of a few records."""

    logs: Mapping[TopicPartition, Sequence[Row]]
    chunk: int = 3

    def read(self, topic: str, ranges: Mapping[int, Sequence[OffsetRange]]) -> Iterator[Piece]:
        for partition, runs in ranges.items():
            rows = [
                row
                for row in self.logs[TopicPartition(topic, partition)]
                if any(run.start <= row[0] < run.end for run in runs)
            ]
            for at in range(0, len(rows), self.chunk):
                yield Piece(TopicPartition(topic, partition), rows[at : at + self.chunk])


@dataclass
class FakeJournal:
    """Implements `RunJournal`."""

    run: str = "R"
    where: str = "nowhere"
    recorded: list[Entry] = field(default_factory=list)

    def append(self, entries: Sequence[Entry]) -> None:
        self.recorded += entries


@dataclass
class FakeExporter:
    """Implements `Exporter`."""

    added: list[Exported] = field(default_factory=list)
    parts: list[ExportedSet] = field(default_factory=list)

    def begin(self, parts: Sequence[ExportedSet]) -> None:
        assert not self.added

    def add(self, to: Exported) -> None:
        self.added.append(to)

    def finish(self, parts: Sequence[ExportedSet]) -> str:
        self.parts += parts
        return "folder"


@dataclass
class World:
    """A gap result for a source, and the target to reconcile.

    Attributes:
        verdicts: verdicts of records to copy by place and offset.
        held: records that the source still has.
        result: id of the gap result.
        seen: end offsets of the target at the time of the result.
    """

    held: Mapping[TopicPartition, Sequence[Row]]
    verdicts: Mapping[tuple[TopicPartition, int], OrderVerdict]
    every: Mapping[TopicPartition, Sequence[Row]]
    target: Target = field(default_factory=Target)
    log_start: Mapping[TopicPartition, int] = field(default_factory=dict)
    not_compared: tuple[str, ...] = ()
    overrides: Mapping[Precheck, str] = field(default_factory=dict)
    journal: FakeJournal = field(default_factory=FakeJournal)
    exporter: FakeExporter = field(default_factory=FakeExporter)
    result: str = "g1"
    seen: int = 0

    @property
    def gap(self) -> FoundGap:
        partitions = tuple(
            FoundPartition(place, T, source, OffsetRange(0, self.seen), n, True, n > 1)
            for place, rows in self.every.items()
            for n in [sum(p == place for p, _ in self.verdicts)]
            for source in [OffsetRange(0, _end(rows))]
        )
        clusters = ("main", "a", "A", "b", "B")
        return FoundGap(self.result, *clusters, "2026-03-05", partitions, self.not_compared)

    def rows(self) -> TemporaryWantedRows:
        by_offset = {(p, row[0]): row for p, rows in self.every.items() for row in rows}
        kept = []
        for (place, offset), order in self.verdicts.items():
            _, time, key, value, headers = by_offset[place, offset]
            size = size_of(key, value, headers)
            kept.append((*place, offset, time, key_digest(key), size, order.value))
        return TemporaryWantedRows(kept)

    def reader(self, **config: str) -> ClusterStates:
        numbers = {p.partition: 1 for p in self.every}
        source = {
            p: PartitionOffsets(self.log_start.get(p, 0), _end(rows), _end(rows))
            for p, rows in self.every.items()
        }
        target = {}
        for place in self.every:
            end = len(self.target.logs.get(place, []))
            target[place] = PartitionOffsets(0, end, end)
        return ClusterStates(
            ClusterState("A", {T: TopicState(T, numbers, topic_id="s")}, source),
            ClusterState("B", {T: TopicState(T, numbers, dict(config), topic_id="t")}, target),
        )

    def plan(self, policies: Policies, **config: str) -> ReconcilePlan:
        kept, overridden = self.target.kept(), self.overrides
        return build_plan(self.gap, policies, self.rows(), self.reader(**config), kept, overridden)

    def execution(
        self, policies: Policies, copier: FakeCopier, limits: Limits, chunk: int = 3
    ) -> Execution:
        """Return the run of a new process on what is left."""
        return Execution(
            self.plan(policies),
            self.rows(),
            FakeSource(self.held, chunk),
            self.reader(),
            copier,
            self.exporter,
            self.journal,
            lambda: 0.0,
            lambda _done, _total: None,
            limits,
        )


def copies(everywhere: Action = Action.COPY, conflicting: Action = Action.COPY) -> Policies:
    return Policies(everywhere, conflicting=conflicting)


def row(offset: int, key: bytes | None = b"k", value: bytes | None = b"v") -> Row:
    return (offset, 1_700_000_000_000 + offset, key, value, ((b"h", None),))


def _end(rows: Sequence[Row]) -> int:
    return rows[-1][0] + 1 if rows else 0
