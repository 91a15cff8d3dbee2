"""The estimated loss of an unplanned failover, compared with the real loss, for real crashes.

An application writes to the source at its own rate, MirrorMaker 2 keeps up or does not, and the
source's only broker is killed. Then the loss is estimated as in plans, `status` and the journal.
The real loss is counted afterwards: the broker is started again with its data, and its end offsets
are compared with the ends of the copies at the time of the estimate.
"""

import math
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from signal import SIGCONT, SIGKILL, SIGSTOP
from threading import Event, Thread
from typing import NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined, unused-ignore]
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from bench.crowd import commit
from bench.filling import QUIET, create_topics, reading
from bench.process import WrongAnswer, line
from bench.quota import limit
from bench.rows import Ratio, Row, Target
from bench.stage import Stage, link_over
from drctl.app.link_reader import ClusterLinkReader
from drctl.app.loss import LossReader
from drctl.config.loading import load
from drctl.kafka.reader import KafkaClusterReader
from drctl.lab.cluster import LabCluster
from drctl.lab.mirrors import Direction
from drctl.lab.waiting import Patience
from drctl.model.loss import Loss
from drctl.model.topology import PartitionOffsets, TopicPartition

PART = "loss"

FEW = 10
"""Fewer records count as this many when computing factors, so that 1 and 3 are equal."""

_FACTOR = 2.0
_LIKELY = Target(0.8, at_least=True)
_INSIDE = Target(1.0, at_least=True)

_LATER_S = 3_600.0
"""An outage of this length must not change the likely number."""

_PATIENCE_S = 90.0
_USER = "replicator"
_HEARTBEATS = "heartbeats"
_BYTES = 120
_RECORD = _BYTES + 20
_LINE = 0.6
"""Share of the write rate that a slow connection replicates."""
_QUOTA_WINDOW_S = 12.0
"""Brokers average over this window, which starts with the quota: without records at the limit
before, the first seconds would be unlimited and the next ones blocked."""
_SLICE_S = 0.02
_SMALL = {
    # Small fetches, so that a slow connection delays each record, not a megabyte at once.
    "source.consumer.max.partition.fetch.bytes": "8192",
    # A task that has lost its broker reconnects at once.
    "source.consumer.reconnect.backoff.max.ms": "200",
}


@dataclass(frozen=True, slots=True)
class Crash:
    """What happens before the source crashes.

    Attributes:
        pace: records per second.
        wave_s: records are written in batches of this many seconds; 0: evenly.
        kind: state of replication: see `_KINDS`.
        seconds: duration of that state before the crash.
        tracked: whether `drctl offsets track` runs.
    """

    number: int
    kind: str
    pace: int
    wave_s: float
    partitions: int
    seconds: float
    tracked: bool

    @property
    def topic(self) -> str:
        """A separate topic per crash, so that crashes do not affect each other."""
        return f"flights-crash-{self.number:02}"  # the lab mirrors topics that begin with `flights`

    @property
    def title(self) -> str:
        """Describe the crash."""
        shape = f"in bursts of {self.wave_s:g} s" if self.wave_s else "evenly"
        partitions = "1 partition" if self.partitions == 1 else f"{self.partitions} partitions"
        replication = f"{self.kind} {self.seconds:.1f} s" if self.seconds else self.kind
        return f"crash {self.number}: {self.pace:,}/s {shape}, {partitions}, {replication}"


class Kind(NamedTuple):
    """The state of replication before a crash."""

    name: str
    times: int
    stalls: bool
    tracked: bool


KEEPS_UP = "MirrorMaker 2 keeps up"
IDLE = "nothing written for"
SLOW = "MirrorMaker 2 over a slow network for"
PAUSED = "MirrorMaker 2 paused for"
FROZEN = "MirrorMaker 2 frozen for"
AHEAD = "MirrorMaker 2 paused, with a group ahead of the copies, for"

_KINDS = (
    Kind(KEEPS_UP, 3, stalls=False, tracked=False),
    Kind(IDLE, 2, stalls=True, tracked=False),
    Kind(SLOW, 6, stalls=True, tracked=False),
    Kind(PAUSED, 3, stalls=True, tracked=True),
    Kind(FROZEN, 3, stalls=True, tracked=True),
    Kind(AHEAD, 3, stalls=True, tracked=True),
)


