"""`drctl offsets`: groups moved to the target, beside other ways to do that."""

import json
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench import evidence, rivals
from bench.crowd import Crowd, World, committed, forget, made
from bench.process import DRCTL, WrongAnswer
from bench.rows import Ratio, Row, Target
from bench.stage import Stage, cluster_section
from drctl.config.loading import load
from drctl.model.topology import TopicPartition
from drctl.offsets.anchor_log import ANCHORS_TOPIC
from drctl.wire import consumer_timestamps

PART = "offsets"
LIMIT_S = 15.0
LOOP = Target(50.0, at_least=True)

_MM2_CALLS = 20
_MM2_CALLS_LONG = 3
_TOOL_RUNS = 5
_DEAD = "127.0.0.1:1"  # nothing listens there
_OVERRIDE = ("--override", "skips-records=the groups of the benchmark never go back")
_DEADLINE_S = 900
_RULE = "syncs every 101 records, one remembered in each power of two behind the newest"


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured.

    Attributes:
        groups: with 4 partitions each.
        wide_groups: with `wide_partitions` each.
        checkpoints: records in MirrorMaker 2's topic of checkpoints.
    """

    groups: int
    wide_groups: int
    wide_partitions: int
    checkpoints: int
    rounds: int


@dataclass(frozen=True, slots=True)
class Way:
    """A link, and with it the evidence that is there.

    Attributes:
        kind: of the link's replicator.
        alive: whether the source answers.
    """

    title: str
    kind: str
    alive: bool
    options: Sequence[str] = ()


MATCH = Way("source alive, record-match", "none", alive=True)
MIRROR = Way("source dead, offset-sync and checkpoint", "mirrormaker2", False, _OVERRIDE)
TIMESTAMPS = Way("source dead, consumer-timestamp", "none", False, _OVERRIDE)
ANCHORS = Way("source dead, anchors", "none", alive=False)


def measure(stage: Stage, sizes: Sizes) -> Iterator[Row]:
    """Rows for each method, for the others, and for how many records are read again.

    Raises:
        WrongAnswer: a group would skip records, or was not moved.
    """
    topics = max(1, sizes.groups // 100)
    crowd = Crowd("moved", sizes.groups, topics, 4, 20_000)
    stage.tell(f"writing {crowd.shape}")
    world = made(stage, crowd)
    run = _Run(stage, world, sizes.rounds)
    yield from run.rows(MATCH)
    evidence.write_mirror_topics(stage, world)
    yield from run.rows(MIRROR)
    yield from _others(stage, world, run.slowest)
    stage.tell(f"writing {sizes.checkpoints:,} checkpoints")
    evidence.write_checkpoints_again(stage, world, sizes.checkpoints)
    yield from run.rows(MIRROR, f"; {sizes.checkpoints:,} checkpoints in the topic", sums=False)
    yield _library(stage, world, _MM2_CALLS_LONG, f"; {sizes.checkpoints:,} checkpoints")
    evidence.remove(stage, evidence.SYNCS, evidence.CHECKPOINTS)
    evidence.write_consumer_timestamps(stage, world)
    yield from run.rows(TIMESTAMPS)
    evidence.remove(stage, consumer_timestamps.TOPIC)
    yield run.tracked()
    yield from run.rows(ANCHORS)
    evidence.remove(stage, ANCHORS_TOPIC)
    partitions = sizes.wide_partitions
    wide = Crowd("wide", sizes.wide_groups, 1, partitions, 40 * partitions)
    stage.tell(f"writing {wide.shape}")
    yield from _Run(stage, made(stage, wide), sizes.rounds).rows(MATCH)


class _Run:
    """Groups moved in one way after the other."""

    def __init__(self, stage: Stage, world: World, rounds: int) -> None:
        self._stage = stage
        self._world = world
        self._rounds = rounds
        self.slowest = 0.0

    def rows(self, way: Way, more: str = "", sums: bool = True) -> Iterator[Row]:
        """The time, and the sum of records read again."""
        crowd = self._world.crowd
        config = _configured(self._stage, crowd, way)
        words = ["apply", "--execute", "--yes", *way.options]
        times, again = [], 0
        for _ in range(self._rounds):
            forget(self._stage.target, self._world)
            times.append(_drctl(config, words))
            again = self._world.read_again(committed(self._stage.target, self._world))
            self._stage.tell(f"{crowd.shape}, {way.title}{more}: {times[-1]:.2f} s")
        name = f"{crowd.shape} translated and applied: {way.title}{more}"
        row = Row(PART, name, tuple(times))
        self.slowest = max(self.slowest, row.value)
        ratio = Ratio(row.value / LIMIT_S, f"seconds / {LIMIT_S:g}", Target(1.0))
        yield Row(PART, name, row.samples, ratio=ratio if crowd.partitions == 4 else None)
        if sums:
            rule = f" ({_RULE})" if way is MIRROR else ""
            title = f"{crowd.shape}, read again in sum: {way.title}{rule}"
            yield Row(PART, title, (again,), unit="records")

    def tracked(self) -> Row:
        """One pass of `drctl offsets track` that notes everything."""
        config = _configured(self._stage, self._world.crowd, MATCH)
        taken = _drctl(config, ["track", "--once", "--execute", "--yes"])
        return Row(PART, f"{self._world.crowd.shape}, first pass of offsets track", (taken,))


def _others(stage: Stage, world: World, ours: float) -> Iterator[Row]:
    yield _library(stage, world, _MM2_CALLS, "")
    again = world.read_again(_checkpoints(world))
    title = f"{world.crowd.shape}, read again in sum: MirrorMaker 2's checkpoints ({_RULE})"
    yield Row(PART, title, (again,), unit="records")
    stage.tell("kafka-consumer-groups --reset-offsets")
    times = rivals.reset_offsets(stage, world, _TOOL_RUNS)
    row = _scaled("kafka-consumer-groups --reset-offsets in a loop", times, world.crowd.groups)
    ratio = Ratio(row.value / ours, "the loop / drctl's slowest method, translating too", LOOP)
    yield Row(PART, row.name, row.samples, ratio=ratio)


def _library(stage: Stage, world: World, calls: int, more: str) -> Row:
    stage.tell(f"RemoteClusterUtils.translateOffsets{more}")
    times = rivals.translate_offsets(stage, world, _checkpoints(world), calls)
    what = f"RemoteClusterUtils.translateOffsets per group, only translating{more}"
    return _scaled(what, times, world.crowd.groups)


def _scaled(what: str, times: Sequence[float], groups: int) -> Row:
    name = f"{groups:,} groups: {what} (scaled from {len(times)})"
    return Row(PART, name, tuple(taken * groups for taken in times))


def _checkpoints(world: World) -> dict[str, dict[TopicPartition, int]]:
    """MirrorMaker 2's answers, by group."""
    known = {p: evidence.remembered(evidence.syncs(log)) for p, log in world.logs.items()}
    return {
        group: {p: evidence.translated(known[p], offset) for p, offset in positions.items()}
        for group, positions in world.positions.items()
    }


