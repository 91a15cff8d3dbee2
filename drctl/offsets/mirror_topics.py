"""Reads MirrorMaker 2's checkpoint and offset-sync topics.

Each is read once for all groups, from its log start to its current last stable offset.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from drctl.formats import checkpoints, offset_syncs
from drctl.formats.primitives import Undecodable
from drctl.model.ports import ClusterReader
from drctl.model.topology import OffsetRange, PartitionOffsets, Row, TopicPartition, Unavailable
from drctl.offsets.checkpoints import Checkpoint, Sync
from drctl.offsets.consumed import RangeReader


@dataclass(frozen=True, slots=True)
class Aliases:
    """MirrorMaker 2's cluster aliases, and the names of its internal topics.

    Attributes:
        separator: separator in names of internal topics (KIP-949).
    """

    source: str
    target: str
    separator: str = "."

    @property
    def checkpoints(self) -> str:
        """The checkpoint topic, on the target."""
        return self.separator.join((self.source, "checkpoints", "internal"))

    @property
    def syncs_on_source(self) -> str:
        """The offset-sync topic, if it is on the source."""
        return self._syncs(self.target)

    @property
    def syncs_on_target(self) -> str:
        """The offset-sync topic, if it is on the target (KIP-716)."""
        return self._syncs(self.source)

    @property
    def heartbeats(self) -> str:
        """The topic on the target with heartbeats replicated from the source.

        `heartbeats` itself shows only that a worker is alive.
        """
        return self.separator.join((self.source, "heartbeats"))

    def _syncs(self, alias: str) -> str:
        return self.separator.join(("mm2-offset-syncs", alias, "internal"))


@dataclass(frozen=True, slots=True)
class Mirrored:
    """The content of the topics.

    Attributes:
        syncs: by source partition, in the order of the topic.
        checkpoints: by group and target partition.
        recreated_ms: by source partition, when a recreated target partition was first observed.
        undecodable: number of records that cannot be decoded.
        unread: topics that could not be read, with the reason.
    """

    syncs: Mapping[TopicPartition, tuple[Sync, ...]]
    checkpoints: Mapping[tuple[str, TopicPartition], Checkpoint]
    recreated_ms: Mapping[TopicPartition, int]
    undecodable: int
    unread: Mapping[str, str]


def aliases_of(connector: Mapping[str, str]) -> Aliases | None:
    """Return the aliases in a connector's configuration."""
    source = connector.get("source.cluster.alias", "source")
    target = connector.get("target.cluster.alias", "target")
    own = connector.get("replication.policy.internal.topic.separator.enabled", "true")
    separator = connector.get("replication.policy.separator", ".") if own == "true" else "."
    return Aliases(source, target, separator)


def guessed_aliases(source: str, target: str, names: Iterable[str]) -> Aliases | None:
    """Guess the aliases from cluster names in drctl.yaml, or from existing checkpoint topics.

    Args:
        names: topics on the target.
    """
    pattern = re.compile(r"(.+)\.checkpoints\.internal")
    found = {match[1] for name in names if (match := pattern.fullmatch(name))}
    if source in found or not found:
        return Aliases(source, target)
    return Aliases(found.pop(), target) if len(found) == 1 else None


Place = tuple[ClusterReader, RangeReader]
"""A cluster and the reader of its records."""


def read_mirrored(
    aliases: Aliases, source: Place | None, target: Place, progress: Callable[[str], None]
) -> Mirrored:
    """Read syncs and checkpoints.

    Args:
        source: None if it is unreachable.

    Raises:
        Unreachable: a cluster did not answer.
        ScanFailed: a topic could not be read completely.
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
    """Read only the offset syncs, from either cluster.

    Args:
        source: None if it is unreachable.

    Raises:
        Unreachable: a cluster did not answer.
        ScanFailed: a topic could not be read completely.
    """
    places = [(target, aliases.syncs_on_target)]
    if source is not None:
        places.append((source, aliases.syncs_on_source))
    histories, unread = [], dict[str, str]()
    for place, topic in places:
        progress(f"reading {topic}")
        histories.append(_History(_rows(place, topic, unread)))
    # Use the history that was written last for each partition: the topic's location can change.
    syncs: dict[TopicPartition, tuple[Sync, ...]] = {}
    recreated: dict[TopicPartition, int] = {}
    for history in histories:
        for source_partition, known in history.syncs.items():
            newest = syncs.get(source_partition)
            if newest is None or known[-1].at_ms > newest[-1].at_ms:
                syncs[source_partition] = tuple(known)
        for source_partition, at_ms in history.recreated_ms.items():
            recreated[source_partition] = max(at_ms, recreated.get(source_partition, 0))
    undecodable = sum(history.undecodable for history in histories)
    return Mirrored(syncs, {}, recreated, undecodable, unread)


class _History:
    """The content of one offset-sync topic."""

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
    """Yield all records of a single-partition topic; none if it does not exist."""
    cluster, reader = place
    state = cluster.topics([topic])[topic]
    if state is None:
        return
    if isinstance(state, Unavailable):
        unread[topic] = state.reason
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