def crashes(seed: int, number: int) -> list[Crash]:
    """Draw crashes from a seed, with equal shares of all kinds."""
    random = Random(seed)
    kinds = [kind for kind in _KINDS for _ in range(kind.times)]
    random.shuffle(kinds)
    drawn = []
    for n in range(number):
        kind = kinds[n % len(kinds)]
        drawn.append(
            Crash(
                n + 1,
                kind.name,
                round(math.exp(random.uniform(math.log(60), math.log(2_000)))),
                random.choice((0.0, 0.0, 0.5, 1.5)),
                random.choice((1, 3)),
                random.uniform(2.5, 7.0) if kind.stalls else 0.0,
                kind.tracked,
            )
        )
    return drawn


@dataclass(frozen=True, slots=True)
class Judged:
    """A crash, its estimated loss and its real loss."""

    crash: Crash
    estimated: Loss
    later: Loss
    lost: int

    @property
    def inside(self) -> bool:
        """Whether the real loss is within the range."""
        least, _, most = self.estimated.records.numbers
        return (least or 0) <= self.lost <= (math.inf if most is None else most)

    @property
    def ratio(self) -> float | None:
        """The likely number divided by the real one; None if there was none."""
        likely = self.estimated.records.likely.records
        return None if likely is None else max(likely, FEW) / max(self.lost, FEW)

    @property
    def close(self) -> bool:
        """Whether it is wrong by a factor of two at most."""
        return self.ratio is not None and 1 / _FACTOR <= self.ratio <= _FACTOR


def measure(stage: Stage, seed: int, first: int, last: int) -> Iterator[Row]:
    """Measure each crash, and how often the range and the likely number were right.

    Raises:
        WrongAnswer: the likely number grew with the outage alone, or a crash failed.
    """
    drawn = crashes(seed, last)[first - 1 :]
    number = len(drawn)
    for cluster in stage.clusters:
        for partitions in sorted({crash.partitions for crash in drawn}):
            names = [crash.topic for crash in drawn if crash.partitions == partitions]
            create_topics(cluster, names, partitions)
    judged = []
    with _replicating(stage):
        for crash in drawn:
            began = time.monotonic()
            judged.append(_played(stage, crash))
            stage.tell(f"{_described(judged[-1])} ({time.monotonic() - began:.0f} s)")
            if not (judged[-1].inside and judged[-1].close):
                for evidence in judged[-1].estimated.evidence:
                    stage.tell(f"  {evidence}")
            yield _row(judged[-1])
    inside = sum(each.inside for each in judged)
    close = sum(each.close for each in judged)
    yield Row(
        PART,
        f"crashes whose loss lies within the range, of {number} (seed {seed})",
        (float(inside),),
        "crashes",
        ratio=Ratio(inside / number, "of all", _INSIDE),
    )
    yield Row(
        PART,
        f"crashes whose likely loss is within a factor of two, of {number}",
        (float(close),),
        "crashes",
        ratio=Ratio(close / number, "of all", _LIKELY),
    )


def _described(judged: Judged) -> str:
    least, likely, most = judged.estimated.records.numbers
    wrong = "" if judged.inside else "; NOT WITHIN"
    wrong += "" if judged.close else "; NOT CLOSE"
    seen = f"lost {judged.lost:,}; at least {least}, likely {likely}, at most {most}"
    return f"{judged.crash.title}: {seen}{wrong}"


def _row(judged: Judged) -> Row:
    least, likely, most = judged.estimated.records.numbers
    ends = f"at least {_number(least)}, at most {_number(most)}, lost {judged.lost:,}"
    ratio = None if judged.ratio is None else Ratio(judged.ratio, "likely / lost")
    name = f"{judged.crash.title}: likely; {ends}"
    return Row(PART, name, (float(likely or 0),), "records", ratio=ratio)


def _number(value: int | None) -> str:
    return "not known" if value is None else f"{value:,}"


