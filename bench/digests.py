"""Comparisons in one Spark session, with plans that read whole topics."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Protocol

from bench.collecting import Collecting
from bench.filling import reading
from bench.process import WrongAnswer
from bench.stage import Stage
from bench.turns import seconds
from drctl.artifacts.jars import resolve
from drctl.gap.comparison import (
    BucketDigest,
    ComparePlan,
    Identity,
    Progress,
    Reads,
    Side,
    TopicPlan,
)
from drctl.kafka.java_properties import java_properties
from drctl.lab.cluster import LabCluster
from drctl.model.topology import OffsetRange, PartitionOffsets, TopicPartition
from drctl.spark.comparer import SparkComparer
from drctl.spark.scan import KafkaRows
from drctl.spark.session import SMALL, SparkSettings, opened


@contextmanager
def comparing(
    stage: Stage, name: str, offsets: int, *sides: LabCluster
) -> Iterator[tuple[SparkComparer, int, Collecting]]:
    """Provide a session for two clusters (default: the stage's), its cores and its collections."""
    jars = resolve("spark-connector", progress=stage.tell)
    clusters = zip(Side, sides or stage.clusters, strict=True)
    properties = {side: java_properties(each.client_properties()) for side, each in clusters}
    log = stage.folder / f"{name}.log"
    settings = SparkSettings(jars=jars, log=log, offsets=max(SMALL, offsets))
    with opened(settings) as spark, TemporaryDirectory(dir=stage.folder) as out:
        cores = spark.sparkContext.defaultParallelism
        rows = KafkaRows(spark, properties, cores)
        yield SparkComparer(spark, rows, Path(out)), cores, Collecting.of(spark)


def plan_of(topic: str, partitions: int, *sides: LabCluster) -> ComparePlan:
    """Plan to compare a topic that has the same name on both sides."""
    source, target = (_ranges(cluster, topic, partitions) for cluster in sides)
    plan = TopicPlan(topic, topic, True, True, 1 << 10, False, source, target, {})
    return ComparePlan((plan,), Identity(), buckets=1024, salt=1)


def _ranges(cluster: LabCluster, topic: str, partitions: int) -> dict[int, OffsetRange]:
    with reading(cluster) as reader:
        found = reader.offsets([TopicPartition(topic, number) for number in range(partitions)])
    return {
        place.partition: OffsetRange(o.log_start, o.last_stable)
        for place, o in found.items()
        if isinstance(o, PartitionOffsets)
    }


def timed(stage: Stage, name: str, rounds: int, work: Callable[[], None]) -> tuple[float, ...]:
    """Time these rounds, after a warm-up round."""
    times = tuple(seconds(work) for _ in range(rounds + 1))[1:]
    stage.tell(f"{name}: {median(times):.2f} s")
    return times


class Digesting(Protocol):
    """Digests both sides, with or without Spark."""

    def digest(self, plan: ComparePlan, reads: Reads, progress: Progress) -> Sequence[BucketDigest]:
        """Digest these ranges."""


def check_digests(comparer: Digesting, plan: ComparePlan, records: int) -> None:
    """Digest both sides.

    Raises:
        WrongAnswer: the number of digested records is wrong.
    """
    digests = comparer.digest(plan, plan.everything(), unheard)
    if (found := sum(digest.records for digest in digests)) != records:
        raise WrongAnswer(f"{found} records were digested, not {records}")


def unheard(_phase: str, _done: int, _total: int) -> None:
    """Discard progress messages."""
