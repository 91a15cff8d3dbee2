"""Evidence of committed offsets that was recorded before, for an unreachable source."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from drctl.formats import consumer_offsets
from drctl.formats.consumer_offsets import CommitKey
from drctl.formats.primitives import Undecodable
from drctl.formats.tracked_offsets import TrackedOffset
from drctl.model.topology import Chunk, TopicPartition
from drctl.model.translation import GroupPartition
from drctl.offsets.by_time import Consumed
from drctl.offsets.mirror_topics import Mirrored


class CopiedPosition(NamedTuple):
    """A group's committed offset, from a copy of the source's `__consumer_offsets`.

    Attributes:
        known_ms: timestamp of the newest record copied into the same partition, in milliseconds
            UTC: the offset is as of then.
        reported_by: name of the copy.
    """

    offset: int
    known_ms: int
    reported_by: str


@dataclass(frozen=True, slots=True)
class CopiedOffsets:
    """The committed offsets in a copy of the source's `__consumer_offsets`.

    Attributes:
        undecodable: number of keys and newest values that cannot be decoded.
    """

    positions: Mapping[GroupPartition, CopiedPosition] = field(default_factory=dict)
    undecodable: int = 0


def positions_of(topic: str, chunks: Iterable[Chunk]) -> CopiedOffsets:
    """Return the committed offsets in the records of the copy.

    Args:
        topic: name of the copy.
        chunks: its records, in order within a partition.
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
            words = f"committed offset from {topic}"
            found[place] = CopiedPosition(commit.offset, known_ms[partition], words)
    return CopiedOffsets(found, damaged)


def _place(key: bytes | None) -> GroupPartition | None:
    """Return the group and partition of a key; None for other kinds of keys.

    Raises:
        Undecodable: it is not a valid key.
    """
    whose = consumer_offsets.decode_key(key)
    if not isinstance(whose, CommitKey):
        return None
    return GroupPartition(whose.group, TopicPartition(whose.topic, whose.partition))


Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Evidence:
    """All recorded evidence of committed offsets.

    Attributes:
        source_id: cluster id of the source; empty if unknown.
        mirrored: from MirrorMaker 2's topics; None for other links.
        tracked_offsets: tracked offsets of `drctl offsets track`.
        consumed: timestamps that consumers write for Confluent Replicator.
        copied: from a copy of the source's `__consumer_offsets`.
        missing: evidence that could not be read, and why.
    """

    source_id: str = ""
    mirrored: Mirrored | None = None
    tracked_offsets: Mapping[GroupPartition, TrackedOffset] = field(default_factory=dict)
    consumed: Mapping[GroupPartition, Consumed] = field(default_factory=dict)
    copied: Mapping[GroupPartition, CopiedPosition] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


class EvidenceReader(Protocol):
    """Reads recorded evidence."""

    def read(self, source_alive: bool, progress: Progress) -> Evidence:
        """Read all evidence, each topic once.

        Raises:
            Unreachable: the target did not answer.
        """


class LastKnown(NamedTuple):
    """A committed offset on an unreachable source.

    Attributes:
        offset: None if only group and partition are known.
        at_ms: when the group had this offset, in milliseconds UTC; None if unknown.
        reported_by: the evidence for it, as text; empty if the translation method names it.
        followed: whether a reset would have been recorded, too. MirrorMaker 2 does not update a
            checkpoint if a group is reset to before its oldest sync.
    """

    offset: int | None
    at_ms: int | None = None
    reported_by: str = ""
    followed: bool = True


def last_known(
    evidence: Evidence, source_topic: Callable[[str], str | None]
) -> Mapping[GroupPartition, LastKnown]:
    """Return the newest evidence of each group and partition.

    Args:
        source_topic: returns the name on the source of a target topic.
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
        *((at, LastKnown(a.offset, a.observed_ms)) for at, a in evidence.tracked_offsets.items()),
    )
    for place, note in notes:
        known = found.get(place)
        if known is None or known.at_ms is None or (note.at_ms or 0) >= known.at_ms:
            found[place] = note
    return found