@contextmanager
def _replicating(stage: Stage) -> Iterator[None]:
    """Run MirrorMaker 2 with heartbeats."""
    _let_beat(stage.source)
    stage.lab.start("connect")
    parts = stage.lab.parts
    (there,) = parts.directions
    back = Direction(parts.settings, stage.target, stage.source)
    client = parts.worker.client()
    try:
        name = there.names["source"]
        client.put_config(name, {**dict(there.configurations())[name], **_SMALL})
        beating = back.names["heartbeat"]
        client.put_config(beating, dict(back.configurations())[beating])
    finally:
        client.close()
    try:
        yield
    finally:
        stage.lab.signal("connect", SIGKILL)


def _let_beat(cluster: LabCluster) -> None:
    """Allow MirrorMaker 2 to write heartbeats to the source; the lab only allows it to read."""
    create_topics(cluster, [_HEARTBEATS], 1)
    pattern, allow = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
    may = [
        AclBinding(ResourceType.TOPIC, _HEARTBEATS, pattern, f"User:{_USER}", "*", each, allow)
        for each in (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE)
    ]
    admin = cluster.admin()  # its futures complete only while it exists
    for done in admin.create_acls(may, request_timeout=20).values():
        done.result()


@dataclass(slots=True)
class Writer:
    """Writes to the source at a constant rate in its own thread, until it is stopped."""

    stage: Stage
    crash: Crash
    acknowledged: int = 0
    share: float = 1.0
    """Share of the pace."""
    _end: Event = field(default_factory=Event)
    _quiet: Event = field(default_factory=Event)

    @contextmanager
    def writing(self) -> Iterator["Writer"]:
        """Write until the end of the block."""
        thread = Thread(target=self._write, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._end.set()
            thread.join()

    def rest(self) -> None:
        """Stop writing, and wait for all acknowledgements."""
        self._quiet.set()

    def _write(self) -> None:
        settings = {
            "linger.ms": "5",
            "acks": "all",
            # Small batches: a whole wave in one batch would pass a slow connection at once.
            "batch.size": "4096",
            "on_delivery": self._delivered,
        }
        producer = Producer({**self.stage.source.client_properties(), **settings}, logger=QUIET)
        every, written = self.crash.wave_s or _SLICE_S, 0.0
        began, due = time.monotonic(), 0.0
        while not self._end.is_set():
            producer.poll(0)
            now = time.monotonic() - began
            if now >= due and not self._quiet.is_set():
                due = now - now % every + every
                written += every * self.crash.pace * self.share
                for number in range(int(written)):
                    partition = number % self.crash.partitions
                    producer.produce(self.crash.topic, b"." * _BYTES, b"key", partition)
                written -= int(written)
            self._end.wait(_SLICE_S)
        producer.purge()
        producer.flush(1)

    def _delivered(self, error: object, _message: object) -> None:
        self.acknowledged += error is None


def _played(stage: Stage, crash: Crash) -> Judged:
    """Run one crash from start to end, and restore the source."""
    config = _configured(stage, crash)
    with reading(stage.source) as source, reading(stage.target) as target:

        def ends(reader: KafkaClusterReader) -> int:
            places = [TopicPartition(crash.topic, n) for n in range(crash.partitions)]
            found = reader.offsets(places).values()
            return sum(log.end for log in found if isinstance(log, PartitionOffsets))

        with Writer(stage, crash).writing() as writer:
            _await(lambda: ends(target) > 4 * crash.pace, f"no copies of {crash.topic} arrive")
            with (
                _tracked(config, stage, crash),
                _hindered(stage, crash, writer, lambda: ends(source)),
            ):
                stage.lab.signal("primary", SIGKILL)
        _await_rest(lambda: ends(target))
        copied = ends(target)
        estimated, later = _estimated(config, 0.0), _estimated(config, _LATER_S)
        stage.lab.start("primary")
        _resume(stage, crash)
        held = ends(source)
    if held < writer.acknowledged:
        raise WrongAnswer(
            f"{crash.topic}: {writer.acknowledged} records acknowledged, {held} on the source"
        )
    if estimated.records.likely.records != later.records.likely.records:
        raise WrongAnswer(f"{crash.title}: the likely loss grew with the outage: {later.message}")
    return Judged(crash, estimated, later, held - copied)


@contextmanager
def _hindered(stage: Stage, crash: Crash, writer: Writer, end: Callable[[], int]) -> Iterator[None]:
    """Put replication into the state of this crash, until the crash itself."""
    client = stage.lab.parts.worker.client()
    try:
        if crash.kind == IDLE:
            writer.rest()
        elif crash.kind == SLOW:
            limit(stage.source, _USER, crash.pace * _RECORD * _LINE)
            writer.share = _LINE
            time.sleep(_QUOTA_WINDOW_S)
            writer.share = 1.0
        elif crash.kind == FROZEN:
            stage.lab.signal("connect", SIGSTOP)
        elif crash.kind in (PAUSED, AHEAD):
            client.pause("mm2-source")
            stopped = lambda: client.status("mm2-source").all_in("PAUSED")  # noqa: E731
            _await(stopped, "MirrorMaker 2 does not pause")
        if crash.kind == AHEAD:
            time.sleep(crash.seconds * 0.6)
            _commit(stage, crash, end())
            time.sleep(crash.seconds * 0.4)
        else:
            time.sleep(crash.seconds)
        yield
        if crash.kind == FROZEN:
            stage.lab.signal("connect", SIGCONT)
    finally:
        client.close()


def _resume(stage: Stage, crash: Crash) -> None:
    """Restore normal replication."""
    if crash.kind == SLOW:
        limit(stage.source, _USER, None)
    if crash.kind in (PAUSED, AHEAD):
        with closing(stage.lab.parts.worker.client()) as client:
            client.resume("mm2-source")


def _commit(stage: Stage, crash: Crash, end: int) -> None:
    """Commit the end of the source for a group, including records that are not replicated."""
    at = {TopicPartition(crash.topic, 0): end // crash.partitions}
    commit(stage.source, {f"{crash.topic}-app": at})


@contextmanager
def _tracked(config: Path, stage: Stage, crash: Crash) -> Iterator[None]:
    """Run `drctl offsets track` once a second, if this crash uses it."""
    if not crash.tracked:
        yield
        return
    _commit(stage, crash, 10 * crash.partitions)
    words = line(config, "offsets", "track", "--execute", "--yes", form="text")
    passes = stage.folder / f"{crash.topic}.passes"
    with passes.open("wb") as out, passes.with_suffix(".errors").open("wb") as errors:
        process = subprocess.Popen([*words, "--every", "1s"], stdout=out, stderr=errors)
        try:
            _await(lambda: passes.stat().st_size > 0, "drctl offsets track makes no pass")
            yield
        finally:
            process.kill()
            process.wait()


def _estimated(config: Path, later_s: float) -> Loss:
    """Estimate the loss as `drctl failover --mode unplanned` does, now or later in the outage."""
    loaded = load(config)
    link = loaded.link(None)
    with ClusterLinkReader(loaded, link, lambda *_: (), lost=True) as reader:
        target = reader.cluster_reader(link.target)
        topics = link.topics_of(target.topic_names())
        return LossReader(loaded, link, target, topics, lambda: time.time() + later_s).loss()


def _configured(stage: Stage, crash: Crash) -> Path:
    replicator = {
        "kind": "mirrormaker2",
        "connect": stage.lab.parts.worker.url,
        "connectors": {"source": "mm2-source", "checkpoint": "mm2-checkpoint"},
        "rename": "${topic}",
    }
    link = link_over(crash.topic, groups=[f"{crash.topic}-app"], replicator=replicator)
    return stage.configured("loss", {"main": link})


def _await(met: Callable[[], bool], otherwise: str) -> None:
    if not Patience.of(_PATIENCE_S).wait_until(met):
        raise WrongAnswer(otherwise)


def _await_rest(end: Callable[[], int]) -> None:
    """Wait until everything that replication had read before the crash has arrived."""
    seen, since = end(), time.monotonic()
    deadline = since + _PATIENCE_S
    while time.monotonic() - since < 1.0:
        if (now := end()) != seen:
            seen, since = now, time.monotonic()
        if time.monotonic() > deadline:
            raise WrongAnswer("copies still arrive although the source is dead")
        time.sleep(0.1)
