"""`drctl failover` with many topics and groups in one plan: time and memory."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.crowd import Crowd, World, commit, committed, forget
from bench.filling import create_topics, reading, write_each
from bench.process import Done, WrongAnswer, drctl
from bench.rows import Row
from bench.stage import Stage, link_over
from drctl.lab.cluster import LabCluster
from drctl.model.errors import Stopped
from drctl.model.topology import Found, Mark, TopicPartition

PART = "plan"
RECORDS = 20
"""Records of each partition, the same on both sides."""

_ANSWER = ("--answer", "stop-replication=yes")


def measure(stage: Stage, topics: int, partitions: int, groups: int) -> Iterator[Row]:
    """Measure the plan, and a whole planned failover.

    Raises:
        WrongAnswer: a run did not end as expected, or groups were not moved.
    """
    crowd = crowd_of(topics, partitions, groups)
    world = made(stage, crowd)
    config = configured(stage, crowd)
    name = f"failover of {topics:,} topics x {partitions:,} partitions, {groups:,} groups"
    plan = drctl(config, "failover")
    stage.tell(f"plan: {plan.seconds:.1f} s, {plan.megabytes:.0f} MB")
    yield from _both(f"{name}: the plan", plan)
    done = drctl(config, "failover", "--execute", "--yes", *_ANSWER)
    stage.tell(f"failover: {done.seconds:.1f} s, {done.megabytes:.0f} MB")
    if committed(stage.target, world.positions) != world.positions:
        raise WrongAnswer("committed offsets on the target differ from those on the source")
    yield from _both(f"{name}: planned, to its end", done)
    yield Row(PART, f"{name}: RTO", (done.document["rto_seconds"],))
    for step in done.document["steps"]:
        yield Row(PART, f"{name}: step {step['id']}", (step["seconds"],))
    for cluster in stage.clusters:
        forget(cluster, world)


def crowd_of(topics: int, partitions: int, groups: int) -> Crowd:
    """Groups of a large failover; by their names, the fence denies them, too."""
    return Crowd("orders-app-planned", groups, topics, partitions, RECORDS * partitions, whole=True)


def configured(stage: Stage, crowd: Crowd) -> Path:
    """Write a drctl.yaml with the link of these groups."""
    mine, fence = [f"{crowd.name}-.*"], {"method": "acl", "principals": ["User:orders-app"]}
    replicator = {"kind": "offset-preserving"}
    link = link_over(*mine, groups=mine, replicator=replicator, fence=fence)
    return stage.configured("plan", {"main": link})


def _both(name: str, ran: Done) -> Iterator[Row]:
    yield Row(PART, name, (ran.seconds,))
    yield Row(PART, f"{name}: peak of its process", (ran.megabytes,), unit="MB")


def made(stage: Stage, crowd: Crowd) -> World:
    """Create the topics on both clusters, and commit the offsets on the source."""
    stage.tell(f"writing {len(crowd.names) * crowd.partitions:,} partitions")
    names, start = crowd.names, round(time.time() * 1000) - 3_600_000
    for cluster in stage.clusters:
        create_topics(cluster, names, crowd.partitions)
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
    """Verify that no record was sent twice, which would make offsets differ."""
    with reading(cluster, timeout_s=60) as reader:
        ends = reader.look_up([(place, Mark.END) for place in places])()
    wrong = sum(not isinstance(end, Found) or end.offset != RECORDS for end in ends)
    if wrong:
        raise Stopped(f"{cluster.name}: {wrong} partitions do not hold {RECORDS} records")
