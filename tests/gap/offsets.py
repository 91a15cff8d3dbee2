"""Two clusters as brokers show their offsets, with generated logs and known ground truth."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from hypothesis import strategies as st

from drctl.config.link import Link
from drctl.model.topology import TopicPartition, Unavailable
from tests import links
from tests.fakes import FakeCluster, FakeLog

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
    """The content of one offset; a control record has no number."""

    time: int
    number: int | None


@dataclass
class NumberedLog(FakeLog):
    """A log without gaps; its last `open` entries are in an open transaction."""

    entries: Sequence[Entry] = ()
    open: int = 0

    def __post_init__(self) -> None:
        self.rows = [(n, entry.time, None, None, ()) for n, entry in enumerate(self.entries)]
        self.end = len(self.entries)
        self.stable = self.end - self.open

    def records(self) -> list[int]:
        """Return what a consumer of committed records reads."""
        committed = self.entries[self.start : self.stable]
        return [entry.number for entry in committed if entry.number is not None]


def numbered(entries: Sequence[Entry], start: int = 0, open: int = 0) -> NumberedLog:
    return NumberedLog(start=start, entries=entries, open=open)


def log(*times: int, start: int = 0, open: int = 0, first: int = 0) -> NumberedLog:
    """Return records numbered from `first`, with timestamps in milliseconds after noon."""
    entries = [Entry(NOON + time, first + n) for n, time in enumerate(times)]
    return numbered(entries, start, open)


def cluster(
    name: str,
    *logs: FakeLog | Unavailable,
    topic: str = "orders",
    transactions: bool = False,
    **more: Any,
) -> FakeCluster:
    """Return a cluster with one topic of these partitions."""
    there = {TopicPartition(topic, n): each for n, each in enumerate(logs)}
    if transactions:
        there[TopicPartition(TRANSACTIONS, 0)] = FakeLog(end=7)
    return FakeCluster(there, name, **more)


def never_copied(source: NumberedLog, target: NumberedLog) -> int:
    """Return records of the source that were never written to the target."""
    written = [entry.number for entry in target.entries[: target.end - target.open]]
    missing = Counter(source.records()) - Counter(n for n in written if n is not None)
    return missing.total()


@st.composite
def sides(draw: st.DrawFn) -> tuple[NumberedLog, NumberedLog]:
    """Draw a source and its replica: losses, a stop, duplicates, the target's own records.

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
    return (
        numbered(source, min(gone[0], len(source))),
        numbered(copies, min(gone[1], len(copies))),
    )
