"""`drctl failover` with very many topics and groups in one plan: its time and its memory."""

import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench.crowd import Crowd, World, commit, committed, forget
from bench.filling import create_topics, write_each
from bench.process import DRCTL, WrongAnswer
from bench.rows import Row
from bench.stage import Stage, cluster_section
from bench.watching import watched
from drctl.config.loading import load
from drctl.kafka.connection import Connection
from drctl.kafka.reader import KafkaClusterReader
from drctl.lab.cluster import LabCluster
from drctl.model.errors import Stopped
from drctl.model.topology import Found, Mark, TopicPartition

PART = "plan"
RECORDS = 20
"""Records of each partition, the same on both sides."""

_AT_ONCE = 50
_DEADLINE_S = 1800
_ANSWER = ("--answer", "stop-replication=yes")


@dataclass(frozen=True, slots=True)
class Ran:
    """A run of `drctl failover` that ended as it should.

    Attributes:
        seconds: from the start of its process to its end.
        megabytes: the most memory that it ever held.
    """

    seconds: float
    megabytes: float
    document: dict[str, Any]


def measure(stage: Stage, topics: int, partitions: int, groups: int) -> Iterator[Row]:
    """Rows for the plan, and for a planned failover from its beginning to its end.

    Raises:
        WrongAnswer: one of them did not end as it should, or groups were not moved.
    """
    crowd = Crowd("planned", groups, topics, partitions, RECORDS * partitions, whole=True)
    stage.tell(f"writing {topics * partitions:,} partitions")
    world = _made(stage, crowd)
    config = _configured(stage, crowd)
    name = f"failover of {topics:,} topics x {partitions:,} partitions, {groups:,} groups"
    plan = _run(config, 0)
    stage.tell(f"plan: {plan.seconds:.1f} s, {plan.megabytes:.0f} MB")
    yield from _both(f"{name}: the plan", plan)
    done = _run(config, 0, "--execute", "--yes", *_ANSWER)
    stage.tell(f"failover: {done.seconds:.1f} s, {done.megabytes:.0f} MB")
    if committed(stage.target, world.positions) != world.positions:
        raise WrongAnswer("groups do not stand on the target where they stood on the source")
    yield from _both(f"{name}: planned, to its end", done)
    yield Row(PART, f"{name}: RTO", (done.document["rto_seconds"],))
    for step in done.document["steps"]:
        yield Row(PART, f"{name}: step {step['id']}", (step["seconds"],))
    for cluster in (stage.source, stage.target):
        forget(cluster, world)


def _both(name: str, ran: Ran) -> Iterator[Row]:
    yield Row(PART, name, (ran.seconds,))
    yield Row(PART, f"{name}: peak of its process", (ran.megabytes,), unit="MB")


def _made(stage: Stage, crowd: Crowd) -> World:
    """The topics on both clusters, and where each group stands on the source."""
    names, start = crowd.names, round(time.time() * 1000) - 3_600_000
    for cluster in (stage.source, stage.target):
        for first in range(0, len(names), _AT_ONCE):
            create_topics(cluster, names[first : first + _AT_ONCE], crowd.partitions)
        write_each(cluster, names, crowd.partitions, start, RECORDS)
        _check(cluster, [TopicPartition(t, n) for t in names for n in range(crowd.partitions)])
    positions = {
        f"{crowd.name}-app-{number:04}": {
            TopicPartition(names[number % len(names)], partition): number % RECORDS
            for partition in range(crowd.partitions)
        }
        for number in range(crowd.groups)
    }
    commit(stage.source, positions)
    return World(crowd, {}, positions)


def _check(cluster: LabCluster, places: Sequence[TopicPartition]) -> None:
    """What was sent again would be there twice: offsets would not be the same on both sides."""
    with KafkaClusterReader(
        Connection(cluster.name, cluster.client_properties(), timeout_s=60)
    ) as reader:
        ends = reader.look_up([(place, Mark.END) for place in places])()
    wrong = sum(not isinstance(end, Found) or end.offset != RECORDS for end in ends)
    if wrong:
        raise Stopped(f"{cluster.name}: {wrong} partitions do not hold {RECORDS} records")


def _configured(stage: Stage, crowd: Crowd) -> Path:
    config = stage.folder / "plan" / "drctl.yaml"
    config.parent.mkdir(exist_ok=True)
    link = {
        "from": stage.source.name,
        "to": stage.target.name,
        "topics": [f"{crowd.name}-.*"],
        "groups": [f"{crowd.name}-.*"],
        "replicator": {"kind": "offset-preserving"},
        "fence": {"method": "acl", "principals": ["User:orders-app"]},
    }
    clusters = {c.name: cluster_section(c) for c in (stage.source, stage.target)}
    document = {"clusters": clusters, "links": {"main": link}}
    config.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    load(config)
    return config


def _run(config: Path, code: int, *words: str) -> Ran:
    line = [str(DRCTL), "--config", str(config), "-o", "json", "failover", *words]
    said = config.with_suffix(".err")
    began = time.perf_counter()
    with said.open("wb") as stderr:
        process = subprocess.Popen(
            line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, text=True
        )
        try:
            with watched(process.pid) as peak:
                stdout, _ = process.communicate(timeout=_DEADLINE_S)
        finally:
            process.kill()
            process.wait()
    taken = time.perf_counter() - began
    if process.returncode != code:
        text = stdout.strip() or said.read_text(encoding="utf-8", errors="replace")
        raise WrongAnswer(f"drctl failover ended with {process.returncode}: {text[-2000:]}")
    return Ran(taken, peak.megabytes, json.loads(stdout))
