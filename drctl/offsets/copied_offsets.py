"""A copy of the source's `__consumer_offsets`: where groups stood when it was last written.

Mirrors that preserve offsets keep one under a name of their own. The topic is read once for all
groups. The newest record of a key counts, by the order of its partition; a tombstone takes the
position away, and so does a value that nobody can read.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from drctl.model.rows import Chunk
from drctl.model.topology import TopicPartition
from drctl.model.translation import GroupPartition
from drctl.wire import consumer_offsets
from drctl.wire.consumer_offsets import CommitKey
from drctl.wire.undecodable import Undecodable


class CopiedPosition(NamedTuple):
    """What a group had committed.

    Attributes:
        known_ms: of the newest record that was copied into the same partition, in milliseconds UTC:
            as of then it is true.
        told_by: the copy, in words for a person.
    """

    offset: int
    known_ms: int
    told_by: str


@dataclass(frozen=True, slots=True)
class CopiedOffsets:
    """What the copy holds.

    Attributes:
        undecodable: keys that are none of Kafka's, and positions whose newest value is not.
    """

    positions: Mapping[GroupPartition, CopiedPosition] = field(default_factory=dict)
    undecodable: int = 0


class _Seen(NamedTuple):
    """The newest record of a position."""

    partition: int
    at_ms: int
    value: bytes | None


def positions_of(topic: str, chunks: Iterable[Chunk]) -> CopiedOffsets:
    """What the records of the copy say, those of each partition in order.

    Args:
        topic: the copy's name.
    """
    places: dict[bytes | None, GroupPartition | None] = {}
    newest: dict[GroupPartition, _Seen] = {}
    known_ms: dict[int, int] = {}
    damaged = 0
    for _, partition, rows in chunks:
        known_ms[partition] = max(known_ms.get(partition, 0), *(row[1] for row in rows))
        for _, at_ms, key, value, _ in rows:
            try:
                place = places[key] if key in places else _place(key)
            except Undecodable:
                damaged, place = damaged + 1, None
            places[key] = place
            if place is not None:
                seen = newest.get(place)
                if seen is None or seen.partition == partition or seen.at_ms <= at_ms:
                    newest[place] = _Seen(partition, at_ms, value)
    found: dict[GroupPartition, CopiedPosition] = {}
    for place, seen in newest.items():
        try:
            commit = consumer_offsets.decode_commit(seen.value)
        except Undecodable:
            damaged += 1
            continue
        if commit is not None:
            words = f"the position is told by {topic}"
            found[place] = CopiedPosition(commit.offset, known_ms[seen.partition], words)
    return CopiedOffsets(found, damaged)


def _place(key: bytes | None) -> GroupPartition | None:
    """Whose position a key is about; None where it is about something else.

    Raises:
        Undecodable: it is no key.
    """
    whose = consumer_offsets.decode_key(key)
    if not isinstance(whose, CommitKey):
        return None
    return GroupPartition(whose.group, TopicPartition(whose.topic, whose.partition))
