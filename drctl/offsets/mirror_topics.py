"""MirrorMaker 2's own topics of checkpoints and offset syncs: their names, and what they hold.

Each is read once for all groups, from its log start to the last stable offset that it had when
reading began.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from drctl.formats import checkpoints, offset_syncs
from drctl.formats.primitives import Undecodable
from drctl.model.ports import ClusterReader
from drctl.model.topology import OffsetRange, PartitionOffsets, Row, TopicPartition
from drctl.offsets.checkpoints import Checkpoint, Sync
from drctl.offsets.consumed import RangeReader


@dataclass(frozen=True, slots=True)
class Aliases:
    """MirrorMaker 2's names of the clusters, and how it builds topic names from them.

    Attributes:
        separator: between the parts of internal topics' names (KIP-949).
    """

    source: str
    target: str
    separator: str = "."

    @property
    def checkpoints(self) -> str:
        """The topic of checkpoints, on the target."""
        return self.separator.join((self.source, "checkpoints", "internal"))

    @property
    def syncs_on_source(self) -> str:
        """The topic of offset syncs where it is kept on the source."""
        return self._syncs(self.target)

    @property
    def syncs_on_target(self) -> str:
        """The topic of offset syncs where it is kept on the target (KIP-716)."""
        return self._syncs(self.source)

    @property
    def heartbeats(self) -> str:
        """The topic on the target with heartbeats that were copied from the source.

        `heartbeats` itself shows only that a worker lives.
        """
        return self.separator.join((self.source, "heartbeats"))

    def _syncs(self, alias: str) -> str:
        return self.separator.join(("mm2-offset-syncs", alias, "internal"))


@dataclass(frozen=True, slots=True)
class Mirrored:
    """What the topics hold.

    Attributes:
        syncs: by source partition, in the order of the topic.
        checkpoints: by group and partition of the target.
        recreated_ms: of source partitions whose target was recreated: when that was first seen.
        undecodable: records that are not what they should be.
        unread: topics that could not be read, with the reason.
    """

    syncs: Mapping[TopicPartition, tuple[Sync, ...]]
    checkpoints: Mapping[tuple[str, TopicPartition], Checkpoint]
    recreated_ms: Mapping[TopicPartition, int]
    undecodable: int
    unread: Mapping[str, str]


def aliases_of(connector: Mapping[str, str]) -> Aliases | None:
    """As a connector's configuration has them; None where it names no clusters."""
    source = connector.get("source.cluster.alias", "source")
    target = connector.get("target.cluster.alias", "target")
    own = connector.get("replication.policy.internal.topic.separator.enabled", "true")
    separator = connector.get("replication.policy.separator", ".") if own == "true" else "."
    return Aliases(source, target, separator)


def guessed_aliases(source: str, target: str, names: Iterable[str]) -> Aliases | None:
    """From the clusters' names in drctl.yaml, or from the only topics there are.

    Args:
        names: of the target's topics.
    """
    pattern = re.compile(r"(.+)\.checkpoints\.internal")
    found = {match[1] for name in names if (match := pattern.fullmatch(name))}
    if source in found or not found:
        return Aliases(source, target)
    return Aliases(found.pop(), target) if len(found) == 1 else None


Place = tuple[ClusterReader, RangeReader]
"""A cluster, and what reads its records."""


def read_mirrored(
    aliases: Aliases, source: Place | None, target: Place, progress: Callable[[str], None]
) -> Mirrored:
    """Read all of it.

    Args:
        source: None where it cannot be asked.

    Raises:
        Unreachable: a cluster did not answer.
        ScanFailed: a topic could not be read to its end.
    """
    syncs = read_syncs(aliases, source, target, progress)
    progress(f"reading {aliases.checkpoints}")
    found: dict[tuple[str, TopicPartition], Checkpoint] = {}
    undecodable, unread = syncs.undecodable, dict(syncs.unread)
    latest = {row[2]: row for row in _rows(target, aliases.checkpoints, unread)}
    for _, at_ms, key, value, _ in latest.values():
        try:
            checkpoint = checkpoints.decode_value(value)
            whose = checkpoints.decode_key(key)
        except Undecodable:
            undecodable += 1
            continue
        if checkpoint is not None:
            place = TopicPartition(whose.topic, whose.partition)
            found[whose.group, place] = Checkpoint(
                checkpoint.upstream, checkpoint.downstream, at_ms
            )
    return Mirrored(syncs.syncs, found, syncs.recreated_ms, undecodable, unread)


def read_syncs(
    aliases: Aliases, source: Place | None, target: Place, progress: Callable[[str], None]
) -> Mirrored:
    """Read the syncs alone, wherever MirrorMaker 2 keeps them.

    Args:
        source: None where it cannot be asked.

    Raises:
        Unreachable: a cluster did not answer.
        ScanFailed: a topic could not be read to its end.
    """
    places = [(target, aliases.syncs_on_target)]
    if source is not None:
        places.append((source, aliases.syncs_on_source))
    histories, unread = [], dict[str, str]()
    for place, topic in places:
        progress(f"reading {topic}")
        histories.append(_History(_rows(place, topic, unread)))
    # Of each partition the history that was written to last: the topic's place can change.
    syncs: dict[TopicPartition, tuple[Sync, ...]] = {}
    anew: dict[TopicPartition, int] = {}
    for history in histories:
        for source_partition, known in history.syncs.items():
            newest = syncs.get(source_partition)
            if newest is None or known[-1].at_ms > newest[-1].at_ms:
                syncs[source_partition] = tuple(known)
        for source_partition, at_ms in history.recreated_ms.items():
            anew[source_partition] = max(at_ms, anew.get(source_partition, 0))
    undecodable = sum(history.undecodable for history in histories)
    return Mirrored(syncs, {}, anew, undecodable, unread)


class _History:
    """What one topic of offset syncs holds."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.syncs: dict[TopicPartition, list[Sync]] = {}
        self.recreated_ms: dict[TopicPartition, int] = {}
        self.undecodable = 0
        places: dict[bytes | None, TopicPartition] = {}
        for _, at_ms, key, value, _ in rows:
            try:
                place = places.get(key)
                if place is None:
                    place = places[key] = TopicPartition(*offset_syncs.decode_key(key))
                self._note(place, offset_syncs.decode_value(value), at_ms)
            except Undecodable:
                self.undecodable += 1

    def _note(
        self, place: TopicPartition, pair: offset_syncs.OffsetSync | None, at_ms: int
    ) -> None:
        if pair is None:
            self.syncs.pop(place, None)
            return
        known = self.syncs.setdefault(place, [])
        if known and pair.downstream < known[-1].downstream:
            self.recreated_ms[place] = at_ms
        known.append(Sync(pair.upstream, pair.downstream, at_ms))


def _rows(place: Place, topic: str, unread: dict[str, str]) -> Iterator[Row]:
    """Everything that the topic's only partition holds; nothing where there is no such topic."""
    cluster, reader = place
    if cluster.topics([topic])[topic] is None:
        return
    partition = TopicPartition(topic, 0)
    log = cluster.offsets([partition])[partition]
    if not isinstance(log, PartitionOffsets):
        unread[topic] = log.reason
        return
    whole = OffsetRange(log.log_start, log.last_stable)
    if whole.span:
        for chunk in reader.read({topic: {0: (whole,)}}):
            yield from chunk.rows
