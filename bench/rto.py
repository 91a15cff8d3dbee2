"""How long writes are refused during a failover, from an application's log."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.crowd import commit, committed
from bench.cutting_off import cut_off
from bench.filling import create_topics, reading
from bench.process import WrongAnswer, drctl
from bench.rows import Ratio, Row, Target
from bench.stage import Stage, link_over
from drctl.formats.checkpoints import decode_key
from drctl.lab.cluster import LabCluster, answering_brokers
from drctl.lab.mirrors import await_state
from drctl.lab.waiting import Patience
from drctl.model.topology import PartitionOffsets, TopicPartition, Unavailable

PART = "rto"

PLANNED, KILLED, FROZEN, CUT = "planned", "killed", "frozen", "cut off"
LIMITS_S = {PLANNED: 5.0, KILLED: 10.0, FROZEN: 10.0, CUT: 10.0}

_PROGRAM = Path(__file__).with_name("rto_writer.py")
_PARTITIONS = 4
_ACKNOWLEDGED = "acknowledged"
_PATIENCE_S = 120
_SETTLED_S = 5.0
_ALL = 1_000_000
"""More checkpoints than MirrorMaker 2 writes here."""
_BY_DEFAULT = (
    "admin.request.timeout.ms",
    "admin.default.api.timeout.ms",
    "admin.metadata.recovery.strategy",
)
"""Settings with which the lab's connectors give up a dead cluster soon; without them MirrorMaker
2's defaults apply."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt to write a record; times in seconds since 1970 UTC."""

    began: float
    answered: float
    cluster: str
    answer: str

    @property
    def taken(self) -> bool:
        """Whether it was acknowledged."""
        return self.answer == _ACKNOWLEDGED


@dataclass(frozen=True, slots=True)
class Outage:
    """The outage that the application saw.

    Attributes:
        seconds: planned: from the last record that the source accepted to the first one that the
            target accepted; unplanned: from the start of the command.
        refused: number of records that neither cluster accepted.
    """

    seconds: float
    refused: int


def measure(stage: Stage, crowds: Sequence[int], faults: Sequence[str]) -> Iterator[Row]:
    """Measure each way of losing a primary, with this number of groups.

    Raises:
        WrongAnswer: a failover did not end as expected, or the journal disagrees.
        Stopped: MirrorMaker 2 does not copy.
    """
    stage.lab.start("connect")
    for groups in crowds:
        for how in faults:
            yield from _one(stage, how, groups)


def _one(stage: Stage, how: str, groups: int) -> Iterator[Row]:
    name = f"flights-rto-{how.replace(' ', '-')}-{groups}"
    stage.tell(f"{how}, {groups:,} groups")
    _await(lambda: answering_brokers(stage.source.admin(), 5) > 0, "the source does not answer")
    create_topics(stage.source, [name], _PARTITIONS)
    _replicating(stage)
    config = _configured(stage, name)
    endpoint = config.parent / "bootstrap"
    endpoint.write_text(stage.source.bootstrap + "\n", encoding="utf-8")
    with ExitStack() as running:
        log = running.enter_context(_application(stage, endpoint, name))
        _await(lambda: len(log()) > 50, "the application does not write")
        _await(lambda: _copied(stage, name), f"MirrorMaker 2 does not copy {name}")
        names = _groups(stage, name, groups)
        running.enter_context(_reading(stage, endpoint, name, names[0]))
        _await(lambda: _has_checkpoints(stage, names), f"groups of {name} have no checkpoints")
        time.sleep(_SETTLED_S)
        if how != PLANNED:
            running.enter_context(_lost(stage, how))
        began = time.time()
        mode = "planned" if how == PLANNED else "unplanned"
        words = ("failover", "--mode", mode, "--execute", "--yes")
        report = drctl(config, *words, codes=(0, 1)).document
        _await(
            lambda: any(_is_on(each, stage.target) for each in log()),
            "the application did not switch to the target",
        )
        outage = _outage(stage, log(), None if how == PLANNED else began)
        # Not the first group: its own consumer commits on the target.
        there = committed(stage.target, names[1:])
        if without := [group for group, positions in there.items() if not positions]:
            raise WrongAnswer(f"{len(without):,} groups have no offset on the target")
    recorded = report["rto_seconds"]
    stage.tell(f"{how}, {groups:,} groups: {outage.seconds:.2f} s; {recorded} in the journal")
    for step in report["steps"]:
        stage.tell(f"    {step['id']:24} {step['seconds']}")
    limit = LIMITS_S[how]
    ratio = Ratio(outage.seconds / limit, f"seconds / {limit:g}", Target(1.0))
    of = f"{how}, {groups:,} groups"
    yield Row(PART, f"{of}: by the application's log", (outage.seconds,), ratio=ratio)
    yield Row(PART, f"{of}: records refused", (outage.refused,), unit="records")
    if recorded is not None:
        apart = Ratio(abs(recorded - outage.seconds), "seconds apart", Target(1.0))
        yield Row(PART, f"{of}: by the journal", (recorded,), ratio=apart)
    for step in report["steps"]:
        yield Row(PART, f"{of}: step {step['id']}", (step["seconds"],))


def _outage(stage: Stage, log: Sequence[Attempt], command: float | None) -> Outage:
    first = next(each for each in log if _is_on(each, stage.target))
    before = [e for e in log if e.taken and e.answered < first.answered]
    start = command if command is not None else before[-1].answered
    refused = sum(not e.taken and start <= e.answered <= first.answered for e in log)
    return Outage(first.answered - start, refused)


