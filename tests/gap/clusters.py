"""Clusters in memory, of one topic: for what would take hours to do to real ones."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from drctl.model.topology import (
    Found,
    PartitionOffsets,
    Record,
    TopicPartition,
    TopicState,
    Unavailable,
)

PARTITIONS = (0, 1)


@dataclass
class Log:
    """A log as its leader holds it: records with their leader epochs, offsets may be missing."""

    start: int = 0
    end: int = 0
    stable: int = 0
    epoch: int = 0
    records: dict[int, tuple[Record, int]] = field(default_factory=dict)

    def append(self, partition: int, key: bytes, time: int, *, holds_record: bool = True) -> None:
        if holds_record:
            record = Record(partition, self.end, time, key, b"v")
            self.records[self.end] = (record, self.epoch)
        self.end += 1
        self.stable = self.end

    def delete_before(self, offset: int) -> None:
        self.start = offset
        self.records = {o: r for o, r in self.records.items() if o >= offset}

    def truncate(self, offset: int) -> None:
        self.records = {o: r for o, r in self.records.items() if o < offset}
        self.end, self.stable = offset, min(self.stable, offset)

    def compact(self) -> None:
        newest = {r.key: o for o, (r, _) in sorted(self.records.items())}
        kept = set(newest.values()) | {self.end - 1}
        self.records = {o: r for o, r in self.records.items() if o in kept}


@dataclass
class Cluster:
    """Answers as `ClusterReader` does, of one topic."""

    name: str
    topic_id: int = 0
    config: dict[str, str] = field(default_factory=lambda: {"cleanup.policy": "delete"})
    logs: dict[int, Log] = field(default_factory=lambda: {p: Log() for p in PARTITIONS})

    def cluster_id(self) -> str:
        return self.name

    def topic_names(self) -> frozenset[str]:
        return frozenset({"t"})

    def topics(self, names: Collection[str]) -> Mapping[str, TopicState | Unavailable | None]:
        leaders: dict[int, int | None] = dict.fromkeys(self.logs, 1)
        return {"t": TopicState("t", leaders, dict(self.config), topic_id=str(self.topic_id))}

    def offsets(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, PartitionOffsets | Unavailable]:
        logs = {p: self.logs[p.partition] for p in partitions}
        return {p: PartitionOffsets(g.start, g.stable, g.end, g.epoch) for p, g in logs.items()}

    def leader_epochs(
        self, positions: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int | Unavailable]:
        found = {p: self.logs[p.partition].records.get(o) for p, o in positions.items()}
        return {p: Unavailable("none") if r is None else r[1] for p, r in found.items()}

    def first_timestamps(
        self, positions: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int | Unavailable]:
        return dict.fromkeys(positions, 0)

    def max_timestamps(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int | Unavailable]:
        return dict.fromkeys(partitions, 10)

    def look_up(
        self, questions: Sequence[tuple[TopicPartition, int]]
    ) -> Callable[[], Sequence[Found | Unavailable]]:
        """By time only."""

        def first(partition: TopicPartition, time: int) -> Found:
            log = self.logs[partition.partition]
            times = ((o, r.timestamp_ms) for o, (r, _) in sorted(log.records.items()))
            return next((Found(o, at) for o, at in times if at >= time), Found(-1, -1))

        return lambda: [first(partition, time) for partition, time in questions]

    def following(
        self, positions: Mapping[TopicPartition, int], number: int
    ) -> Mapping[TopicPartition, tuple[Record, ...] | Unavailable]:
        return {
            p: tuple(r for o, (r, _) in sorted(self.logs[p.partition].records.items()) if o >= at)[
                :number
            ]
            for p, at in positions.items()
        }
