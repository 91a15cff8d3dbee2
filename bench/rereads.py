"""Records that lagging groups read again after a real MirrorMaker 2, by translation."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from signal import SIGKILL
from typing import Any

from confluent_kafka import TopicPartition as KafkaPartition

from bench.crowd import Crowd, Log, Logs, World, commit, copied, drawn_positions, forget
from bench.evidence import CHECKPOINTS, SYNCS, remove
from bench.filling import Appender, create_topics, reading
from bench.mirror_maker import MirrorMaker, mirror_maker
from bench.process import WrongAnswer
from bench.records import Message, chunks
from bench.rows import Ratio, Row
from bench.stage import Stage
from bench.ways import MATCH, SYNC, TRACKED_OFFSETS, Way, configured, drctl_offsets
from drctl.kafka.reader import KafkaClusterReader
from drctl.lab.cluster import LabCluster
from drctl.lab.waiting import Patience
from drctl.model.errors import ExitCode
from drctl.model.topology import PartitionOffsets, TopicPartition
from drctl.offsets.tracking_log import TRACKED_OFFSETS_TOPIC

PART = "rereads"

_TOPIC = "flights-again"  # the lab mirrors topics that begin with `flights`
_PARTITIONS = 4
_BURST = 2000
_PATIENCE_S = 300

Found = Mapping[str, Mapping[TopicPartition, int]]


def measure(stage: Stage, groups: int, records: int) -> Iterator[Row]:
    """Measure MirrorMaker 2's own translation, and each of drctl's methods.

    Raises:
        WrongAnswer: records would be skipped.
        Stopped: MirrorMaker 2 does not copy.
    """
    remove(stage, SYNCS, CHECKPOINTS, TRACKED_OFFSETS_TOPIC)
    world, theirs = _mirrored(stage, Crowd(_TOPIC, groups, 1, _PARTITIONS, records))
    answered = sum(map(len, theirs.values()))
    of = f"{answered:,} of {sum(1 for _ in world.places):,} committed offsets of {groups:,} groups"
    known = _only(world, theirs)
    own = known.read_again(theirs)
    yield _row(of, "MirrorMaker 2's own answer (translateOffsets)", own, own)
    yield _row(of, "all syncs in the topic (source dead)", _sum(stage, known, SYNC), own)
    drctl_offsets(configured(stage, world.crowd, MATCH), "track", "--once", "--execute", "--yes")
    yield _row(of, "tracked offsets (source dead)", _sum(stage, known, TRACKED_OFFSETS), own)
    yield _row(of, "record-match (source alive)", _sum(stage, known, MATCH), own)
    remove(stage, SYNCS, CHECKPOINTS, TRACKED_OFFSETS_TOPIC)
    forget(stage.source, world)


def positions_of(document: Mapping[str, Any]) -> Found:
    """Offsets of `drctl offsets translate`, by group and partition of the target."""
    found: dict[str, dict[TopicPartition, int]] = {}
    for row in document["rows"]:
        if row["target_offset"] is not None:
            place = TopicPartition(row["target_topic"], row["partition"])
            found.setdefault(row["group"], {})[place] = row["target_offset"]
    return found


def _row(of: str, title: str, records: int, own: int) -> Row:
    ratio = Ratio(records / own, "records / MirrorMaker 2's own") if own else None
    return Row(PART, f"{of}, records read again: {title}", (records,), "records", ratio=ratio)


def _sum(stage: Stage, world: World, way: Way) -> int:
    codes = (
        ExitCode.DONE,
        ExitCode.FOUND,
        ExitCode.UNKNOWN,
    )  # with a dead source the exit code is never 0
    done = drctl_offsets(configured(stage, world.crowd, way), "translate", codes=codes)
    return world.read_again(positions_of(done.document))


def _only(world: World, found: Found) -> World:
    """The offsets that MirrorMaker 2 translates.

    It does not translate offsets before the first sync that it wrote.
    """
    kept = {
        group: {place: offset for place, offset in places.items() if place in found[group]}
        for group, places in world.positions.items()
    }
    return replace(world, positions=kept)


def _mirrored(stage: Stage, crowd: Crowd) -> tuple[World, Found]:
    """Run MirrorMaker 2: what it copied, the committed offsets, and its translations."""
    (topic,), logs = crowd.names, Logs()
    create_topics(stage.source, [topic], crowd.partitions)
    bursts = _bursts(crowd, stage.start_ms)
    _write_lost(stage, crowd, logs, bursts)
    with _running(stage):
        stage.tell(f"MirrorMaker 2 copies {crowd.records - crowd.lost:,} records")
        appender = Appender(stage.source)
        appender.counts[topic] = sum(len(log.times) - log.skipped for log in logs.values())
        for first, messages in bursts:
            _append(appender, crowd, logs, first, messages)
            appender.finish()
            _await_copies(stage.target, logs)
        world = World(crowd, logs, drawn_positions(crowd, logs))
        commit(stage.source, world.positions)
        stage.tell(f"MirrorMaker 2 translates for {crowd.shape}")
        with mirror_maker(stage.target.client_properties(), stage.source.name) as maker:
            return world, _settled(maker, world)


def _bursts(crowd: Crowd, start_ms: int) -> Iterator[tuple[int, list[Message]]]:
    for first, messages in chunks(crowd.records, start_ms, partitions=crowd.partitions):
        for number in range(0, len(messages), _BURST):
            yield first + number, messages[number : number + _BURST]


def _write_lost(
    stage: Stage, crowd: Crowd, logs: Logs, bursts: Iterator[tuple[int, list[Message]]]
) -> None:
    """Write records that are deleted before replication begins, so that offsets differ."""
    appender, written = Appender(stage.source), 0
    while written < crowd.lost:
        first, messages = next(bursts)
        written = first + len(messages)
        _append(appender, crowd, logs, first, messages)
    appender.finish()
    ends = [KafkaPartition(*place, log.skipped) for place, log in logs.items()]
    admin = stage.source.admin()  # its futures complete only while it exists
    for future in admin.delete_records(ends).values():
        future.result()


def _append(
    appender: Appender, crowd: Crowd, logs: Logs, first: int, messages: list[Message]
) -> None:
    (topic,) = crowd.names
    for _ in copied(topic, first, messages, crowd, logs):
        pass  # MirrorMaker 2 copies them; this only records the timestamps
    appender.append(topic, messages)


@contextmanager
def _running(stage: Stage) -> Iterator[None]:
    """Run MirrorMaker 2 until the end of the block; it would slow down measurements."""
    stage.lab.start("connect")
    try:
        yield
    finally:
        stage.lab.signal("connect", SIGKILL)


def _await_copies(target: LabCluster, logs: Mapping[TopicPartition, Log]) -> None:
    wanted = {place: log.exact(len(log.times)) for place, log in logs.items()}
    with reading(target) as reader:

        def copied_all() -> bool:
            found = reader.offsets(list(wanted))
            return all(
                isinstance(held, PartitionOffsets) and held.end >= wanted[place]
                for place, held in found.items()
            )

        if not Patience.of(_PATIENCE_S).wait_until(copied_all):
            raise WrongAnswer(f"MirrorMaker 2 did not copy all of {_TOPIC}")
        if any(held != wanted[place] for place, held in _ends(reader, wanted).items()):
            raise WrongAnswer(
                "MirrorMaker 2 copied records twice: target offsets are not as expected"
            )


def _ends(
    reader: KafkaClusterReader, places: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    found = reader.offsets(list(places))
    return {p: held.end for p, held in found.items() if isinstance(held, PartitionOffsets)}


def _settled(maker: MirrorMaker, world: World) -> Found:
    """Its translations, once two in a row are equal.

    Raises:
        WrongAnswer: a group has none.
    """
    patience = Patience.of(_PATIENCE_S)
    before: Found = {}
    now: Found = {group: maker.translated(group) for group in world.positions}
    while now != before or not all(now.values()):
        if not patience.remaining:
            raise WrongAnswer("MirrorMaker 2's translations of some groups do not become stable")
        before, now = now, {group: maker.translated(group) for group in world.positions}
    return now
