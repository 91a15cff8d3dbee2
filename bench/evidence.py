"""Evidence that replicators leave of committed offsets, written here instead of by them.

MirrorMaker 2 is stopped, so that it takes no time from what is measured. Its syncs are those that
it writes if they do not overtake each other: the first record, every record at least 101 records
after the last sync, and the newest record. Its checkpoints use the syncs that it keeps in memory:
one between each two powers of two before the newest, and the first one.
"""

import time
from collections.abc import Iterator, Sequence
from itertools import cycle, islice

from bench.crowd import Log, World
from bench.filling import Appender, create_topics
from bench.records import CHUNK, Message
from bench.stage import Stage
from drctl.formats import checkpoints, consumer_timestamps, offset_syncs
from drctl.formats.checkpoints import Checkpoint, CheckpointKey
from drctl.formats.consumer_timestamps import ConsumerTimestamp
from drctl.formats.offset_syncs import OffsetSync
from drctl.lab.waiting import Patience
from drctl.model.errors import Stopped

SYNCS = "mm2-offset-syncs.primary.internal"
CHECKPOINTS = "primary.checkpoints.internal"

_LAG_MAX = 100
_PATIENCE_S = 60


def write_checkpoints(stage: Stage, world: World) -> None:
    """Write one checkpoint per committed offset to the target.

    Raises:
        Stopped: the cluster rejects them.
    """
    remove(stage, SYNCS, CHECKPOINTS)  # MirrorMaker 2 ran for a moment, and made its own
    create_topics(stage.target, [SYNCS], partitions=1)
    _write(stage, CHECKPOINTS, _checkpoint_messages(world))


def write_syncs(stage: Stage, world: World) -> None:
    """Write syncs to the target.

    Raises:
        Stopped: the cluster rejects them.
    """
    _append(Appender(stage.target), SYNCS, _syncs_messages(world))


def write_checkpoints_again(stage: Stage, world: World, total: int) -> None:
    """Write the same checkpoints repeatedly, up to this number.

    Raises:
        Stopped: the cluster rejects them.
    """
    known = list(_checkpoint_messages(world))
    appender = Appender(stage.target)
    appender.counts[CHECKPOINTS] = len(known)
    _append(appender, CHECKPOINTS, islice(cycle(known), max(0, total - len(known))))


def write_consumer_timestamps(stage: Stage, world: World) -> None:
    """Write to the target what consumers with the interceptor would have written.

    Raises:
        Stopped: the cluster rejects them.
    """
    _write(stage, consumer_timestamps.TOPIC, _timestamp_messages(world))


def remove(stage: Stage, *topics: str) -> None:
    """Delete topics of the target that exist.

    Raises:
        Stopped: they still exist afterwards.
    """
    admin = stage.target.admin()
    known = [topic for topic in topics if topic in admin.list_topics(timeout=20).topics]
    for future in admin.delete_topics(known, operation_timeout=20).values() if known else ():
        future.result()
    gone = Patience.of(_PATIENCE_S).wait_until(
        lambda: not set(topics) & set(admin.list_topics(timeout=20).topics)
    )
    if not gone:
        raise Stopped(f"{stage.target.name} does not delete {', '.join(topics)}")


def syncs(log: Log) -> tuple[OffsetSync, ...]:
    """Syncs of one partition, ascending."""
    copied = range(log.skipped, len(log.times))
    chosen = {*copied[:: _LAG_MAX + 1], *copied[-1:]}
    return tuple(OffsetSync(offset, log.exact(offset)) for offset in sorted(chosen))


def remembered(written: Sequence[OffsetSync]) -> tuple[OffsetSync, ...]:
    """The syncs that MirrorMaker 2 keeps in memory, ascending."""
    newest = written[-1].upstream
    kept: dict[int, OffsetSync] = {}
    for sync in reversed(written):
        kept.setdefault((newest - sync.upstream).bit_length(), sync)
    return tuple(sorted({written[0], *kept.values()}))


def translated(known: Sequence[OffsetSync], offset: int) -> int:
    """MirrorMaker 2's translation: at the newest sync up to the offset, or after it."""
    sync = max(sync for sync in known if sync.upstream <= offset)
    return sync.downstream + (sync.upstream < offset)


def _syncs_messages(world: World) -> Iterator[Message]:
    now = round(time.time() * 1000)
    for place, log in world.logs.items():
        key = offset_syncs.encode_key(offset_syncs.SyncedPartition(*place))
        for sync in syncs(log):
            yield Message(key, offset_syncs.encode_value(sync), 0, now)


def _checkpoint_messages(world: World) -> Iterator[Message]:
    now = round(time.time() * 1000)
    known = {place: remembered(syncs(log)) for place, log in world.logs.items()}
    for group, place, offset in world.places:
        key = checkpoints.encode_key(CheckpointKey(group, *place))
        value = Checkpoint(offset, translated(known[place], offset))
        yield Message(key, checkpoints.encode_value(value), 0, now)


def _timestamp_messages(world: World) -> Iterator[Message]:
    now = round(time.time() * 1000)
    for group, place, offset in world.places:
        key = consumer_timestamps.GroupPartition(group, *place)
        value = ConsumerTimestamp(world.logs[place].times[offset - 1], 0, 8)
        yield Message(
            consumer_timestamps.encode_key(key), consumer_timestamps.encode_value(value), 0, now
        )


def _write(stage: Stage, topic: str, messages: Iterator[Message]) -> None:
    create_topics(stage.target, [topic], partitions=1)
    _append(Appender(stage.target), topic, messages)


def _append(appender: Appender, topic: str, messages: Iterator[Message]) -> None:
    while chunk := list(islice(messages, CHUNK)):
        appender.append(topic, chunk)
    appender.finish()
