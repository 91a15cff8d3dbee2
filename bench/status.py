"""`drctl status` with many topics and groups, from the command line to the result."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any

from bench.crowd import Crowd, World, commit, forget
from bench.filling import create_topics, write_each
from bench.process import WrongAnswer, drctl
from bench.rows import Ratio, Row, Target
from bench.stage import Stage, link_over
from drctl.model.topology import TopicPartition

PART = "status"
LIMIT_S = 5.0
RECORDS = 5
"""Records of each partition, the same on both sides."""

READ = 4
"""Partitions in which each group has a committed offset."""

_LOST = 3
_GROUPS_AT_ONCE = 100

Positions = Mapping[str, Mapping[TopicPartition, int]]


def measure(stage: Stage, topics: int, partitions: int, groups: int, runs: int) -> Iterator[Row]:
    """Measure with everything replicated, and with a tenth of the topics lagging.

    Raises:
        WrongAnswer: a run missed the lag or a group.
    """
    crowd = Crowd("watched", groups, topics, partitions, RECORDS * partitions, whole=True)
    stage.tell(f"writing {topics * partitions:,} partitions")
    start = round(time.time() * 1000) - 3_600_000
    for cluster in (stage.source, stage.target):
        create_topics(cluster, crowd.names, partitions)
        write_each(cluster, crowd.names, partitions, start, RECORDS)
    world = World(crowd, {}, _positions(crowd))
    for part in _in_parts(world.positions):
        commit(stage.source, part)
    mine, policy = ["watched-.*"], {"max_lag_records": 10**9, "max_rpo_seconds": 10**9}
    fence = {"method": "acl", "principals": ["User:orders-app"]}
    links = {"main": link_over(*mine, groups=mine, fence=fence)}
    config = stage.configured("status", links, policy=policy)
    stage.tell("recording tracked offsets")
    drctl(config, "--quiet", "offsets", "track", "--once", "--execute", "--yes")
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
        done = drctl(config, "--quiet", "status", codes=(0, 1), form=form)
        taken.append(done.seconds)
        worked.append(_cpu_s() - before)
        peaks.append(done.megabytes)
        if form == "json":
            _check(done.document, title, sizes)
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
    """CPU time of all child processes that have ended."""
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _check(document: Mapping[str, Any], title: str, sizes: tuple[int, int, int]) -> None:
    topics, partitions, groups = sizes
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
    """Split the topics, because a busy machine times out on all at once."""
    names = list(positions)
    for first in range(0, len(names), _GROUPS_AT_ONCE):
        yield {name: positions[name] for name in names[first : first + _GROUPS_AT_ONCE]}
