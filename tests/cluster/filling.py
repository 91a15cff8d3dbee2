"""A small language for the records of a topic before drctl reads it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined, unused-ignore]

from drctl.model.topology import Record
from tests.cluster.link_command import soon
from tests.cluster.logs import read_logs
from tests.lab.cluster_under_test import DEADLINE_S, ClusterUnderTest, Ending

Headers = tuple[tuple[str, bytes | None], ...]
COPIED: Headers = (("__replicator_id", b"mm"),)
"""The header that a replicator adds to its copies."""


@dataclass(frozen=True)
class Clock:
    """Timestamps close enough to now that retention does not delete them.

    Attributes:
        start_ms: second 0, milliseconds UTC.
    """

    start_ms: int

    def at(self, second: float) -> int:
        """Return a second as milliseconds UTC."""
        return self.start_ms + round(second * 1000)


@dataclass(frozen=True)
class R:
    """A record to write; `t` in seconds of the scenario's clock, `p` its partition."""

    key: bytes | None
    value: bytes | None
    t: float = 0
    headers: Headers = ()
    p: int = 0


def rows(
    count: int, *, start: int = 0, p: int = 0, key: bytes = b"key", times: float = 1
) -> list[R]:
    """Return this many records with distinct keys and values, `times` seconds apart."""
    return [
        R(key + b"-%d" % n, b"value-%d" % n, t=n * times, p=p) for n in range(start, start + count)
    ]


@dataclass(frozen=True)
class Batch:
    """Records written in one batch."""

    records: Iterable[R]
    ending: Ending = "none"
    settings: Mapping[str, str] = field(default_factory=dict)


Step = Batch | Callable[[ClusterUnderTest, str], None]


@dataclass(frozen=True)
class Filling:
    """One side of a topic: how it is created and changed, in order."""

    steps: tuple[Step, ...] = ()
    partitions: int = 1
    config: Mapping[str, str] = field(default_factory=dict)


def holding(
    *records: R, partitions: int | None = None, config: Mapping[str, str] | None = None
) -> Filling:
    """Return a side with just these records."""
    needed = max((r.p for r in records), default=0) + 1
    return Filling((Batch(records),) if records else (), partitions or needed, config or {})


def copies(records: Iterable[R]) -> tuple[R, ...]:
    """Return the records with the header that replication adds."""
    return tuple(R(r.key, r.value, r.t, r.headers + COPIED, r.p) for r in records)


def fill(cluster: ClusterUnderTest, sides: Mapping[str, Filling], clock: Clock) -> None:
    """Create and fill all these topics."""
    new = [NewTopic(name, s.partitions, config=dict(s.config)) for name, s in sides.items()]
    for future in cluster.admin.create_topics(new, operation_timeout=DEADLINE_S).values():
        future.result()
    for name, side in sides.items():
        for step in side.steps:
            if isinstance(step, Batch):
                cluster.produce(name, written(step.records, clock), step.ending, **step.settings)
            else:
                step(cluster, name)


def written(records: Iterable[R], clock: Clock) -> list[Record]:
    """Return the arguments of the producer."""
    return [Record(r.p, 0, clock.at(r.t), r.key, r.value, r.headers) for r in records]


def delete_before(offset: int, partition: int = 0) -> Step:
    """Move the log start offset."""
    return lambda cluster, topic: cluster.delete_records(topic, partition, offset)


def await_compaction(*left: int) -> Step:
    """Wait until partition 0 has only these offsets."""

    def wait(cluster: ClusterUnderTest, topic: str) -> None:
        def offsets() -> list[int]:
            return [r.offset for r in read_logs(cluster, [topic])[topic].records[0]]

        wanted = list(left)
        soon(lambda: offsets() == wanted, topic)

    return wait


COMPACTING = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "1"}
"""Each batch with a later timestamp begins a new segment; all but the last are compacted."""


def one_by_one(*records: R) -> tuple[Batch, ...]:
    """Return each record as a batch of its own."""
    return tuple(Batch((record,)) for record in records)
