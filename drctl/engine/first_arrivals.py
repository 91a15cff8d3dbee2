"""The first record that travels, and the first that came, of each partition: where copying began.

What began at the boundary brings the first new record first; what began elsewhere brings one that
is there already.
"""

from collections.abc import Collection

from drctl.engine.first_records import (
    FIELDS,
    TIMESTAMP,
    first_new_records,
    first_records,
    same_record,
)
from drctl.engine.kind import Seen, State
from drctl.engine.ports import Look
from drctl.engine.returning import offsets_of
from drctl.model.plan import Json
from drctl.model.ports import ClusterReader
from drctl.model.topology import PartitionOffsets, Record, TopicPartition, TopicState

_SHOWN = 3


def first_arrivals(intent: Json, look: Look) -> Seen:
    """Done where what came first to each partition is what had to come first.

    Args:
        intent: `source` and `target`, clusters by name; `from`, where copying begins on the
            source, and `ends`, where the target's partitions ended before it did: rows of
            `[topic, partition, offset]`, by the source's names and the target's. Optional:
            `whole`, drctl's own copies travel, too; `fields`, by which a record is known again.

    Raises:
        Unreachable: a cluster did not answer.
    """
    start, ends = offsets_of(intent["from"]), offsets_of(intent["ends"])
    target = look.site(intent["target"])
    copies = {p: TopicPartition(look.target_topic(p.topic), p.partition) for p in start}
    there = target.overview().partitions
    since = {
        copy: ends.get(copy, 0) for copy in copies.values() if copy[1] in there.get(copy[0], ())
    }
    # What came is looked at first: what is written meanwhile is then no stranger.
    came = first_records(target, since)
    source, whole = look.site(intent["source"]), intent.get("whole", False)
    travels = first_records(source, start) if whole else first_new_records(source, start)
    fields = tuple(intent.get("fields", FIELDS))
    wrong, awaited = [], []
    for place, copy in copies.items():
        if copy in came and not (
            place in travels and _same(travels[place], came[copy], fields, target, copy)
        ):
            if whole and _cut_since(source, place, start[place]):
                continue
            wrong.append(f"{copy} offset {came[copy].offset}")
        elif place in travels and copy not in came:
            awaited.append(str(place))
    if wrong:
        words = (
            f"what came first to {', '.join(wrong[:_SHOWN])} of {intent['target']} is not the"
            f" first new record of {intent['source']}: records would be copied twice, or left out"
        )
        return Seen(State.FAILED, words, {}, tuple(wrong))
    if awaited:
        words = f"the first new record of {len(awaited)} partitions has not come yet: {awaited[0]}"
        return Seen(State.WAITING, words, {}, tuple(awaited))
    return Seen(State.DONE, _told(len(travels), intent))


def _same(
    one: Record,
    other: Record,
    fields: Collection[str],
    target: ClusterReader,
    copy: TopicPartition,
) -> bool:
    """Whether one is the other's copy; a topic that keeps its own time says nothing by it."""
    if same_record(one, other, fields):
        return True
    timeless = tuple(name for name in fields if name != TIMESTAMP)
    if timeless == tuple(fields) or not same_record(one, other, timeless):
        return False
    state = target.topics([copy.topic]).get(copy.topic)
    return isinstance(state, TopicState) and state.log_append_time


def _cut_since(source: ClusterReader, place: TopicPartition, start: int) -> bool:
    """Whether the oldest records were deleted meanwhile: then nothing tells which came first."""
    log = source.offsets([place])[place]
    return isinstance(log, PartitionOffsets) and log.log_start > start


def _told(number: int, intent: Json) -> str:
    if not number:
        return f"{intent['source']} has nothing new yet"
    if intent.get("whole"):
        return f"what came first to {number} partitions is the first record of each"
    return f"what came first to {number} partitions is the first new record of each; no old one"
