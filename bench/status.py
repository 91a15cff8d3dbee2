"""`drctl status` over very many topics and groups, from the command line to the result."""

import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

import yaml

from bench.crowd import Crowd, World, forget
from bench.filling import create_topics, write_each
from bench.process import DRCTL, WrongAnswer
from bench.rows import Ratio, Row, Target
from bench.stage import Stage, cluster_section
from bench.watching import watched
from drctl.config.loading import load
from drctl.kafka.connection import Connection
from drctl.kafka.group_writer import KafkaGroupWriter
from drctl.lab.cluster import LabCluster
from drctl.model.errors import Stopped
from drctl.model.groups import Committed
from drctl.model.topology import TopicPartition

PART = "status"
LIMIT_S = 5.0
RECORDS = 5
"""Records of each partition, the same on both sides."""

READ = 4
"""Partitions in which each group has a position."""

_LOST = 3
_AT_ONCE = 50
_GROUPS_AT_ONCE = 100
_DEADLINE_S = 600

Positions = Mapping[str, Mapping[TopicPartition, int]]


def measure(stage: Stage, topics: int, partitions: int, groups: int, runs: int) -> Iterator[Row]:
    """Rows where everything is copied, and where a tenth of the topics lags.

    Raises:
        WrongAnswer: a look did not see what lags, or not all groups.
    """
    crowd = Crowd("watched", groups, topics, partitions, RECORDS * partitions, whole=True)
    stage.tell(f"writing {topics * partitions:,} partitions")
    start = round(time.time() * 1000) - 3_600_000
    for cluster in (stage.source, stage.target):
        for first in range(0, topics, _AT_ONCE):
            create_topics(cluster, crowd.names[first : first + _AT_ONCE], partitions)
        write_each(cluster, crowd.names, partitions, start, RECORDS)
    world = World(crowd, {}, _positions(crowd))
    for part in _in_parts(world.positions):
        _commit(stage.source, part)
    config = _configured(stage)
    stage.tell("noting where groups stand")
    _run(config, (0,), "offsets", "track", "--once", "--execute", "--yes")
    lagging = max(1, topics // 10)
    for title, stopped in (("all copied", 0), (f"{lagging} topics lag", lagging)):
        write_each(stage.source, crowd.names[:stopped], partitions, start + 1_000_000, _LOST)
        for form in ("text", "json"):
            yield from _looks(stage, config, (topics, partitions, groups), (title, form), runs)
    forget(stage.source, world)


def _looks(
    stage: Stage, config: Path, sizes: tuple[int, int, int], how: tuple[str, str], runs: int
) -> Iterator[Row]:
    topics, partitions, groups = sizes
    title, form = how
    taken, worked, peaks = [], [], []
    for _ in range(runs):
        before = _cpu_s()
        seconds, megabytes, said = _run(config, (0, 1), "-o", form, "status")
        taken.append(seconds)
        worked.append(_cpu_s() - before)
        peaks.append(megabytes)
        if form == "json":
            _check(said, title, sizes)
    stage.tell(f"status, {title}, {form}: " + ", ".join(f"{t:.2f} s" for t in taken))
    name = (
        f"status of {topics} topics x {partitions} partitions, {groups:,} groups, {title}, {form}"
    )
    middle = sorted(taken)[len(taken) // 2]
    ratio = Ratio(middle / LIMIT_S, f"seconds / {LIMIT_S:g}", Target(1.0))
    yield Row(PART, name, tuple(taken), ratio=ratio)
    yield Row(PART, f"{name}: CPU time of its process", tuple(worked))
    yield Row(PART, f"{name}: peak of its process", tuple(peaks), unit="MB")


def _cpu_s() -> float:
    """Of all processes that this one has waited for."""
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _check(said: str, title: str, sizes: tuple[int, int, int]) -> None:
    topics, partitions, groups = sizes
    document = json.loads(said)
    behind = sum(1 for row in document["topics"] if row["records"])
    lagging = 0 if title == "all copied" else max(1, topics // 10)
    if (len(document["topics"]), behind) != (topics, lagging):
        raise WrongAnswer(f"{behind} of {len(document['topics'])} topics lag, not {lagging}")
    if document["rpo"]["records"] != lagging * partitions * _LOST:
        raise WrongAnswer(f"the RPO is {document['rpo']}")
    if document["groups"]["groups"] != groups or document["groups"]["left_out"]:
        raise WrongAnswer(f"{document['groups']['groups']} groups were seen")


def _positions(crowd: Crowd) -> Positions:
    return {
        f"{crowd.name}-app-{number:04}": {
            TopicPartition(crowd.names[number % crowd.topics], (number + n) % crowd.partitions): 2
            for n in range(min(READ, crowd.partitions))
        }
        for number in range(crowd.groups)
    }


def _in_parts(positions: Positions) -> Iterator[Positions]:
    """A busy machine does not take all of them in time."""
    names = list(positions)
    for first in range(0, len(names), _GROUPS_AT_ONCE):
        yield {name: positions[name] for name in names[first : first + _GROUPS_AT_ONCE]}


def _commit(cluster: LabCluster, positions: Positions) -> None:
    wanted = {
        group: {place: Committed(offset) for place, offset in places.items()}
        for group, places in positions.items()
    }
    with KafkaGroupWriter(
        Connection(cluster.name, cluster.client_properties(), timeout_s=60)
    ) as writer:
        answers = writer.commit(wanted)
    failed = [why for places in answers.values() for why in places.values() if why is not None]
    if failed:
        raise Stopped(f"{cluster.name}: {len(failed)} positions not taken: {failed[0].reason}")


def _configured(stage: Stage) -> Path:
    config = stage.folder / "status" / "drctl.yaml"
    config.parent.mkdir(exist_ok=True)
    link = {
        "from": stage.source.name,
        "to": stage.target.name,
        "topics": ["watched-.*"],
        "groups": ["watched-.*"],
        "fence": {"method": "acl", "principals": ["User:orders-app"]},
    }
    clusters = {c.name: cluster_section(c) for c in (stage.source, stage.target)}
    policy = {"max_lag_records": 10**9, "max_rpo_seconds": 10**9}
    document = {"clusters": clusters, "links": {"main": link}, "policy": policy}
    config.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    load(config)
    return config


def _run(config: Path, codes: tuple[int, ...], *words: str) -> tuple[float, float, str]:
    """Seconds, megabytes, and what was said."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [str(DRCTL), "--config", str(config), "--quiet", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        with watched(process.pid) as peak:
            stdout, stderr = process.communicate(timeout=_DEADLINE_S)
    finally:
        process.kill()
        process.wait()
    taken = time.perf_counter() - began
    if process.returncode not in codes:
        said = (stdout.strip() or stderr)[-2000:]
        raise WrongAnswer(f"drctl {' '.join(words)} ended with {process.returncode}: {said}")
    return taken, peak.megabytes, stdout
