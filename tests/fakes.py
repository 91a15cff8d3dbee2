"""A cluster in memory that implements the ports: topics, records, offsets and groups."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter

from drctl.model.errors import Unreachable
from drctl.model.groups import (
    Committed,
    Group,
    GroupActive,
    GroupProtocol,
    GroupState,
    Member,
    Positions,
)
from drctl.model.topology import (
    Chunk,
    Found,
    Mark,
    Overview,
    PartitionOffsets,
    Record,
    Row,
    TopicPartition,
    TopicRanges,
    TopicState,
    Unanswered,
    Unavailable,
)

READER = Member("reader", "/127.0.0.1")

Answers = Mapping[str, Mapping[TopicPartition, Unavailable | None]]


class Crash(BaseException):
    """The process ends here; drctl must not catch it."""


def group(
    name: str,
    *,
    members: int = 0,
    protocol: GroupProtocol = GroupProtocol.CLASSIC,
    state: GroupState | None = None,
) -> Group:
    found = state or (GroupState.STABLE if members else GroupState.EMPTY)
    return Group(name, protocol, found, (READER,) * members)


@dataclass
class FakeLog:
    """One partition: ascending rows, start and end.

    Attributes:
        end: offset after the last row by default.
        aborted: offsets of rows in aborted transactions.
        stable: the last stable offset; `end` by default.
        epochs: leader epochs of rows by offset.
    """

    rows: list[Row] = field(default_factory=list)
    end: int = -1
    start: int = 0
    aborted: frozenset[int] = frozenset()
    stable: int | None = None
    epoch: int = -1
    epochs: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.end < 0:
            self.end = self.rows[-1][0] + 1 if self.rows else self.start

    @property
    def last_stable(self) -> int:
        return self.end if self.stable is None else self.stable

    @property
    def offsets(self) -> PartitionOffsets:
        return PartitionOffsets(self.start, self.last_stable, self.end, self.epoch)

    def find(self, when: int) -> Found:
        """Look up an offset like ListOffsets."""
        marks = {Mark.START: self.start, Mark.END: self.end, Mark.STABLE: self.last_stable}
        if when in marks:
            return Found(marks[Mark(when)], -1, self.epoch if when == Mark.END else -1)
        if when == Mark.NEWEST:
            return Found(*max(self.rows, key=itemgetter(1))[:2]) if self.rows else Found(-1, -1)
        rows = (row for row in self.rows if row[0] >= self.start and row[1] >= when)
        return next((Found(row[0], row[1]) for row in rows), Found(-1, -1))

    def read(self, start: int, end: int, *, uncommitted: bool = False) -> list[Row]:
        hidden = () if uncommitted else self.aborted
        return [row for row in self.rows if start <= row[0] < end and row[0] not in hidden]

    def append(self, key: bytes | None, time: int, *, holds_record: bool = True) -> None:
        if holds_record:
            self.rows.append((self.end, time, key, b"v", ()))
            self.epochs[self.end] = self.epoch
        self.end += 1
        self.stable = None

    def delete_before(self, offset: int) -> None:
        self.start = offset
        self.rows = self.read(offset, self.end)

    def truncate(self, offset: int) -> None:
        self.rows = self.read(0, offset)
        self.end, self.stable = offset, min(self.last_stable, offset)

    def compact(self) -> None:
        kept = {row[2]: row[0] for row in self.rows}.values()
        self.rows = [row for row in self.rows if row[0] in kept or row[0] == self.end - 1]


def record_of(partition: int, row: Row) -> Record:
    offset, time, key, value, headers = row
    return Record(partition, offset, time, key, value, tuple((n.decode(), v) for n, v in headers))


def row_of(record: Record) -> Row:
    headers = tuple((name.encode(), value) for name, value in record.headers)
    return record.offset, record.timestamp_ms, record.key, record.value, headers


@dataclass
class FakeCluster:
    """Implements ClusterReader, RangeReader, GroupReader and GroupWriter.

    Attributes:
        config: configuration of topics without one in `configs`.
        ids: topic ids; the name by default.
        hidden: why topics or groups cannot be read, by name.
        silent: whether nothing responds; or the calls that do not.
        calls: requests in order; `at_call` runs before a response, by call.
        at_effect: called before each committed offset with the number of earlier ones.
        lost: groups whose writes are applied and never answered.
        eaten: groups whose writes are neither applied nor answered.
        looking: whether nothing may be written now.
        read_offsets: number of offsets read in ranges; `asked`: number looked up.
    """

    logs: dict[TopicPartition, FakeLog | Unavailable] = field(default_factory=dict)
    name: str = "memory"
    groups_held: dict[str, Group | Unavailable] = field(default_factory=dict)
    positions: dict[str, dict[TopicPartition, Committed] | Unavailable] = field(
        default_factory=dict
    )
    config: Mapping[str, str] = field(default_factory=lambda: {"cleanup.policy": "delete"})
    configs: Mapping[str, Mapping[str, str] | Unavailable] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    hidden: dict[str, Unavailable] = field(default_factory=dict)
    unreadable: set[str] = field(default_factory=set)
    silent: bool | Callable[[str], bool] = False
    calls: list[str] = field(default_factory=list)
    at_call: dict[str, Callable[[], object]] = field(default_factory=dict)
    at_effect: Callable[[int], None] = lambda _count: None
    lost: frozenset[str] = frozenset()
    eaten: frozenset[str] = frozenset()
    effects: list[tuple[str, TopicPartition, Committed | None]] = field(default_factory=list)
    looking: bool = False
    read_offsets: int = field(default=0, init=False)
    asked: int = field(default=0, init=False)

    def log(self, place: TopicPartition) -> FakeLog:
        found = self.logs[place]
        assert isinstance(found, FakeLog)
        return found

    def cluster_id(self) -> str:
        self._called("cluster_id")
        return f"id-of-{self.name}"

    def overview(self) -> Overview:
        self._called("overview")
        partitions: dict[str, tuple[int, ...]] = {}
        for topic, number in sorted(self.logs):
            if topic not in self.hidden:
                partitions[topic] = (*partitions.get(topic, ()), number)
        return Overview(f"id-of-{self.name}", partitions)

    def topic_names(self) -> frozenset[str]:
        return frozenset(self.overview().partitions)

    def topics(self, names: Collection[str]) -> dict[str, TopicState | Unavailable | None]:
        self._called("topics")
        return {name: self.hidden.get(name) or self._state(name) for name in names}

    def configurations(self, names: Collection[str]) -> dict[str, Mapping[str, str] | Unavailable]:
        return {name: self.configs.get(name, self.config) for name in names}

    def offsets(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, PartitionOffsets | Unavailable]:
        self._called("offsets")
        found = {p: self.logs.get(p, Unavailable("no such partition")) for p in partitions}
        return {p: g if isinstance(g, Unavailable) else g.offsets for p, g in found.items()}

    def look_up(
        self, questions: Sequence[tuple[TopicPartition, int]]
    ) -> Callable[[], list[Found | Unavailable]]:
        self._called("look_up")
        self.asked += len(questions)
        return lambda: [self._found(*question) for question in questions]

    def first_timestamps(
        self, positions: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | Unavailable]:
        first = {p: self.log(p).read(at, self.log(p).last_stable) for p, at in positions.items()}
        return {p: rows[0][1] for p, rows in first.items() if rows}

    def max_timestamps(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int | Unavailable]:
        return {p: self.log(p).find(Mark.NEWEST).timestamp_ms for p in partitions}

    def leader_epochs(
        self, positions: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | Unavailable]:
        absent = Unavailable("no committed record has this offset")
        there = {p: self.log(p).read(at, at + 1) for p, at in positions.items()}
        return {
            p: self.log(p).epochs.get(at, -1) if there[p] else absent for p, at in positions.items()
        }

    def ends_before(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {p: self.log(p).end if e <= self.log(p).epoch else 0 for p, e in epochs.items()}

    def records(
        self, positions: Sequence[tuple[TopicPartition, int]]
    ) -> dict[tuple[TopicPartition, int], Record | Unavailable]:
        found = {at: self.log(at[0]).read(at[1], at[1] + 1) for at in positions}
        return {at: record_of(at[0].partition, rows[0]) for at, rows in found.items() if rows}

    def following(
        self, positions: Mapping[TopicPartition, int], number: int
    ) -> dict[TopicPartition, tuple[Record, ...] | Unavailable]:
        self._called("following")
        found = {p: self.log(p).read(at, self.log(p).last_stable) for p, at in positions.items()}
        return {
            p: tuple(record_of(p.partition, row) for row in rows[:number])
            for p, rows in found.items()
        }

    def read(self, ranges: TopicRanges, *, uncommitted: bool = False) -> Iterator[Chunk]:
        self._called("read")
        for topic, partitions in ranges.items():
            for partition, runs in partitions.items():
                log = self.log(TopicPartition(topic, partition))
                for start, end in runs:
                    readable = log.end if uncommitted else log.last_stable
                    assert log.start <= start < end <= readable, "the range is outside the log"
                    self.read_offsets += end - start
                    yield Chunk(topic, partition, log.read(start, end, uncommitted=uncommitted))

    def groups(self, *, incomplete: bool = False) -> tuple[str, ...]:
        self._called("groups")
        return tuple(n for n in {**self.groups_held, **self.positions} if n not in self.hidden)

    def described(self, names: Collection[str]) -> dict[str, Group | Unavailable]:
        self._called("described")
        usual = {n: group(n, state=None if n in self.positions else GroupState.DEAD) for n in names}
        return {n: self.hidden.get(n) or self.groups_held.get(n, usual[n]) for n in names}

    def committed(self, names: Collection[str]) -> dict[str, Positions | Unavailable]:
        self._called("committed")
        held = {name: self.positions.get(name, {}) for name in names}
        return {n: dict(at) if isinstance(at, dict) else at for n, at in held.items()}

    def commit(self, wanted: Mapping[str, Positions]) -> Answers:
        return {name: self._write(name, dict(wanted[name])) for name in wanted}

    def delete(self, unwanted: Mapping[str, Collection[TopicPartition]]) -> Answers:
        return {name: self._write(name, dict.fromkeys(unwanted[name])) for name in unwanted}

    def set_offsets(self, name: str, **offsets: int) -> None:
        """Commit offsets of a group in partition 0 of each topic."""
        there = {TopicPartition(topic, 0): Committed(offset) for topic, offset in offsets.items()}
        self._held(name).update(there)

    def all_committed(self) -> dict[tuple[str, TopicPartition], Committed]:
        """Return all committed offsets."""
        return {
            (name, place): position
            for name, held in self.positions.items()
            if isinstance(held, dict)
            for place, position in held.items()
        }

    def copy(self) -> "FakeCluster":
        """Return the same state without faults."""
        held = {n: dict(p) if isinstance(p, dict) else p for n, p in self.positions.items()}
        return FakeCluster(self.logs, self.name, dict(self.groups_held), held)

    def join(self, name: str) -> None:
        """Add a member to a group."""
        self.groups_held[name] = group(name, members=1)

    def _called(self, call: str) -> None:
        self.calls.append(call)
        self.at_call.get(call, str)()
        if self.silent if isinstance(self.silent, bool) else self.silent(call):
            raise Unreachable(f"cluster {self.name} did not answer within 10 s")

    def _state(self, name: str) -> TopicState | None:
        logs = {place.partition: log for place, log in self.logs.items() if place.topic == name}
        leaders = {n: 1 if isinstance(log, FakeLog) else None for n, log in logs.items()}
        own = self.configs.get(name, self.config)
        config = {} if isinstance(own, Unavailable) else dict(own)
        known = name, leaders, config, name not in self.unreadable, self.ids.get(name, name)
        return TopicState(*known) if logs else None

    def _found(self, place: TopicPartition, when: int) -> Found | Unavailable:
        log = self.logs.get(place, Unavailable(f"partition {place} does not exist"))
        return log if isinstance(log, Unavailable) else log.find(when)

    def _held(self, name: str) -> dict[TopicPartition, Committed]:
        held = self.positions.setdefault(name, {})
        assert isinstance(held, dict)
        return held

    def _write(
        self, name: str, wanted: Mapping[TopicPartition, Committed | None]
    ) -> dict[TopicPartition, Unavailable | None]:
        assert not self.looking, "a read-only method wrote"
        known = self.groups_held.get(name)
        if isinstance(known, Group) and known.active:
            return dict.fromkeys(wanted, GroupActive("the group has members"))
        if name not in self.eaten:
            for place, position in wanted.items():
                self._effect(name, place, position)
        if name in self.eaten | self.lost:
            return dict.fromkeys(wanted, Unanswered("no answer within the deadline"))
        return dict.fromkeys(wanted)

    def _effect(self, name: str, place: TopicPartition, position: Committed | None) -> None:
        self.at_effect(len(self.effects))
        held = self._held(name)
        if position is None:
            held.pop(place, None)
        else:
            held[place] = position
        self.effects.append((name, place, position))
        self.groups_held.setdefault(name, replace(group(name)))
