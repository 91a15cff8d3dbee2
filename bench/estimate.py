"""`drctl gap --scope estimate` on many partitions, from the command line to the result."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer

from bench.filling import QUIET, create_topics, reading
from bench.process import WrongAnswer, drctl
from bench.rows import Ratio, Row, Target
from bench.stage import Stage, link_over
from drctl.config.loading import load
from drctl.gap.freeze import freeze
from drctl.lab.cluster import LabCluster
from drctl.model.errors import Stopped

PART = "estimate"
LIMIT_S = 3.0
RECORDS = 20
"""Records of each partition, two seconds apart."""

WAYS = {"without Spark": 10**9, "by Spark": 0}
"""`spark.from_offsets` of drctl.yaml by what then compares."""

SPARK_PARTITIONS = 2_000
"""Spark needs a task with its own consumer per partition; more partitions would take too long
here."""

_LOST = 5
_PATIENCE_S = 300


@dataclass(frozen=True, slots=True)
class Crowd:
    """Topics on both clusters.

    Attributes:
        topics: number of topics.
        partitions: per topic.
    """

    topics: int
    partitions: int

    @property
    def total(self) -> int:
        """Number of partitions on one side."""
        return self.topics * self.partitions

    def names(self) -> list[str]:
        """Names of the topics."""
        return [f"crowd-{number:04}" for number in range(self.topics)]


def measure(stage: Stage, topics: int, partitions: int, runs: int) -> Iterator[Row]:
    """Measure with some partitions not replicated, and with all partitions lagging.

    Raises:
        WrongAnswer: an estimate is wrong.
    """
    crowd = Crowd(topics, partitions)
    config = stage.configured("estimate", {"crowd": link_over("crowd-.*")})
    stage.tell(f"writing {crowd.total:,} partitions")
    start = round(time.time() * 1000) - 3_600_000
    _create(stage.source, crowd)
    _create(stage.target, crowd)
    _write(stage.source, crowd, start, RECORDS)
    _write(stage.target, crowd, start, RECORDS)
    lagging = max(1, topics // 50)
    for title, stopped, missing in (
        ("nothing missing", 0, 0),
        (f"the tail of {lagging * partitions:,} missing", lagging, lagging * partitions),
        ("the tail of all missing", topics, (topics + lagging) * partitions),
    ):
        _write(stage.source, Crowd(stopped, partitions), start + 1_000_000, _LOST)
        for form in ("text", "json"):
            times = tuple(_run(config, form, missing * _LOST) for _ in range(runs))
            stage.tell(f"{title}, {form}: " + ", ".join(f"{t:.2f} s" for t in times))
            name = f"estimate of {topics} topics x {partitions} partitions, {title}, {form}"
            yield Row(PART, name, times, ratio=_ratio(times))
    yield Row(PART, "full comparison of these topics: freeze", (_freeze(stage, config),))
    for way, from_offsets in WAYS.items():
        if not from_offsets and crowd.total > SPARK_PARTITIONS:
            stage.tell(f"full comparison, {way}: not measured above {SPARK_PARTITIONS:,}")
            continue
        taken = _compare(stage, from_offsets, (topics + lagging) * partitions * _LOST)
        stage.tell(f"full comparison, {way}: {taken:.1f} s")
        yield Row(PART, f"full comparison of these topics in one run, {way}", (taken,))


def _ratio(times: tuple[float, ...]) -> Ratio:
    middle = sorted(times)[len(times) // 2]
    return Ratio(middle / LIMIT_S, f"seconds / {LIMIT_S:g}", Target(1.0))


def _create(cluster: LabCluster, crowd: Crowd) -> None:
    create_topics(cluster, crowd.names(), crowd.partitions, 60)


def _write(cluster: LabCluster, crowd: Crowd, start_ms: int, records: int) -> None:
    settings = {"linger.ms": "200", "queue.buffering.max.messages": "2000000"}
    producer = Producer({**cluster.client_properties(), **settings}, logger=QUIET)
    for topic in crowd.names():
        for partition in range(crowd.partitions):
            for number in range(records):
                at = start_ms + number * 2000
                producer.produce(topic, b"value", b"key", partition, timestamp=at)
        producer.poll(0)
    if left := producer.flush(_PATIENCE_S):
        raise Stopped(f"{cluster.name}: {left} records were not acknowledged")


def _run(config: Path, form: str, missing: int) -> float:
    done = drctl(config, "gap", "--scope", "estimate", codes=(5,), form=form)
    json = form == "json"
    reported = done.document["totals"]["missing_estimate"] if json else missing
    if reported != missing or (not json and f"{missing:,}" not in done.stdout):
        raise WrongAnswer(f"an estimate of {missing}: {done.stdout[:500]}")
    return done.seconds


def _compare(stage: Stage, from_offsets: int, missing: int) -> float:
    """Compare all topics in one application."""
    links = {"crowd": link_over("crowd-.*")}
    config = stage.configured("crowd", links, spark={"from_offsets": from_offsets})
    done = drctl(config, "gap", "--scope", "full", codes=(1,))
    if (found := done.document["totals"]["unreplicated"]) != missing:
        raise WrongAnswer(f"a comparison found {found} records, not {missing}")
    return done.seconds


def _freeze(stage: Stage, config: Path) -> float:
    link = load(config).link(None)
    with reading(stage.source) as source, reading(stage.target) as target:
        names = link.topics_of(source.topic_names())
        began = time.perf_counter()
        freeze(link, source, target, names)
        return time.perf_counter() - began
