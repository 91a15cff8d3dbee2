"""Current state of a link's groups on both clusters, read once for all methods."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from drctl.model.errors import Unreachable
from drctl.model.groups import Group, GroupProtocol
from drctl.model.ports import ClusterReader, GroupReader
from drctl.model.topology import TopicPartition, TopicState, Unavailable
from drctl.model.translation import GroupPartition
from drctl.offsets.consumed import Logs

NO_POSITIONS = "share groups have no committed offsets to translate"


class Carried(Protocol):
    """Which topics and groups a link replicates."""

    def carries(self, topic: str) -> bool:
        """Return whether a source topic is replicated."""

    def carries_group(self, group: str) -> bool:
        """Return whether a group is part of the link."""

    def target_topic(self, topic: str) -> str:
        """Return the name of a source topic on the target."""

    def source_topic(self, topic: str) -> str | None:
        """Return the name of a target topic on the source; None if it is not a replica."""


@dataclass(frozen=True, slots=True)
class SourceGroups:
    """Groups on the source.

    Attributes:
        positions: committed offsets in topics of the link.
        unseen: groups whose committed offsets could not be read, with the reason.
        untranslatable: groups without committed offsets, with the reason.
        elsewhere: number of committed offsets in topics outside the link.
        others: number of groups outside the link.
        silent: why the source is unreachable; empty if it is not.
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
    """Read the wanted groups of the link; if the source is unreachable, record why."""
    try:
        everybody = groups.groups()
        names = [g for g in everybody if link.carries_group(g) and wanted(g)]
        described = groups.described(names)
        share = {
            name: NO_POSITIONS
            for name in names
            if isinstance(group := described[name], Group) and group.protocol is GroupProtocol.SHARE
        }
        committed = groups.committed([name for name in names if name not in share])
    except Unreachable as error:
        return SourceGroups({}, silent=error.message)
    unseen = {n: d.reason for n, d in described.items() if isinstance(d, Unavailable)}
    unseen |= {n: c.reason for n, c in committed.items() if isinstance(c, Unavailable)}
    positions = {
        GroupPartition(group, partition): position.offset
        for group, held in committed.items()
        if not isinstance(held, Unavailable)
        for partition, position in held.items()
    }
    carried = {place: p for place, p in positions.items() if link.carries(place.partition.topic)}
    elsewhere = len(positions) - len(carried)
    others = sum(not link.carries_group(group) for group in everybody)
    return SourceGroups(carried, unseen, share, elsewhere, others)


@dataclass(frozen=True, slots=True)
class Target:
    """Current topics, logs and groups on the target.

    Attributes:
        topics: by name on the target.
        logs: logs of the partitions in which groups would resume.
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
    """Read the topics, logs and groups of these committed offsets.

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
