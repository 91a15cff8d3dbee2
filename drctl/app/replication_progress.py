"""Finds how far replication got, from several sources of which the first answer counts."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from drctl.formats.primitives import is_count
from drctl.gap.tail import Position, PositionFinder
from drctl.model.errors import Unknown
from drctl.model.ports import GroupReader, OffsetReader
from drctl.model.topology import Found, Mark, TopicPartition, Unavailable
from drctl.offsets.checkpoints import usable
from drctl.offsets.mirror_topics import Aliases, Place, read_syncs


class FirstAnswer:
    """Implements `drctl.gap.tail.PositionFinder`.

    Args:
        finders: the best one first.
    """

    def __init__(self, finders: Sequence[PositionFinder]) -> None:
        self._finders = finders

    same_offsets = False  # a replicator that preserves offsets has only one finder

    def positions(self, topics: Iterable[str]) -> Mapping[TopicPartition, Position]:
        """Progress by source partition, without partitions that no finder knows.

        Raises:
            Unknown: every finder failed.
        """
        names, failures = tuple(topics), list[Unknown]()
        found: dict[TopicPartition, Position] = {}
        for finder in self._finders:
            try:
                found = {**finder.positions(names), **found}
            except Unknown as error:
                failures.append(error)
        if len(failures) == len(self._finders):
            raise failures[0]
        return found


class CommittedPositions:
    """Implements `drctl.gap.tail.PositionFinder`.

    Args:
        groups: opens a reader of the source's groups.
        group: `src.consumer.group.id` of the connector; by default its name.
    """

    def __init__(
        self, groups: Callable[[], AbstractContextManager[GroupReader]], group: str
    ) -> None:
        self._opened = groups
        self._group = group

    same_offsets = False

    def positions(self, topics: Iterable[str]) -> Mapping[TopicPartition, Position]:
        """Committed offsets by source partition, without partitions in which the group has none.

        Raises:
            Unreachable: the source did not answer.
        """
        wanted = set(topics)
        with self._opened() as groups:
            found = groups.committed([self._group]).get(self._group, {})
        if isinstance(found, Unavailable):
            return {}
        return {
            place: Position(at.offset, f"group {self._group} has committed offset {at.offset}")
            for place, at in found.items()
            if place.topic in wanted
        }


class ConnectorOffsets(Protocol):
    """The part of Connect's interface that is used here."""

    def offsets(self, name: str) -> Sequence[Mapping[str, Any]]:
        """A connector's offsets: `{"partition": ..., "offset": ...}` each."""


class ConnectorPositions:
    """Implements `drctl.gap.tail.PositionFinder` for MirrorMaker 2 and Confluent Replicator.

    Args:
        next_offset: whether the stored offset is the next one to read (Replicator), not the last
            acknowledged one (MirrorMaker 2).
    """

    def __init__(self, connect: ConnectorOffsets, connector: str, *, next_offset: bool) -> None:
        self._connect = connect
        self._connector = connector
        self._step = 0 if next_offset else 1

    same_offsets = False

    def positions(self, topics: Iterable[str]) -> Mapping[TopicPartition, Position]:
        """The connector's offsets by source partition, without partitions that have none.

        Raises:
            NoSuchConnector: there is none of this name.
            Unreachable: no worker answered within the deadline.
        """
        wanted = set(topics)
        found = {}
        for entry in self._connect.offsets(self._connector):
            place, offset = _place(entry), _offset(entry)
            if place is not None and offset is not None and place.topic in wanted:
                evidence = f"connector {self._connector} reports offset {offset} as copied"
                found[place] = Position(offset + self._step, evidence)
        return found


def _place(entry: Mapping[str, Any]) -> TopicPartition | None:
    partition = entry.get("partition")
    if not isinstance(partition, Mapping):
        return None
    topic, number = partition.get("topic"), partition.get("partition")
    if not isinstance(topic, str) or not isinstance(number, int) or not is_count(number):
        return None
    return TopicPartition(topic, number)


def _offset(entry: Mapping[str, Any]) -> int | None:
    kept = entry.get("offset")
    offset = kept.get("offset") if isinstance(kept, Mapping) else None
    return offset if isinstance(offset, int) and is_count(offset) else None


class PreservingPositions:
    """Implements `drctl.gap.tail.PositionFinder`.

    Args:
        target_topic: the name on the target of a topic of the source.
    """

    def __init__(self, target: OffsetReader, target_topic: Callable[[str], str]) -> None:
        self._target = target
        self._target_topic = target_topic

    same_offsets = True

    def positions(self, topics: Iterable[str]) -> Mapping[TopicPartition, Position]:
        """Log ends of the target by source partition, without partitions that are missing there.

        Raises:
            Unreachable: no broker of the target answered within the deadline.
        """
        names = {self._target_topic(topic): topic for topic in topics}
        places = [
            TopicPartition(name, partition)
            for name, partitions in self._target.overview().partitions.items()
            if name in names
            for partition in partitions
        ]
        answers = self._target.look_up([(place, Mark.STABLE) for place in places])()
        return {
            TopicPartition(names[place.topic], place.partition): Position(
                found.offset, f"{self._target.name} ends at offset {found.offset}"
            )
            for place, found in zip(places, answers, strict=True)
            if isinstance(found, Found)
        }


class SyncPositions:
    """Implements `drctl.gap.tail.PositionFinder` without a Connect worker.

    Args:
        aliases: finds the aliases that MirrorMaker 2 uses for the clusters.
    """

    def __init__(self, source: Place, target: Place, aliases: Callable[[], Aliases | None]) -> None:
        self._source = source
        self._target = target
        self._aliases = aliases

    same_offsets = False

    def positions(self, topics: Iterable[str]) -> Mapping[TopicPartition, Position]:
        """Last offset syncs by source partition, without partitions that have none.

        Raises:
            Unreachable: a cluster did not answer.
            ScanFailed: the topic of syncs could not be read to its end.
        """
        aliases, wanted = self._aliases(), set(topics)
        if aliases is None:
            return {}
        synced = read_syncs(aliases, self._source, self._target, lambda _phase: None)
        found = {}
        for place, syncs in synced.syncs.items():
            if place.topic in wanted and (kept := usable(syncs)):
                last = kept[-1]
                evidence = f"the last offset sync is of offset {last.upstream}"
                found[place] = Position(last.upstream + 1, evidence)
        return found
