"""`drctl offsets`: groups moved to the target, compared with other tools."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench import evidence, rivals
from bench.crowd import Crowd, World, committed, forget, made
from bench.rows import Ratio, Row, Target
from bench.stage import Stage
from bench.ways import (
    CHECKPOINT,
    IDENTITY,
    MATCH,
    SYNC,
    TIMESTAMPS,
    TRACKED_OFFSETS,
    Way,
    configured,
    drctl_offsets,
)
from drctl.formats import consumer_timestamps
from drctl.model.topology import TopicPartition
from drctl.offsets.tracking_log import TRACKED_OFFSETS_TOPIC

PART = "offsets"
LIMIT_S = 15.0
LOOP = Target(50.0, at_least=True)

_MM2_CALLS = 20
_MM2_CALLS_LONG = 3
_TOOL_RUNS = 5
_RECORDS = 20_000
_RULE = "syncs every 101 records, one remembered in each power of two before the newest"


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the measurement.

    Attributes:
        groups: with 4 partitions each.
        wide_groups: with `wide_partitions` each.
        checkpoints: records in MirrorMaker 2's checkpoints topic.
    """

    groups: int
    wide_groups: int
    wide_partitions: int
    checkpoints: int
    rounds: int


def measure(stage: Stage, sizes: Sizes) -> Iterator[Row]:
    """Measure each method and the other tools, and count records read again.

    Raises:
        WrongAnswer: a group would skip records, or was not moved.
    """
    topics = max(1, sizes.groups // 100)
    yield from _many(stage, Crowd("moved", sizes.groups, topics, 4, _RECORDS), sizes)
    yield from _kept(stage, Crowd("kept", sizes.groups, topics, 4, _RECORDS, whole=True), sizes)
    partitions = sizes.wide_partitions
    yield from _wide(stage, Crowd("wide", sizes.wide_groups, 1, partitions, 40 * partitions), sizes)


def _many(stage: Stage, crowd: Crowd, sizes: Sizes) -> Iterator[Row]:
    """Measure every method that does not need equal offsets."""
    run = _Run(stage, crowd, sizes.rounds)
    evidence.remove(stage, TRACKED_OFFSETS_TOPIC)
    yield from run.rows(MATCH)
    evidence.write_checkpoints(stage, run.world)
    yield from run.rows(CHECKPOINT)
    evidence.write_syncs(stage, run.world)
    yield from run.rows(SYNC)
    yield from _others(stage, run)
    stage.tell(f"writing {sizes.checkpoints:,} checkpoints")
    evidence.write_checkpoints_again(stage, run.world, sizes.checkpoints)
    more = f"{sizes.checkpoints:,} checkpoints in the topic"
    yield from run.rows(SYNC, more)
    yield _library(stage, run.world, _MM2_CALLS_LONG, more)
    evidence.remove(stage, evidence.SYNCS, evidence.CHECKPOINTS)
    evidence.write_consumer_timestamps(stage, run.world)
    yield from run.rows(TIMESTAMPS)
    evidence.remove(stage, consumer_timestamps.TOPIC)
    drctl_offsets(configured(stage, crowd, MATCH), "track", "--once", "--execute", "--yes")
    yield from run.rows(TRACKED_OFFSETS)
    evidence.remove(stage, TRACKED_OFFSETS_TOPIC)
    run.end()


def _kept(stage: Stage, crowd: Crowd, sizes: Sizes) -> Iterator[Row]:
    """Measure a mirror that preserves offsets."""
    run = _Run(stage, crowd, sizes.rounds)
    yield from run.rows(IDENTITY)
    run.end()


def _wide(stage: Stage, crowd: Crowd, sizes: Sizes) -> Iterator[Row]:
    """Measure few groups with many partitions each."""
    run = _Run(stage, crowd, sizes.rounds)
    yield from run.rows(MATCH)
    evidence.write_checkpoints(stage, run.world)
    evidence.write_syncs(stage, run.world)
    yield from run.rows(SYNC)
    yield from _others(stage, run)
    evidence.remove(stage, evidence.SYNCS, evidence.CHECKPOINTS)
    run.end()


class _Run:
    """Moves groups with one method after the other."""

    def __init__(self, stage: Stage, crowd: Crowd, rounds: int) -> None:
        stage.tell(f"writing {crowd.shape}")
        self.world = made(stage, crowd)
        self._stage = stage
        self._rounds = rounds
        self.slowest = 0.0

    def rows(self, way: Way, more: str = "") -> Iterator[Row]:
        """Measure the time, and the sum of records read again."""
        crowd = self.world.crowd
        config = configured(self._stage, crowd, way)
        title = f"{way.title}; {more}" if more else way.title
        times, again = [], 0
        for _ in range(self._rounds):
            forget(self._stage.target, self.world)
            done = drctl_offsets(config, "apply", "--execute", "--yes", *way.options)
            again = self.world.read_again(committed(self._stage.target, self.world.positions))
            times.append(done.seconds)
            self._stage.tell(f"{crowd.shape}, {title}: {done.seconds:.2f} s")
        row = Row(PART, f"{crowd.shape} translated and applied: {title}", tuple(times))
        self.slowest = max(self.slowest, row.value)
        ratio = Ratio(row.value / LIMIT_S, f"seconds / {LIMIT_S:g}", Target(1.0))
        yield Row(PART, row.name, row.samples, ratio=ratio if crowd.partitions == 4 else None)
        rule = f" ({_RULE})" if way in (SYNC, CHECKPOINT) else ""
        if not more:
            yield _again(crowd, way.title + rule, again)

    def end(self) -> None:
        """Delete the groups' offsets, because other parts would list these groups, too."""
        for cluster in (self._stage.source, self._stage.target):
            forget(cluster, self.world)


def _others(stage: Stage, run: _Run) -> Iterator[Row]:
    """Measure MirrorMaker 2's library, and Kafka's own tool in a loop."""
    world = run.world
    yield _library(stage, world, _MM2_CALLS, "")
    again = world.read_again(_checkpoints(world))
    yield _again(world.crowd, f"MirrorMaker 2's checkpoints ({_RULE})", again)
    stage.tell("kafka-consumer-groups --reset-offsets")
    times = rivals.reset_offsets(stage, world, _TOOL_RUNS)
    row = _scaled("kafka-consumer-groups --reset-offsets in a loop", times, world.crowd)
    meaning = "the loop / drctl's slowest method, translating too"
    target = LOOP if world.crowd.partitions == 4 else None
    yield Row(PART, row.name, row.samples, ratio=Ratio(row.value / run.slowest, meaning, target))


def _library(stage: Stage, world: World, calls: int, more: str) -> Row:
    what = "RemoteClusterUtils.translateOffsets per group, only translating"
    title = f"{what}; {more}" if more else what
    stage.tell(title)
    times = rivals.translate_offsets(stage, world, _checkpoints(world), calls)
    return _scaled(title, times, world.crowd)


def _scaled(what: str, times: Sequence[float], crowd: Crowd) -> Row:
    """Extrapolate the measured groups to all groups."""
    name = f"{crowd.shape}: {what} (measured on {len(times)} groups, scaled)"
    return Row(PART, name, tuple(taken * crowd.groups for taken in times))


def _again(crowd: Crowd, title: str, records: int) -> Row:
    return Row(PART, f"{crowd.shape}, records read again: {title}", (records,), unit="records")


def _checkpoints(world: World) -> dict[str, dict[TopicPartition, int]]:
    """MirrorMaker 2's translations, by group."""
    known = {p: evidence.remembered(evidence.syncs(log)) for p, log in world.logs.items()}
    return {
        group: {p: evidence.translated(known[p], offset) for p, offset in positions.items()}
        for group, positions in world.positions.items()
    }