def _is_on(each: Attempt, cluster: LabCluster) -> bool:
    return each.taken and each.cluster == cluster.bootstrap


def _replicating(stage: Stage) -> None:
    """Run MirrorMaker 2 with its own defaults."""
    parts = stage.lab.parts
    client = parts.worker.client(60)
    try:
        for direction in parts.directions:
            for name in direction.names.values():
                client.configure(name, dict.fromkeys(_BY_DEFAULT))
                client.resume(name)
        await_state(client, parts.directions, ("RUNNING",), Patience.of(_PATIENCE_S))
    finally:
        client.close()


def _configured(stage: Stage, topic: str) -> Path:
    replicator = {
        "kind": "mirrormaker2",
        "connect": stage.lab.parts.worker.url,
        "connectors": {name: f"mm2-{name}" for name in ("source", "checkpoint", "heartbeat")},
        "rename": "${topic}",
    }
    link = link_over(
        topic,
        groups=[f"orders-app-{topic}-.*"],
        replicator=replicator,
        fence={"method": "acl", "principals": ["User:orders-app"]},
        endpoints=[{"kind": "file", "path": "bootstrap"}],
    )
    return stage.configured(topic, {topic: link}, policy={"max_lag_records": 1_000_000})


def _groups(stage: Stage, topic: str, count: int) -> list[str]:
    places = [TopicPartition(topic, number) for number in range(_PARTITIONS)]
    positions = {f"orders-app-{topic}-{n:04}": dict.fromkeys(places, 5) for n in range(count)}
    names = list(positions)
    for first in range(0, len(names), 100):
        commit(stage.source, {name: positions[name] for name in names[first : first + 100]})
    return names


def _has_checkpoints(stage: Stage, groups: Sequence[str]) -> bool:
    """Whether MirrorMaker 2 has written a checkpoint of each group."""
    topic, found = f"{stage.source.name}.checkpoints.internal", set[str]()
    with reading(stage.target) as reader:
        places = {TopicPartition(topic, n): 0 for n in reader.overview().partitions.get(topic, ())}
        for records in reader.following(places, _ALL).values():
            if not isinstance(records, Unavailable):
                found.update(decode_key(record.key).group for record in records)
    return found.issuperset(groups)


def _copied(stage: Stage, topic: str) -> bool:
    with reading(stage.target) as reader:
        there = reader.overview().partitions.get(topic, ())
        found = reader.offsets([TopicPartition(topic, number) for number in there]).values()
    return sum(each.end for each in found if isinstance(each, PartitionOffsets)) > 20


def _await(so: Any, otherwise: str) -> None:
    if not Patience.of(_PATIENCE_S).wait_until(so):
        raise WrongAnswer(otherwise)


@contextmanager
def _application(stage: Stage, endpoint: Path, topic: str) -> Iterator[Any]:
    """Write until the block ends; yields a function that reads its log."""
    user = "orders-app"
    more = {"message.timeout.ms": "1000", "allow.auto.create.topics": "false"}
    producers = {c.bootstrap: {**c.client_properties(user), **more} for c in stage.clusters}
    settings, output = endpoint.with_name("application.json"), endpoint.with_name("written")
    settings.touch(mode=0o600)
    given = {"endpoint": str(endpoint), "producers": producers}
    settings.write_text(json.dumps(given), encoding="utf-8")
    with output.open("wb") as out, endpoint.with_name("errors").open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, str(_PROGRAM), str(settings), topic],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=errors,
        )
    try:
        yield lambda: _attempts(output)
    finally:
        process.kill()
        process.wait(10)


def _attempts(output: Path) -> list[Attempt]:
    lines = (line.split("\t") for line in output.read_text(encoding="utf-8").split("\n")[:-1])
    return [Attempt(int(began) / 1e9, int(at) / 1e9, where, how) for began, at, where, how in lines]


_READER = """
import json, os, sys
from pathlib import Path
from confluent_kafka import Consumer
given = json.loads(sys.stdin.readline())
place, now, consumer = Path(given["endpoint"]), "", None
while True:
    leads = place.read_text().strip() or now
    if leads != now:
        consumer, now = Consumer(given["consumers"][leads]), leads
        consumer.subscribe([given["topic"]])
    consumer.poll(0.2)
"""
"""An application that consumes, and reconnects if the file names another cluster."""


@contextmanager
def _reading(stage: Stage, endpoint: Path, topic: str, group: str) -> Iterator[None]:
    """Consume and commit in the group until the block ends."""
    more = {"group.id": group, "auto.commit.interval.ms": 500, "auto.offset.reset": "earliest"}
    consumers = {c.bootstrap: {**c.client_properties("orders-app"), **more} for c in stage.clusters}
    settings = {"endpoint": str(endpoint), "topic": topic, "consumers": consumers}
    process = subprocess.Popen(
        [sys.executable, "-c", _READER],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(settings).encode() + b"\n")
    process.stdin.flush()
    try:
        yield
    finally:
        process.kill()
        process.wait(10)


@contextmanager
def _lost(stage: Stage, how: str) -> Iterator[None]:
    """Take down the primary until the block ends."""
    if how == CUT:
        with cut_off([int(each.rpartition(":")[2]) for each in stage.source.bootstrap.split(",")]):
            yield
    elif how == FROZEN:
        stage.lab.signal("primary", signal.SIGSTOP)
        try:
            yield
        finally:
            stage.lab.signal("primary", signal.SIGCONT)
    else:
        stage.lab.signal("primary", signal.SIGKILL)
        try:
            yield
        finally:
            stage.lab.start("primary")
