"""What both clusters say now of the groups of a link, looked at once for all methods."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from drctl.model.errors import Unreachable
from drctl.model.groups import Group, GroupProtocol, Positions
from drctl.model.ports import ClusterReader, GroupReader
from drctl.model.topology import PartitionOffsets, TopicPartition, TopicState, Unavailable
from drctl.model.translation import GroupPartition

NO_POSITIONS = "a share group keeps no position that could be translated"

Logs = Mapping[TopicPartition, PartitionOffsets | Unavailable]


class Carried(Protocol):
    """The part of a link that says what it carries."""

    def carries(self, topic: str) -> bool:
        """Whether a topic of the source is replicated."""

    def carries_group(self, group: str) -> bool:
        """Whether a group's positions are to be translated."""

    def target_topic(self, topic: str) -> str:
        """What a topic of the source is called on the target."""

    def source_topic(self, topic: str) -> str | None:
        """What a topic of the target is called on the source; None where its name is no copy's."""


@dataclass(frozen=True, slots=True)
class SourceGroups:
    """Groups as the source knows them.

    Attributes:
        positions: what they have committed in topics of the link.
        unseen: groups whose positions could not be read, with the reason.
        untranslatable: groups that have no positions to translate, with the reason.
        elsewhere: how many positions are in topics that the link does not carry.
        others: how many groups the link does not carry.
        silent: why the source could not be asked at all; empty where it could.
    """

    positions: Mapping[GroupPartition, int]
    unseen: Mapping[str, str] = field(default_factory=dict)
    untranslatable: Mapping[str, str] = field(default_factory=dict)
    elsewhere: int = 0
    others: int = 0
    silent: str = ""


def look_at_source(
    link: Carried, groups: GroupReader, wanted: Callable[[str], bool]
) -> SourceGroups:
    """The groups of the link that are wanted; says so where the source does not answer."""
    try:
        everybody = groups.groups()
        names = [g for g in everybody if link.carries_group(g) and wanted(g)]
        described = groups.described(names)
        committed = groups.committed([n for n in names if _has_positions(described[n])])
    except Unreachable as error:
        return SourceGroups({}, silent=error.message)
    unseen = {n: d.reason for n, d in described.items() if isinstance(d, Unavailable)}
    no_positions = {n: NO_POSITIONS for n in names if not _has_positions(described[n])}
    unseen |= {n: c.reason for n, c in committed.items() if isinstance(c, Unavailable)}
    known = {n: c for n, c in committed.items() if not isinstance(c, Unavailable)}
    positions = _positions(known)
    carried = {place: p for place, p in positions.items() if link.carries(place.partition.topic)}
    elsewhere = len(positions) - len(carried)
    others = sum(not link.carries_group(group) for group in everybody)
    return SourceGroups(carried, unseen, no_positions, elsewhere, others)


def _has_positions(group: Group | Unavailable) -> bool:
    return isinstance(group, Unavailable) or group.protocol is not GroupProtocol.SHARE


def _positions(committed: Mapping[str, Positions]) -> dict[GroupPartition, int]:
    return {
        GroupPartition(group, partition): position.offset
        for group, positions in committed.items()
        for partition, position in positions.items()
    }


@dataclass(frozen=True, slots=True)
class Target:
    """What the target says now.

    Attributes:
        topics: by name there.
        logs: of the partitions that groups would go on in.
        groups: as they are known there.
    """

    topics: Mapping[str, TopicState | Unavailable | None]
    logs: Logs
    groups: Mapping[str, Group | Unavailable]

    @property
    def timed(self) -> Mapping[str, bool]:
        """Whether records keep their timestamps, by topic."""
        return {
            name: not state.log_append_time
            for name, state in self.topics.items()
            if isinstance(state, TopicState)
        }


def look_at_target(
    places: Collection[GroupPartition],
    rename: Callable[[str], str],
    cluster: ClusterReader,
    groups: GroupReader,
) -> Target:
    """What concerns these positions.

    Raises:
        Unreachable: the target did not answer.
    """
    partitions = {p.partition for p in places}
    names = {p.topic: rename(p.topic) for p in partitions}
    topics = cluster.topics(sorted(set(names.values())))
    there = {
        place
        for partition in partitions
        if isinstance(state := topics[names[partition.topic]], TopicState)
        and (place := TopicPartition(state.name, partition.partition)).partition in state.partitions
    }
    logs = cluster.offsets(there)
    return Target(topics, logs, groups.described({p.group for p in places}))
