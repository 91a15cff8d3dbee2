"""What was noted about positions before now, and what it tells while the source is silent."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from drctl.formats import consumer_offsets
from drctl.formats.anchors import Anchor
from drctl.formats.consumer_offsets import CommitKey
from drctl.formats.primitives import Undecodable
from drctl.model.topology import Chunk, TopicPartition
from drctl.model.translation import GroupPartition
from drctl.offsets.by_time import Consumed
from drctl.offsets.mirror_topics import Mirrored


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


Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was noted about positions before now.

    Attributes:
        source_id: the source's cluster id; empty where nobody says.
        mirrored: what MirrorMaker 2 keeps; None for other links.
        anchors: what `drctl offsets track` has noted.
        consumed: what consumers note for Confluent Replicator.
        copied: what a copy of the source's own topic of positions holds.
        missing: evidence that should be there and could not be read, in words for a person.
    """

    source_id: str = ""
    mirrored: Mirrored | None = None
    anchors: Mapping[GroupPartition, Anchor] = field(default_factory=dict)
    consumed: Mapping[GroupPartition, Consumed] = field(default_factory=dict)
    copied: Mapping[GroupPartition, CopiedPosition] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


class EvidenceReader(Protocol):
    """Reads what was noted before."""

    def read(self, source_alive: bool, progress: Progress) -> Evidence:
        """All of it, each topic once.

        Raises:
            Unreachable: the target did not answer.
        """


class LastKnown(NamedTuple):
    """A position on a source that cannot be asked.

    Attributes:
        offset: None where only the group and the partition are known.
        at_ms: as of when, in milliseconds UTC; None where that is not known.
        told_by: what it rests on, where the method does not say so itself.
        followed: whether what noted it would have noted a reset, too. MirrorMaker 2 leaves a
            checkpoint as it was where a group is reset to before its oldest sync.
    """

    offset: int | None
    at_ms: int | None = None
    told_by: str = ""
    followed: bool = True


def last_known(
    evidence: Evidence, source_topic: Callable[[str], str | None]
) -> Mapping[GroupPartition, LastKnown]:
    """Every position that something is noted of; of several notes the newest counts.

    Args:
        source_topic: a topic's name on the source, by its name on the target.
    """
    found = dict.fromkeys(evidence.consumed, LastKnown(None))
    notes = (
        *_checkpointed(evidence.mirrored, source_topic),
        *((at, LastKnown(c.offset, c.known_ms, c.told_by)) for at, c in evidence.copied.items()),
        *((at, LastKnown(a.offset, a.observed_ms)) for at, a in evidence.anchors.items()),
    )
    for place, note in notes:
        known = found.get(place)
        if known is None or known.at_ms is None or (note.at_ms or 0) >= known.at_ms:
            found[place] = note
    return found


def _checkpointed(
    mirrored: Mirrored | None, source_topic: Callable[[str], str | None]
) -> Iterator[tuple[GroupPartition, LastKnown]]:
    for (group, there), checkpoint in (mirrored.checkpoints if mirrored else {}).items():
        topic = source_topic(there.topic)
        if topic is not None:
            place = GroupPartition(group, TopicPartition(topic, there.partition))
            yield place, LastKnown(checkpoint.upstream, checkpoint.at_ms, followed=False)
