"""The cost of a full comparison of any size: a model fitted to measurements.

Core seconds = a + b x records + c x bytes + d x partitions, for both sides together. Each
coefficient is the difference of two measurements that differ in one variable. `COSTS` of
`drctl.gap.engine_choice` are such coefficients, of Spark and of drctl alone.
"""

import os
import resource
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import ceil
from statistics import median

from bench.collecting import check, row_of
from bench.digests import check_digests, comparing, plan_of, timed
from bench.filling import Appender, create_topics
from bench.records import chunks
from bench.rows import Row
from bench.stage import Stage
from drctl.gap.comparison import Side
from drctl.kafka.digest_workers import DigestWorkers
from drctl.kafka.log_reader import LogSource
from drctl.spark.session import SMALL

PART = "cost"
GB, TB = 10**9, 10**12
SIZES = (100 * GB, TB, 10 * TB, 100 * TB)
RECORD_BYTES = 1000
PARTITION_BYTES = 10 * GB
CORES = 4
"""Cores of an executor."""

BASE_BYTES = 200


@dataclass(frozen=True, slots=True)
class Shape:
    """A topic that is compared with itself.

    Attributes:
        more_bytes: in addition to the 200 bytes of each record.
    """

    name: str
    records: int
    partitions: int = 4
    more_bytes: int = 0

    @property
    def bytes(self) -> int:
        """About, of one side."""
        return self.records * (BASE_BYTES + self.more_bytes)


@dataclass(frozen=True, slots=True)
class Model:
    """Core seconds: constant, and per record, byte and partition of one side."""

    start: float
    record: float
    byte: float
    partition: float

    def core_seconds(self, size: int) -> float:
        """Of both sides, each of so many bytes."""
        return (
            self.start
            + size / RECORD_BYTES * self.record
            + size * self.byte
            + size / PARTITION_BYTES * self.partition
        )


def measure(stage: Stage, records: int, rounds: int) -> Iterator[Row]:
    """Measure the coefficients, and compute the cost for topics of 100 GB to 100 TB.

    Raises:
        TooMuchCollection: the JVM spent too much time on garbage.
    """
    shapes = (
        Shape("base", records),
        Shape("four times the records", 4 * records),
        Shape("records of 2,200 bytes", records, more_bytes=2000),
        Shape("64 partitions", records, partitions=64),
    )
    for shape in shapes:
        _fill(stage, shape)
    times: dict[Shape, tuple[float, ...]] = {}
    # Both sides are the source: a topic that is compared with itself.
    both = stage.source, stage.source
    with comparing(stage, "cost", SMALL, *both) as (comparer, cores, collecting):
        for shape in shapes:
            plan, read = plan_of(_topic(shape), shape.partitions, *both), 2 * shape.records
            digest = partial(check_digests, comparer, plan, read)
            times[shape] = timed(stage, shape.name, rounds, digest)
        share = collecting.share()
    for shape in shapes:
        yield Row(PART, f"warm digest of both sides: {shape.name}", times[shape])
    model = _fitted(shapes, {s: median(t) * cores for s, t in times.items()})
    yield Row(PART, "a million records", (model.record * 1e6,), "core s")
    yield Row(PART, "a gigabyte", (model.byte * GB,), "core s")
    yield Row(PART, "a partition", (model.partition,), "core s")
    for size in SIZES:
        seconds = model.core_seconds(size)
        name = f"both sides of {size / TB:g} TB, records of 1 kB, partitions of 10 GB"
        yield Row(PART, name, (seconds / 3600,), "core h")
        needed = ceil(seconds / 3600 / CORES)
        yield Row(PART, f"executors of {CORES} cores for one hour, {size / TB:g} TB", (needed,), "")
    yield from _without_spark(stage, shapes, rounds)
    yield row_of(PART, share)
    check(share)


def _without_spark(stage: Stage, shapes: tuple[Shape, ...], rounds: int) -> Iterator[Row]:
    """Measure the coefficients of drctl alone: CPU time of its processes, least of all rounds."""
    source = LogSource(stage.source.name, stage.source.client_properties())
    workers = DigestWorkers(dict.fromkeys(Side, source), len(os.sched_getaffinity(0)))
    spent: dict[Shape, float] = {}
    for shape in shapes:
        plan = plan_of(_topic(shape), shape.partitions, stage.source, stage.source)
        digest = partial(check_digests, workers, plan, 2 * shape.records)
        times = tuple(_cpu_seconds(digest) for _ in range(rounds))
        stage.tell(f"without Spark, {shape.name}: {min(times):.2f} core s")
        yield Row(PART, f"digest without Spark: {shape.name}", times, "core s")
        spent[shape] = min(times)
    model = _fitted(shapes, spent)
    yield Row(PART, "without Spark, a million records", (model.record * 1e6,), "core s")
    yield Row(PART, "without Spark, a gigabyte", (model.byte * GB,), "core s")
    yield Row(PART, "without Spark, a partition", (model.partition,), "core s")


def _cpu_seconds(work: Callable[[], None]) -> float:
    """CPU time of this process and of those that it started and that have ended."""

    def spent() -> float:
        kinds = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
        return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, kinds))

    before = spent()
    work()
    return spent() - before


def _fitted(shapes: tuple[Shape, ...], seconds: dict[Shape, float]) -> Model:
    base, more, larger, split = shapes
    byte = max(0.0, (seconds[larger] - seconds[base]) / (larger.bytes - base.bytes))
    both = (seconds[more] - seconds[base]) / (more.records - base.records)
    record = max(0.0, both - BASE_BYTES * byte)
    partition = max(0.0, (seconds[split] - seconds[base]) / (split.partitions - base.partitions))
    known = base.records * record + base.bytes * byte + base.partitions * partition
    return Model(max(0.0, seconds[base] - known), record, byte, partition)


def _fill(stage: Stage, shape: Shape) -> None:
    stage.tell(f"writing {shape.records:,} records: {shape.name}")
    topic = _topic(shape)
    create_topics(stage.source, [topic], shape.partitions)
    appender = Appender(stage.source)
    settings = {"partitions": shape.partitions, "more_bytes": shape.more_bytes}
    for _, messages in chunks(shape.records, stage.start_ms, **settings):
        appender.append(topic, messages)
    appender.finish()


def _topic(shape: Shape) -> str:
    return f"cost-{shape.records}-{shape.partitions}-{shape.more_bytes}"
