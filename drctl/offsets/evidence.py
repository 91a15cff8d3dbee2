"""What was noted about committed offsets before, for when the source does not answer."""

from collections.abc import Callable, Iterable, Mapping
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
    """A group's committed offset, from a copy of the source's `__consumer_offsets`.

    Attributes:
        known_ms: timestamp of the newest record that was copied into the same partition, in
            milliseconds UTC: the offset is true as of then.
        reported_by: the copy, in words for a person.
    """

    offset: int
    known_ms: int
    reported_by: str


@dataclass(frozen=True, slots=True)
class CopiedOffsets:
    """The content of the copy.

    Attributes:
        undecodable: keys that are not Kafka's, and positions whose newest value is not.
    """

    positions: Mapping[GroupPartition, CopiedPosition] = field(default_factory=dict)
    undecodable: int = 0


def positions_of(topic: str, chunks: Iterable[Chunk]) -> CopiedOffsets:
    """The committed offsets in the records of the copy, those of each partition in order.

    Args:
        topic: the copy's name.
    """
    places: dict[bytes | None, GroupPartition | None] = {}
    newest: dict[GroupPartition, tuple[int, int, bytes | None]] = {}
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
                written_to, written_ms, _ = newest.get(place, (partition, at_ms, None))
                if written_to == partition or written_ms <= at_ms:
                    newest[place] = partition, at_ms, value
    found: dict[GroupPartition, CopiedPosition] = {}
    for place, (partition, _, value) in newest.items():
        try:
            commit = consumer_offsets.decode_commit(value)
        except Undecodable:
            damaged += 1
            continue
        if commit is not None:
            words = f"the position is told by {topic}"
            found[place] = CopiedPosition(commit.offset, known_ms[partition], words)
    return CopiedOffsets(found, damaged)


def _place(key: bytes | None) -> GroupPartition | None:
    """The group and partition of a key; None where it is about something else.

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
    """What was noted about committed offsets before.

    Attributes:
        source_id: the source's cluster id; empty where it is not known.
        mirrored: from MirrorMaker 2's topics; None for other links.
        anchors: from `drctl offsets track`.
        consumed: timestamps that consumers commit for Confluent Replicator.
        copied: from a copy of the source's `__consumer_offsets`.
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
    """A committed offset on a source that does not answer.

    Attributes:
        offset: None where only the group and the partition are known.
        at_ms: as of when, in milliseconds UTC; None where that is not known.
        reported_by: the evidence, where the method does not name it itself.
        followed: whether a reset would have been noted, too. MirrorMaker 2 leaves a checkpoint as
            it was where a group is reset to before its oldest sync.
    """

    offset: int | None
    at_ms: int | None = None
    reported_by: str = ""
    followed: bool = True


def last_known(
    evidence: Evidence, source_topic: Callable[[str], str | None]
) -> Mapping[GroupPartition, LastKnown]:
    """Every group and partition with a note; of several notes the newest counts.

    Args:
        source_topic: a topic's name on the source, by its name on the target.
    """
    found = dict.fromkeys(evidence.consumed, LastKnown(None))
    checkpoints = evidence.mirrored.checkpoints if evidence.mirrored else {}
    notes = (
        *(
            (
                GroupPartition(group, TopicPartition(topic, there.partition)),
                LastKnown(checkpoint.upstream, checkpoint.at_ms, followed=False),
            )
            for (group, there), checkpoint in checkpoints.items()
            if (topic := source_topic(there.topic)) is not None
        ),
        *(
            (at, LastKnown(c.offset, c.known_ms, c.reported_by))
            for at, c in evidence.copied.items()
        ),
        *((at, LastKnown(a.offset, a.observed_ms)) for at, a in evidence.anchors.items()),
    )
    for place, note in notes:
        known = found.get(place)
        if known is None or known.at_ms is None or (note.at_ms or 0) >= known.at_ms:
            found[place] = note
    return found