def _configured(stage: Stage, crowd: Crowd, way: Way) -> Path:
    config = stage.folder / "offsets.yaml"
    clusters: dict[str, Any] = {c.name: cluster_section(c) for c in (stage.source, stage.target)}
    if not way.alive:
        clusters[stage.source.name]["bootstrap"] = _DEAD
    link: Mapping[str, Any] = {
        "from": stage.source.name,
        "to": stage.target.name,
        "topics": [f"{crowd.name}-.*"],
        "groups": [f"{crowd.name}-.*"],
        "replicator": {"kind": way.kind},
    }
    document = {"clusters": clusters, "links": {"crowd": link}}
    config.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    load(config)
    return config


def _drctl(config: Path, words: Sequence[str]) -> float:
    """Seconds of one command, in a process of its own."""
    line = [str(DRCTL), "--config", str(config), "-o", "json", "offsets", *words]
    began = time.perf_counter()
    done = subprocess.run(
        line, cwd=config.parent, capture_output=True, text=True, timeout=_DEADLINE_S, check=False
    )
    taken = time.perf_counter() - began
    if done.returncode:
        said = (done.stdout.strip() or done.stderr)[:1000]
        raise WrongAnswer(f"drctl offsets {words[0]} ended with {done.returncode}: {said}")
    json.loads(done.stdout)
    return taken
