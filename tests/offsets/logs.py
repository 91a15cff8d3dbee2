"""Logs in memory, behind the ports that translation reads them through."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from drctl.model.topology import (
    Chunk,
    Found,
    Mark,
    PartitionOffsets,
    Row,
    TopicPartition,
    TopicRanges,
    TopicState,
    Unavailable,
)
from drctl.model.translation import Answer
from drctl.offsets.choosing import NoAnswer


@dataclass
class MemoryLog:
    """One partition: rows ascending, and where it begins and ends.

    Attributes:
        aborted: offsets of rows whose transaction was aborted.
        stable: the first offset that is not decided; `end` where all are.
    """

    rows: list[Row]
    end: int
    start: int = 0
    aborted: frozenset[int] = frozenset()
    stable: int | None = None

    @property
    def last_stable(self) -> int:
        return self.end if self.stable is None else self.stable

    def first_of(self, time: int) -> Found:
        """As a broker looks up a time."""
        for offset, timestamp, *_ in self.rows:
            if timestamp >= time:
                return Found(offset, timestamp)
        return Found(-1, -1)


@dataclass
class MemoryCluster:
    """Implements as much of `ClusterReader` as translation asks, and `RangeReader`."""

    logs: dict[TopicPartition, MemoryLog]
    name: str = "memory"
    log_append_time: bool = False
    compacted: bool = False
    read_offsets: int = field(default=0, init=False)

    def cluster_id(self) -> str:
        return f"id of {self.name}"

    def offsets(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, PartitionOffsets | Unavailable]:
        return {p: self._offsets(p) for p in partitions}

    def _offsets(self, partition: TopicPartition) -> PartitionOffsets | Unavailable:
        log = self.logs.get(partition)
        if log is None:
            return Unavailable("no such partition")
        return PartitionOffsets(log.start, log.last_stable, log.end)

    def look_up(
        self, questions: Sequence[tuple[TopicPartition, int]]
    ) -> Callable[[], Sequence[Found | Unavailable]]:
        return lambda: [self._look_up(*question) for question in questions]

    def _look_up(self, partition: TopicPartition, when: int) -> Found:
        log = self.logs[partition]
        return Found(log.end, -1) if when == Mark.END else log.first_of(when)

    def topics(self, names: Collection[str]) -> Mapping[str, TopicState | Unavailable | None]:
        return {name: self._topic(name) for name in names}

    def _topic(self, name: str) -> TopicState | None:
        partitions = {p.partition: 1 for p in self.logs if p.topic == name}
        kind = "LogAppendTime" if self.log_append_time else "CreateTime"
        policy = "compact" if self.compacted else "delete"
        config = {"message.timestamp.type": kind, "cleanup.policy": policy}
        return TopicState(name, partitions, config) if partitions else None

    def read(self, ranges: TopicRanges, *, uncommitted: bool = False) -> Iterator[Chunk]:
        for topic, partitions in ranges.items():
            for partition, runs in partitions.items():
                log = self.logs[TopicPartition(topic, partition)]
                for start, end in runs:
                    readable = log.end if uncommitted else log.last_stable
                    assert log.start <= start < end <= readable, "outside of the log"
                    self.read_offsets += end - start
                    hidden = () if uncommitted else log.aborted
                    rows = [r for r in log.rows if start <= r[0] < end and r[0] not in hidden]
                    yield Chunk(topic, partition, rows)


def bounds(said: Answer | NoAnswer | None) -> tuple[int, int | None, int | None]:
    """Where an answer leads, and what is read again and skipped at most."""
    assert isinstance(said, Answer), said
    return said.target_offset, said.rereads_at_most, said.skips_at_most


def reason(said: Answer | NoAnswer | None) -> str:
    """Why there is no answer."""
    assert isinstance(said, NoAnswer), said
    return said.reason
