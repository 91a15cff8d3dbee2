"""What it costs to look at the order of replicated records, beside digests of the same records."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

from bench.filling import Appender, create_topics
from bench.process import WrongAnswer
from bench.records import Message, chunks
from bench.rows import Ratio, Row, paired
from bench.stage import Stage
from drctl.artifacts.jars import resolve
from drctl.gap.comparison import ComparePlan, Identity, Side, TopicPlan
from drctl.kafka.connection import Connection
from drctl.kafka.java_properties import java_properties
from drctl.kafka.reader import KafkaClusterReader
from drctl.lab.cluster import LabCluster
from drctl.model.gap import OrderScope
from drctl.model.topology import OffsetRange, PartitionOffsets, TopicPartition
from drctl.spark.comparer import SparkComparer
from drctl.spark.scan import KafkaRows
from drctl.spark.session import SMALL, SparkSettings, opened

PART = "order"
PARTITIONS = 4
SWAPPED = 20
"""Pairs of records of one key that change places on the target, of each chunk of records."""


@dataclass(frozen=True, slots=True)
class Filled:
    """A topic on both sides.

    Attributes:
        inversions: how many there are on the target.
    """

    topic: str
    records: int
    inversions: int


def measure(stage: Stage, records: int, rounds: int) -> Iterator[Row]:
    """Digests, then the order by key and by partition.

    Raises:
        WrongAnswer: another number of inversions was found than there are.
    """
    data = _fill(stage, records)
    plan = _plan(stage, data)
    with _comparer(stage, records) as comparer:
        digests = _times(stage, "digests", rounds, lambda: _digest(comparer, plan, data))
        keyed = _times(stage, "order by key", rounds, lambda: _order(comparer, plan, data))
        whole = _times(
            stage, "order by partition", rounds, lambda: _partition(comparer, plan, data)
        )
    both = 2 * records
    yield Row(PART, "digests of both sides", digests, records=both)
    ratio = Ratio(paired(keyed, digests), "order by key / digests")
    name = f"order by key, {data.inversions:,} inversions found"
    yield Row(PART, name, keyed, records=both, ratio=ratio)
    ratio = Ratio(paired(whole, digests), "order by partition / digests")
    yield Row(PART, "order by partition", whole, records=both, ratio=ratio)


def _fill(stage: Stage, records: int) -> Filled:
    stage.tell(f"writing {records:,} records a side, some of the target in another order")
    topic, inversions = f"order-{records}", 0
    source, target = Appender(stage.source), Appender(stage.target)
    for cluster in (stage.source, stage.target):
        create_topics(cluster, [topic], PARTITIONS)
    for _, messages in chunks(records, stage.start_ms, partitions=PARTITIONS):
        source.append(topic, messages)
        changed, swapped = reordered(messages)
        target.append(topic, changed)
        inversions += swapped
    source.finish()
    target.finish()
    return Filled(topic, records, inversions)


def reordered(messages: list[Message]) -> tuple[list[Message], int]:
    """The same with some records of a key after the next one of it; how many pairs those are."""
    changed, last, swapped = list(messages), dict[bytes, int](), 0
    for place, message in enumerate(messages):
        before = last.pop(message.key, None)
        if before is None:
            last[message.key] = place
        elif swapped < SWAPPED:
            changed[before], changed[place] = changed[place], changed[before]
            swapped += 1
    return changed, swapped


@contextmanager
def _comparer(stage: Stage, records: int) -> Iterator[SparkComparer]:
    jars = resolve("spark-connector", progress=stage.tell)
    properties = {
        Side.SOURCE: java_properties(stage.source.client_properties()),
        Side.TARGET: java_properties(stage.target.client_properties()),
    }
    settings = SparkSettings(
        jars=jars, log=stage.folder / "order.log", offsets=max(SMALL, 2 * records)
    )
    with opened(settings) as spark, TemporaryDirectory(dir=stage.folder) as out:
        rows = KafkaRows(spark, properties, spark.sparkContext.defaultParallelism)
        yield SparkComparer(spark, rows, Path(out))


def _plan(stage: Stage, data: Filled) -> ComparePlan:
    source, target = (_ranges(cluster, data.topic) for cluster in (stage.source, stage.target))
    plan = TopicPlan(data.topic, data.topic, True, True, 1 << 10, False, source, target, {})
    return ComparePlan((plan,), Identity(), buckets=1024, salt=1)


def _ranges(cluster: LabCluster, topic: str) -> dict[int, OffsetRange]:
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    with KafkaClusterReader(Connection(cluster.name, cluster.client_properties())) as reader:
        found = reader.offsets(places)
    return {
        place.partition: OffsetRange(o.log_start, o.last_stable)
        for place, o in found.items()
        if isinstance(o, PartitionOffsets)
    }


def _times(stage: Stage, name: str, rounds: int, work: Callable[[], None]) -> tuple[float, ...]:
    """Of so many rounds, after one that does not count."""
    times = []
    for _ in range(rounds + 1):
        began = perf_counter()
        work()
        times.append(perf_counter() - began)
    stage.tell(f"{name}: {median(times[1:]):.2f} s")
    return tuple(times[1:])


def _digest(comparer: SparkComparer, plan: ComparePlan, data: Filled) -> None:
    digests = comparer.digest(plan, plan.everything(), _unheard)
    if (found := sum(d.records for d in digests)) != 2 * data.records:
        raise WrongAnswer(f"{found} records were digested")


def _order(comparer: SparkComparer, plan: ComparePlan, data: Filled) -> None:
    found = comparer.disorder(plan, _unheard)
    if (number := sum(found.inversions.values())) != data.inversions:
        raise WrongAnswer(f"{number} inversions were found, there are {data.inversions}")


def _partition(comparer: SparkComparer, plan: ComparePlan, data: Filled) -> None:
    found = comparer.disorder(replace(plan, within=OrderScope.PARTITION), _unheard)
    if (number := sum(found.inversions.values())) < data.inversions:
        raise WrongAnswer(f"{number} inversions were found, there are at least {data.inversions}")


def _unheard(_phase: str, _done: int, _total: int) -> None:
    """Progress that nobody watches."""
