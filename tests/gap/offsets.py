"""Two clusters as brokers show their offsets, and generated logs in them with a known truth."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from hypothesis import strategies as st

from drctl.config.link import Link
from drctl.model.topology import Found, Mark, Overview, TopicPartition, TopicState, Unavailable
from tests import links

NOON = 1_700_000_000_000
TRANSACTIONS = "__transaction_state"


@cache
def link(
    *topics: str, keeps: bool = True, identity: str = "key, value, headers, timestamp"
) -> Link:
    return links.link(
        topics=topics or ("orders",), identity=identity.split(", "), keeps_partitions=keeps
    )


class Entry(NamedTuple):
    """What stands at one offset; a control record has no number."""

    time: int
    number: int | None


@dataclass(frozen=True)
class FakeLog:
    """A log without holes; `open` of its last entries are in a transaction that has not ended."""

    entries: Sequence[Entry]
    start: int = 0
    open: int = 0

    @property
    def end(self) -> int:
        return len(self.entries)

    def records(self) -> list[int]:
        """What a reader of committed records gets."""
        last = self.end - self.open
        return [e.number for e in self.entries[self.start : last] if e.number is not None]

    def find(self, when: int) -> Found:
        """As brokers answer ListOffsets."""
        if when == Mark.NEWEST:
            times = [entry.time for entry in self.entries]
            return Found(times.index(max(times)), max(times)) if times else Found(-1, -1)
        marks = {Mark.START: self.start, Mark.END: self.end, Mark.STABLE: self.end - self.open}
        if when in marks:
            return Found(marks[Mark(when)], -1)
        for offset in range(self.start, self.end):
            if self.entries[offset].time >= when:
                return Found(offset, self.entries[offset].time)
        return Found(-1, -1)


def log(*times: int, start: int = 0, open: int = 0, first: int = 0) -> FakeLog:
    """Records numbered from `first` on, so many milliseconds after noon."""
    entries = [Entry(NOON + time, first + n) for n, time in enumerate(times)]
    return FakeLog(entries, start, open)


@dataclass
class FakeCluster:
    """Implements `OffsetReader`; counts what it is asked."""

    name: str
    logs: Mapping[tuple[str, int], FakeLog | Unavailable]
    configs: Mapping[str, Mapping[str, str] | Unavailable] = field(default_factory=dict)
    transactions: bool = False
    hidden: Mapping[str, Unavailable] = field(default_factory=dict)
    asked: int = 0

    def overview(self) -> Overview:
        partitions: dict[str, tuple[int, ...]] = {}
        for topic, number in sorted(self.logs):
            if topic not in self.hidden:
                partitions[topic] = (*partitions.get(topic, ()), number)
        if self.transactions:
            partitions[TRANSACTIONS] = (0,)
        return Overview(f"id-of-{self.name}", partitions)

    def topics(self, names: Collection[str]) -> dict[str, TopicState | Unavailable | None]:
        return {name: self.hidden.get(name) for name in names}

    def configurations(self, names: Collection[str]) -> dict[str, Mapping[str, str] | Unavailable]:
        return {name: self.configs.get(name, {"cleanup.policy": "delete"}) for name in names}

    def look_up(
        self, questions: Sequence[tuple[TopicPartition, int]]
    ) -> Callable[[], list[Found | Unavailable]]:
        self.asked += len(questions)
        return lambda: [self._answer(*question) for question in questions]

    def _answer(self, partition: TopicPartition, when: int) -> Found | Unavailable:
        if partition.topic == TRANSACTIONS:
            return Found(7, -1)
        found = self.logs[partition]
        return found if isinstance(found, Unavailable) else found.find(when)


def cluster(
    name: str, *logs: FakeLog | Unavailable, topic: str = "orders", **more: object
) -> FakeCluster:
    """One topic, its partitions from 0 on."""
    return FakeCluster(name, {(topic, n): each for n, each in enumerate(logs)}, **more)  # type: ignore[arg-type]


def never_copied(source: FakeLog, target: FakeLog) -> int:
    """Records of the source that were never written to the target."""
    written = [entry.number for entry in target.entries[: target.end - target.open]]
    missing = Counter(source.records()) - Counter(n for n in written if n is not None)
    return missing.total()


@st.composite
def sides(draw: st.DrawFn) -> tuple[FakeLog, FakeLog]:
    """A source and what a replicator made of it: losses, a stop, repeats, the target's own.

    Clocks go back by three seconds at most.
    """
    steps = draw(st.lists(st.sampled_from([0, 0, 1, 7, 400, 9_000, 3_600_000]), max_size=40))
    late = draw(st.sampled_from([0, 0, 5, 3_000]))
    now, source = NOON, []
    for number, step in enumerate(steps):
        now += step
        source.append(Entry(now - (draw(st.integers(0, late)) if late else 0), number))
    stop = draw(st.integers(0, len(source)) | st.just(len(source)))
    losses = draw(st.sampled_from([0.0, 0.0, 0.2]))
    copies = []
    for entry in source[:stop]:
        lost = losses and draw(st.floats(0, 1)) < losses
        copies += [entry] * (0 if lost else draw(st.sampled_from([1] * 12 + [2])))
    after = copies[-1].time if copies else NOON
    own = draw(st.lists(st.sampled_from([6_000, 50_000, 3_600_000]), max_size=6))
    for number, step in enumerate(own):
        after += step
        copies.append(Entry(after, 1_000 + number))
    gone = draw(st.sampled_from([(0, 0), (0, 0), (3, 0), (0, 3), (2, 5)]))
    return (FakeLog(source, min(gone[0], len(source))), FakeLog(copies, min(gone[1], len(copies))))
