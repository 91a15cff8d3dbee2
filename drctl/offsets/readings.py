"""What is read of the source for positions that moved: what their groups had consumed last."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from drctl.model.groups import Committed
from drctl.model.topology import PartitionOffsets, TopicPartition, TopicState, Unavailable
from drctl.model.translation import GroupPartition
from drctl.offsets.anchor_log import Held
from drctl.offsets.consumed import Before, Position, last_consumed
from drctl.offsets.link_translation import Cluster
from drctl.offsets.milestones import known_from, milestones_before
from drctl.offsets.sight import Sight
from drctl.offsets.trail import Trail
from drctl.wire.anchors import Anchor, Milestone, decode_value
from drctl.wire.undecodable import Undecodable

_ANEW = Unavailable("its topic was made anew while it was read")
_FORBIDDEN = Unavailable("not authorized to read the topic")


class Reading(NamedTuple):
    """The records before a position.

    Attributes:
        trail: the last consumed ones; without steps where none is left.
        milestones: some further back.
    """

    trail: Trail
    milestones: tuple[Milestone, ...] = ()


def read_before(
    source: Cluster,
    sight: Sight,
    moved: Mapping[GroupPartition, Committed],
    known: Mapping[GroupPartition, Held],
    turn: int,
) -> Mapping[GroupPartition, Reading | Unavailable]:
    """The records before positions that moved, or why they cannot be read.

    Args:
        known: the anchors of positions as they were.
        turn: a number that differs from pass to pass.

    Raises:
        Unreachable: the source did not answer.
        ScanFailed: records could not be read to their end.
    """
    if not moved:
        return {}
    names = {place.partition.topic for place in moved}
    readable = {name for name in names if sight.topics[name].readable}
    wanted: dict[Position, None] = {
        (place.partition, position.offset): None
        for place, position in moved.items()
        if place.partition.topic in readable
    }
    remembered = tuple(_remembered(sight, moved, known))
    found = _read(source, wanted, remembered, turn)
    after = source.reader.topics(sorted(readable)) if readable else {}

    def reading(place: GroupPartition, position: Committed) -> Reading | Unavailable:
        topic = place.partition.topic
        if topic not in readable:
            return _FORBIDDEN
        state = after[topic]
        if not isinstance(state, TopicState) or state.topic_id != sight.topics[topic].topic_id:
            return _ANEW
        return found[place.partition, position.offset]

    return {place: reading(place, position) for place, position in moved.items()}


def _read(
    source: Cluster,
    wanted: Mapping[Position, None],
    remembered: tuple[tuple[TopicPartition, Anchor], ...],
    turn: int,
) -> Mapping[Position, Reading | Unavailable]:
    logs = source.reader.offsets({partition for partition, _ in wanted})
    before = last_consumed(logs, source.records, wanted)
    usable = {at: each for at, each in before.items() if isinstance(each, Before)}
    there = {at: log for at in usable if isinstance(log := logs[at[0]], PartitionOffsets)}
    milestones = milestones_before(source.records, there, known_from(usable, remembered), turn)
    return {
        at: Reading(each.trail, milestones[at]) if isinstance(each, Before) else each
        for at, each in before.items()
    }


def _remembered(
    sight: Sight, moved: Mapping[GroupPartition, Committed], known: Mapping[GroupPartition, Held]
) -> Iterator[tuple[TopicPartition, Anchor]]:
    """What the anchors of these positions knew of the logs as they are now."""
    for place in moved:
        held = known.get(place)
        topic_id = sight.topics[place.partition.topic].topic_id
        if held is not None and held.head.topic_id == topic_id:
            try:
                anchor = decode_value(held.value)
            except Undecodable:
                continue
            if anchor is not None:
                yield place.partition, anchor
