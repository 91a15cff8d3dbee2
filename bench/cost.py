"""What a full comparison costs at any size: a model fitted to what is measured here.

Seconds of one core = a + b x records + c x bytes + d x partitions, of both sides together. Each
number is a difference of two measurements that differ in one thing only.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

from pyspark.sql import SparkSession

from bench.filling import Appender, create_topics
from bench.process import WrongAnswer
from bench.records import chunks
from bench.rows import Row
from bench.stage import Stage
from drctl.artifacts.jars import resolve
from drctl.gap.comparison import ComparePlan, Identity, Side, TopicPlan
from drctl.kafka.connection import Connection
from drctl.kafka.java_properties import java_properties
from drctl.kafka.reader import KafkaClusterReader
from drctl.model.topology import OffsetRange, PartitionOffsets, TopicPartition
from drctl.spark.comparer import SparkComparer
from drctl.spark.scan import KafkaRows
from drctl.spark.session import SMALL, SparkSettings, opened

PART = "cost"
GB, TB = 10**9, 10**12
SIZES = (100 * GB, TB, 10 * TB, 100 * TB)
RECORD_BYTES = 1000
PARTITION_BYTES = 10 * GB
CORES = 4
"""Of an executor."""

BASE_BYTES = 200


@dataclass(frozen=True, slots=True)
class Shape:
    """A topic that is compared with itself.

    Attributes:
        more_bytes: beyond the 200 that a record has anyway.
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
    """Seconds of one core: in all, a record, a byte and a partition, each of one side."""

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
    """The model's numbers, and what they mean for topics of 100 GB to 100 TB."""
    shapes = (
        Shape("base", records),
        Shape("four times the records", 4 * records),
        Shape("records of 2,200 bytes", records, more_bytes=2000),
        Shape("64 partitions", records, partitions=64),
    )
    for shape in shapes:
        _fill(stage, shape)
    with _session(stage) as (spark, rows, cores):
        times = {s: _times(stage, spark, rows, s, rounds) for s in shapes}
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


@contextmanager
def _session(stage: Stage) -> Iterator[tuple[SparkSession, KafkaRows, int]]:
    """Both sides are the source: a topic that is compared with itself."""
    jars = resolve("spark-connector", progress=stage.tell)
    properties = java_properties(stage.source.client_properties())
    with opened(SparkSettings(jars=jars, log=stage.folder / "cost.log", offsets=SMALL)) as spark:
        cores = spark.sparkContext.defaultParallelism
        yield spark, KafkaRows(spark, dict.fromkeys(Side, properties), cores), cores


def _times(
    stage: Stage, spark: SparkSession, rows: KafkaRows, shape: Shape, rounds: int
) -> tuple[float, ...]:
    plan = _plan(stage, shape)
    times = []
    with TemporaryDirectory(dir=stage.folder) as out:
        comparer = SparkComparer(spark, rows, Path(out))
        for _ in range(rounds + 1):
            began = perf_counter()
            digests = comparer.digest(plan, plan.everything(), _unheard)
            times.append(perf_counter() - began)
            if (found := sum(d.records for d in digests)) != 2 * shape.records:
                raise WrongAnswer(f"{shape.name}: {found} records were digested")
    stage.tell(f"{shape.name}: {median(times[1:]):.2f} s")
    return tuple(times[1:])


def _plan(stage: Stage, shape: Shape) -> ComparePlan:
    topic = _topic(shape)
    places = [TopicPartition(topic, number) for number in range(shape.partitions)]
    with KafkaClusterReader(Connection("primary", stage.source.client_properties())) as reader:
        found = reader.offsets(places)
    ranges = {
        place.partition: OffsetRange(o.log_start, o.last_stable)
        for place, o in found.items()
        if isinstance(o, PartitionOffsets)
    }
    plan = TopicPlan(topic, topic, True, True, 1 << 10, False, ranges, ranges, {})
    return ComparePlan((plan,), Identity(), buckets=1024, salt=1)


def _unheard(_phase: str, _done: int, _total: int) -> None:
    """Progress that nobody watches."""
