"""What was noted about positions before now, and what it tells while the source is silent."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from drctl.model.topology import TopicPartition
from drctl.model.translation import GroupPartition
from drctl.offsets.by_time import Consumed
from drctl.offsets.copied_offsets import CopiedPosition
from drctl.offsets.mirror_topics import Mirrored
from drctl.wire.anchors import Anchor

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
    """

    offset: int | None
    at_ms: int | None = None
    told_by: str = ""


def last_known(
    evidence: Evidence, source_topic: Callable[[str], str | None]
) -> Mapping[GroupPartition, LastKnown]:
    """Every position that something is noted of; of two that tell it, the newer counts.

    Args:
        source_topic: a topic's name on the source, by its name on the target.
    """
    found = dict.fromkeys(evidence.consumed, LastKnown(None))
    if evidence.mirrored is not None:
        found |= dict.fromkeys(_checkpointed(evidence.mirrored, source_topic), LastKnown(None))
    for place, anchor in evidence.anchors.items():
        found[place] = LastKnown(anchor.offset, anchor.observed_ms)
    for place, position in evidence.copied.items():
        anchored = evidence.anchors.get(place)
        if anchored is None or anchored.observed_ms < position.known_ms:
            found[place] = LastKnown(position.offset, position.known_ms, position.told_by)
    return found


def _checkpointed(
    mirrored: Mirrored, source_topic: Callable[[str], str | None]
) -> Iterator[GroupPartition]:
    for group, there in mirrored.checkpoints:
        topic = source_topic(there.topic)
        if topic is not None:
            yield GroupPartition(group, TopicPartition(topic, there.partition))
